//! From an experiment to the recipes of its models.

use super::{Budget, Experiment, ExperimentError, SamplerSetting, Variant};
use crate::recipe::{Recipe, SampleSection};
use std::path::Path;

/// The base recipe whose images are small enough for few sampling steps.
const SMALL: &str = "quickstart";
/// The base recipe for other data, and what makes its path and parametrisation those of the paper.
const MEDIUM: &str = "cifar10-small";
const THE_PAPERS_PATH: [&str; 4] = [
    "path.largest=0.1",
    "path.noise_stage=0.18",
    "path.corruption.boundary=zero",
    "objective.parametrisation=residual",
];

/// A model to train, or only to schedule.
pub struct PlannedModel {
    /// Its name in the table, and its folder's.
    pub name: String,
    /// What the experiment says of it.
    pub variant: &'static Variant,
    /// Its recipe.
    pub recipe: Recipe,
    /// Whether its images are the quickstart's.
    small: bool,
}

impl PlannedModel {
    /// The steps of a setting for images of this size.
    pub fn steps(&self, setting: &SamplerSetting) -> usize {
        if self.small { setting.small } else { setting.full }
    }

    /// How it is sampled at a setting: the recipe's options, the setting's sampler and steps.
    pub fn sampling(&self, setting: &SamplerSetting) -> SampleSection {
        let usual = self.recipe.sample.clone();
        SampleSection { sampler: setting.sampler.into(), steps: self.steps(setting), ..usual }
    }
}

impl Experiment {
    /// One model per data set and variant: the base recipe, then `sets`, then what makes the variant.
    pub fn plan(
        &self,
        recipe: Option<&str>,
        data: &[String],
        sets: &[String],
        budget: &Budget,
    ) -> Result<Vec<PlannedModel>, ExperimentError> {
        if self.trains() && data.len() > 1 {
            return Err(ExperimentError::OneDataSet { name: self.name });
        }
        let base = recipe.unwrap_or(match (budget, data) {
            (Budget::Paper, _) => "cifar10-blur",
            (_, []) => SMALL,
            _ => MEDIUM,
        });
        let sources: Vec<Option<&String>> = if data.is_empty() { vec![None] } else { data.iter().map(Some).collect() };
        let mut models: Vec<PlannedModel> = Vec::new();
        for source in &sources {
            for variant in self.variants {
                let mut all = ["preview.every=false", "checkpoint.keep_last=1"].map(String::from).to_vec();
                // The paper measures its best checkpoint; at smaller budgets choosing one would cost more than the training.
                if !matches!(budget, Budget::Paper) {
                    all.push("checkpoint.keep_best=0".into());
                }
                if recipe.is_none() && base == MEDIUM {
                    all.extend(THE_PAPERS_PATH.map(String::from));
                }
                all.extend(source.map(|source| format!("data.source={}", serde_json::json!(source))));
                all.extend_from_slice(sets);
                all.extend(variant.sets.iter().map(|set| (*set).to_owned()));
                let mut recipe = Recipe::open(base, &all)?;
                let name = match source {
                    Some(source) if sources.len() > 1 => format!("{}-{}", variant.name, stem(source)),
                    _ => variant.name.to_owned(),
                };
                if models.iter().any(|model| model.name == name) {
                    return Err(ExperimentError::SameName { name: stem(&recipe.data.source) });
                }
                recipe.name = format!("{} {name}", self.name);
                models.push(PlannedModel { name, variant, recipe, small: base == SMALL });
            }
        }
        Ok(models)
    }
}

/// The last part of a source's name without its ending, as a folder may be called.
fn stem(source: &str) -> String {
    let name = Path::new(source).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    name.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_budget_choose_the_recipe_and_models_share_all_but_their_point() {
        let experiment = Experiment::find("loss-ablation").unwrap();
        let made = |data: &[&str], budget: Budget| {
            let data: Vec<String> = data.iter().map(|source| (*source).to_owned()).collect();
            experiment.plan(None, &data, &["train.batch=8".into()], &budget).unwrap()
        };
        let small = made(&[], Budget::Recipe);
        assert_eq!(small[0].recipe.data.source, "embedded:fashion-mnist");
        assert_eq!(small[0].steps(&small[0].variant.settings[0]), 30);
        assert!(small[0].recipe.objective != small[1].recipe.objective);
        let (a, b) = (&small[0].recipe, &small[1].recipe);
        assert_eq!((a.seed, &a.network, &a.train, &a.data), (b.seed, &b.network, &b.train, &b.data));
        let cifar = made(&["elsewhere/cifar"], Budget::Minutes(1.0));
        assert_eq!((cifar[0].recipe.data.source.as_str(), cifar[0].recipe.train.batch), ("elsewhere/cifar", 8));
        assert_eq!(cifar[0].steps(&cifar[0].variant.settings[0]), 280);
        let paper = Recipe::builtin("cifar10-blur", &[]).unwrap();
        assert_eq!((&cifar[0].recipe.path, &cifar[0].recipe.objective), (&paper.path, &paper.objective));
        assert_eq!(
            made(&["c"], Budget::Paper)[0].recipe.train.steps,
            Recipe::builtin("cifar10-blur", &[]).unwrap().train.steps
        );
    }

    #[test]
    fn several_data_sets_get_folders_of_their_own() {
        let experiment = Experiment::find("schedules").unwrap();
        let data = ["a/faces.zip".to_owned(), "b/cats and dogs".to_owned()];
        let made = experiment.plan(None, &data, &[], &Budget::Recipe).unwrap();
        let names: Vec<&str> = made.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!((made.len(), names[0], names[3]), (6, "shortest-path-faces", "shortest-path-cats-and-dogs"));
        let same = ["a/faces.zip".to_owned(), "b/faces.zip".to_owned()];
        assert!(experiment.plan(None, &same, &[], &Budget::Recipe).is_err());
    }
}
