//! Images in a terminal: kitty's graphics protocol, or coloured half blocks.

use base64::prelude::{BASE64_STANDARD, Engine};
use clap::ValueEnum;
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use ratatui::style::Color;
use ratatui::widgets::Widget;
use softdiff::image::{self, Picture, resize::bilinear};
use softdiff::run::RunFolder;
use softdiff::watch::Snapshot;
use std::fmt::Write;
use std::path::{Component, Path};

/// Largest preview that is read.
const LARGEST: u64 = 16 << 20;
/// Kitty takes at most so many letters at once.
const CHUNK: usize = 4096;
/// Removes the image drawn by kitty's protocol; other terminals ignore it.
pub const FORGET: &str = "\x1b_Ga=d,d=I,i=77,q=2\x1b\\";

/// How images are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImageProtocol {
    /// What this terminal is known to understand.
    Auto,
    /// Kitty's graphics protocol: kitty, Ghostty.
    Kitty,
    /// Half blocks in 24-bit colour.
    Blocks,
    /// Half blocks in 256 colours.
    Blocks256,
    /// Not at all.
    None,
}

impl ImageProtocol {
    /// The one of this terminal, by what the environment says of it.
    pub fn here(self, terminal: bool, variable: &dyn Fn(&str) -> Option<String>) -> ImageProtocol {
        let is = |name: &str, values: &[&str]| variable(name).is_some_and(|value| values.contains(&value.as_str()));
        let has = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
        let term = variable("TERM").unwrap_or_default();
        // Between us and the terminal, these pass text on and swallow images.
        let wrapped = has("TMUX") || term.starts_with("screen") || term.starts_with("tmux");
        let kitty = term.contains("kitty") || has("KITTY_WINDOW_ID") || is("TERM_PROGRAM", &["ghostty"]);
        match self {
            ImageProtocol::Auto if !terminal || has("NO_COLOR") || term == "dumb" => ImageProtocol::None,
            ImageProtocol::Auto if !wrapped && kitty => ImageProtocol::Kitty,
            // Windows Terminal sets no COLORTERM.
            ImageProtocol::Auto if is("COLORTERM", &["truecolor", "24bit"]) || has("WT_SESSION") => {
                ImageProtocol::Blocks
            }
            ImageProtocol::Auto if term.contains("256color") => ImageProtocol::Blocks256,
            ImageProtocol::Auto => ImageProtocol::None,
            asked => asked,
        }
    }
}

/// The last preview that was shown, so that it is read once.
#[derive(Default)]
pub struct TerminalPreview {
    last: Option<((String, Size), TerminalImage)>,
}

impl TerminalPreview {
    /// The last preview, to be shown within some columns and rows; none where it is gone or no image.
    pub fn fit(
        &mut self,
        folder: &RunFolder,
        snapshot: &Snapshot,
        protocol: ImageProtocol,
        room: Size,
    ) -> Option<&TerminalImage> {
        let file = &snapshot.preview.as_ref()?.text;
        if protocol == ImageProtocol::None || room.width < 4 || room.height < 2 {
            return None;
        }
        let key = (file.clone(), room);
        if self.last.as_ref().is_none_or(|(last, _)| *last != key) {
            // An event cannot point out of its run.
            if !Path::new(file).components().all(|part| matches!(part, Component::Normal(_))) {
                return None;
            }
            let path = folder.root().join(file);
            let bytes = softdiff::run::fs::read_up_to(folder.fs().as_ref(), &path, LARGEST).ok()?;
            let image = TerminalImage::fit(&image::decode(&bytes).ok()?, &bytes, protocol, room);
            self.last = Some((key, image));
        }
        self.last.as_ref().map(|(_, image)| image)
    }
}

/// An image made to fit.
#[derive(Debug, PartialEq)]
pub struct TerminalImage {
    /// Columns and rows that it takes.
    pub size: Size,
    /// What draws it at the cursor, which stays where it is, by kitty's protocol.
    pub kitty: Option<String>,
    /// What is drawn with half blocks otherwise.
    pixels: Picture,
    /// Whether 24-bit colours are known.
    full: bool,
}

