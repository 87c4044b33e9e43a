//! NumPy arrays by hand.

/// An array of version 1 with any dtype, shape and data.
pub fn npy(dtype: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    with_header(&format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n"), data)
}

pub fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data].concat()
}
