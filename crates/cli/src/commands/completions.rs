//! `softdiff completions` and `softdiff man`: the command line described for shells and for `man`.

use crate::atomic_file::save;
use crate::diagnostics::{Failure, Outcome};
use crate::output;
use clap::Args;
use clap_complete::Shell;
use serde_json::json;
use std::path::{Path, PathBuf};

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
        std::fs::create_dir_all(&self.out).map_err(|error| {
            Failure::new(format!("cannot write to {}: {error}", self.out.display()))
                .hint("give a folder you may write to")
        })?;
        let mut program = crate::arguments().disable_help_subcommand(true);
        program.build();
        let mut pages = Vec::new();
        write_pages(program, &self.out, &mut pages)?;
        pages.sort();
        if json {
            println!("{}", json!({ "files": pages }));
        } else {
            eprintln!("{} pages in {}", pages.len(), self.out.display());
        }
        Ok(())
    }
}

/// Writes the pages of a command and of those below it.
fn write_pages(command: clap::Command, folder: &Path, pages: &mut Vec<String>) -> Outcome {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()).cloned() {
        write_pages(below, folder, pages)?;
    }
    let (page, mut text) = (clap_mangen::Man::new(command), Vec::new());
    page.render(&mut text)?;
    let file = folder.join(page.get_filename());
    save(&file, &text)?;
    pages.push(file.display().to_string());
    Ok(())
}
