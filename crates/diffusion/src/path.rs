//! Diffusion paths: `x_t = C_t x_0 + sigma_t eta` for any t in [0, 1] (Soft Diffusion, Eq. 4).

use crate::corruption::{Corruption, CorruptionError, Fading, HeatDissipation, LinearMap, Shape, Unchanged};
use crate::curve::{Curve, CurveError, Interpolation};
use crate::noise::{Alpha, NOISE_STAGE, Noise, NoiseError, PAPER_LARGEST, PAPER_SMALLEST};
use softdiff_engine::Hint;
use std::borrow::Cow;
use std::f64::consts::{FRAC_PI_2, PI};

/// How the level of a corruption runs with time.
#[derive(Debug, Clone, PartialEq)]
pub enum LevelSchedule {
    /// A curve over [0, 1], run through between `start` and t = 1; before it the curve's first value.
    Curve {
        /// The curve.
        curve: Curve,
        /// When it begins.
        start: f64,
    },
    /// `1 - alpha_t`, for [`Fading`].
    Fade(Alpha),
    /// `largest sin^2(pi t / 2)`: the blur of Hoogeboom and Salimans (2022).
    SineSquared {
        /// The level at t = 1.
        largest: f64,
    },
}

impl LevelSchedule {
    /// Level and its derivative at t.
    pub fn at(&self, t: f64) -> (f64, f64) {
        match self {
            LevelSchedule::Curve { curve, start } => {
                let progress = (t - start) / (1.0 - start);
                (curve.value(progress), curve.derivative(progress) / (1.0 - start))
            }
            LevelSchedule::Fade(alpha) => {
                let (value, slope) = alpha.at(t);
                (1.0 - value, -slope)
            }
            LevelSchedule::SineSquared { largest } => {
                let level = largest * (FRAC_PI_2 * t).sin().powi(2);
                (level, largest * FRAC_PI_2 * (PI * t).sin())
            }
        }
    }
}

/// What is wrong with a path or a time.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// A time outside [0, 1], or NaN.
    #[error("time {0} is outside the path")]
    Time(f64),
    /// A stage that begins at or after the end.
    #[error("the corruption is to start at time {0}")]
    Start(f64),
    /// Images and noise of different size.
    #[error("{images} values of images and {noise} of noise")]
    Sizes {
        /// Values of images.
        images: usize,
        /// Values of noise.
        noise: usize,
    },
    /// A bad corruption, or levels outside its range.
    #[error(transparent)]
    Corruption(#[from] CorruptionError),
    /// Bad knots.
    #[error(transparent)]
    Curve(#[from] CurveError),
    /// Bad noise.
    #[error(transparent)]
    Noise(#[from] NoiseError),
}

impl Hint for PathError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            PathError::Time(_) => "give a time from 0 (clean) to 1 (corrupted)".into(),
            PathError::Start(_) => "give a time from 0 to below 1, such as 0.18".into(),
            PathError::Sizes { .. } => "give as many of both".into(),
            PathError::Corruption(error) => return error.hint(),
            PathError::Curve(error) => return error.hint(),
            PathError::Noise(error) => return error.hint(),
        })
    }
}

/// A path at one time: t with its C_t and sigma_t.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// t.
    pub t: f64,
    /// C_t.
    pub map: LinearMap,
    /// sigma_t.
    pub sigma: f64,
}

impl Moment {
    /// The image itself, where sampling ends: C = I, no noise, whatever the path says at t = 0 (choice A8).
    pub fn clean() -> Moment {
        Moment { t: 0.0, map: LinearMap::Identity, sigma: 0.0 }
    }

    /// alpha, where C = alpha I.
    pub fn scale(&self) -> Option<f64> {
        scale_of(&self.map)
    }
}