impl TerminalImage {
    fn fit(picture: &Picture, file: &[u8], protocol: ImageProtocol, room: Size) -> TerminalImage {
        let (columns, rows) = (usize::from(room.width), usize::from(room.height));
        // A character is about twice as high as wide.
        let (mut width, mut height) = (columns, columns * picture.height / picture.width.max(1));
        if height > rows * 2 {
            (width, height) = (rows * 2 * picture.width / picture.height.max(1), rows * 2);
        }
        let (mut width, mut height) = (width.max(1), height.max(1));
        let kitty = (protocol == ImageProtocol::Kitty).then(|| kitty(file, width, height.div_ceil(2)));
        if kitty.is_none() {
            (width, height) = (width.min(picture.width), height.min(picture.height));
        }
        let pixels = bilinear(picture, width, height).with_channels(3);
        let size = Size::new(width as u16, height.div_ceil(2) as u16);
        TerminalImage { size, kitty, pixels, full: protocol == ImageProtocol::Blocks }
    }

    fn colour(&self, x: usize, y: usize) -> Color {
        let at = (y * self.pixels.width + x) * 3;
        match self.pixels.pixels.get(at..at + 3) {
            Some(&[r, g, b]) if self.full => Color::Rgb(r, g, b),
            Some(&[r, g, b]) => Color::Indexed(of_256([r, g, b])),
            _ => Color::Reset,
        }
    }
}

impl Widget for &TerminalImage {
    /// Two rows of pixels in one of characters: the upper half in the letter's colour, the lower in the ground's.
    fn render(self, area: Rect, buffer: &mut Buffer) {
        if self.kitty.is_some() {
            return;
        }
        let area = Rect { width: self.size.width, height: self.size.height, ..area }.intersection(area);
        for position in area.positions() {
            let (x, y) = (usize::from(position.x - area.x), usize::from(position.y - area.y));
            let (upper, lower) = (self.colour(x, 2 * y), self.colour(x, 2 * y + 1));
            buffer[position].set_char('▀').set_fg(upper).set_bg(lower);
        }
    }
}

/// The file in pieces, shown at the cursor in so many cells.
fn kitty(file: &[u8], columns: usize, rows: usize) -> String {
    let encoded = BASE64_STANDARD.encode(file);
    let mut rest = encoded.as_str();
    let mut text = String::new();
    let mut head = format!("a=T,f=100,i=77,q=2,C=1,c={columns},r={rows},");
    loop {
        let (chunk, after) = rest.split_at(rest.len().min(CHUNK));
        let _ = write!(text, "\x1b_G{head}m={};{chunk}\x1b\\", u8::from(!after.is_empty()));
        if after.is_empty() {
            return text;
        }
        (rest, head) = (after, String::new());
    }
}

