//! Images of one size, in memory or in a file that is mapped into it, with their labels.

use super::Skipped;
use rayon::prelude::*;
use softdiff_engine::hash::{self, ContentHash, PartsHasher};
use softdiff_engine::shared_bytes::SharedBytes;

/// Decoded images, 8 bits, one after the other: NHWC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataset {
    height: usize,
    width: usize,
    channels: usize,
    pixels: SharedBytes,
    labels: Option<Vec<u32>>,
    classes: Vec<String>,
    skipped: Vec<Skipped>,
    hash: ContentHash,
}

/// Mean and standard deviation of a channel, in units of full brightness (0 to 1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// The mean.
    pub mean: f64,
    /// The standard deviation over all pixels of all images.
    pub std: f64,
}

impl Dataset {
    /// A data set from its parts.
    ///
    /// # Panics
    /// If the pixels do not fill a whole number of images or the labels are not as many: a mistake of the caller.
    pub fn new(
        height: usize,
        width: usize,
        channels: usize,
        pixels: Vec<u8>,
        labels: Option<Vec<u32>>,
        classes: Vec<String>,
    ) -> Dataset {
        Dataset::of_shared([height, width, channels], pixels.into(), labels, classes)
    }

    /// The same for bytes that may be those of a mapped file.
    pub(super) fn of_shared(
        [height, width, channels]: [usize; 3],
        pixels: SharedBytes,
        labels: Option<Vec<u32>>,
        classes: Vec<String>,
    ) -> Dataset {
        let size = height * width * channels;
        assert!(size > 0 && pixels.len().is_multiple_of(size), "the pixels do not fill the images");
        assert!(labels.as_ref().is_none_or(|labels| labels.len() == pixels.len() / size), "one label for each image");
        let mut dataset = Dataset {
            height,
            width,
            channels,
            pixels,
            labels,
            classes,
            skipped: Vec::new(),
            hash: ContentHash::of(&[]),
        };
        dataset.hash = dataset.content_hash();
        dataset
    }

    pub(super) fn with_skipped(self, skipped: Vec<Skipped>) -> Dataset {
        Dataset { skipped, ..self }
    }

    /// Of the sizes, the labels and each image's own hash; the hash of each image is computed on its own core.
    fn content_hash(&self) -> ContentHash {
        let shape = [self.len(), self.height, self.width, self.channels];
        let mut hasher = DatasetHasher::new(shape, self.labels());
        self.pixels.blocks(self.picture_size()).for_each(|images| hasher.add(images));
        hasher.finish()
    }

    fn sizes_and_labels(&self) -> impl Iterator<Item = u64> {
        sizes_and_labels([self.len(), self.height, self.width, self.channels], self.labels())
    }

    /// The hash that versions before BLAKE3 wrote (FNV-1a, 64 bits), to go on with their runs.
    pub fn old_hash(&self) -> String {
        let hashes: Vec<u64> = self.pixels.par_chunks_exact(self.picture_size()).map(hash::fnv1a64).collect();
        let words = self.sizes_and_labels().chain(hashes);
        hash::fnv1a64_text(hash::fnv1a64(&words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>()))
    }

    /// How many images there are.
    pub fn len(&self) -> usize {
        self.pixels.len() / self.picture_size()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pixels.is_empty()
    }

    /// Rows of an image.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Pixels in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// 1 (grey) or 3 (RGB).
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Samples of one image.
    pub fn picture_size(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// All samples of all images.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The same, to be kept by others.
    pub fn shared_pixels(&self) -> &SharedBytes {
        &self.pixels
    }

    /// The samples of picture `index`.
    ///
    /// # Panics
    /// If there is no such image.
    pub fn picture(&self, index: usize) -> &[u8] {
        &self.pixels[index * self.picture_size()..][..self.picture_size()]
    }

    /// The class of each image, where known.
    pub fn labels(&self) -> Option<&[u32]> {
        self.labels.as_deref()
    }

    /// The names of the classes by label, where known.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// What was left out while loading.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// A hash of the content (sizes, labels, pixels), to recognise the same data again.
    pub fn hash(&self) -> ContentHash {
        self.hash
    }

    /// Mean and standard deviation of each channel.
    pub fn statistics(&self) -> Vec<Statistics> {
        let sums = self.pixels.par_chunks_exact(self.picture_size()).map(|picture| Sums::of(picture, self.channels));
        sums.reduce(Sums::default, Sums::plus).statistics(self.channels)
    }
}

fn sizes_and_labels(shape: [usize; 4], labels: Option<&[u32]>) -> impl Iterator<Item = u64> {
    shape.into_iter().map(|size| size as u64).chain(labels.into_iter().flatten().map(|&label| label.into()))
}

/// [`Dataset::hash`] of images that come a few at a time.
pub(super) struct DatasetHasher {
    picture_size: usize,
    parts: PartsHasher,
}

impl DatasetHasher {
    /// Of so many images, height, width and channels, and the labels of all.
    pub fn new(shape: [usize; 4], labels: Option<&[u32]>) -> DatasetHasher {
        let head: Vec<u8> = sizes_and_labels(shape, labels).flat_map(u64::to_le_bytes).collect();
        let mut parts = PartsHasher::default();
        parts.add(ContentHash::of(&head));
        DatasetHasher { picture_size: shape[1] * shape[2] * shape[3], parts }
    }

