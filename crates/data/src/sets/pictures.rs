//! What every kind of source is once it is open: images by number.

use super::FileError;
use crate::image::{self, Picture};
use serde_json::Value;
use softdiff_engine::shared_bytes::SharedBytes;

/// What is done with the EXIF orientation of images that note one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exif {
    /// They are turned upright.
    #[default]
    Apply,
    /// They are taken as they are stored.
    Ignore,
}

impl Exif {
    /// Decodes an image file.
    pub(super) fn decode(self, bytes: &[u8]) -> Result<Picture, FileError> {
        Ok(match self {
            Exif::Apply => image::decode(bytes)?,
            Exif::Ignore => image::decode_as_stored(bytes)?,
        })
    }
}

/// Images by number, readable from several threads at once.
pub trait Pictures: Send + Sync {
    /// How many there are.
    fn len(&self) -> usize;

    /// The file or entry an image comes from, for messages.
    fn name(&self, index: usize) -> String;

    /// The class of an image, where the source knows it.
    fn label(&self, index: usize) -> Option<u32>;

    /// Decodes one picture; of formats that note an EXIF orientation, as `exif` says.
    fn read(&self, index: usize, exif: Exif) -> Result<Picture, FileError>;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All images, where they lie decoded one after the other.
    fn stored(&self) -> Option<StoredPictures> {
        None
    }

    /// Lets the system take back what was read of a mapped file.
    fn release(&self) {}
}

/// Decoded images of one size, one after the other (NHWC).
pub struct StoredPictures {
    /// Rows, pixels of a row, and channels of an image.
    pub shape: [usize; 3],
    /// Their samples.
    pub pixels: SharedBytes,
}

/// What opening a source finds.
pub struct Opened {
    /// What the source is, in words.
    pub format: &'static str,
    /// Its images.
    pub pictures: Box<dyn Pictures>,
    /// The names of the classes, by label.
    pub classes: Vec<String>,
    /// Files that are no images.
    pub ignored: usize,
    /// Where the images come from, where the file says so.
    pub origin: Option<Value>,
}

/// Images of one size already decoded, one after the other (NHWC).
pub struct Raw {
    pub name: String,
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    pub pixels: SharedBytes,
    pub labels: Option<Vec<u32>>,
}

impl Raw {
    fn size(&self) -> usize {
        self.height * self.width * self.channels
    }
}

impl Pictures for Raw {
    fn len(&self) -> usize {
        self.pixels.len().checked_div(self.size()).unwrap_or(0)
    }

    fn name(&self, index: usize) -> String {
        format!("{}[{index}]", self.name)
    }

    fn label(&self, index: usize) -> Option<u32> {
        self.labels.as_ref()?.get(index).copied()
    }

    fn read(&self, index: usize, _: Exif) -> Result<Picture, FileError> {
        let pixels = self.pixels[index * self.size()..][..self.size()].to_vec();
        Ok(Picture { width: self.width, height: self.height, channels: self.channels, pixels })
    }

    fn stored(&self) -> Option<StoredPictures> {
        let pixels = self.pixels.slice(0..self.len() * self.size())?;
        Some(StoredPictures { shape: [self.height, self.width, self.channels], pixels })
    }

    fn release(&self) {
        self.pixels.release();
    }
}

/// Several sources, one after the other.
pub struct Chain(pub Vec<Box<dyn Pictures>>);

impl Chain {
    fn find(&self, mut index: usize) -> Option<(&dyn Pictures, usize)> {
        for part in &self.0 {
            if index < part.len() {
                return Some((part.as_ref(), index));
            }
            index -= part.len();
        }
        None
    }
}

impl Pictures for Chain {
    fn len(&self) -> usize {
        self.0.iter().map(|part| part.len()).sum()
    }

    fn name(&self, index: usize) -> String {
        let (part, index) = self.find(index).expect("an index below the length");
        part.name(index)
    }

    fn label(&self, index: usize) -> Option<u32> {
        self.find(index).and_then(|(part, index)| part.label(index))
    }

    fn read(&self, index: usize, exif: Exif) -> Result<Picture, FileError> {
        match self.find(index) {
            Some((part, index)) => part.read(index, exif),
            None => Err(FileError::damaged("data set", format!("there is no image {index}"))),
        }
    }

    fn stored(&self) -> Option<StoredPictures> {
        match self.0.as_slice() {
            [only] => only.stored(),
            _ => None,
        }
    }

    fn release(&self) {
        self.0.iter().for_each(|part| part.release());
    }
}
