//! What happened to a picture, as it is typed or asked for by the studio's page.

use crate::commands::pictures;
use crate::diagnostics::Failure;
use clap::{Args, ValueEnum};
use serde::Deserialize;
use softdiff::corruption::Shape;
use std::path::{Path, PathBuf};

/// What happened to the picture.
#[derive(Args, Default)]
pub struct TaskFlags {
    /// What to undo; without it, what the picture and the other flags look like, else the model's own corruption.
    #[arg(long, value_enum)]
    pub task: Option<Task>,
    /// Enter the model's path at this time, from 0 to 1: the picture is corrupted as the path is there.
    #[arg(long, value_name = "T", allow_negative_numbers = true, conflicts_with_all = ["task", "corruption", "level", "mask"])]
    pub time: Option<f64>,
    /// The corruption to undo, if not the model's own.
    #[arg(long, value_enum)]
    pub corruption: Option<Kind>,
    /// Its strength: pixels of blur or motion; told from the picture where it can be.
    #[arg(long, allow_negative_numbers = true)]
    pub level: Option<f64>,
    /// What the corruption sees beyond the border.
    #[arg(long, value_enum, default_value_t = Edge::Reflect)]
    pub boundary: Edge,
    /// Whether motion runs down the picture, not across.
    #[arg(long)]
    pub vertical: bool,
    /// A .json or .safetensors file with the map of --corruption custom.
    #[arg(long, value_name = "FILE", required_if_eq("corruption", "custom"))]
    pub map: Option<PathBuf>,
    /// A picture whose white pixels are missing and to be filled in.
    #[arg(long, value_name = "FILE")]
    pub mask: Option<PathBuf>,
    /// How many times smaller --degrade makes the picture to super-resolve.
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub factor: usize,
    /// Deviation of the noise in the picture, for values from 0 to 1; told from the picture where it can be.
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
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum Edge {
    Zero,
    #[default]
    Reflect,
    Periodic,
}

impl TaskFlags {
    /// Which pixels are known, where there is a mask.
    pub fn known(&self, shape: Shape) -> Result<Option<Vec<bool>>, Failure> {
        let Some(file) = &self.mask else { return Ok(None) };
        known(&fitting(file, 0, Shape { channels: 1, ..shape })?, &file.display().to_string()).map(Some)
    }
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
