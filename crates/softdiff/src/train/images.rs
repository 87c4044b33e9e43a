//! Images made with the weights of the moment: previews and scores.

use crate::model::{Generation, Generator, Predictor};
use crate::sampler::SamplerError;
use softdiff_engine::Device;
use softdiff_engine::Precision;

/// A generator that is built with the first weights and given the next ones.
#[derive(Default)]
pub(super) struct CurrentGenerator(Option<Generator>);

impl CurrentGenerator {
    /// The generator with the weights of `predictor`; all else must be as it was the first time.
    pub fn with(
        &mut self,
        device: &Device,
        predictor: Predictor<'_>,
        generation: &Generation<'_>,
        precision: Precision,
    ) -> Result<&mut Generator, SamplerError> {
        Ok(match &mut self.0 {
            Some(generator) => {
                generator.set_params(predictor.params)?;
                generator
            }
            none => none.insert(Generator::new(device, predictor, generation, precision)?),
        })
    }
}
