//! What happened to an image, as it is typed.

use super::{kernel, mask};
use crate::diagnostics::Failure;
use clap::{Args, ValueEnum};
use softdiff::corruption::{Boundary, Direction, Shape, ShrinkFilter};
use softdiff::image::MAX_SIDE;
use softdiff::model::Model;
use softdiff::recipe::CorruptionSection;
use softdiff::restore::{BlurKind, RestoreError, Task};
use std::path::PathBuf;

/// What happened to the image.
#[derive(Args)]
pub struct TaskFlags {
    /// What to undo; without it, what the image and the other flags look like, else the model's own corruption. Photographs with a
    /// clear blur are deblurred, others denoised, or freed of JPEG artefacts.
    #[arg(long, value_enum)]
    task: Option<TaskName>,
    /// Enter the model's path at this time, from 0 to 1: the image is corrupted as the path is there.
    #[arg(long, value_name = "T", allow_negative_numbers = true, conflicts_with_all = ["task", "corruption", "level", "boundary", "vertical", "angle", "kernel", "map", "mask", "factor", "shrunk_by"])]
    time: Option<f64>,
    /// The corruption to undo, if not the model's own.
    #[arg(long, value_enum)]
    corruption: Option<CorruptionName>,
    /// Its strength: pixels of blur or motion; estimated from the image where it can be.
    #[arg(long, allow_negative_numbers = true)]
    level: Option<f64>,
    /// What the blur saw beyond the border; if not given, the mirrored image, or with --degrade what the model's blur sees.
    #[arg(long, value_enum)]
    boundary: Option<BoundaryName>,
    /// Whether motion runs down the image, not across.
    #[arg(long)]
    vertical: bool,
    /// Direction of motion in degrees from the horizontal, counterclockwise.
    #[arg(long, value_name = "DEGREES", allow_negative_numbers = true, conflicts_with = "vertical")]
    angle: Option<f64>,
    /// The kernel of the blur, what a point of light became: a .png image, or a .npy or .json file with rows that sum to 1.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["corruption", "level", "map"])]
    kernel: Option<PathBuf>,
    /// A .json or .safetensors file with the map of --corruption custom.
    #[arg(long, value_name = "FILE", required_if_eq("corruption", "custom"))]
    map: Option<PathBuf>,
    /// An image whose white pixels are missing and to be filled in; dark and transparent ones are known.
    #[arg(long, value_name = "FILE")]
    mask: Option<PathBuf>,
    /// How many times larger a photograph is made to super-resolve, and how many times smaller --degrade makes it; 4 if not given.
    #[arg(long, value_name = "N")]
    factor: Option<usize>,
    /// How the image was made smaller, to super-resolve it [default: bicubic for photographs, else box].
    #[arg(long, value_enum, value_name = "FILTER")]
    shrunk_by: Option<ShrinkFilterName>,
    /// Deviation of the noise in the image, for values from 0 to 1; estimated from the image where it can be.
    #[arg(long, allow_negative_numbers = true)]
    pub noise: Option<f64>,
}

/// What to do.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum TaskName {
    /// Undo a blur.
    Deblur,
    /// Remove noise.
    Denoise,
    /// Remove the artefacts of JPEG compression.
    Jpeg,
    /// Fill in what a mask covers.
    Inpaint,
    /// Make a small image large.
    SuperResolve,
    /// Give colours to a grey image, with a model of one size; that for photographs gives hardly any.
    Colourise,
}

/// What to undo.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum CorruptionName {
    Blur,
    Heat,
    Motion,
    /// A lens out of focus; the level is the radius of its disc.
    Defocus,
    Pixelation,
    Decolourisation,
    Custom,
}

/// Beyond the border.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum BoundaryName {
    /// Black, as in the paper.
    Zero,
    /// The mirrored image, or one much like it: what other programs do.
    Reflect,
    /// The opposite side.
    Periodic,
}