/// alpha of a map `alpha I`.
pub(crate) fn scale_of(map: &LinearMap) -> Option<f64> {
    match map {
        LinearMap::Identity => Some(1.0),
        LinearMap::Scale(alpha) => Some(*alpha),
        LinearMap::Compose(parts) => parts.iter().map(scale_of).product(),
        LinearMap::Sum(parts) => parts.iter().map(scale_of).sum(),
        _ => None,
    }
}

impl std::fmt::Debug for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a path of images of {}", self.shape())
    }
}

/// The derivatives of a path at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Velocity {
    /// dC_t/dt.
    pub map: LinearMap,
    /// d(sigma_t)/dt.
    pub sigma: f64,
    /// d(sigma_t^2)/dt.
    pub sigma2: f64,
}

/// Corruptions with their levels over time, applied in order, and the noise added after them.
///
/// Images are in [0, 1]. What a path keeps of them, it keeps of their distance to its centre m:
/// `x_t = m + C_t (x_0 - m) + sigma_t eta`. That is 0 but for [`Path::centred`].
pub struct Path {
    stages: Vec<(Box<dyn Corruption>, LevelSchedule)>,
    noise: Noise,
    centre: f64,
    /// Noise of 1 in the units of the images.
    unit: f64,
}

impl Path {
    /// A path; every level must lie in its corruption's range from t = 0 to t = 1.
    pub fn new(stages: Vec<(Box<dyn Corruption>, LevelSchedule)>, noise: Noise) -> Result<Self, PathError> {
        noise.check()?;
        let shape = stages.first().ok_or(CorruptionError::NothingToCompose)?.0.shape();
        for (corruption, level) in &stages {
            if corruption.shape() != shape {
                let (name, found) = (corruption.name().to_owned(), corruption.shape());
                return Err(CorruptionError::ComposedShape { name, found, shape }.into());
            }
            if let LevelSchedule::Curve { start, .. } = level
                && !(0.0..1.0).contains(start)
            {
                return Err(PathError::Start(*start));
            }
            // Level schedules do not fall, so the ends decide.
            for t in [0.0, 1.0] {
                corruption.levels().check(corruption.name(), level.at(t).0)?;
            }
        }
        Ok(Path { stages, noise, centre: 0.0, unit: 1.0 })
    }

    /// The paper's path: noise grows in the first stage, then the corruption runs through its knots (section 4,
    /// "Scheduling"; knots at equal times on [0.18, 1]).
    pub fn two_stage(
        corruption: Box<dyn Corruption>,
        knots: Vec<f64>,
        interpolation: Interpolation,
    ) -> Result<Self, PathError> {
        let curve = Curve::uniform(knots, interpolation)?;
        Self::new(vec![(corruption, LevelSchedule::Curve { curve, start: NOISE_STAGE })], Noise::PAPER)
    }

    /// The paper's ablation: the corruption as in [`Path::two_stage`], the noise growing over all of the time (appendix,
    /// "Noise changing throughout the diffusion": "we keep the blur parameters the same").
    pub fn simultaneous(
        corruption: Box<dyn Corruption>,
        knots: Vec<f64>,
        interpolation: Interpolation,
    ) -> Result<Self, PathError> {
        let curve = Curve::uniform(knots, interpolation)?;
        let noise = Noise::Geometric { smallest: PAPER_SMALLEST, largest: PAPER_LARGEST, until: 1.0 };
        Self::new(vec![(corruption, LevelSchedule::Curve { curve, start: NOISE_STAGE })], noise)
    }

    /// C = I and geometric noise: the VE diffusion (section 2).
    pub fn variance_exploding(shape: Shape, smallest: f64, largest: f64) -> Result<Self, PathError> {
        let level = LevelSchedule::Curve { curve: Curve::straight(0.0, 1.0)?, start: 0.0 };
        Self::new(vec![(Box::new(Unchanged::new(shape)), level)], Noise::Geometric { smallest, largest, until: 1.0 })
    }

