//! Images and data sets from files.
//!
//! [`image`] decodes and encodes pictures, [`archive`] reads zip and tar, [`sets`] loads whole data sets. Every reader
//! has a limit for what an untrusted file may make it allocate, and none can panic.
#![forbid(unsafe_code)]

pub mod archive;
pub mod bytes;
pub mod image;
pub mod quote;
pub mod sets;
