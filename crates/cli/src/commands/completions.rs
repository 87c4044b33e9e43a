//! `softdiff completions` and `softdiff man`: the command line described for shells and for `man`.

use crate::diagnostics::{Failure, Outcome};
use crate::output;
use clap::Args;
use clap_complete::Shell;
use serde_json::json;
use std::path::PathBuf;

/// Print the completions of a shell.
#[derive(Args)]
#[command(after_help = "\
Example: completions for bash and for zsh
  softdiff completions bash > ~/.local/share/bash-completion/completions/softdiff
  softdiff completions zsh > ~/.zfunc/_softdiff")]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub fn run(self, json: bool) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::arguments(), "softdiff", &mut script);
        if json {
            let script = String::from_utf8_lossy(&script);
            println!("{}", json!({ "shell": self.shell.to_string(), "script": script }));
        } else {
            output::bytes(&script);
        }
        Ok(())
    }
}

/// Write the manual pages.
#[derive(Args)]
#[command(after_help = "\
Example: write them where man finds them
  softdiff man --out ~/.local/share/man/man1
  man softdiff-train")]
pub struct Man {
    /// The folder to write to.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

impl Man {
    pub fn run(self, json: bool) -> Outcome {
        let written = std::fs::create_dir_all(&self.out)
            .and_then(|()| clap_mangen::generate_to(crate::arguments(), &self.out))
            .and_then(|()| {
                std::fs::read_dir(&self.out)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>()
            });
        let files = written.map_err(|error| {
            Failure::new(format!("cannot write to {}: {error}", self.out.display()))
                .hint("give a folder you may write to")
        })?;
        let page = |file: &PathBuf| file.extension().is_some_and(|ending| ending == "1");
        let mut pages: Vec<String> =
            files.iter().filter(|file| page(file)).map(|file| file.display().to_string()).collect();
        pages.sort();
        if json {
            println!("{}", json!({ "files": pages }));
        } else {
            eprintln!("{} pages in {}", pages.len(), self.out.display());
        }
        Ok(())
    }
}
