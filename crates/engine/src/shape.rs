//! Static shapes, row-major; images are NHWC.

use std::fmt;
use std::ops::Deref;

/// Sizes of a tensor's dimensions, outermost first. A scalar has none.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct TensorShape(Vec<usize>);

impl TensorShape {
    /// Number of elements, or `None` when it does not fit a `usize`.
    pub fn checked_len(&self) -> Option<usize> {
        self.0.iter().try_fold(1usize, |product, &size| product.checked_mul(size))
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.0.iter().product()
    }

    /// The sizes as an array, when there are exactly `N` of them.
    pub fn dims<const N: usize>(&self) -> Option<[usize; N]> {
        self.0.as_slice().try_into().ok()
    }

    /// The sizes of a shape whose dimensions were checked when its node was added.
    pub(crate) fn known<const N: usize>(&self) -> [usize; N] {
        self.dims().expect("dimensions were checked when the node was added")
    }

    /// The last dimension: the channels of an image, the width of a row; 1 for a scalar.
    pub(crate) fn channels(&self) -> usize {
        self.0.last().copied().unwrap_or(1)
    }

    /// Elements per step of each dimension in row-major order.
    pub fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1; self.0.len()];
        for axis in (1..self.0.len()).rev() {
            strides[axis - 1] = strides[axis] * self.0[axis];
        }
        strides
    }
}

impl Deref for TensorShape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl<const N: usize> From<[usize; N]> for TensorShape {
    fn from(sizes: [usize; N]) -> Self {
        TensorShape(sizes.to_vec())
    }
}

impl From<&[usize]> for TensorShape {
    fn from(sizes: &[usize]) -> Self {
        TensorShape(sizes.to_vec())
    }
}

impl From<Vec<usize>> for TensorShape {
    fn from(sizes: Vec<usize>) -> Self {
        TensorShape(sizes)
    }
}

impl fmt::Display for TensorShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl fmt::Debug for TensorShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
