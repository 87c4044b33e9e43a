//! x_t of any image under any corruption, or two of them one after the other (Soft Diffusion, Eq. 4).

use super::Studio;
use super::images::shown;
use super::problem::HttpProblem;
use super::query::QueryValues;
use serde_json::{Value, json};
use softdiff::corruption::{Boundary, CORRUPTIONS, Corruption, CorruptionSpec, Shape};
use softdiff::curve::{Curve, Interpolation};
use softdiff::engine::rng::RandomStream;
use softdiff::image::{Picture, from_unit, to_unit};
use softdiff::noise::{NOISE_STAGE, Noise};
use softdiff::path::{LevelSchedule, Path};
use softdiff::schedule::usual_candidates;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The names of the corruptions on offer: those that need no file.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    let offered = CORRUPTIONS.iter().filter(|entry| entry.corrupts && entry.name != "custom");
    offered.map(|entry| entry.name)
}

/// Knots of the level over time.
const KNOTS: usize = 32;

/// Scenes that are kept: while t is dragged, nothing else changes.
const KEPT: usize = 4;

/// Everything about an image that does not depend on t.
struct CorruptionScene {
    picture: Picture,
    shape: Shape,
    path: Path,
    x0: Vec<f64>,
    eta: Vec<f64>,
}

/// The scenes asked for last, the newest at the end.
#[derive(Default)]
pub struct Scenes(Mutex<VecDeque<(SceneKey, Arc<CorruptionScene>)>>);

type SceneKey = (String, Vec<&'static str>, u64);

impl Scenes {
    fn get(&self, studio: &Studio, key: SceneKey) -> Result<Arc<CorruptionScene>, HttpProblem> {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, scene)) = kept().iter().find(|(known, _)| *known == key) {
            return Ok(scene.clone());
        }
        let (id, kinds, seed) = &key;
        let mut picture = (*studio.images.get(id)?).clone();
        if kinds.contains(&"decolourisation") {
            picture = picture.with_channels(3);
        }
        let shape = Shape::new(picture.height, picture.width, picture.channels);
        let x0 = to_unit(&picture.pixels);
        let eta = RandomStream::new(*seed, "noise of a strip").normals(x0.len());
        let scene = Arc::new(CorruptionScene { picture, shape, path: path(shape, kinds)?, x0, eta });
        let mut kept = kept();
        kept.push_back((key, scene.clone()));
        if kept.len() > KEPT {
            kept.pop_front();
        }
        Ok(scene)
    }
}

/// `/api/corrupt?picture=&first=&second=&t=&noise=&seed=`: x_t, with level and noise.
pub fn answer(studio: &Studio, query: &QueryValues) -> Result<Value, HttpProblem> {
    let begun = Instant::now();
    let id = query.value("picture").unwrap_or("sample-0").to_owned();
    let t: f64 = query.number("t", 0.5)?;
    let scene = studio.scenes.get(studio, (id, kinds(query)?, query.number("seed", 0)?))?;
    let CorruptionScene { picture, shape, path, x0, eta } = &*scene;
    let moment = path.at(t).map_err(HttpProblem::failed)?;
    let mut xt = moment.map.apply(*shape, x0).map_err(HttpProblem::failed)?;
    let noisy = query.value("noise") != Some("0");
    if noisy {
        xt.iter_mut().zip(eta).for_each(|(x, eta)| *x += moment.sigma * eta);
    }
    let png = shown(&Picture { pixels: from_unit(&xt), ..*picture });
    Ok(json!({
        "png": png, "width": shape.width, "height": shape.height, "t": t,
        "level": path.level(t).map_err(HttpProblem::failed)?, "sigma": if noisy { moment.sigma } else { 0.0 },
        "milliseconds": begun.elapsed().as_secs_f64() * 1e3,
    }))
}

/// The corruptions that a request names.
pub fn kinds(query: &QueryValues) -> Result<Vec<&'static str>, HttpProblem> {
    let named = [query.value("first").unwrap_or("blur"), query.value("second").unwrap_or("none")];
    let known = |name: &str| {
        let all = || names().collect::<Vec<_>>().join(", ");
        let unknown = || HttpProblem::refused("there is no such corruption", format!("give one of {}", all()));
        names().find(|kind| *kind == name).ok_or_else(unknown)
    };
    named.into_iter().filter(|name| *name != "none").map(known).collect()
}

/// The paper's path with these corruptions: noise first, then all of them together.
pub fn path(shape: Shape, kinds: &[&str]) -> Result<Path, HttpProblem> {
    let mut stages = Vec::new();
    for kind in kinds {
        let spec = CorruptionSpec::named(kind).map_err(HttpProblem::failed)?.with_boundary(Boundary::Reflect);
        let corruption = spec.build(shape).map_err(HttpProblem::failed)?;
        let curve = curve(&*corruption)?;
        stages.push((corruption, LevelSchedule::Curve { curve, start: NOISE_STAGE }));
    }
    Path::new(stages, Noise::PAPER).map_err(HttpProblem::failed)
}

fn curve(corruption: &dyn Corruption) -> Result<Curve, HttpProblem> {
    let knots = usual_candidates(corruption, KNOTS).map_err(HttpProblem::failed)?;
    Curve::uniform(knots, Interpolation::Linear).map_err(HttpProblem::failed)
}