    /// The next images, whole ones.
    pub fn add(&mut self, pixels: &[u8]) {
        let hashes: Vec<_> = pixels.par_chunks_exact(self.picture_size).map(ContentHash::of).collect();
        hashes.into_iter().for_each(|hash| self.parts.add(hash));
    }

    pub fn finish(self) -> ContentHash {
        self.parts.finish()
    }
}

/// Exact sums, so that the order of adding cannot matter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    count: u64,
    sum: [u64; 3],
    squares: [u64; 3],
}

impl Sums {
    pub fn of(pixels: &[u8], channels: usize) -> Sums {
        let mut sums = Sums { count: (pixels.len() / channels) as u64, ..Sums::default() };
        for pixel in pixels.chunks_exact(channels) {
            for (channel, &sample) in pixel.iter().enumerate().take(3) {
                sums.sum[channel] += u64::from(sample);
                sums.squares[channel] += u64::from(sample) * u64::from(sample);
            }
        }
        sums
    }

    pub fn plus(self, other: Sums) -> Sums {
        let add = |a: [u64; 3], b: [u64; 3]| [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
        Sums {
            count: self.count + other.count,
            sum: add(self.sum, other.sum),
            squares: add(self.squares, other.squares),
        }
    }

    pub fn statistics(&self, channels: usize) -> Vec<Statistics> {
        let count = self.count.max(1) as f64;
        let channel = |channel: usize| {
            let mean = self.sum[channel] as f64 / count;
            let variance = (self.squares[channel] as f64 / count - mean * mean).max(0.0);
            Statistics { mean: mean / 255.0, std: variance.sqrt() / 255.0 }
        };
        (0..channels.min(3)).map(channel).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_those_of_the_samples() {
        let dataset = Dataset::new(1, 2, 3, vec![0, 51, 255, 255, 51, 255], None, vec![]);
        let [red, green, blue] = dataset.statistics()[..] else { panic!() };
        assert_eq!((red.mean, red.std), (0.5, 0.5));
        assert_eq!((green.mean, green.std), (0.2, 0.0));
        assert_eq!((blue.mean, blue.std), (1.0, 0.0));
    }

    #[test]
    fn the_hash_sees_pixels_sizes_and_labels() {
        let make = |h, w, pixels: &[u8], labels: Option<Vec<u32>>| {
            Dataset::new(h, w, 1, pixels.to_vec(), labels, vec![]).hash()
        };
        let base = make(1, 2, &[1, 2, 3, 4], None);
        assert_eq!(base, make(1, 2, &[1, 2, 3, 4], None));
        let others = [
            make(2, 1, &[1, 2, 3, 4], None),
            make(1, 2, &[1, 2, 4, 3], None),
            make(1, 2, &[1, 2, 3, 4], Some(vec![0, 1])),
        ];
        assert!(others.iter().all(|&other| other != base));
    }

    #[test]
    fn the_hash_of_older_versions_is_still_known() {
        // FNV-1a, 64 bits, of the words 2, 1, 2, 1, the labels, and the hash of each image; computed in Python.
        let dataset = Dataset::new(1, 2, 1, vec![1, 2, 3, 4], Some(vec![0, 1]), vec![]);
        assert_eq!(dataset.old_hash(), "fnv1a64:e622d086122911c9");
    }
}
