//! The 256 colours of a film: all grey values, all colours where there are so few, else Heckbert's median cut (1982).

use std::collections::BTreeSet;

/// Colours of a GIF.
const COLOURS: usize = 256;
/// Bits of a channel by which colours are counted and looked up.
const COARSE: u32 = 5;

/// The colours of a film, and which one is nearest to a colour.
pub struct Palette {
    colours: Vec<[u8; 3]>,
    by: PaletteLookup,
}

enum PaletteLookup {
    /// A grey value is its own index.
    Grey,
    /// The colours are sorted and all there.
    All,
    /// The index for each coarse colour.
    Coarse(Vec<u8>),
}

impl Palette {
    /// The colours for images of 1 or 3 channels.
    pub fn of<'a>(channels: usize, pictures: impl Iterator<Item = &'a [u8]> + Clone) -> Palette {
        if channels == 1 {
            return Palette { colours: (0..=255).map(|grey| [grey; 3]).collect(), by: PaletteLookup::Grey };
        }
        let pixels = || pictures.clone().flat_map(|picture| picture.as_chunks::<3>().0);
        let mut all = BTreeSet::new();
        for pixel in pixels() {
            all.insert(*pixel);
            if all.len() > COLOURS {
                return Palette::cut(pixels());
            }
        }
        Palette { colours: all.into_iter().collect(), by: PaletteLookup::All }
    }

    /// 256 colours, those of the others filled up with black.
    pub fn colours(&self) -> Vec<[u8; 3]> {
        let mut colours = self.colours.clone();
        colours.resize(COLOURS, [0; 3]);
        colours
    }

    /// The index of each pixel's colour.
    pub fn indices(&self, channels: usize, picture: &[u8]) -> Vec<u8> {
        let index = |pixel: &[u8; 3]| match &self.by {
            PaletteLookup::Coarse(nearest) => nearest[coarse(pixel)],
            _ => self.colours.binary_search(pixel).unwrap_or(0) as u8,
        };
        if channels == 1 { picture.to_vec() } else { picture.as_chunks::<3>().0.iter().map(index).collect() }
    }

    fn cut<'a>(pixels: impl Iterator<Item = &'a [u8; 3]>) -> Palette {
        let mut bins = vec![Bin::default(); 1 << (3 * COARSE)];
        pixels.for_each(|pixel| bins[coarse(pixel)].add(pixel));
        let mut boxes = vec![bins.into_iter().filter(|bin| bin.count > 0).collect::<Vec<Bin>>()];
        while boxes.len() < COLOURS {
            // The box whose cut gains most: the one with the largest spread in all.
            let spreads = boxes.iter().enumerate().map(|(index, bins)| (spread(bins), index));
            let Some(((gain, axis), index)) = spreads.max_by(|a, b| a.0.0.total_cmp(&b.0.0)) else { break };
            if gain == 0.0 {
                break;
            }
            let mut bins = boxes.swap_remove(index);
            bins.sort_by(|a, b| a.mean(axis).total_cmp(&b.mean(axis)));
            let half = bins.iter().map(|bin| bin.count).sum::<u64>() / 2;
            let mut seen = 0;
            let middle = bins.iter().position(|bin| {
                seen += bin.count;
                seen > half
            });
            let upper = bins.split_off(middle.unwrap_or(0).clamp(1, bins.len() - 1));
            boxes.extend([bins, upper]);
        }
        let colours: Vec<[u8; 3]> = boxes.iter().map(|bins| mean_colour(bins)).collect();
        let nearest = (0..1 << (3 * COARSE)).map(|bin| nearest(&colours, centre(bin))).collect();
        Palette { colours, by: PaletteLookup::Coarse(nearest) }
    }
}

/// The pixels of one coarse colour.
#[derive(Clone, Default)]
struct Bin {
    count: u64,
    sums: [u64; 3],
}

impl Bin {
    fn add(&mut self, pixel: &[u8; 3]) {
        self.count += 1;
        self.sums.iter_mut().zip(pixel).for_each(|(sum, &sample)| *sum += u64::from(sample));
    }

    fn mean(&self, axis: usize) -> f64 {
        self.sums[axis] as f64 / self.count as f64
    }
}

fn coarse(pixel: &[u8; 3]) -> usize {
    pixel.iter().fold(0, |bin, sample| bin << COARSE | usize::from(sample >> (8 - COARSE)))
}

fn centre(bin: usize) -> [u8; 3] {
    let part = |shift: u32| (bin >> shift & ((1 << COARSE) - 1)) as u8;
    [part(2 * COARSE), part(COARSE), part(0)].map(|part| part << (8 - COARSE) | 1 << (7 - COARSE))
}

/// The largest sum of squared differences from the mean along a channel, and that channel; 0 where nothing can be cut.
fn spread(bins: &[Bin]) -> (f64, usize) {
    if bins.len() < 2 {
        return (0.0, 0);
    }
    let total: f64 = bins.iter().map(|bin| bin.count as f64).sum();
    let along = |axis: usize| {
        let mean = bins.iter().map(|bin| bin.sums[axis] as f64).sum::<f64>() / total;
        (bins.iter().map(|bin| bin.count as f64 * (bin.mean(axis) - mean).powi(2)).sum::<f64>(), axis)
    };
    [0, 1, 2].map(along).into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, 0))
}

fn mean_colour(bins: &[Bin]) -> [u8; 3] {
    let count = bins.iter().map(|bin| bin.count).sum::<u64>().max(1);
    [0, 1, 2].map(|axis| ((bins.iter().map(|bin| bin.sums[axis]).sum::<u64>() + count / 2) / count) as u8)
}

fn nearest(colours: &[[u8; 3]], wanted: [u8; 3]) -> u8 {
    let distance = |colour: &[u8; 3]| -> i32 {
        colour.iter().zip(wanted).map(|(a, b)| (i32::from(*a) - i32::from(b)).pow(2)).sum()
    };
    (0..colours.len()).min_by_key(|&index| distance(&colours[index])).unwrap_or(0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_colours_become_256_near_ones() {
        let picture: Vec<u8> = (0..64 * 64).flat_map(|i| [(i % 64 * 4) as u8, (i / 64 * 4) as u8, 128]).collect();
        let palette = Palette::of(3, [picture.as_slice()].into_iter());
        assert_eq!(palette.colours.len(), COLOURS);
        let colours = palette.colours();
        for (index, pixel) in palette.indices(3, &picture).iter().zip(picture.as_chunks::<3>().0) {
            let found = colours[usize::from(*index)];
            assert!(found.iter().zip(pixel).all(|(a, b)| a.abs_diff(*b) <= 16), "{found:?} for {pixel:?}");
        }
    }
}
