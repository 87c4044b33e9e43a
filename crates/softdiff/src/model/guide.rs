//! Autoguidance: a model whose samples are guided away from what a weaker one predicts.

use super::open::read_weights;
use super::{Condition, Model, ModelError};
use crate::corruption::Shape;
use crate::network::{Guided, Network};
use crate::recipe::Recipe;
use crate::sampler::{Result as Sampled, SamplerError};
use softdiff_engine::rng::RandomStream;
use softdiff_engine::{Graph, Params, Result as EngineResult};
use std::borrow::Cow;
use std::path::Path as FilePath;
use std::sync::Arc;

/// The guide's recipe and weights in an exported model.
pub(super) const RECIPE: &str = "guide.toml";
pub(super) const PARAMS: &str = "guide.safetensors";

/// A weaker model of the same images on the same path: a smaller network, trained for a shorter time.
#[derive(Clone)]
pub struct Guide {
    /// The recipe it was trained by.
    pub recipe: Recipe,
    /// Its network.
    pub network: Arc<dyn Network>,
    /// Its weights.
    pub params: Params<f32>,
}

impl Model {
    /// The same with a weaker model to guide its samples by, which must have been trained on the same path to predict the
    /// same. How far it guides is `sample.guidance`.
    pub fn with_guide(self, guide: Model) -> Result<Model, ModelError> {
        let Model { name, recipe, network, params, .. } = &guide;
        let differs = |what| ModelError::OtherGuide { guide: name.clone(), model: self.name.clone(), what };
        if self.path.shape() != guide.path.shape() {
            return Err(differs("images of another size"));
        }
        if (self.condition, guide.condition) != (Condition::Time, Condition::Time)
            || self.network.has_mask_channel() != network.has_mask_channel()
        {
            return Err(differs("a network that sees something else"));
        }
        if !predicts_alike(&self, &guide) {
            return Err(differs("another path, or reads its network's output differently"));
        }
        let guide = Guide { recipe: recipe.clone(), network: network.clone(), params: params.clone() };
        Ok(Model { guide: Some(guide), ..self })
    }

    /// The model to sample with at this guidance: itself at 1, else one whose network is that of both.
    pub fn guided(&self, guidance: f64) -> Sampled<Cow<'_, Model>> {
        if guidance == 1.0 {
            return Ok(Cow::Borrowed(self));
        }
        let guide = self.guide.as_ref().ok_or(SamplerError::NoGuide(guidance))?;
        let network = Guided { network: self.network.clone(), guide: guide.network.clone(), factor: guidance };
        let mut params = Params::zeros(&graph(&network, self.path.shape())?);
        for (scope, part) in [("", &self.params), (Guided::SCOPE, &guide.params)] {
            for (index, spec) in part.specs().iter().enumerate() {
                let name = [scope, &spec.name].join(if scope.is_empty() { "" } else { "." });
                params.set(&name, &spec.shape, part.value(index))?;
            }
        }
        Ok(Cow::Owned(Model { network: Arc::new(network), params, guide: None, is_described: false, ..self.clone() }))
    }
}

/// Reads the guide of an exported model that has one.
pub(super) fn read(folder: &FilePath, shape: Shape) -> Result<Guide, ModelError> {
    let recipe = Recipe::saved(&folder.join(RECIPE), &[])?;
    let network = recipe.network(shape)?;
    let params = read_weights(&folder.join(PARAMS), &network.graph(1)?.0)?;
    Ok(Guide { recipe, network: Arc::new(network), params })
}

fn graph(network: &dyn Network, shape: Shape) -> EngineResult<Graph> {
    let mut graph = Graph::new();
    let x = graph.input("x", [1, shape.height, shape.width, shape.channels])?;
    let t = graph.input("t", [1])?;
    let input = network.input(&mut graph, x, |g| g.input("mask", [1, shape.height, shape.width, 1]))?;
    network.emit(&mut graph, input, t, false)?;
    Ok(graph)
}

/// Whether two models corrupt an image alike and make the same of an output, at times all over the path. Schedules and spectra
/// that two machines measured on the same images differ in their last bits.
fn predicts_alike(one: &Model, other: &Model) -> bool {
    const TIMES: usize = 33;
    const TOLERANCE: f64 = 1e-3;
    let size = one.path.shape().len();
    let values = |purpose| RandomStream::numbered(0, purpose, 0).normals(size);
    let (x0, output) = (values("an image to compare models by"), values("an output to compare models by"));
    let predict = |model: &Model, t: f64| {
        let xt = model.path.diffuse(&x0, t, &output).ok()?;
        let at = model.path.at(t).ok()?;
        Some((model.prediction.x0_hat(&output, &xt, &at).ok()?, xt))
    };
    let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= TOLERANCE * (1.0 + a.abs()));
    (0..TIMES).map(|k| k as f64 / (TIMES - 1) as f64).all(|t| match (predict(one, t), predict(other, t)) {
        (Some(one), Some(other)) => near(&one.0, &other.0) && near(&one.1, &other.1),
        _ => false,
    })
}
