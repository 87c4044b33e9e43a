//! Which network an official checkpoint holds: read off the names and shapes of its parameters.

use super::config::ATTENTION_SIDE;
use super::{Embedding, UNetConfig};
use softdiff_engine::Hint;
use std::collections::HashMap;

/// Why a list of parameters is not an NCSN++ that we know.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("not a known NCSN++: {0}")]
pub struct UnknownNetwork(String);

/// What an official module is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfficialModule {
    Fourier,
    Linear { inputs: usize },
    Convolution { channels: usize, filters: usize },
    Residual { filters: usize },
    Attention,
    Pyramid,
    Other,
}

impl UNetConfig {
    /// The network whose parameters have these official names and shapes.
    ///
    /// `image_size` overrides the size that follows from attention at side 16.
    pub fn from_official(
        parameters: &[(&str, &[usize])],
        image_size: Option<usize>,
    ) -> Result<UNetConfig, UnknownNetwork> {
        let shapes: HashMap<&str, &[usize]> = parameters.iter().copied().collect();
        let modules: Vec<OfficialModule> =
            (0..).map(|index| module(&shapes, index)).take_while(|module| *module != OfficialModule::Other).collect();
        let unknown = |problem: &str| UnknownNetwork(problem.into());
        let (embedding, rest) = match &modules[..] {
            [OfficialModule::Fourier, rest @ ..] => (Embedding::Fourier { scale: 16.0 }, rest),
            rest => (Embedding::Positional, rest),
        };
        let [
            OfficialModule::Linear { inputs },
            OfficialModule::Linear { .. },
            OfficialModule::Convolution { channels, filters },
            rest @ ..,
        ] = rest
        else {
            return Err(unknown("it does not begin with a time embedding and a convolution"));
        };
        let width = *filters;
        let expected = if embedding == Embedding::Positional { width } else { 2 * width };
        if *inputs != expected || width == 0 {
            return Err(unknown("the time embedding does not have the width of the first convolution"));
        }
        // Levels end with a pyramid; before it stands the block that halves the image.
        let mut levels: Vec<&[OfficialModule]> = rest.split(|m| *m == OfficialModule::Pyramid).collect();
        let tail = levels.pop().unwrap_or(&[]);
        let count =
            |level: &[OfficialModule]| level.iter().filter(|m| matches!(m, OfficialModule::Residual { .. })).count();
        let blocks = levels.first().map_or(0, |level| count(level)).saturating_sub(1);
        if blocks == 0 || levels.iter().any(|level| count(level) != blocks + 1) {
            return Err(unknown("its levels do not all have the same number of residual blocks"));
        }
        levels.push(tail);
        let mut multipliers = Vec::new();
        for level in &levels {
            match level.first() {
                Some(OfficialModule::Residual { filters }) if filters % width == 0 => multipliers.push(filters / width),
                _ => return Err(unknown("a level does not begin with a residual block")),
            }
        }
        let attends = |level: &&&[OfficialModule]| level.get(1) == Some(&OfficialModule::Attention);
        let attending: Vec<usize> = (0..levels.len()).filter(|&l| attends(&&levels[l])).collect();
        // The weights themselves do not tell the size of the images.
        let size = match (image_size, attending.first()) {
            (Some(size), _) => size,
            (None, Some(level)) => ATTENTION_SIDE << level,
            (None, None) => return Err(unknown("it has no attention, so its image size must be given")),
        };
        let config = UNetConfig {
            image_size: size,
            image_channels: *channels,
            channels: width,
            multipliers,
            blocks,
            attention: attending.iter().map(|level| size >> level).collect(),
            embedding,
            ..UNetConfig::ncsnpp_cifar10()
        };
        config.check().map_err(|error| UnknownNetwork(error.in_full()))?;
        Ok(config)
    }
}

fn module(shapes: &HashMap<&str, &[usize]>, index: usize) -> OfficialModule {
    let shape = |name: &str| shapes.get(format!("all_modules.{index}.{name}").as_str()).copied();
    if let Some([_]) = shape("W") {
        OfficialModule::Fourier
    } else if let Some([filters, ..]) = shape("Conv_0.weight") {
        OfficialModule::Residual { filters: *filters }
    } else if shape("NIN_0.W").is_some() {
        OfficialModule::Attention
    } else if shape("Conv2d_0.weight").is_some() {
        OfficialModule::Pyramid
    } else {
        match shape("weight") {
            Some([_, inputs]) => OfficialModule::Linear { inputs: *inputs },
            Some([filters, channels, _, _]) => OfficialModule::Convolution { channels: *channels, filters: *filters },
            _ => OfficialModule::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn official(config: &UNetConfig) -> Vec<(String, Vec<usize>)> {
        let (_, net) = config.graph(1).unwrap();
        net.correspondence.into_iter().map(|c| (c.official, c.official_shape)).collect()
    }

    fn recognise(parameters: &[(String, Vec<usize>)], size: Option<usize>) -> Result<UNetConfig, UnknownNetwork> {
        let parameters: Vec<_> = parameters.iter().map(|(n, s)| (n.as_str(), s.as_slice())).collect();
        UNetConfig::from_official(&parameters, size)
    }

    #[test]
    fn a_network_is_recognised_from_its_parameters() {
        let tiny = UNetConfig { channels: 8, multipliers: vec![1, 2], blocks: 1, ..UNetConfig::ncsnpp_cifar10() };
        for config in [tiny, UNetConfig::ncsnpp_cifar10(), UNetConfig::ncsnpp_celeba64()] {
            assert_eq!(recognise(&official(&config), None), Ok(config));
        }
    }

    #[test]
    fn other_networks_are_refused_with_the_reason() {
        let mut parameters = official(&UNetConfig::ncsnpp_cifar10());
        parameters.retain(|(name, _)| !name.starts_with("all_modules.5."));
        assert!(recognise(&parameters, None).unwrap_err().to_string().contains("same number of residual blocks"));
        assert!(recognise(&[], None).is_err());
    }
}