    /// C = alpha I and noise `sqrt(1 - alpha^2)`: the VP diffusion (section 2).
    pub fn variance_preserving(shape: Shape, alpha: Alpha) -> Result<Self, PathError> {
        let stage: Box<dyn Corruption> = Box::new(Fading::new(shape));
        Self::new(vec![(stage, LevelSchedule::Fade(alpha))], Noise::VariancePreserving { alpha })
    }

    /// C = alpha I and noise `1 - alpha^2`: the sub-VP diffusion (section 2).
    pub fn sub_variance_preserving(shape: Shape, alpha: Alpha) -> Result<Self, PathError> {
        let stage: Box<dyn Corruption> = Box::new(Fading::new(shape));
        Self::new(vec![(stage, LevelSchedule::Fade(alpha))], Noise::SubVariancePreserving { alpha })
    }

    /// Blurring diffusion (Hoogeboom and Salimans 2022).
    ///
    /// There, frequency k of the image keeps `alpha_t d_t(k)` and all frequencies get noise `sigma_t`, with the cosine
    /// alpha, `sigma^2 = 1 - alpha^2`, and `d_t(k) = d + (1 - d) exp(-k^2 tau_t)`. That frequency-dependent ratio of
    /// signal to noise is the path `C_t = alpha_t H_t`, H being [`HeatDissipation`] with floor d = 0.001 up to deviation
    /// 20, run as sin^2, with scalar noise: nothing beyond Eq. 4 is needed.
    pub fn blurring_diffusion(shape: Shape) -> Result<Self, PathError> {
        const LARGEST_BLUR: f64 = 20.0;
        const FLOOR: f64 = 0.001;
        let alpha = Alpha::COSINE;
        let heat = HeatDissipation::new(shape, LARGEST_BLUR)?.with_floor(FLOOR)?;
        Self::new(
            vec![
                (Box::new(heat), LevelSchedule::SineSquared { largest: LARGEST_BLUR }),
                (Box::new(Fading::new(shape)), LevelSchedule::Fade(alpha)),
            ],
            Noise::VariancePreserving { alpha },
        )
    }

    /// The same path on images in [-1, 1], as score_sde takes them for VP and sub-VP: `2 x_t - 1` follows it from
    /// `2 x_0 - 1`. In the units of [0, 1], the centre is 1/2 and the noise half as large.
    pub fn centred(self) -> Self {
        Path { centre: 0.5, unit: 0.5, ..self }
    }

    /// m, the value that images are corrupted towards.
    pub fn centre(&self) -> f64 {
        self.centre
    }

    /// `m - C_t m`: what x_t has besides `C_t x_0` and noise; none where m is 0.
    pub fn offset(&self, t: f64) -> Result<Option<Vec<f64>>, PathError> {
        if self.centre == 0.0 {
            return Ok(None);
        }
        let kept = self.at(t)?.map.apply(self.shape(), &vec![self.centre; self.shape().len()])?;
        Ok(Some(kept.into_iter().map(|kept| self.centre - kept).collect()))
    }

    /// The images it acts on.
    pub fn shape(&self) -> Shape {
        self.stages[0].0.shape()
    }

    /// The corruptions in the order they are applied, each with its level over time.
    pub fn stages(&self) -> impl ExactSizeIterator<Item = (&dyn Corruption, &LevelSchedule)> {
        self.stages.iter().map(|(corruption, level)| (&**corruption, level))
    }

    /// Times at which the path may have a corner: the knots of its levels and of its noise, or the end of the noise stage;
    /// ascending, above 0 and up to 1.
    pub fn knot_times(&self) -> Vec<f64> {
        let mut times = vec![1.0];
        for (_, level) in &self.stages {
            if let LevelSchedule::Curve { curve, start } = level {
                times.extend(curve.positions().iter().map(|position| start + (1.0 - start) * position));
            }
        }
        match &self.noise {
            Noise::Geometric { until, .. } => times.push(*until),
            Noise::Curve(curve) => times.extend(curve.positions()),
            _ => {}
        }
        times.retain(|&t| t > 1e-9 && t <= 1.0);
        times.sort_by(f64::total_cmp);
        times.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
        times
    }

