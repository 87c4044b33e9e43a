//! Pictures in a terminal: kitty's graphics protocol, iTerm2's inline images, sixels, or half blocks in colour.

use super::sixel;
use base64::prelude::{BASE64_STANDARD, Engine};
use clap::ValueEnum;
use softdiff::image::{self, Picture, grid, resize::bilinear};
use softdiff::run::RunFolder;
use softdiff::watch::Snapshot;
use std::fmt::Write;
use std::path::{Component, Path};

/// Largest preview that is read.
const LARGEST: u64 = 16 << 20;
/// Small pictures are made at most so many times larger.
const LARGEST_ZOOM: usize = 4;
/// Kitty takes at most so many letters at once.
const CHUNK: usize = 4096;
/// Removes the picture drawn by kitty's protocol; other terminals ignore it.
pub const FORGET: &str = "\x1b_Ga=d,d=I,i=77,q=2\x1b\\";

/// How pictures are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImageProtocol {
    /// What this terminal is known to understand.
    Auto,
    /// Kitty's graphics protocol: kitty, Ghostty.
    Kitty,
    /// Inline images of iTerm2: iTerm2, WezTerm.
    Iterm,
    /// Sixels: foot, xterm -ti vt340, Windows Terminal, tmux.
    Sixel,
    /// Half blocks in 24-bit colour.
    Blocks,
    /// Half blocks in 256 colours.
    Blocks256,
    /// Not at all.
    None,
}

impl ImageProtocol {
    /// The way of this terminal, by what the environment says of it, and by its own word on `sixels`.
    pub fn here(
        self,
        terminal: bool,
        variable: &dyn Fn(&str) -> Option<String>,
        sixels: &dyn Fn() -> bool,
    ) -> ImageProtocol {
        let is = |name: &str, values: &[&str]| variable(name).is_some_and(|value| values.contains(&value.as_str()));
        let has = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
        let term = variable("TERM").unwrap_or_default();
        // Between us and the terminal, these pass text on and swallow pictures.
        let wrapped = has("TMUX") || term.starts_with("screen") || term.starts_with("tmux");
        match self {
            ImageProtocol::Auto if !terminal || has("NO_COLOR") || term == "dumb" => ImageProtocol::None,
            ImageProtocol::Auto
                if !wrapped
                    && (term.contains("kitty") || has("KITTY_WINDOW_ID") || is("TERM_PROGRAM", &["ghostty"])) =>
            {
                ImageProtocol::Kitty
            }
            ImageProtocol::Auto if !wrapped && is("TERM_PROGRAM", &["iTerm.app", "WezTerm"]) => ImageProtocol::Iterm,
            ImageProtocol::Auto if sixels() => ImageProtocol::Sixel,
            ImageProtocol::Auto if is("COLORTERM", &["truecolor", "24bit"]) => ImageProtocol::Blocks,
            ImageProtocol::Auto if term.contains("256color") => ImageProtocol::Blocks256,
            ImageProtocol::Auto => ImageProtocol::None,
            asked => asked,
        }
    }
}

/// The last preview that was drawn, so that it is read and drawn once.
#[derive(Default)]
pub struct TerminalPreview {
    last: Option<((String, usize, usize), String)>,
}

impl TerminalPreview {
    /// What draws the last preview within so many columns and rows; none where it is gone or no picture.
    pub fn draw(
        &mut self,
        folder: &RunFolder,
        snapshot: &Snapshot,
        way: ImageProtocol,
        (columns, rows): (usize, usize),
        cell: (usize, usize),
    ) -> Option<&str> {
        let file = &snapshot.preview.as_ref()?.text;
        if way == ImageProtocol::None || columns < 4 || rows < 2 {
            return None;
        }
        let key = (file.clone(), columns, rows);
        if self.last.as_ref().is_none_or(|(last, _)| *last != key) {
            // An event cannot point out of its run.
            if !Path::new(file).components().all(|part| matches!(part, Component::Normal(_))) {
                return None;
            }
            let path = folder.root().join(file);
            let bytes = softdiff::run::fs::read_up_to(folder.fs().as_ref(), &path, LARGEST).ok()?;
            let picture = image::decode(&bytes).ok()?;
            self.last = Some((key, drawn(&picture, &bytes, way, (columns, rows), cell)));
        }
        self.last.as_ref().map(|(_, drawn)| drawn.as_str())
    }
}

