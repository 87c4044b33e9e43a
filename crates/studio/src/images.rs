//! Images to work on: a few of the embedded Fashion-MNIST, and what was uploaded, in memory only.

use super::problem::HttpProblem;
use super::routes::too_many_uploads;
use super::server::PATIENCE;
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use softdiff::data::{DataError, LoadOptions, Source};
use softdiff::image::{Format, Picture, decode, png, resize};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Embedded images on offer.
const SAMPLES: usize = 12;
/// Longest side of an image to work on; larger ones are made smaller.
const LONGEST_SIDE: usize = 256;
/// Uploads kept; the oldest goes first.
const KEPT: usize = 16;
/// Images that are decoded at the same time, each of up to 256 MiB.
const DECODING: usize = 2;

/// The embedded images, and the last uploads.
pub struct UploadedImages {
    samples: Vec<Arc<Picture>>,
    uploads: Mutex<Uploads>,
    decoding: Semaphore,
}

#[derive(Default)]
struct Uploads {
    count: u64,
    kept: VecDeque<(String, Arc<Picture>)>,
}

impl UploadedImages {
    /// Loads the embedded images.
    pub fn new() -> Result<UploadedImages, DataError> {
        let options = LoadOptions { limit: Some(SAMPLES), ..LoadOptions::default() };
        let set = Source::open(Path::new("embedded:fashion-mnist"))?.load(&options, &|_, _| {})?;
        let (height, width, channels) = (set.height(), set.width(), set.channels());
        let picture = |pixels: &[u8]| Arc::new(Picture { width, height, channels, pixels: pixels.to_vec() });
        let samples = set.pixels().chunks_exact(height * width * channels).map(picture).collect();
        Ok(UploadedImages { samples, uploads: Mutex::default(), decoding: Semaphore::new(DECODING) })
    }

    /// `pictures` of `/api/start`: identifier and PNG of each embedded image.
    pub fn offered(&self) -> Value {
        let one = |(index, picture): (usize, &Arc<Picture>)| json!({ "id": format!("sample-{index}"), "png": shown(picture) });
        self.samples.iter().enumerate().map(one).collect()
    }

    /// The embedded or uploaded image of that identifier.
    pub fn get(&self, id: &str) -> Result<Arc<Picture>, HttpProblem> {
        let sample = id.strip_prefix("sample-").and_then(|index| index.parse::<usize>().ok());
        if let Some(picture) = sample.and_then(|index| self.samples.get(index)) {
            return Ok(picture.clone());
        }
        let uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        let found = uploads.kept.iter().find(|(name, _)| name == id).map(|(_, picture)| picture.clone());
        found.ok_or_else(|| HttpProblem::missing("this image is not here any more", "upload it again"))
    }

    /// `POST /api/pictures`: decodes a PNG, JPEG or WebP file and keeps the image.
    pub fn upload(&self, bytes: &[u8]) -> Result<Value, HttpProblem> {
        let refuse = |problem: String| HttpProblem::refused(problem, "give a PNG, JPEG or WebP file");
        if !matches!(Format::recognise(bytes), Some(Format::Png | Format::Jpeg | Format::WebP)) {
            return Err(refuse("this is not an image of a known kind".into()));
        }
        let picture = {
            let turn = timeout(PATIENCE, self.decoding.acquire());
            let _turn = Handle::current().block_on(turn).map_err(|_| too_many_uploads())?;
            decode(bytes).map_err(|error| refuse(error.to_string()))?
        };
        let picture = Arc::new(shrunk(&picture));
        let mut uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        uploads.count += 1;
        let id = format!("upload-{}", uploads.count);
        uploads.kept.push_back((id.clone(), picture.clone()));
        if uploads.kept.len() > KEPT {
            uploads.kept.pop_front();
        }
        Ok(json!({ "id": id, "width": picture.width, "height": picture.height, "png": shown(&picture) }))
    }
}

/// The image with its longest side within the limit.
fn shrunk(picture: &Picture) -> Picture {
    let longest = picture.width.max(picture.height);
    if longest <= LONGEST_SIDE {
        return picture.clone();
    }
    let side = |side: usize| (side * LONGEST_SIDE / longest).max(1);
    resize::bilinear(picture, side(picture.width), side(picture.height))
}

/// An image as PNG in base64, as the page takes it.
pub fn shown(picture: &Picture) -> String {
    BASE64_STANDARD.encode(png::encode_quickly(picture.width, picture.height, picture.channels, &picture.pixels))
}