    /// sigma_t.
    pub fn sigma(&self, t: f64) -> f64 {
        self.unit * self.noise.sigma(t)
    }

    /// The noise.
    pub fn noise(&self) -> &Noise {
        &self.noise
    }

    /// Level of the first corruption at t.
    pub fn level(&self, t: f64) -> Result<f64, PathError> {
        Ok(self.stages[0].1.at(check_time(t)?).0)
    }

    /// t, C_t and sigma_t.
    pub fn at(&self, t: f64) -> Result<Moment, PathError> {
        let t = check_time(t)?;
        let mut maps = Vec::with_capacity(self.stages.len());
        for (corruption, level) in &self.stages {
            maps.push(corruption.at(level.at(t).0)?);
        }
        let map = if maps.len() == 1 { maps.swap_remove(0) } else { LinearMap::Compose(maps) };
        Ok(Moment { t, map, sigma: self.sigma(t) })
    }

    /// The time derivatives of C_t and sigma_t: product rule over the stages, chain rule over their levels.
    pub fn derivative(&self, t: f64) -> Result<Velocity, PathError> {
        let t = check_time(t)?;
        let mut terms = Vec::with_capacity(self.stages.len());
        for moving in 0..self.stages.len() {
            let mut factors = Vec::with_capacity(self.stages.len() + 1);
            for (index, (corruption, level)) in self.stages.iter().enumerate() {
                let level = level.at(t).0;
                factors.push(if index == moving { corruption.derivative(level)? } else { corruption.at(level)? });
            }
            factors.push(LinearMap::Scale(self.stages[moving].1.at(t).1));
            terms.push(LinearMap::Compose(factors));
        }
        let map = LinearMap::Sum(terms);
        let (sigma, sigma2) = (self.noise.sigma_derivative(t), self.noise.sigma2_derivative(t));
        Ok(Velocity { map, sigma: self.unit * sigma, sigma2: self.unit * self.unit * sigma2 })
    }

    /// `x_t = C_t x_0 + sigma_t eta` for a batch of images and as much standard normal noise (Eq. 4), about the centre.
    pub fn diffuse(&self, x0: &[f64], t: f64, eta: &[f64]) -> Result<Vec<f64>, PathError> {
        if x0.len() != eta.len() {
            return Err(PathError::Sizes { images: x0.len(), noise: eta.len() });
        }
        let Moment { map, sigma, .. } = self.at(t)?;
        let mut xt = map.apply_batch(self.shape(), x0)?;
        xt.iter_mut().zip(eta).for_each(|(x, e)| *x += sigma * e);
        if let Some(offset) = self.offset(t)? {
            xt.iter_mut().zip(offset.iter().cycle()).for_each(|(x, o)| *x += o);
        }
        Ok(xt)
    }
}