/// The nearest of the 6 x 6 x 6 colours, or of the 24 greys for grey.
fn of_256([r, g, b]: [u8; 3]) -> u8 {
    if r == g && g == b && (4..=246).contains(&r) {
        return 232 + ((u16::from(r) - 3) / 10).min(23) as u8;
    }
    let level = |value: u8| match value {
        0..48 => 0,
        48..115 => 1,
        _ => (value - 35) / 40,
    };
    16 + 36 * level(r) + 6 * level(g) + level(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grey(width: usize, height: usize, pixels: Vec<u8>) -> Picture {
        Picture { width, height, channels: 1, pixels }
    }

    fn size(picture: &Picture, protocol: ImageProtocol, columns: u16, rows: u16) -> (u16, u16) {
        let image = TerminalImage::fit(picture, b"abc", protocol, Size::new(columns, rows));
        (image.size.width, image.size.height)
    }

    #[test]
    fn the_protocol_follows_from_the_terminal() {
        let here = |variables: &[(&str, &str)], terminal| {
            let find = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string());
            ImageProtocol::Auto.here(terminal, &find)
        };
        let kitty = ("TERM", "xterm-kitty");
        assert_eq!(here(&[kitty], true), ImageProtocol::Kitty);
        assert_eq!(here(&[kitty], false), ImageProtocol::None);
        assert_eq!(here(&[kitty, ("NO_COLOR", "1")], true), ImageProtocol::None);
        assert_eq!(here(&[kitty, ("TMUX", "x"), ("COLORTERM", "truecolor")], true), ImageProtocol::Blocks);
        assert_eq!(here(&[("TERM_PROGRAM", "iTerm.app"), ("COLORTERM", "truecolor")], true), ImageProtocol::Blocks);
        assert_eq!(here(&[("WT_SESSION", "1")], true), ImageProtocol::Blocks);
        assert_eq!(here(&[("TERM", "xterm-256color")], true), ImageProtocol::Blocks256);
        assert_eq!(here(&[("TERM", "vt100")], true), ImageProtocol::None);
        assert_eq!(ImageProtocol::Blocks.here(false, &|_| None), ImageProtocol::Blocks, "what was asked for is done");
    }

    #[test]
    fn two_rows_of_pixels_are_one_of_characters() {
        let picture = grey(2, 3, vec![0, 0, 255, 255, 7, 8]);
        let image = TerminalImage::fit(&picture, &[], ImageProtocol::Blocks, Size::new(80, 24));
        let mut buffer = Buffer::empty(Rect::new(0, 0, 3, 3));
        image.render(buffer.area, &mut buffer);
        let cell = |x: u16, y: u16| (buffer[(x, y)].symbol(), buffer[(x, y)].fg, buffer[(x, y)].bg);
        let level = |level: u8| Color::Rgb(level, level, level);
        assert_eq!((cell(0, 0), cell(1, 0)), (("▀", level(0), level(255)), ("▀", level(0), level(255))));
        assert_eq!((cell(0, 1), cell(1, 1)), (("▀", level(7), Color::Reset), ("▀", level(8), Color::Reset)));
        assert_eq!((cell(2, 0).0, cell(0, 2).0), (" ", " "));
        // In less room than it was made for, as when a terminal shrinks.
        image.render(Rect::new(2, 2, 1, 1), &mut buffer);
    }

    #[test]
    fn an_image_keeps_its_shape_within_the_room() {
        let picture = grey(100, 100, vec![9; 10_000]);
        let rows = |columns, rows| size(&picture, ImageProtocol::Blocks256, columns, rows).1;
        assert_eq!((rows(80, 10), rows(10, 80), rows(200, 80)), (10, 5, 50));
        assert_eq!(size(&picture, ImageProtocol::Kitty, 200, 80), (160, 80));
        let image = TerminalImage::fit(&picture, b"abc", ImageProtocol::Kitty, Size::new(80, 10));
        assert!(image.kitty.is_some_and(|text| text.contains("c=20,r=10,m=0;YWJj")));
        let thin = grey(1, 5000, vec![9; 5000]);
        assert_eq!(size(&thin, ImageProtocol::Blocks, 80, 10), (1, 10));
    }

    #[test]
    fn long_files_go_to_kitty_in_pieces() {
        let text = kitty(&[1; 7000], 5, 5);
        let pieces: Vec<&str> = text.split_terminator("\x1b\\").collect();
        assert_eq!(pieces.len(), 3);
        assert!(
            pieces[0].contains("m=1;") && pieces[1].starts_with("\x1b_Gm=1;") && pieces[2].starts_with("\x1b_Gm=0;")
        );
    }

    #[test]
    fn colours_of_256_are_near() {
        assert_eq!([[0; 3], [255; 3], [255, 0, 0], [0, 95, 135]].map(of_256), [16, 231, 196, 24]);
        assert_eq!(of_256([128; 3]), 244);
    }
}