/// `cell` is the size of a character in pixels.
fn drawn(
    picture: &Picture,
    file: &[u8],
    way: ImageProtocol,
    (columns, rows): (usize, usize),
    cell: (usize, usize),
) -> String {
    // Sixels that end in the last row would move all the others up.
    let rows = if way == ImageProtocol::Sixel { rows.saturating_sub(1) } else { rows };
    // A character is about twice as high as wide.
    let (mut width, mut height) = (columns, columns * picture.height / picture.width.max(1));
    if height > rows * 2 {
        (width, height) = (rows * 2 * picture.width / picture.height.max(1), rows * 2);
    }
    let (width, height) = (width.max(1), height.max(1));
    match way {
        ImageProtocol::Kitty => kitty(file, width, height.div_ceil(2)),
        ImageProtocol::Iterm => {
            let size = format!("size={};width={width};height={}", file.len(), height.div_ceil(2));
            format!("\x1b]1337;File=inline=1;{size};preserveAspectRatio=1:{}\x07", BASE64_STANDARD.encode(file))
        }
        ImageProtocol::Sixel => {
            let (most_wide, most_high) = (columns * cell.0, rows * cell.1);
            // The frame of a grid is part of it.
            let zoom = |most: usize, side: usize| most.saturating_sub(2) / side.max(1);
            let zoom = zoom(most_wide, picture.width).min(zoom(most_high, picture.height));
            let Picture { width, height, channels, ref pixels } = *picture;
            sixel::encode(&match zoom {
                0 => {
                    let share = (most_wide as f64 / width as f64).min(most_high as f64 / height as f64);
                    let side = |side: usize| ((side as f64 * share) as usize).max(1);
                    bilinear(picture, side(width), side(height))
                }
                zoom => grid::compose(width, height, channels, pixels, 1, zoom.min(LARGEST_ZOOM)),
            })
        }
        ImageProtocol::Blocks | ImageProtocol::Blocks256 => {
            let shrunk = bilinear(picture, width.min(picture.width), height.min(picture.height));
            blocks(&shrunk.with_channels(3), way == ImageProtocol::Blocks)
        }
        ImageProtocol::Auto | ImageProtocol::None => String::new(),
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

/// Two rows of pixels in one of characters: the upper half in the letter's colour, the lower in the ground's.
fn blocks(picture: &Picture, full: bool) -> String {
    let pixel = |x: usize, y: usize| {
        let at = (y * picture.width + x) * 3;
        picture.pixels.get(at..at + 3).map(|rgb| [rgb[0], rgb[1], rgb[2]])
    };
    let mut text = String::new();
    for y in (0..picture.height).step_by(2) {
        let mut last = (None, None);
        for x in 0..picture.width {
            let (upper, lower) = (pixel(x, y), pixel(x, y + 1));
            if (upper, lower) != last {
                let ground = lower.map_or("49".into(), |rgb| colour(48, rgb, full));
                let _ = write!(text, "\x1b[{};{ground}m", colour(38, upper.unwrap_or_default(), full));
                last = (upper, lower);
            }
            text.push('▀');
        }
        text += "\x1b[0m\r\n";
    }
    text.truncate(text.trim_end().len());
    text
}

/// Chooses a colour for the letter (38) or the ground (48).
fn colour(layer: u8, rgb: [u8; 3], full: bool) -> String {
    let [r, g, b] = rgb;
    if full { format!("{layer};2;{r};{g};{b}") } else { format!("{layer};5;{}", of_256(rgb)) }
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

    const CELL: (usize, usize) = (10, 20);

    #[test]
    fn the_way_follows_from_the_terminal() {
        let asked = |variables: &[(&str, &str)], terminal, sixels| {
            let find = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string());
            ImageProtocol::Auto.here(terminal, &find, &|| sixels)
        };
        let here = |variables: &[(&str, &str)], terminal| asked(variables, terminal, false);
        let kitty = ("TERM", "xterm-kitty");
        assert_eq!(here(&[kitty], true), ImageProtocol::Kitty);
        assert_eq!(here(&[kitty], false), ImageProtocol::None);
        assert_eq!(here(&[kitty, ("NO_COLOR", "1")], true), ImageProtocol::None);
        assert_eq!(here(&[kitty, ("TMUX", "x"), ("COLORTERM", "truecolor")], true), ImageProtocol::Blocks);
        assert_eq!(here(&[("TERM_PROGRAM", "iTerm.app")], true), ImageProtocol::Iterm);
        assert_eq!(here(&[("TERM", "xterm-256color")], true), ImageProtocol::Blocks256);
        assert_eq!(here(&[("TERM", "vt100")], true), ImageProtocol::None);
        assert_eq!(asked(&[("TERM", "foot"), ("COLORTERM", "truecolor")], true, true), ImageProtocol::Sixel);
        assert_eq!(asked(&[kitty], true, true), ImageProtocol::Kitty);
        assert_eq!(
            ImageProtocol::Blocks.here(false, &|_| None, &|| panic!()),
            ImageProtocol::Blocks,
            "what was asked for is done"
        );
    }

    #[test]
    fn two_rows_of_pixels_are_one_of_characters() {
        let picture = Picture { width: 2, height: 3, channels: 1, pixels: vec![0, 0, 255, 255, 7, 8] };
        let text = drawn(&picture, &[], ImageProtocol::Blocks, (80, 24), CELL);
        let rows: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(rows[0], "\x1b[38;2;0;0;0;48;2;255;255;255m▀▀\x1b[0m");
        assert_eq!(rows[1], "\x1b[38;2;7;7;7;49m▀\x1b[38;2;8;8;8;49m▀\x1b[0m");
        assert_eq!(rows.len(), 2);
    }

    #[test]
    fn a_picture_keeps_its_shape_within_the_room() {
        let picture = Picture { width: 100, height: 100, channels: 1, pixels: vec![9; 10_000] };
        let rows =
            |columns, rows| drawn(&picture, &[], ImageProtocol::Blocks256, (columns, rows), CELL).split("\r\n").count();
        assert_eq!((rows(80, 10), rows(10, 80), rows(200, 80)), (10, 5, 50));
        assert!(drawn(&picture, b"abc", ImageProtocol::Kitty, (80, 10), CELL).contains("c=20,r=10,m=0;YWJj"));
        assert!(drawn(&picture, b"abc", ImageProtocol::Iterm, (80, 10), CELL).contains("size=3;width=20;height=10;"));
        let raster = |columns, rows| {
            let text = drawn(&picture, &[], ImageProtocol::Sixel, (columns, rows), CELL);
            text.split('#').next().unwrap().rsplit_once('q').unwrap().1.to_owned()
        };
        assert_eq!(
            (raster(80, 11), raster(80, 3), raster(200, 80)),
            ("\"1;1;102;102".into(), "\"1;1;40;40".into(), "\"1;1;402;402".into())
        );
        let thin = Picture { width: 1, height: 5000, channels: 1, pixels: vec![9; 5000] };
        assert_eq!(drawn(&thin, &[], ImageProtocol::Blocks, (80, 10), CELL).matches('▀').count(), 10);
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