/// How an image was made smaller.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum ShrinkFilterName {
    /// Means over blocks.
    Box,
    /// Bicubic with antialiasing, as Pillow and most programs do.
    Bicubic,
}

impl From<ShrinkFilterName> for ShrinkFilter {
    fn from(name: ShrinkFilterName) -> ShrinkFilter {
        match name {
            ShrinkFilterName::Box => ShrinkFilter::Box,
            ShrinkFilterName::Bicubic => ShrinkFilter::Bicubic,
        }
    }
}

impl From<BoundaryName> for Boundary {
    fn from(name: BoundaryName) -> Boundary {
        match name {
            BoundaryName::Zero => Boundary::Zero,
            BoundaryName::Reflect => Boundary::Reflect,
            BoundaryName::Periodic => Boundary::Periodic,
        }
    }
}

impl TaskFlags {
    /// Whether nothing but noise is to be removed, as the flags say.
    pub fn is_noise(&self) -> bool {
        matches!(self.task, Some(TaskName::Denoise | TaskName::Jpeg))
    }

    /// What to undo in an image of the shape `found`; none where that is to be found out from the pixels of a photograph.
    ///
    /// `quantization` is that of a JPEG file.
    pub fn task(
        &self,
        model: &Model,
        found: Shape,
        quantization: Option<[u16; 64]>,
        degrade: bool,
    ) -> Result<Option<Task>, Failure> {
        let own = model.path.shape();
        let shape = if model.takes_any_size() { found } else { own };
        let known = match &self.mask {
            Some(file) => Some(mask::known(file, shape)?),
            None => None,
        };
        if let Some(t) = self.time {
            return Ok(Some(Task::OnPath { t }));
        }
        let name = self.task.unwrap_or_else(|| match (self.corruption, Task::guess(found, model)) {
            (Some(CorruptionName::Pixelation), _) => TaskName::SuperResolve,
            (Some(CorruptionName::Decolourisation), _) => TaskName::Colourise,
            (Some(_), _) => TaskName::Deblur,
            (None, _) if self.kernel.is_some() => TaskName::Deblur,
            (None, _) if self.mask.is_some() => TaskName::Inpaint,
            (None, Task::SuperResolve { .. }) => TaskName::SuperResolve,
            (None, Task::Colourise) => TaskName::Colourise,
            (None, _) => TaskName::Deblur,
        });
        let any_size = model.takes_any_size();
        self.check(name, model.recipe.path.corruption(), degrade || any_size)?;
        if any_size && !degrade && !self.says_what() {
            return Ok(None);
        }
        if let (true, Some(factor @ (0 | 1 | 5..))) = (any_size, self.factor) {
            let failure = Failure::new(format!("--factor is {factor}"));
            return Err(failure.hint("photographs are super-resolved 2, 3 or 4 times"));
        }
        let larger = found.height.max(found.width) * self.factor.unwrap_or(4);
        if any_size && !degrade && name == TaskName::SuperResolve && larger > MAX_SIDE {
            let failure = Failure::new(format!("the larger image would have a side of {larger} pixels"));
            return Err(
                failure.hint(format!("give a smaller --factor, or a part of the image: {MAX_SIDE} is the limit"))
            );
        }
        Ok(Some(match (name, known) {
            (TaskName::Deblur, _) => Task::Deblur {
                kind: self.blur()?,
                level: self.level,
                boundary: self.boundary.map(Boundary::from),
                direction: self.vertical.then_some(Direction::Vertical),
            },
            (TaskName::Denoise, _) => Task::Denoise,
            (TaskName::Jpeg, _) if degrade => {
                return Err(Failure::new("--degrade cannot compress").hint("give a JPEG file, and --truth to compare"));
            }
            (TaskName::Jpeg, _) if !any_size => {
                let failure =
                    Failure::new(format!("--task jpeg is for photographs, and {} for images of one size", model.name));
                return Err(failure.hint("leave the model out to use the one for photographs"));
            }
            (TaskName::Jpeg, _) => {
                let none = || Failure::new("this is not a JPEG file, so its compression is not known");
                let quantization =
                    quantization.ok_or_else(|| none().hint("give --task denoise and --noise, such as 0.04"))?;
                Task::JpegArtefacts { quantization }
            }
            (TaskName::Inpaint, Some(known)) => Task::Inpaint { known },
            (TaskName::Inpaint, None) => return Err(RestoreError::NoMask.into()),
            (TaskName::SuperResolve, _) => {
                Task::SuperResolve { factor: self.factor, filter: self.shrunk_by.map(ShrinkFilter::from) }
            }
            (TaskName::Colourise, _) => Task::Colourise,
        }))
    }

