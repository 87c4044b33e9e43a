//! Linear maps that are computed by code of their own, for images too large for matrices.

use super::Shape;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

/// A linear map on images of one size.
pub trait LinearOperator: Debug + Send + Sync {
    /// One word for messages.
    fn name(&self) -> &'static str;

    /// The images it is for; the number of channels does not matter where it treats them alike.
    fn shape(&self) -> Shape;

    /// The map of one image, or its adjoint; the image has the right size.
    fn run(&self, shape: Shape, x: &[f64], adjoint: bool) -> Vec<f64>;

    /// The gain of each frequency of the cosine basis, row by row, where the map is diagonal in it.
    fn cosine_gains(&self) -> Option<Vec<f64>> {
        None
    }
}

/// An operator that is not copied with the maps that contain it.
#[derive(Clone, Debug)]
pub struct SharedOperator(Arc<dyn LinearOperator>);

impl SharedOperator {
    /// Shares an operator.
    pub fn new(operator: impl LinearOperator + 'static) -> SharedOperator {
        SharedOperator(Arc::new(operator))
    }
}

impl Deref for SharedOperator {
    type Target = dyn LinearOperator;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for SharedOperator {
    /// One and the same.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
