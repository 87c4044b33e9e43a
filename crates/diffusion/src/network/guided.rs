//! Autoguidance (Karras et al., 2024): a network, guided away from what a weaker one predicts.

use super::Network;
use crate::corruption::Shape;
use softdiff_engine::{Graph, Result, Var};
use std::sync::Arc;

/// `F_guide + factor (F - F_guide)`, for two networks trained on the same path with the same kind of prediction. Every
/// prediction is affine in the output, so x0_hat is combined in the same way.
pub struct Guided {
    /// The network.
    pub network: Arc<dyn Network>,
    /// A weaker one.
    pub guide: Arc<dyn Network>,
    /// How far to go from the weaker towards the stronger one; 1 is the stronger one alone, more goes beyond.
    pub factor: f64,
}

impl Guided {
    /// What the names of the guide's parameters begin with.
    pub const SCOPE: &str = "guide";
}

impl Network for Guided {
    fn emit(&self, graph: &mut Graph, x: Var, t: Var, training: bool) -> Result<Var> {
        let emit = |network: &dyn Network, graph: &mut Graph| {
            let condition = network.condition_on_time(graph, t)?;
            network.emit(graph, x, condition, training)
        };
        let strong = emit(&*self.network, graph)?;
        let weak = graph.scoped(Self::SCOPE, |graph| emit(&*self.guide, graph))?;
        graph.combine(&[(self.factor, strong), (1.0 - self.factor, weak)])
    }

    fn shape(&self) -> Option<Shape> {
        self.network.shape()
    }

    fn has_mask_channel(&self) -> bool {
        self.network.has_mask_channel()
    }

    fn evaluations(&self) -> u64 {
        self.network.evaluations() + self.guide.evaluations()
    }
}
