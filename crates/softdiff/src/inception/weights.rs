//! The weights: read from either published form, checked, and folded.

use super::InceptionError;
use super::names::pytorch_name;
use crate::data::named::FID_INCEPTION;
use crate::import::torch::TorchFile;
use crate::import::{ImportError, read_file};
use rayon::prelude::*;
use safetensors::{Dtype, SafeTensors};
use softdiff_engine::hash::ContentHash;
use softdiff_engine::op::Align;
use softdiff_engine::ranks::Ranks;
use softdiff_engine::{Graph, Hint, Params};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Added to the variance before its root is taken.
const EPSILON: f64 = 1e-3;
/// What every name begins with in the safetensors file.
pub(super) const PREFIX: &str = "net.layers.";
/// [`Inception::hash`] of the published weights, as the file whose sha256 begins with 8560f9a1 holds them.
const PUBLISHED: &str = "blake3:d9a1ba424f4321e37af405cee56b5bd1";
/// The same in statistics files of versions before BLAKE3.
const PUBLISHED_BEFORE: &str = "fnv1a64:34437ac2905c5ea9";

/// The weights of the network, batch norms folded into convolutions.
#[derive(Clone)]
pub struct Inception {
    pub(super) params: Params<f32>,
    hash: ContentHash,
}

/// A tensor of a file: its shape and its values.
type ShapedTensor = (Vec<usize>, Vec<f32>);

/// The four tensors of a unit.
struct RawUnit {
    weight: ShapedTensor,
    beta: ShapedTensor,
    mean: ShapedTensor,
    variance: ShapedTensor,
}

impl Inception {
    /// The file of the weights: the one given, else the one that the environment variable `SOFTDIFF_INCEPTION` names (empty, it
    /// says that there is none), else the one that was fetched into the data folder.
    pub fn file(given: Option<PathBuf>) -> Option<PathBuf> {
        given.or_else(|| match std::env::var_os("SOFTDIFF_INCEPTION") {
            Some(file) => Some(PathBuf::from(file)).filter(|file| !file.as_os_str().is_empty()),
            None => FID_INCEPTION.located(),
        })
    }

    /// Reads `inception-2015-12-05.safetensors` or pytorch-fid's `.pth`; the weights come out the same.
    pub fn read(path: &Path) -> Result<Inception, InceptionError> {
        if !path.exists() {
            return Err(InceptionError::Missing { path: path.into() });
        }
        let torch = |source| InceptionError::Torch { path: path.into(), source };
        let bytes = read_file(path).map_err(torch)?;
        let is_torch = bytes.starts_with(b"PK") || bytes.starts_with(b"\x80\x02");
        let tensors = if is_torch {
            from_torch(&bytes).map_err(torch)?
        } else {
            from_safetensors(&bytes).map_err(|reason| InceptionError::Unreadable { path: path.into(), reason })?
        };
        Self::from_tensors(tensors).map_err(|reason| InceptionError::WrongNetwork { path: path.into(), reason })
    }

    /// Rank 0's network, if it has one, on every rank.
    pub fn of_first(own: Option<Inception>, ranks: &Ranks) -> Result<Option<Inception>, InceptionError> {
        if ranks.others().is_none() {
            return Ok(own);
        }
        let hash = own.as_ref().map_or(vec![], |network| network.hash.bytes().to_vec());
        let Ok(hash) = ranks.broadcast(hash)?.try_into() else { return Ok(None) };
        let mut params = match own {
            Some(network) => network.params,
            None => Params::zeros(&graph()?),
        };
        for index in 0..params.specs().len() {
            ranks.broadcast_values(params.value_mut(index))?;
        }
        Ok(Some(Inception { params, hash: ContentHash::from_bytes(hash) }))
    }

    fn from_tensors(mut tensors: HashMap<String, ShapedTensor>) -> Result<Inception, String> {
        let mut params = Params::zeros(&graph().map_err(|e| e.in_full())?);
        let mut hashes = Vec::new();
        let specs = params.specs().to_vec();
        for spec in specs.iter().filter(|spec| spec.name.ends_with(".weight")) {
            let name = spec.name.trim_end_matches(".weight");
            let raw = RawUnit::take(&mut tensors, name)?;
            hashes.push(raw.hash());
            let shape = &spec.shape;
            let (weight, bias) = raw.folded([shape[0], shape[3], shape[1], shape[2]], name)?;
            params.set(&spec.name, shape, &weight).map_err(|e| e.in_full())?;
            params.set(&format!("{name}.bias"), &[shape[0]].into(), &bias).map_err(|e| e.in_full())?;
        }
        // Without the head, of which files may or may not have a part, nothing should be left.
        if let Some(name) = tensors.keys().find(|name| !name.starts_with("fc.")) {
            return Err(format!("it has a tensor {name} that the network does not have"));
        }
        Ok(Inception { params, hash: ContentHash::of_parts(hashes) })
    }

