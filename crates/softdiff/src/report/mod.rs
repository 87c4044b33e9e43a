//! `report.html`: what a run was and what came of it, as one file that needs nothing else.

mod chart;
mod heat_map;
mod html;
mod metrics;
mod page;
mod path;
mod records;
mod samples;
mod scores;

pub use chart::{Chart, Series};
pub use heat_map::heat_map;
pub use page::{ReportError, page};
pub use records::{Records, RecordsError};

use crate::image::Picture;

/// The figures that a report may have, and whether images are sampled for them.
pub const FIGURES: [(&str, bool); 17] = [
    ("samples", true),
    ("path", false),
    ("schedule", false),
    ("joint", false),
    ("hops", false),
    ("distances", false),
    ("noise", false),
    ("prior", false),
    ("loss", false),
    ("loss-by-time", false),
    ("norm", false),
    ("scores", false),
    ("preview", false),
    ("samplers", true),
    ("means", true),
    ("neighbours", true),
    ("quality", true),
];

/// A page to be written as HTML by [`Page::to_html`].
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Title of the document, and its first heading.
    pub title: String,
    /// One or two sentences below the title.
    pub lead: String,
    /// The sections from top to bottom; the page begins with links to them.
    pub sections: Vec<Section>,
}

/// A part of a page under one heading.
#[derive(Debug, Clone)]
pub struct Section {
    /// The heading, and the text of the link to it.
    pub title: String,
    /// The content below the heading.
    pub blocks: Vec<PageBlock>,
}

/// One element of a section.
#[derive(Debug, Clone)]
pub enum PageBlock {
    /// A paragraph.
    Text(String),
    /// A figure on a line of its own.
    Figure(Figure),
    /// Figures side by side.
    Row(Vec<Figure>),
    /// Cells under a header, which is left out if all its names are empty; columns of numbers are aligned to the right.
    Table {
        /// Names of the columns.
        head: Vec<String>,
        /// Cells, row by row.
        rows: Vec<Vec<String>>,
    },
    /// Preformatted text: commands, recipes, errors.
    Code(String),
}

/// A plot or an image with its caption.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Its name in file names and for `--figure`: lower-case letters and hyphens.
    pub name: &'static str,
    /// What it shows and how to read it.
    pub caption: String,
    /// The plot or the image.
    pub body: Body,
}

/// The content of a figure.
#[derive(Debug, Clone)]
pub enum Body {
    /// An SVG drawing that uses the style sheet of the page.
    Svg(String),
    /// The same for wide and for narrow screens.
    Chart {
        /// As it is for a page that is wide enough, and in a file.
        wide: String,
        /// As it is for a telephone.
        narrow: String,
    },
    /// An image, embedded in the page.
    Png {
        /// The PNG file.
        bytes: Vec<u8>,
        /// Its width on the page, in CSS pixels.
        width: usize,
    },
}

impl Figure {
    /// A plot, as SVG without a style sheet.
    pub fn drawn(name: &'static str, caption: impl Into<String>, svg: String) -> Figure {
        Figure { name, caption: caption.into(), body: Body::Svg(svg) }
    }

    /// A chart, for wide and for narrow screens.
    pub fn chart(name: &'static str, caption: impl Into<String>, chart: &Chart) -> Figure {
        let body = Body::Chart { wide: chart.svg(), narrow: chart.narrow_svg() };
        Figure { name, caption: caption.into(), body }
    }

    /// An image, shown pixel by pixel.
    pub fn picture(name: &'static str, caption: impl Into<String>, picture: &Picture) -> Figure {
        let bytes = picture.to_png();
        Figure { name, caption: caption.into(), body: Body::Png { bytes, width: picture.width } }
    }

    /// The figure as a file that needs no page: its extension and its bytes.
    pub fn file(&self) -> (&'static str, Vec<u8>) {
        match &self.body {
            Body::Svg(svg) | Body::Chart { wide: svg, .. } => ("svg", html::standalone(svg).into_bytes()),
            Body::Png { bytes, .. } => ("png", bytes.clone()),
        }
    }
}

impl Page {
    /// All figures, from top to bottom.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        let blocks = self.sections.iter().flat_map(|section| &section.blocks);
        blocks.flat_map(|block| match block {
            PageBlock::Figure(figure) => std::slice::from_ref(figure),
            PageBlock::Row(figures) => figures,
            _ => &[],
        })
    }
}
