//! The registry: samplers by the names that recipes and the command line use.

use super::*;
use softdiff_engine::suggest::hint;

/// A sampler as recipes and the command line know it.
pub struct SamplerEntry {
    /// Its name.
    pub name: &'static str,
    /// Whether it works only where `C = alpha I` (VE, VP, sub-VP).
    pub needs_scale: bool,
    /// Whether it steps with one-step predictions, and so with nothing else.
    pub needs_one_step: bool,
    build: fn(&Options) -> Result<Box<dyn Sampler>>,
}

/// One that works on any linear path.
const fn any(name: &'static str, build: fn(&Options) -> Result<Box<dyn Sampler>>) -> SamplerEntry {
    SamplerEntry { name, needs_scale: false, needs_one_step: false, build }
}

/// One for `C = alpha I`.
const fn scale(name: &'static str, build: fn(&Options) -> Result<Box<dyn Sampler>>) -> SamplerEntry {
    SamplerEntry { name, needs_scale: true, needs_one_step: false, build }
}

/// All samplers, those of the paper first. A new one is a file and a line here.
pub const SAMPLERS: &[SamplerEntry] = &[
    any("naive", |_| Ok(Box::new(Naive))),
    any("momentum", |_| Ok(Box::new(Momentum))),
    any("flow-momentum", |_| Ok(Box::new(FlowMomentum))),
    any("ddim-form", |_| Ok(Box::new(Churn::deterministic()))),
    any("churn", |o| Ok(Box::new(Churn { s_noise: o.s_noise, ..Churn::part(o.churn) }))),
    any("churn-rate", |o| Ok(Box::new(Churn { s_noise: o.s_noise, ..Churn::rate(o.churn_rate) }))),
    any("heun", |_| Ok(Box::new(Heun))),
    any("multistep", |_| Ok(Box::new(Multistep))),
    any("dormand-prince", |o| {
        Ok(Box::new(DormandPrince { tolerance: Tolerance::of(o.tolerance), together: o.together }))
    }),
    any("predictor-corrector", PredictorCorrector::of_options),
    scale("reverse-diffusion", |_| Ok(Box::new(ReverseDiffusion))),
    scale("euler-maruyama", |_| Ok(Box::new(EulerMaruyama))),
    scale("ancestral", |_| Ok(Box::new(Ancestral))),
    scale("ddim", |o| Ok(Box::new(Ddim { eta: o.eta }))),
    SamplerEntry {
        name: "ihdm",
        needs_scale: false,
        needs_one_step: true,
        build: |o| Ok(Box::new(Ihdm { s_noise: o.s_noise })),
    },
];

/// The names of all samplers.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    SAMPLERS.iter().map(|entry| entry.name)
}

/// Options of the samplers that have some.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Fresh noise in each step of `churn`, from 0 (deterministic) to 1 (naive).
    pub churn: f64,
    /// Fresh noise per unit of time of `churn-rate`, from 0 on.
    pub churn_rate: f64,
    /// Factor of the fresh noise of both and of `ihdm` (choice A24).
    pub s_noise: f64,
    /// How much of DDPM's noise `ddim` adds, from 0 to 1.
    pub eta: f64,
    /// Signal-to-noise ratio of a step of the `predictor-corrector`'s corrector.
    pub snr: f64,
    /// Corrector steps after each step of the predictor.
    pub corrections: usize,
    /// The predictor.
    pub predictor: String,
    /// Error of a step of `dormand-prince`, relative and absolute.
    pub tolerance: f64,
    /// Whether all images of a batch take the steps of the worst (`dormand-prince`).
    pub together: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            churn: 0.3,
            churn_rate: 5.0,
            s_noise: 1.0,
            eta: 0.0,
            snr: 0.16,
            corrections: 1,
            predictor: "momentum".to_owned(),
            tolerance: 1e-5,
            together: false,
        }
    }
}

fn entry(name: &str) -> Option<&'static SamplerEntry> {
    SAMPLERS.iter().find(|entry| entry.name == name)
}

/// Whether a sampler works only where `C = alpha I` (VE, VP, sub-VP).
pub fn needs_scale(name: &str) -> bool {
    entry(name).is_some_and(|entry| entry.needs_scale)
}

/// Whether a sampler steps with one-step predictions, and so with nothing else.
pub fn needs_one_step(name: &str) -> bool {
    entry(name).is_some_and(|entry| entry.needs_one_step)
}

/// The sampler of that name with its options.
pub fn by_name(name: &str, options: &Options) -> Result<Box<dyn Sampler>> {
    let unknown = || SamplerError::Unknown { name: name.to_owned(), hint: hint(name, names()) };
    (entry(name).ok_or_else(unknown)?.build)(options)
}

impl PredictorCorrector {
    fn of_options(options: &Options) -> Result<Box<dyn Sampler>> {
        let name = "predictor-corrector";
        // A corrector of a corrected predictor would be one way too many to say the same.
        if options.predictor == name {
            let hint = hint("", names().filter(|known| *known != name));
            return Err(SamplerError::Unknown { name: format!("{name} as its own predictor"), hint });
        }
        let predictor = by_name(&options.predictor, options)?;
        Ok(Box::new(PredictorCorrector { predictor, snr: options.snr, corrections: options.corrections }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softdiff_engine::Hint;

    #[test]
    fn every_name_makes_the_sampler_of_that_name() {
        let options = Options::default();
        for name in names() {
            assert_eq!(by_name(name, &options).unwrap().name(), name);
        }
    }

    #[test]
    fn a_slip_in_a_name_is_mended() {
        let error = by_name("momentun", &Options::default()).err().unwrap();
        assert!(error.to_string().contains("'momentun'"), "{error}");
        assert!(error.hint().unwrap().contains("did you mean momentum?"), "{error}");
        let own = Options { predictor: "predictor-corrector".to_owned(), ..Options::default() };
        assert!(by_name("predictor-corrector", &own).is_err());
    }
}