    /// Whether a flag says what happened to the image.
    fn says_what(&self) -> bool {
        let of_blur = self.corruption.is_some() || self.kernel.is_some() || self.level.is_some();
        self.task.is_some() || of_blur || self.boundary.is_some() || self.mask.is_some()
    }

    /// Which blur, if it was said.
    fn blur(&self) -> Result<Option<BlurKind>, Failure> {
        if let Some(file) = &self.kernel {
            return Ok(Some(BlurKind::Kernel(kernel::read(file)?)));
        }
        Ok(self.corruption.and_then(|name| match name {
            CorruptionName::Blur => Some(BlurKind::Gaussian),
            CorruptionName::Heat => Some(BlurKind::Heat),
            CorruptionName::Motion => Some(self.angle.map_or(BlurKind::Motion, |angle| BlurKind::Shaken { angle })),
            CorruptionName::Defocus => Some(BlurKind::Disc),
            CorruptionName::Custom => {
                Some(BlurKind::Custom(self.map.clone().expect("required with --corruption custom")))
            }
            CorruptionName::Pixelation | CorruptionName::Decolourisation => None,
        }))
    }

    /// Refuses a flag that would change nothing; `own` is the model's corruption. `scaled`: a factor says something.
    fn check(&self, task: TaskName, own: Option<&CorruptionSection>, scaled: bool) -> Result<(), Failure> {
        let deblur = task == TaskName::Deblur;
        let fits = match self.corruption {
            None => true,
            Some(CorruptionName::Pixelation) => task == TaskName::SuperResolve,
            Some(CorruptionName::Decolourisation) => task == TaskName::Colourise,
            Some(_) => deblur,
        };
        let moves = match self.corruption {
            None => own.is_some_and(|own| own.kind() == "motion"),
            kind => kind == Some(CorruptionName::Motion),
        };
        let edged = match self.corruption {
            Some(CorruptionName::Custom) => false,
            Some(CorruptionName::Heat) => self.boundary == Some(BoundaryName::Reflect),
            _ => deblur,
        };
        if let Some(angle) = self.angle.filter(|angle| !(-360.0..=360.0).contains(angle)) {
            return Err(Failure::new(format!("--angle is {angle}")).hint("give degrees from -360 to 360"));
        }
        for (flag, given, used) in [
            ("--corruption", self.corruption.is_some(), fits),
            ("--level", self.level.is_some(), deblur),
            ("--boundary", self.boundary.is_some(), edged),
            ("--vertical", self.vertical, deblur && moves),
            ("--angle", self.angle.is_some(), deblur && self.corruption == Some(CorruptionName::Motion)),
            ("--kernel", self.kernel.is_some(), deblur),
            ("--map", self.map.is_some(), self.corruption == Some(CorruptionName::Custom)),
            ("--mask", self.mask.is_some(), task == TaskName::Inpaint),
            ("--factor", self.factor.is_some(), scaled && task == TaskName::SuperResolve),
            ("--shrunk-by", self.shrunk_by.is_some(), task == TaskName::SuperResolve),
        ] {
            if given && !used {
                let failure = Failure::new(format!("{flag} has no effect on this task and corruption"));
                return Err(failure.hint("leave it out, or give the --task and --corruption it belongs to"));
            }
        }
        Ok(())
    }
}
