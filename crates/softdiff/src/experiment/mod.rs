//! The paper's tables and figures as data: which models to train, how they differ, and what to measure of each.
//!
//! An [`Experiment`] holds no code. Every variant is one base recipe with a few keys changed, so that network, data, seed
//! and budget are equal. [`Experiment::plan`] gives the recipes, and an [`ExperimentRunner`] trains each variant and measures
//! it at each of its settings.

mod budget;
mod error;
mod measure;
mod oracle;
mod phases;
mod plan;
mod results;
mod reuse;
mod runner;
mod table;

pub use budget::{Budget, parse_images};
pub use error::ExperimentError;
pub use measure::ReferenceData;
pub use oracle::{GaussianImages, OracleError, reflected};
pub use plan::PlannedModel;
pub use results::{EXACT, ExperimentResults, MeasurementRow, ScheduleLevels};
pub use runner::{ExperimentHost, ExperimentRunner, FigureInputs};
pub use table::EXPERIMENTS;

use softdiff_engine::Hint;
use std::borrow::Cow;

/// One table or figure of the paper.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// Its name on the command line and its folder's.
    pub name: &'static str,
    /// Where the paper shows it.
    pub paper: &'static str,
    /// What it asks.
    pub question: &'static str,
    /// What the paper found.
    pub finding: &'static str,
    /// The models.
    pub variants: &'static [Variant],
    /// What to draw besides tables and samples.
    pub shows: &'static [Show],
    /// Whether the denoiser is the exact one of Gaussian images with the data's spectrum, instead of a trained network.
    pub exact: bool,
}

/// A model of an experiment.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// Its name and its folder's.
    pub name: &'static str,
    /// What differs from the base recipe, as `--set` takes it.
    pub sets: &'static [&'static str],
    /// How it is sampled; none where only its schedule is wanted, and then it is not trained.
    pub settings: &'static [SamplerSetting],
}

/// A sampler and its steps.
#[derive(Debug, Clone, Copy)]
pub struct SamplerSetting {
    /// The sampler.
    pub sampler: &'static str,
    /// Steps for the quickstart's small images.
    pub small: usize,
    /// Steps in the manner of the paper.
    pub full: usize,
    /// What the paper reports; empty where it gives no number.
    pub paper: &'static str,
}

/// A drawing of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// Images of the data on their way to t = 1.
    Paths,
    /// The predicted clean image on the way back.
    Means,
    /// Samples above the training images nearest to them.
    Neighbours,
    /// Level and noise over time.
    Schedules,
}

/// A name that no experiment has.
#[derive(Debug, thiserror::Error)]
#[error("there is no experiment {name:?}")]
pub struct UnknownExperiment {
    /// What was asked for.
    pub name: String,
    /// The nearest, and all.
    pub hint: String,
}

impl Hint for UnknownExperiment {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(self.hint.as_str().into())
    }
}

impl Experiment {
    /// The experiment of this name.
    pub fn find(name: &str) -> Result<&'static Experiment, UnknownExperiment> {
        let names = EXPERIMENTS.iter().map(|experiment| experiment.name);
        let found = EXPERIMENTS.iter().find(|experiment| experiment.name == name);
        found.ok_or_else(|| UnknownExperiment {
            name: name.to_owned(),
            hint: softdiff_engine::suggest::hint(name, names),
        })
    }

    /// Whether its models are trained, and not only scheduled.
    pub fn trains(&self) -> bool {
        !self.exact && self.variants.iter().any(|variant| !variant.settings.is_empty())
    }

    /// How often it samples.
    pub fn measurements(&self) -> usize {
        self.variants.iter().map(|variant| variant.settings.len()).sum()
    }

    /// What it costs in words.
    pub fn cost(&self) -> String {
        let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        if self.exact {
            let (schedules, numbers) = (plural(self.variants.len(), "schedule"), self.measurements());
            format!("{schedules}, {}, no training", plural(numbers, "exact number"))
        } else if self.trains() {
            format!("{}, {}", plural(self.variants.len(), "training"), plural(self.measurements(), "measurement"))
        } else {
            format!("{}, no training", plural(self.variants.len(), "schedule"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::Recipe;
    use crate::sampler::{names, needs_scale};

    #[test]
    fn every_variant_is_a_sound_recipe_on_every_base_and_its_samplers_can_go_its_path() {
        for experiment in EXPERIMENTS {
            for variant in experiment.variants {
                for base in ["quickstart", "cifar10-small", "cifar10-blur", "celeba64-blur"] {
                    let sets: Vec<String> = variant.sets.iter().map(|set| (*set).to_owned()).collect();
                    let recipe = Recipe::builtin(base, &sets)
                        .unwrap_or_else(|error| panic!("{}/{} on {base}: {error}", experiment.name, variant.name));
                    for setting in variant.settings {
                        assert!(names().any(|name| name == setting.sampler), "{}", setting.sampler);
                        let fits = !needs_scale(setting.sampler) || recipe.path.is_scale();
                        assert!(fits, "{}/{}: {}", experiment.name, variant.name, setting.sampler);
                        assert!(setting.small > 0 && setting.full >= setting.small);
                    }
                }
            }
        }
    }

    #[test]
    fn variants_differ_only_in_what_they_are_about() {
        for experiment in EXPERIMENTS {
            for variant in experiment.variants {
                let allowed =
                    |set: &&&str| ["path", "schedule", "prior", "objective"].iter().any(|s| set.starts_with(s));
                assert!(variant.sets.iter().all(|set| allowed(&set)), "{}/{}", experiment.name, variant.name);
            }
        }
    }

    #[test]
    fn names_are_unlike_and_slips_are_answered_with_the_nearest() {
        for (index, experiment) in EXPERIMENTS.iter().enumerate() {
            assert!(EXPERIMENTS[..index].iter().all(|other| other.name != experiment.name));
            for (index, variant) in experiment.variants.iter().enumerate() {
                assert!(experiment.variants[..index].iter().all(|other| other.name != variant.name));
            }
        }
        let error = Experiment::find("sampler-ablatoin").unwrap_err();
        assert!(error.hint.starts_with("did you mean sampler-ablation?"), "{error}");
        assert!(Experiment::find("bogus!").unwrap_err().hint.starts_with("known: "));
    }
}
