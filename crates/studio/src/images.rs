//! Images to work on: a few of the embedded Fashion-MNIST, and what was uploaded, in memory only.

use super::problem::HttpProblem;
use super::routes::too_many_uploads;
use super::server::PATIENCE;
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use softdiff::data::{DataError, LoadOptions, Source};
use softdiff::image::{Format, PhotographFile, Picture, png, resize};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Embedded images on offer.
const SAMPLES: usize = 12;
/// Longest side of an image on the page; photographs are restored as they are.
const LONGEST_SIDE: usize = 256;
/// Uploads kept, and bytes of their pixels; the oldest goes first.
const KEPT: usize = 16;
const KEPT_BYTES: usize = 256 << 20;
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
    kept: VecDeque<Upload>,
}

struct Upload {
    id: String,
    small: Arc<Picture>,
    file: Arc<PhotographFile>,
}

impl Uploads {
    fn keep(&mut self, file: PhotographFile, small: Arc<Picture>) -> String {
        self.count += 1;
        let id = format!("upload-{}", self.count);
        self.kept.push_back(Upload { id: id.clone(), small, file: Arc::new(file) });
        let bytes = |kept: &VecDeque<Upload>| kept.iter().map(|one| one.file.picture.pixels.len()).sum::<usize>();
        while self.kept.len() > KEPT || self.kept.len() > 1 && bytes(&self.kept) > KEPT_BYTES {
            self.kept.pop_front();
        }
        id
    }

    fn find(&self, id: &str) -> Result<&Upload, HttpProblem> {
        let found = self.kept.iter().find(|upload| upload.id == id);
        found.ok_or_else(|| HttpProblem::missing("this image is not here any more", "upload it again"))
    }
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

    /// The embedded or uploaded image of that identifier, as the page shows it.
    pub fn get(&self, id: &str) -> Result<Arc<Picture>, HttpProblem> {
        match self.sample(id) {
            Some(picture) => Ok(picture.clone()),
            None => Ok(self.uploads().find(id)?.small.clone()),
        }
    }

    /// The same at its full size, with what else its file says.
    pub fn photograph(&self, id: &str) -> Result<Arc<PhotographFile>, HttpProblem> {
        match self.sample(id) {
            Some(picture) => Ok(Arc::new(PhotographFile::from_picture((**picture).clone()))),
            None => Ok(self.uploads().find(id)?.file.clone()),
        }
    }

    fn sample(&self, id: &str) -> Option<&Arc<Picture>> {
        self.samples.get(id.strip_prefix("sample-")?.parse::<usize>().ok()?)
    }

    fn uploads(&self) -> MutexGuard<'_, Uploads> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `POST /api/pictures`: decodes a PNG, JPEG or WebP file and keeps the image.
    pub fn upload(&self, bytes: &[u8]) -> Result<Value, HttpProblem> {
        let refuse = |problem: String| HttpProblem::refused(problem, "give a PNG, JPEG or WebP file");
        if !matches!(Format::recognise(bytes), Some(Format::Png | Format::Jpeg | Format::WebP)) {
            return Err(refuse("this is not an image of a known kind".into()));
        }
        let file = {
            let turn = timeout(PATIENCE, self.decoding.acquire());
            let _turn = Handle::current().block_on(turn).map_err(|_| too_many_uploads())?;
            PhotographFile::read(bytes).map_err(|error| refuse(error.to_string()))?
        };
        let (width, height, small) = (file.picture.width, file.picture.height, shrunk(&file.picture, LONGEST_SIDE));
        let taken = [small.width, small.height];
        let (png, small) = (shown(&small), Arc::new(small));
        let id = self.uploads().keep(file, small);
        Ok(json!({ "id": id, "width": width, "height": height, "taken": taken, "png": png }))
    }
}

/// The image with its longest side within a limit.
pub fn shrunk(picture: &Picture, longest_side: usize) -> Picture {
    let longest = picture.width.max(picture.height);
    if longest <= longest_side {
        return picture.clone();
    }
    let side = |side: usize| (side * longest_side / longest).max(1);
    resize::bilinear(picture, side(picture.width), side(picture.height))
}

/// An image as PNG in base64, as the page takes it.
pub fn shown(picture: &Picture) -> String {
    BASE64_STANDARD.encode(png::encode_quickly(picture.width, picture.height, picture.channels, &picture.pixels))
}
