//! Where the elements of a tensor lie in its storage: element (i, j, …) at offset + i·stride₀ + j·stride₁ + …

use crate::import::ImportError;
use crate::import::pickle::PickleNode;
use softdiff_data::quote::quote;
use std::borrow::Cow;

/// The most axes a tensor may have.
const MAX_AXES: usize = 8;

/// Offset, sizes and strides in elements.
pub struct TensorLayout {
    offset: u64,
    shape: Vec<u64>,
    stride: Vec<u64>,
    count: u64,
}

impl TensorLayout {
    /// Reads the three arguments of a tensor; the number of elements fits in 64 bits.
    pub fn read(offset: &PickleNode, size: &PickleNode, stride: &PickleNode) -> Result<TensorLayout, ImportError> {
        let offset = natural(offset, "an offset of at least 0")?;
        let shape = naturals(size, "a size of at least 0")?;
        let stride = naturals(stride, "a stride of at least 0")?;
        if shape.len() != stride.len() {
            return Err(count(size, format!("{}, one for each stride", stride.len()), shape.len()));
        }
        // Axes of size 0 count as 1 here, so that no product over a part of the axes can overflow later.
        let overflow = || ImportError::TensorOverflow { place: size.place(), what: "the number of elements" };
        let product = shape.iter().try_fold(1u64, |product, &axis| product.checked_mul(axis.max(1)));
        let product = product.filter(|&product| usize::try_from(product).is_ok()).ok_or_else(overflow)?;
        let count = if shape.contains(&0) { 0 } else { product };
        Ok(TensorLayout { offset, shape, stride, count })
    }

    /// How many elements the tensor has.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sizes alone.
    pub fn into_shape(self) -> Vec<usize> {
        // `read` has seen that they fit.
        self.shape.into_iter().map(|axis| axis as usize).collect()
    }

    /// Whether the last element lies inside a storage of so many elements.
    pub fn check(&self, elements: u64, key: &str, place: &str) -> Result<(), ImportError> {
        if self.count == 0 {
            return Ok(());
        }
        let last = self.shape.iter().zip(&self.stride).try_fold(self.offset, |last, (&axis, &stride)| {
            (axis - 1).checked_mul(stride).and_then(|reach| last.checked_add(reach))
        });
        match last {
            Some(last) if last < elements => Ok(()),
            Some(last) => Err(ImportError::TensorRange { place: place.into(), key: quote(key), last, elements }),
            None => Err(ImportError::TensorOverflow { place: place.into(), what: "the last offset" }),
        }
    }

    /// The tensor's bytes in row-major order, copied only if they are not so already. Call [`TensorLayout::check`] before.
    pub fn gather<'b>(&self, storage: &'b [u8], width: usize) -> Cow<'b, [u8]> {
        let bytes = |element: u64, count: u64| {
            let start = element as usize * width;
            storage.get(start..start + count as usize * width).unwrap_or_default()
        };
        if self.count == 0 || self.is_contiguous() {
            return Cow::Borrowed(if self.count == 0 { &[] } else { bytes(self.offset, self.count) });
        }
        let mut gathered = Vec::with_capacity(self.count as usize * width);
        let mut index = vec![0; self.shape.len()];
        for _ in 0..self.count {
            let element = index.iter().zip(&self.stride).fold(self.offset, |sum, (i, stride)| sum + i * stride);
            gathered.extend_from_slice(bytes(element, 1));
            self.advance(&mut index);
        }
        Cow::Owned(gathered)
    }

    /// The next index in row-major order.
    fn advance(&self, index: &mut [u64]) {
        for (i, &axis) in index.iter_mut().zip(&self.shape).rev() {
            *i += 1;
            if *i < axis {
                return;
            }
            *i = 0;
        }
    }

    fn is_contiguous(&self) -> bool {
        let mut packed = 1;
        self.shape.iter().zip(&self.stride).rev().all(|(&axis, &stride)| {
            let fits = axis == 1 || stride == packed;
            packed *= axis;
            fits
        })
    }
}

fn naturals(node: &PickleNode, expected: &'static str) -> Result<Vec<u64>, ImportError> {
    let items = node.items()?;
    if items.len() > MAX_AXES {
        return Err(count(node, format!("at most {MAX_AXES} axes"), items.len()));
    }
    items.map(|item| natural(&item, expected)).collect()
}

fn natural(node: &PickleNode, expected: &'static str) -> Result<u64, ImportError> {
    let value = node.integer()?;
    let out_of_range = |_| ImportError::OutOfRange { place: node.place(), value: value as f64, expected };
    u64::try_from(value).map_err(out_of_range)
}

fn count(node: &PickleNode, expected: String, found: usize) -> ImportError {
    ImportError::Count { place: node.place(), expected, found }
}
