//! Which parameter of score_sde's network is which of ours, and how its numbers lie.

use softdiff_engine::{Error, Params, Result, Scalar, TensorShape};

/// How an official tensor lies in memory, compared with ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightLayout {
    /// The same.
    Same,
    /// Convolution `[out, in, rows, cols]`; ours is `[out, rows, cols, in]`.
    Convolution,
    /// "Network in network" `[in, out]`; ours is a 1x1 convolution `[out, 1, 1, in]`.
    NetworkInNetwork,
}

/// One parameter under both names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correspondence {
    /// Our name.
    pub name: String,
    /// score_sde's name, without `module.`.
    pub official: String,
    /// How the official numbers lie.
    pub layout: WeightLayout,
    /// The official shape.
    pub official_shape: Vec<usize>,
}

/// A source of official tensors: shape and values by official name.
pub trait OfficialWeights<T> {
    /// The tensor named `official`, if there is one.
    fn tensor(&self, official: &str) -> Option<(Vec<usize>, Vec<T>)>;
}

impl<T, F: Fn(&str) -> Option<(Vec<usize>, Vec<T>)>> OfficialWeights<T> for F {
    fn tensor(&self, official: &str) -> Option<(Vec<usize>, Vec<T>)> {
        self(official)
    }
}

impl Correspondence {
    /// Official values in our order.
    pub fn from_official<T: Copy>(&self, values: &[T]) -> Vec<T> {
        match (self.layout, &self.official_shape[..]) {
            (WeightLayout::Convolution, &[_, channels, rows, cols]) => permute(values, channels, rows * cols),
            (WeightLayout::NetworkInNetwork, &[inputs, outputs]) => {
                (0..values.len()).map(|i| values[i % inputs * outputs + i / inputs]).collect()
            }
            _ => values.to_vec(),
        }
    }

    /// Our values in the official order.
    pub fn to_official<T: Copy>(&self, values: &[T]) -> Vec<T> {
        match (self.layout, &self.official_shape[..]) {
            (WeightLayout::Convolution, &[_, channels, rows, cols]) => permute(values, rows * cols, channels),
            (WeightLayout::NetworkInNetwork, &[inputs, outputs]) => {
                (0..values.len()).map(|i| values[i % outputs * inputs + i / outputs]).collect()
            }
            _ => values.to_vec(),
        }
    }

    /// Sets `params` from the official weights.
    pub fn load_all<T: Scalar>(all: &[Self], params: &mut Params<T>, from: &impl OfficialWeights<T>) -> Result<()> {
        for one in all {
            let ours = params.specs().iter().find(|s| s.name == one.name).map(|s| s.shape.clone()).unwrap_or_default();
            let (shape, values) = from
                .tensor(&one.official)
                .ok_or_else(|| Error::MissingParameter { name: one.official.clone(), shape: ours.clone() })?;
            if shape != one.official_shape {
                return Err(Error::ShapeMismatch {
                    kind: "official parameter",
                    name: one.official.clone(),
                    expected: one.official_shape.clone().into(),
                    found: TensorShape::from(shape),
                });
            }
            params.set(&one.name, &ours, &one.from_official(&values))?;
        }
        Ok(())
    }
}

/// `[n, a, b]` to `[n, b, a]`.
fn permute<T: Copy>(values: &[T], a: usize, b: usize) -> Vec<T> {
    values.chunks_exact(a * b).flat_map(|one| (0..a * b).map(|i| one[i % a * b + i / a])).collect()
}
