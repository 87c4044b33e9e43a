//! Samplers by the names that recipes and the command line use.

use super::*;

/// The names, those of the paper first.
pub const NAMES: [&str; 15] = [
    "naive",
    "momentum",
    "flow-momentum",
    "ddim-form",
    "churn",
    "churn-rate",
    "heun",
    "multistep",
    "dormand-prince",
    "predictor-corrector",
    "reverse-diffusion",
    "euler-maruyama",
    "ancestral",
    "ddim",
    "ihdm",
];

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

/// Whether a sampler works only where `C = alpha I` (VE, VP, sub-VP).
pub fn needs_scale(name: &str) -> bool {
    matches!(name, "reverse-diffusion" | "euler-maruyama" | "ancestral" | "ddim")
}

/// Whether a sampler steps with one-step predictions, and so with nothing else.
pub fn needs_one_step(name: &str) -> bool {
    name == "ihdm"
}

/// The sampler of that name with its options.
pub fn by_name(name: &str, options: &Options) -> Result<Box<dyn Sampler>> {
    let unknown = || SamplerError::Unknown { name: name.to_owned(), hint: softdiff_engine::suggest::hint(name, NAMES) };
    Ok(match name {
        "naive" => Box::new(Naive),
        "momentum" => Box::new(Momentum),
        "flow-momentum" => Box::new(FlowMomentum),
        "ddim-form" => Box::new(Churn::deterministic()),
        "churn" => Box::new(Churn { s_noise: options.s_noise, ..Churn::part(options.churn) }),
        "churn-rate" => Box::new(Churn { s_noise: options.s_noise, ..Churn::rate(options.churn_rate) }),
        "heun" => Box::new(Heun),
        "multistep" => Box::new(Multistep),
        "dormand-prince" => {
            Box::new(DormandPrince { tolerance: Tolerance::of(options.tolerance), together: options.together })
        }
        "predictor-corrector" => {
            // A corrector of a corrected predictor would be one way too many to say the same.
            let known = NAMES.into_iter().filter(|known| *known != name);
            if options.predictor == name {
                let hint = softdiff_engine::suggest::hint("", known);
                return Err(SamplerError::Unknown { name: format!("{name} as its own predictor"), hint });
            }
            let predictor = by_name(&options.predictor, options)?;
            Box::new(PredictorCorrector { predictor, snr: options.snr, corrections: options.corrections })
        }
        "reverse-diffusion" => Box::new(ReverseDiffusion),
        "euler-maruyama" => Box::new(EulerMaruyama),
        "ancestral" => Box::new(Ancestral),
        "ddim" => Box::new(Ddim { eta: options.eta }),
        "ihdm" => Box::new(Ihdm { s_noise: options.s_noise }),
        _ => return Err(unknown()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_makes_the_sampler_of_that_name() {
        let options = Options::default();
        for name in NAMES {
            assert_eq!(by_name(name, &options).unwrap().name(), name);
        }
        for sampler in general().into_iter().chain(special()) {
            assert!(NAMES.contains(&sampler.name()), "{}", sampler.name());
        }
    }

    #[test]
    fn a_slip_in_a_name_is_mended() {
        let error = by_name("momentun", &Options::default()).err().unwrap().to_string();
        assert!(error.contains("'momentun'") && error.contains("did you mean momentum?"), "{error}");
        let own = Options { predictor: "predictor-corrector".to_owned(), ..Options::default() };
        assert!(by_name("predictor-corrector", &own).is_err());
    }

    #[test]
    fn samplers_for_scales_refuse_a_blur_and_the_others_do_not() {
        let special: Vec<&str> = special().iter().map(|s| s.name()).filter(|n| *n != "predictor-corrector").collect();
        assert!(special.iter().all(|name| needs_scale(name)));
        assert!(general().iter().all(|sampler| !needs_scale(sampler.name())));
    }
}
