//! `softdiff eval compare`: two results side by side, if they may be compared.

use crate::diagnostics::{Failure, Outcome};
use clap::Args;
use serde_json::json;
use softdiff::metrics::{Evaluation, compare};
use softdiff::quote::one_line;
use softdiff_engine::regular_file;
use std::path::{Path, PathBuf};

/// The longest result.
const LONGEST: u64 = 1 << 20;

/// Compare two results of `softdiff eval --out`; refuses results that were measured in different ways.
#[derive(Args)]
#[command(after_help = "\
Example: images of two samplers
  softdiff eval heun.npz --against embedded:fashion-mnist --metrics sliced-wasserstein --out heun.json
  softdiff eval naive.npz --against embedded:fashion-mnist --metrics sliced-wasserstein --out naive.json
  softdiff eval compare heun.json naive.json")]
pub struct Compare {
    /// A result.
    left: PathBuf,
    /// Another.
    right: PathBuf,
}

impl Compare {
    pub fn run(self, json: bool) -> Outcome {
        let (left, right) = (read(&self.left)?, read(&self.right)?);
        let rows = compare(&left, &right)?;
        if json {
            let (left_name, right_name) = (self.left.display().to_string(), self.right.display().to_string());
            println!("{}", json!({ "left": left_name, "right": right_name, "metrics": rows }));
            return Ok(());
        }
        println!("{:>20}  {:>14}  {:>14}  {:>14}", "", "first", "second", "second - first");
        for row in rows {
            let (metric, change) = (one_line(&row.metric), row.right - row.left);
            println!("{metric:>20}  {:>14.6}  {:>14.6}  {change:>+14.6}", row.left, row.right);
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Evaluation, Failure> {
    let text = regular_file::read(path, LONGEST)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())).hint("check the path"))?;
    serde_json::from_slice(&text).map_err(|error| {
        Failure::new(format!("{} is no result of softdiff eval: {error}", path.display()))
            .hint("give files that softdiff eval --out wrote")
    })
}
