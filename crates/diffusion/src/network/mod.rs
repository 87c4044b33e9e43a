//! Networks: the trait that training and sampling know, and NCSN++ (Song et al., 2021), which the paper uses "without any
//! changes".

mod blocks;
mod config;
mod correspondence;
mod guided;
mod official;
mod unet;

pub use blocks::{Builder, Resampling};
pub use config::{ConfigError, Embedding, Normalisation, TimeInput, UNetConfig};
pub use correspondence::{Correspondence, OfficialWeights, WeightLayout};
pub use guided::Guided;
pub use official::UnknownNetwork;
pub use unet::{UNet, unet};

use crate::corruption::Shape;
use softdiff_engine::{Graph, Result, Var};

/// A network F(x_t, t) as operations of a graph. Its parameters are those that [`Network::emit`] adds by
/// [`Graph::param`], known by their names.
pub trait Network: Send + Sync {
    /// Adds the network: from images `x [n, height, width, channels]` and one number per image, `t [n]`, to an output of
    /// the images' shape. `training` switches dropout on.
    fn emit(&self, graph: &mut Graph, x: Var, t: Var, training: bool) -> Result<Var>;

    /// The images it is for; none if it takes any.
    fn shape(&self) -> Option<Shape> {
        None
    }

    /// From the time to what the network is conditioned on; by default the time itself.
    fn condition_on_time(&self, _graph: &mut Graph, t: Var) -> Result<Var> {
        Ok(t)
    }

    /// Whether `x` has one more channel, the mask of the corruption (choice A19).
    fn has_mask_channel(&self) -> bool {
        false
    }

    /// Evaluations of a network that one run of the graph is.
    fn evaluations(&self) -> u64 {
        1
    }

    /// The network's parts where it is a U-Net of NCSN++ blocks, whose parameters score_sde has names for.
    fn as_unet(&self) -> Option<&UNetConfig> {
        None
    }
}

impl dyn Network + '_ {
    /// The input of [`Network::emit`]: the images, and the mask `[n or 1, height, width, 1]` as their last channel where the
    /// network takes one.
    pub fn input(&self, graph: &mut Graph, x: Var, mask: impl FnOnce(&mut Graph) -> Result<Var>) -> Result<Var> {
        if !self.has_mask_channel() {
            return Ok(x);
        }
        let mask = mask(graph)?;
        let every = graph.constant([graph.shape(x)[0], 1, 1, 1], vec![0.0; graph.shape(x)[0]])?;
        let mask = graph.add(mask, every)?;
        graph.concat(&[x, mask])
    }
}

impl Network for UNetConfig {
    fn emit(&self, graph: &mut Graph, x: Var, t: Var, training: bool) -> Result<Var> {
        Ok(unet(graph, self, x, t, training)?.output)
    }

    fn shape(&self) -> Option<Shape> {
        Some(Shape::new(self.image_size, self.image_size, self.image_channels))
    }

    fn condition_on_time(&self, graph: &mut Graph, t: Var) -> Result<Var> {
        UNetConfig::condition_on_time(self, graph, t)
    }

    fn has_mask_channel(&self) -> bool {
        self.mask_channel
    }

    fn as_unet(&self) -> Option<&UNetConfig> {
        Some(self)
    }
}
