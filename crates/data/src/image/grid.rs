//! Many small images as one, row by row, with a line between them.

use super::Picture;

/// The grey of the lines between images.
const LINE: u8 = 255;

/// Lays out pictures of one size in `columns`; `pixels` holds them one after the other (NHWC). Scaled up `zoom` times.
pub fn compose(width: usize, height: usize, channels: usize, pixels: &[u8], columns: usize, zoom: usize) -> Picture {
    let (gap, zoom) = (1, zoom.max(1));
    let size = width * height * channels;
    let count = pixels.len().checked_div(size).unwrap_or(0);
    let columns = columns.clamp(1, count.max(1));
    let rows = count.div_ceil(columns).max(1);
    let (cell_width, cell_height) = (width * zoom + gap, height * zoom + gap);
    let (grid_width, grid_height) = (columns * cell_width + gap, rows * cell_height + gap);
    let mut grid = vec![LINE; grid_width * grid_height * channels];
    for (number, picture) in pixels.chunks_exact(size.max(1)).enumerate() {
        let (top, left) = (gap + number / columns * cell_height, gap + number % columns * cell_width);
        for y in 0..height * zoom {
            let source = &picture[y / zoom * width * channels..][..width * channels];
            let start = ((top + y) * grid_width + left) * channels;
            let target = &mut grid[start..start + width * zoom * channels];
            for (to, from) in target.chunks_exact_mut(zoom * channels).zip(source.chunks_exact(channels)) {
                to.chunks_exact_mut(channels).for_each(|pixel| pixel.copy_from_slice(from));
            }
        }
    }
    Picture { width: grid_width, height: grid_height, channels, pixels: grid }
}

/// How many times to scale up images of this width so that they can be seen: to about 64 pixels, at most four times.
pub fn usual_zoom(width: usize) -> usize {
    (64 / width.max(1)).clamp(1, 4)
}

/// The number of columns that gives `count` pictures about as many rows.
pub fn square_columns(count: usize) -> usize {
    count.isqrt() + usize::from(count.isqrt().pow(2) < count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_stand_in_rows_with_lines_between() {
        let grid = compose(1, 1, 1, &[10, 20, 30], 2, 1);
        assert_eq!((grid.width, grid.height), (5, 5));
        #[rustfmt::skip]
        assert_eq!(grid.pixels, [
            255, 255, 255, 255, 255,
            255,  10, 255,  20, 255,
            255, 255, 255, 255, 255,
            255,  30, 255, 255, 255,
            255, 255, 255, 255, 255,
        ]);
        let zoomed = compose(2, 1, 3, &[1, 2, 3, 4, 5, 6], 1, 2);
        assert_eq!((zoomed.width, zoomed.height), (6, 4));
        assert_eq!(zoomed.pixels[6 * 3 + 3..6 * 3 + 15], [1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6]);
        assert_eq!([1, 2, 63, 64, 65].map(square_columns), [1, 2, 8, 8, 9]);
    }

    #[test]
    fn no_pictures_give_a_blank() {
        assert_eq!(compose(4, 4, 1, &[], 8, 1).pixels.iter().max(), Some(&255));
    }
}
