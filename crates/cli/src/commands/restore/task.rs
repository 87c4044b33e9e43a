//! What happened to a picture, as it is typed or asked for by the studio's page.

use crate::commands::pictures;
use crate::diagnostics::Failure;
use clap::{Args, ValueEnum};
use serde::Deserialize;
use softdiff::corruption::{Boundary, Shape};
use softdiff::recipe::CorruptionSection;
use softdiff::restore::POOR_FIT;
use std::path::{Path, PathBuf};

/// What happened to the picture.
#[derive(Args, Default)]
pub struct TaskFlags {
    /// What to undo; without it, what the picture and the other flags look like, else the model's own corruption.
    #[arg(long, value_enum)]
    pub task: Option<Task>,
    /// Enter the model's path at this time, from 0 to 1: the picture is corrupted as the path is there.
    #[arg(long, value_name = "T", allow_negative_numbers = true, conflicts_with_all = ["task", "corruption", "level", "boundary", "vertical", "map", "mask", "factor"])]
    pub time: Option<f64>,
    /// The corruption to undo, if not the model's own.
    #[arg(long, value_enum)]
    pub corruption: Option<Kind>,
    /// Its strength: pixels of blur or motion; estimated from the picture where it can be.
    #[arg(long, allow_negative_numbers = true)]
    pub level: Option<f64>,
    /// What the blur saw beyond the border; if not given, the mirrored image, or with --degrade what the model's blur sees.
    #[arg(long, value_enum)]
    pub boundary: Option<Edge>,
    /// Whether motion runs down the picture, not across.
    #[arg(long)]
    pub vertical: bool,
    /// A .json or .safetensors file with the map of --corruption custom.
    #[arg(long, value_name = "FILE", required_if_eq("corruption", "custom"))]
    pub map: Option<PathBuf>,
    /// A picture whose white pixels are missing and to be filled in.
    #[arg(long, value_name = "FILE")]
    pub mask: Option<PathBuf>,
    /// How many times smaller --degrade makes the picture to super-resolve; 4 if not given.
    #[arg(long, value_name = "N")]
    pub factor: Option<usize>,
    /// Deviation of the noise in the picture, for values from 0 to 1; estimated from the picture where it can be.
    #[arg(long, allow_negative_numbers = true)]
    pub noise: Option<f64>,
}

/// What to do.
#[derive(Clone, Copy, PartialEq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Undo a blur.
    Deblur,
    /// Remove noise.
    Denoise,
    /// Fill in what a mask covers.
    Inpaint,
    /// Make a small picture large.
    SuperResolve,
    /// Give colours to a grey picture.
    Colourise,
}

/// What to undo.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Kind {
    Blur,
    Heat,
    Motion,
    Pixelation,
    Decolourisation,
    Custom,
}

/// Beyond the border.
#[derive(Clone, Copy, PartialEq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Edge {
    /// Black, as in the paper.
    Zero,
    /// The mirrored image, or one much like it: what other programs do.
    Reflect,
    /// The opposite side.
    Periodic,
}

impl From<Edge> for Boundary {
    fn from(edge: Edge) -> Boundary {
        match edge {
            Edge::Zero => Boundary::Zero,
            Edge::Reflect => Boundary::Reflect,
            Edge::Periodic => Boundary::Periodic,
        }
    }
}

impl TaskFlags {
    /// Which pixels are known, where there is a mask.
    pub fn known(&self, shape: Shape) -> Result<Option<Vec<bool>>, Failure> {
        let Some(file) = &self.mask else { return Ok(None) };
        known(&fitting(file, 0, Shape { channels: 1, ..shape })?, &file.display().to_string()).map(Some)
    }

    /// Refuses a flag that would change nothing; `own` is the model's corruption.
    pub fn check(&self, task: Task, own: Option<&CorruptionSection>, degrade: bool) -> Result<(), Failure> {
        let deblur = task == Task::Deblur;
        let fits = match self.corruption {
            None => true,
            Some(Kind::Pixelation) => task == Task::SuperResolve,
            Some(Kind::Decolourisation) => task == Task::Colourise,
            Some(_) => deblur,
        };
        let moves = match self.corruption {
            None => own.is_some_and(|own| own.kind() == "motion"),
            kind => kind == Some(Kind::Motion),
        };
        let edged = match self.corruption {
            Some(Kind::Custom) => false,
            Some(Kind::Heat) => self.boundary == Some(Edge::Reflect),
            _ => deblur,
        };
        for (flag, given, used) in [
            ("--corruption", self.corruption.is_some(), fits),
            ("--level", self.level.is_some(), deblur),
            ("--boundary", self.boundary.is_some(), edged),
            ("--vertical", self.vertical, deblur && moves),
            ("--map", self.map.is_some(), self.corruption == Some(Kind::Custom)),
            ("--mask", self.mask.is_some(), task == Task::Inpaint),
            ("--factor", self.factor.is_some(), degrade && task == Task::SuperResolve),
        ] {
            if given && !used {
                let failure = Failure::new(format!("{flag} has no effect on this task and corruption"));
                return Err(failure.hint("leave it out, or give the --task and --corruption it belongs to"));
            }
        }
        Ok(())
    }
}

/// What to say of a restored image that does not explain the picture, and what to do about it.
pub fn poor_fit(misfit: f64, free: bool) -> Option<(String, &'static str)> {
    let problem = format!(
        "the restored image, degraded again, differs from the picture by {misfit:.1} times its noise (about 1 is expected): \
         do not trust it"
    );
    let remedy = match free {
        true => "leave --free out, so that the picture is taken into account at every step",
        false => "the picture was degraded in another way; try another --boundary, --level, --noise or --corruption",
    };
    (misfit > POOR_FIT).then_some((problem, remedy))
}

/// A picture of the model's size, in its colours.
pub fn fitting(file: &Path, index: usize, shape: Shape) -> Result<Vec<f64>, Failure> {
    let (found, values) = pictures::one(file, index)?;
    fitted(found, values, shape)
}

pub fn fitted(found: Shape, values: Vec<f64>, shape: Shape) -> Result<Vec<f64>, Failure> {
    if (found.height, found.width) != (shape.height, shape.width) {
        let (has, wants) = (format!("{}x{}", found.width, found.height), format!("{}x{}", shape.width, shape.height));
        let failure = Failure::new(format!("the picture has {has} pixels, this model makes {wants}"));
        return Err(failure.hint(format!("cut or resize it to {wants}; smaller ones take --task super-resolve")));
    }
    Ok(if values.len() == shape.len() { values } else { with_channels(found, &values, shape.channels) })
}

/// Grey as luma (ITU-R BT.601), colour of grey as grey.
pub fn with_channels(found: Shape, values: &[f64], channels: usize) -> Vec<f64> {
    match (found.channels, channels) {
        (3, 1) => values.chunks_exact(3).map(|p| 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2]).collect(),
        (1, 3) => values.iter().flat_map(|&grey| [grey; 3]).collect(),
        _ => values.to_vec(),
    }
}

/// Which pixels a mask leaves known: those that are not white.
pub fn known(mask: &[f64], name: &str) -> Result<Vec<bool>, Failure> {
    let known: Vec<bool> = mask.iter().map(|&value| value < 0.5).collect();
    if known.iter().all(|known| *known) || !known.contains(&true) {
        let failure = Failure::new(format!("{name} leaves all or nothing to be filled in"));
        return Err(failure.hint("white pixels are missing, black ones are known"));
    }
    Ok(known)
}
