//! What every `--steps` takes: the range of the recipe's `sample.steps`.

use clap::builder::RangedU64ValueParser;
use softdiff::sampler::MOST_STEPS;

/// A number of steps.
pub fn steps() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=MOST_STEPS as u64)
}