fn check_time(t: f64) -> Result<f64, PathError> {
    if (0.0..=1.0).contains(&t) { Ok(t) } else { Err(PathError::Time(t)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corruption::{Blur, Boundary, ErasureOrder, Masking};
    use softdiff_engine::rng::RandomStream;

    const SHAPE: Shape = Shape { height: 6, width: 6, channels: 2 };

    fn every_path() -> Vec<(&'static str, Path)> {
        let blur = || Box::new(Blur::new(SHAPE, Boundary::Zero, 4.0).unwrap());
        let knots = vec![0.01, 0.4, 0.9, 2.0, 4.0];
        let mask = Box::new(Masking::soft(SHAPE, ErasureOrder::Spiral, 0.4).unwrap());
        vec![
            ("two stages", Path::two_stage(blur(), knots.clone(), Interpolation::Linear).unwrap()),
            ("cubic", Path::two_stage(blur(), knots.clone(), Interpolation::MonotoneCubic).unwrap()),
            ("simultaneous", Path::simultaneous(blur(), knots, Interpolation::MonotoneCubic).unwrap()),
            ("masking", Path::two_stage(mask, vec![0.0, 1.0], Interpolation::Linear).unwrap()),
            ("ve", Path::variance_exploding(SHAPE, 0.01, 50.0).unwrap()),
            ("vp", Path::variance_preserving(SHAPE, Alpha::LINEAR).unwrap()),
            ("vp cosine", Path::variance_preserving(SHAPE, Alpha::COSINE).unwrap()),
            ("sub-vp", Path::sub_variance_preserving(SHAPE, Alpha::LINEAR).unwrap()),
            ("blurring", Path::blurring_diffusion(SHAPE).unwrap()),
            ("centred vp", Path::variance_preserving(SHAPE, Alpha::LINEAR).unwrap().centred()),
            ("centred sub-vp", Path::sub_variance_preserving(SHAPE, Alpha::LINEAR).unwrap().centred()),
        ]
    }

    #[test]
    fn every_path_starts_at_the_image_itself() {
        for (name, path) in every_path() {
            let x = RandomStream::new(1, "image").normals(SHAPE.len());
            let start = path.at(0.0).unwrap().map.apply(SHAPE, &x).unwrap();
            assert!(x.iter().zip(&start).all(|(a, b)| (a - b).abs() < 1e-13), "{name}");
        }
    }

    #[test]
    fn derivatives_of_every_path_equal_central_differences() {
        let x = RandomStream::new(2, "image").normals(SHAPE.len());
        for (name, path) in every_path() {
            for t in [0.0537, 0.237, 0.511, 0.83, 0.971] {
                let step = 1e-6;
                let at = |t: f64| path.at(t).unwrap().map.apply(SHAPE, &x).unwrap();
                let velocity = path.derivative(t).unwrap();
                let found = velocity.map.apply(SHAPE, &x).unwrap();
                for ((ahead, behind), found) in at(t + step).iter().zip(&at(t - step)).zip(&found) {
                    let expected = (ahead - behind) / (2.0 * step);
                    assert!((found - expected).abs() < 1e-5, "{name} at {t}: {found} not {expected}");
                }
                let sigma = |t: f64| path.at(t).unwrap().sigma;
                let expected = (sigma(t + step) - sigma(t - step)) / (2.0 * step);
                assert!((velocity.sigma - expected).abs() < 1e-4 * (1.0 + expected), "{name} at {t}");
                assert!(
                    (velocity.sigma2 - 2.0 * sigma(t) * velocity.sigma).abs() < 1e-9 * (1.0 + velocity.sigma2.abs())
                );
            }
        }
    }

    #[test]
    fn the_papers_path_adds_noise_first_and_then_blurs() {
        let (_, path) = every_path().swap_remove(0);
        assert_eq!(path.level(0.17).unwrap(), 0.01);
        assert_eq!((path.level(0.18).unwrap(), path.level(1.0).unwrap()), (0.01, 4.0));
        assert_eq!((path.at(0.18).unwrap().sigma, path.at(0.7).unwrap().sigma), (0.1, 0.1));
        assert!((path.level(0.18 + 0.82 / 4.0).unwrap() - 0.4).abs() < 1e-12);
    }

    #[test]
    fn simultaneous_noise_leaves_the_levels_of_the_two_stages_as_they_are() {
        let paths = every_path();
        for t in [0.0, 0.1, 0.18, 0.25, 0.5, 0.83, 1.0] {
            // Both monotone cubic.
            assert_eq!(paths[1].1.level(t).unwrap(), paths[2].1.level(t).unwrap(), "at {t}");
            let sigma = paths[2].1.at(t).unwrap().sigma;
            assert!((sigma - 0.01 * 10f64.powf(t)).abs() < 1e-15, "at {t}: {sigma}");
        }
    }

    #[test]
    fn blurring_diffusion_keeps_alpha_times_the_heat_gain_of_each_frequency() {
        let path = Path::blurring_diffusion(SHAPE).unwrap();
        let basis = crate::corruption::cosine_basis(6);
        // Frequency (1, 2) of channel 0.
        let wave: Vec<f64> = (0..SHAPE.len())
            .map(|i| if i % 2 == 0 { basis[(1, i / 12)] * basis[(2, i / 2 % 6)] } else { 0.0 })
            .collect();
        let t = 0.3;
        let found = path.at(t).unwrap().map.apply(SHAPE, &wave).unwrap();
        let deviation = 20.0 * (FRAC_PI_2 * t).sin().powi(2);
        let rate = PI * PI * 5.0 / 36.0 * deviation * deviation / 2.0;
        let gain = Alpha::COSINE.at(t).0 * (0.001 + 0.999 * (-rate).exp());
        assert!(wave.iter().zip(&found).all(|(w, f)| (gain * w - f).abs() < 1e-14));
    }

    #[test]
    fn diffused_images_have_the_noise_of_their_time() {
        let (_, path) = every_path().swap_remove(4);
        let x0 = vec![0.5; 3 * SHAPE.len()];
        let eta = RandomStream::new(3, "noise").normals(x0.len());
        let xt = path.diffuse(&x0, 1.0, &eta).unwrap();
        assert!(xt.iter().zip(&eta).all(|(x, e)| (x - 0.5 - 50.0 * e).abs() < 1e-12));
        assert!(matches!(path.diffuse(&x0, 0.5, &eta[1..]), Err(PathError::Sizes { .. })));
    }

    /// score_sde's `marginal_prob` of its VPSDE and subVPSDE, beta from 0.1 to 20, on `2 x - 1`.
    #[test]
    fn centred_paths_are_those_of_score_sde_on_images_in_minus_one_to_one() {
        let x0: Vec<f64> = (0..SHAPE.len()).map(|i| i as f64 / 71.0).collect();
        let eta = RandomStream::new(4, "noise").normals(x0.len());
        for (name, path) in every_path().into_iter().filter(|(name, _)| name.starts_with("centred")) {
            for t in [0.0, 0.3, 1.0f64] {
                let coefficient = -0.25 * t * t * (20.0 - 0.1) - 0.5 * t * 0.1;
                let lost = 1.0 - (2.0 * coefficient).exp();
                let deviation = if name.contains("sub") { lost } else { lost.sqrt() };
                let xt = path.diffuse(&x0, t, &eta).unwrap();
                for ((x, x0), eta) in xt.iter().zip(&x0).zip(&eta) {
                    let expected = coefficient.exp() * (2.0 * x0 - 1.0) + deviation * eta;
                    assert!((2.0 * x - 1.0 - expected).abs() < 1e-12, "{name} at {t}");
                }
            }
        }
    }

    #[test]
    fn times_and_levels_out_of_range_are_typed_errors() {
        for (_, path) in every_path() {
            for t in [-0.1, 1.1, f64::NAN] {
                assert!(matches!(path.at(t), Err(PathError::Time(_))));
                assert!(matches!(path.derivative(t), Err(PathError::Time(_))));
            }
        }
        let blur = || Box::new(Blur::new(SHAPE, Boundary::Zero, 4.0).unwrap());
        let beyond = Path::two_stage(blur(), vec![0.0, 5.0], Interpolation::Linear);
        assert!(matches!(beyond, Err(PathError::Corruption(CorruptionError::Level { .. }))));
        let falling = Path::two_stage(blur(), vec![3.0, 1.0], Interpolation::Linear);
        assert!(matches!(falling, Err(PathError::Curve(CurveError::ValuesFall { .. }))));
    }
}
