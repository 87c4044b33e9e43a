//! `report.html`: what a run was and what came of it, as one file that needs nothing else.

mod chart;
mod heat_map;
mod html;
mod metrics;
mod page;
mod path;
mod records;
mod samples;

pub use chart::{Chart, Series};
pub use heat_map::heat_map;
pub use page::{ReportError, page};
pub use records::{Records, RecordsError};

use crate::image::Picture;

/// A page: a title, a line below it, and sections.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// What the page is about.
    pub title: String,
    /// One sentence more.
    pub lead: String,
    /// The parts, in order.
    pub sections: Vec<Section>,
}

/// A part of a page under one heading.
#[derive(Debug, Clone)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// What stands below it.
    pub blocks: Vec<PageBlock>,
}

/// A piece of a section.
#[derive(Debug, Clone)]
pub enum PageBlock {
    /// A paragraph.
    Text(String),
    /// Something to look at.
    Figure(Figure),
    /// Several side by side.
    Row(Vec<Figure>),
    /// Rows under a head; numbers are set to the right.
    Table {
        /// Names of the columns.
        head: Vec<String>,
        /// Cells, row by row.
        rows: Vec<Vec<String>>,
    },
    /// Text as typed: commands, recipes, errors.
    Code(String),
}

/// A drawing or a picture with its caption.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Its name in file names and links: small letters and hyphens.
    pub name: &'static str,
    /// What it shows and how to read it.
    pub caption: String,
    /// The thing itself.
    pub body: Body,
}

/// What a figure consists of.
#[derive(Debug, Clone)]
pub enum Body {
    /// An SVG without its style, which the page brings.
    Svg(String),
    /// A PNG file's bytes and how many screen pixels wide it is.
    Png {
        /// The file.
        bytes: Vec<u8>,
        /// Its width.
        width: usize,
    },
}

impl Figure {
    /// A drawing.
    pub fn drawn(name: &'static str, caption: impl Into<String>, svg: String) -> Figure {
        Figure { name, caption: caption.into(), body: Body::Svg(svg) }
    }

    /// A picture.
    pub fn picture(name: &'static str, caption: impl Into<String>, picture: &Picture) -> Figure {
        let bytes = picture.to_png();
        Figure { name, caption: caption.into(), body: Body::Png { bytes, width: picture.width } }
    }

    /// The figure as a file of its own: its ending and its bytes.
    pub fn file(&self) -> (&'static str, Vec<u8>) {
        match &self.body {
            Body::Svg(svg) => ("svg", html::standalone(svg).into_bytes()),
            Body::Png { bytes, .. } => ("png", bytes.clone()),
        }
    }
}

impl Page {
    /// The figures, in order.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        let blocks = self.sections.iter().flat_map(|section| &section.blocks);
        blocks.flat_map(|block| match block {
            PageBlock::Figure(figure) => std::slice::from_ref(figure),
            PageBlock::Row(figures) => figures,
            _ => &[],
        })
    }
}
