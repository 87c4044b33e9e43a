//! What is in a checkpoint, as a table or as JSON.

use crate::diagnostics::Outcome;
use serde_json::{Value, json};
use softdiff::import::ScoreSdeCheckpoint;
use softdiff::import::score_sde::ImportedAdam;
use std::io::{self, Write};
use std::path::Path;

/// Prints the facts and the parameters on standard output.
pub fn print(path: &Path, checkpoint: &ScoreSdeCheckpoint, json: bool) -> Outcome {
    let mut out = io::stdout().lock();
    let printed =
        if json { writeln!(out, "{}", as_json(path, checkpoint)) } else { write_table(&mut out, path, checkpoint) };
    match printed {
        // The reader of a pipe (`| head`) has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => Ok(printed?),
    }
}

fn as_json(path: &Path, checkpoint: &ScoreSdeCheckpoint) -> Value {
    let parameters: Vec<Value> =
        checkpoint.model.iter().map(|(name, tensor)| json!({ "name": name, "shape": tensor.shape })).collect();
    let adam = checkpoint.adam.as_ref().map(|adam| {
        json!({
            "lr": adam.lr,
            "betas": [adam.betas.0, adam.betas.1],
            "eps": adam.eps,
            "weight_decay": adam.weight_decay,
            "parameters": adam.moments.len(),
            "step": adam_step(adam),
        })
    });
    json!({
        "source": path.display().to_string(),
        "format": "score_sde",
        "step": checkpoint.step,
        "ema": { "decay": checkpoint.ema_decay, "updates": checkpoint.ema_updates },
        "adam": adam,
        "sigmas": checkpoint.sigmas.as_ref().map(Vec::len),
        "numbers": numbers(checkpoint),
        "parameters": parameters,
    })
}

fn write_table(out: &mut impl Write, path: &Path, checkpoint: &ScoreSdeCheckpoint) -> io::Result<()> {
    let ema = match checkpoint.ema_updates {
        Some(updates) => format!("decay {}, {updates} updates", checkpoint.ema_decay),
        None => format!("decay {}", checkpoint.ema_decay),
    };
    let sigmas = match checkpoint.sigmas.as_deref() {
        Some([first, .., last]) => format!("{} levels, {first} to {last}", checkpoint.sigmas.iter().flatten().count()),
        _ => "none".into(),
    };
    let facts = [
        ("file", path.display().to_string()),
        ("format", "score_sde".into()),
        ("step", checkpoint.step.to_string()),
        ("ema", ema),
        ("adam", checkpoint.adam.as_ref().map_or("none".into(), describe)),
        ("sigmas", sigmas),
        ("parameters", format!("{} tensors, {} numbers", checkpoint.model.len(), numbers(checkpoint))),
    ];
    for (name, fact) in facts {
        writeln!(out, "{name:<12}{fact}")?;
    }
    let width = checkpoint.model.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 2;
    writeln!(out, "\n{:<width$}shape", "name")?;
    for (name, tensor) in &checkpoint.model {
        let shape: Vec<String> = tensor.shape.iter().map(usize::to_string).collect();
        writeln!(out, "{name:<width$}{}", shape.join(" x "))?;
    }
    Ok(())
}

fn describe(adam: &ImportedAdam) -> String {
    let ImportedAdam { lr, betas, eps, weight_decay, moments } = adam;
    let step =
        adam_step(adam).map_or("no step yet".into(), |step| format!("step {step}, {} parameters", moments.len()));
    format!("lr {lr}, betas {} and {}, eps {eps:e}, weight decay {weight_decay}, {step}", betas.0, betas.1)
}

fn adam_step(adam: &ImportedAdam) -> Option<u64> {
    adam.moments.iter().map(|moments| moments.step).max()
}

fn numbers(checkpoint: &ScoreSdeCheckpoint) -> usize {
    checkpoint.model.iter().map(|(_, tensor)| tensor.data.len()).sum()
}