    /// A hash of all weights before folding, the same for every form of file.
    pub fn hash(&self) -> ContentHash {
        self.hash
    }

    /// Whether these are the published weights, bit for bit.
    pub fn is_published(&self) -> bool {
        self.hash.to_string() == PUBLISHED
    }

    /// Whether the text of a hash in a file, also one of an older version, is that of these weights.
    pub fn is_named(&self, hash: &str) -> bool {
        hash == self.hash.to_string() || (self.is_published() && hash == PUBLISHED_BEFORE)
    }
}

/// The network for images that have the size of its input.
pub(super) fn graph() -> Result<Graph, softdiff_engine::Error> {
    let mut g = Graph::new();
    let x = g.input("pictures", [1, super::SIDE, super::SIDE, 3])?;
    super::graph::features(&mut g, x, Align::HalfPixel)?;
    Ok(g)
}

impl RawUnit {
    fn take(tensors: &mut HashMap<String, ShapedTensor>, unit: &str) -> Result<RawUnit, String> {
        let theirs = pytorch_name(unit).unwrap_or_default();
        let mut find = |ours: &str, pytorch: &str| {
            let names = [format!("{PREFIX}{unit}.{ours}"), format!("{theirs}.{pytorch}")];
            let found = names.iter().find_map(|name| tensors.remove(name));
            found.ok_or_else(|| format!("it has neither {} nor {}", names[0], names[1]))
        };
        let raw = RawUnit {
            weight: find("weight", "conv.weight")?,
            beta: find("beta", "bn.bias")?,
            mean: find("mean", "bn.running_mean")?,
            variance: find("var", "bn.running_var")?,
        };
        // pytorch-fid stores a gain, all ones, and a counter.
        if let Some((_, gain)) = tensors.remove(&format!("{theirs}.bn.weight"))
            && gain.iter().any(|&gain| gain != 1.0)
        {
            return Err(format!("the batch norm of {theirs} has gains other than 1"));
        }
        tensors.remove(&format!("{theirs}.bn.num_batches_tracked"));
        Ok(raw)
    }

    fn hash(&self) -> ContentHash {
        let one = |tensor: &ShapedTensor| {
            ContentHash::of(&tensor.1.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
        };
        let parts = [&self.weight, &self.beta, &self.mean, &self.variance];
        ContentHash::of_parts(parts.into_par_iter().map(one).collect::<Vec<_>>())
    }

    /// `w / sqrt(v + e)` as [k, r, s, c], and `beta - mean / sqrt(v + e)`.
    fn folded(&self, [k, c, r, s]: [usize; 4], unit: &str) -> Result<(Vec<f32>, Vec<f32>), String> {
        if self.weight.0 != [k, c, r, s] {
            return Err(format!("the weight of {unit} has shape {:?}, expected {:?}", self.weight.0, [k, c, r, s]));
        }
        for (name, (shape, _)) in [("beta", &self.beta), ("mean", &self.mean), ("variance", &self.variance)] {
            if *shape != [k] {
                return Err(format!("the {name} of {unit} has shape {shape:?}, expected [{k}]"));
            }
        }
        let gains: Vec<f64> = self.variance.1.iter().map(|&v| 1.0 / (f64::from(v) + EPSILON).sqrt()).collect();
        let mut weight = vec![0.0; k * r * s * c];
        for (index, &value) in self.weight.1.iter().enumerate() {
            let (pixel, channel, filter) = (index % (r * s), index / (r * s) % c, index / (r * s * c));
            weight[(filter * r * s + pixel) * c + channel] = (f64::from(value) * gains[filter]) as f32;
        }
        let bias = (0..k).map(|i| (f64::from(self.beta.1[i]) - f64::from(self.mean.1[i]) * gains[i]) as f32);
        Ok((weight, bias.collect()))
    }
}

fn from_safetensors(bytes: &[u8]) -> Result<HashMap<String, ShapedTensor>, String> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| format!("not a safetensors file ({error})"))?;
    let read = |(name, view): (String, safetensors::tensor::TensorView)| match view.dtype() {
        Dtype::F32 => {
            let values = view.data().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
            Ok((name, (view.shape().to_vec(), values)))
        }
        other => Err(format!("its tensor {name} is stored as {other:?}, expected F32")),
    };
    file.tensors().into_iter().map(read).collect()
}

fn from_torch(bytes: &[u8]) -> Result<HashMap<String, ShapedTensor>, ImportError> {
    let file = TorchFile::open_any(bytes)?;
    let mut tensors = HashMap::new();
    for entry in file.root().entries()? {
        let (name, node) = entry?;
        // The head is as large as it is useless here.
        if !name.starts_with("fc.") {
            let tensor = file.tensor(&node)?;
            tensors.insert(name.to_string(), (tensor.shape, tensor.data.into_f32()));
        }
    }
    Ok(tensors)
}
