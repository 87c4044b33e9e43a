//! Images to work on: a few of the embedded Fashion-MNIST, and what was uploaded, in memory only.

use super::http::{HttpResponse, HttpStatus, PATIENCE};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use softdiff::data::{DataError, LoadOptions, Source};
use softdiff::image::{Format, Picture, decode, png, resize};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Embedded pictures on offer.
const SAMPLES: usize = 12;
/// Longest side of a picture to work on; larger ones are made smaller.
const LONGEST_SIDE: usize = 256;
/// Uploads kept; the oldest goes first.
const KEPT: usize = 16;
/// Pictures that are decoded at the same time, each of up to 256 MiB.
const DECODING: usize = 2;

/// The images of a studio.
pub struct UploadedImages {
    samples: Vec<Arc<Picture>>,
    uploads: Mutex<Uploads>,
    decoding: (Mutex<usize>, Condvar),
}

#[derive(Default)]
struct Uploads {
    count: u64,
    kept: VecDeque<(String, Arc<Picture>)>,
}

impl UploadedImages {
    /// With the embedded ones.
    pub fn new() -> Result<UploadedImages, DataError> {
        let options = LoadOptions { limit: Some(SAMPLES), ..LoadOptions::default() };
        let set = Source::open(Path::new("embedded:fashion-mnist"))?.load(&options, &|_, _| {})?;
        let (height, width, channels) = (set.height(), set.width(), set.channels());
        let picture = |pixels: &[u8]| Arc::new(Picture { width, height, channels, pixels: pixels.to_vec() });
        let samples = set.pixels().chunks_exact(height * width * channels).map(picture).collect();
        Ok(UploadedImages { samples, uploads: Mutex::default(), decoding: Default::default() })
    }

    /// The embedded ones, to choose from.
    pub fn offered(&self) -> Value {
        let one = |(index, picture): (usize, &Arc<Picture>)| json!({ "id": format!("sample-{index}"), "png": shown(picture) });
        self.samples.iter().enumerate().map(one).collect()
    }

    /// The picture of that name.
    pub fn get(&self, id: &str) -> Result<Arc<Picture>, HttpResponse> {
        let sample = id.strip_prefix("sample-").and_then(|index| index.parse::<usize>().ok());
        if let Some(picture) = sample.and_then(|index| self.samples.get(index)) {
            return Ok(picture.clone());
        }
        let uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        let found = uploads.kept.iter().find(|(name, _)| name == id).map(|(_, picture)| picture.clone());
        found.ok_or_else(|| {
            HttpResponse::problem(HttpStatus::Missing, "this picture is not here any more", "upload it again")
        })
    }

    /// Takes an upload: PNG, JPEG or WebP.
    pub fn upload(&self, bytes: &[u8]) -> Result<Value, HttpResponse> {
        let refuse =
            |problem: String| HttpResponse::problem(HttpStatus::Impossible, problem, "give a PNG, JPEG or WebP file");
        if !matches!(Format::recognise(bytes), Some(Format::Png | Format::Jpeg | Format::WebP)) {
            return Err(refuse("this is no picture of a known kind".into()));
        }
        let picture = {
            let _turn = self.take_turn()?;
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

    /// Waits until fewer pictures are being decoded.
    fn take_turn(&self) -> Result<Turn<'_>, HttpResponse> {
        let decoding = self.decoding.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |decoding: &mut usize| *decoding >= DECODING;
        let waited = self.decoding.1.wait_timeout_while(decoding, PATIENCE, full);
        let (mut decoding, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
        if outcome.timed_out() {
            return Err(HttpResponse::problem(
                HttpStatus::TooMany,
                "too many uploads at once",
                "try again in a moment",
            ));
        }
        *decoding += 1;
        Ok(Turn(&self.decoding))
    }
}

/// The right to decode, given back also after a panic.
struct Turn<'a>(&'a (Mutex<usize>, Condvar));

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.1.notify_one();
    }
}

/// The picture with its longest side within the limit.
fn shrunk(picture: &Picture) -> Picture {
    let longest = picture.width.max(picture.height);
    if longest <= LONGEST_SIDE {
        return picture.clone();
    }
    let side = |side: usize| (side * LONGEST_SIDE / longest).max(1);
    resize::bilinear(picture, side(picture.width), side(picture.height))
}

/// A picture for the page.
pub fn shown(picture: &Picture) -> String {
    BASE64_STANDARD.encode(png::encode_quickly(picture.width, picture.height, picture.channels, &picture.pixels))
}
