//! Resampling: by four taps where these are the same everywhere (kernels/fir.cu), else by tables (kernels/image.cu).

use super::{Io, Lowering, pack_of};
use crate::cuda::arguments::*;
use crate::cuda::driver::Address;
use crate::cuda::kernels::KernelName;
use crate::error::Result;
use crate::op::{Resample, Taps};

/// What output `o` reads: inputs from `begin(o) + first` on, each with its tap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cuda) struct Fir {
    /// How far inputs go with outputs; 0 for a half, where even outputs have the first two taps and odd ones the others.
    step: usize,
    first: i32,
    taps: [f64; 4],
}

impl Fir {
    /// The four taps of both axes, if these are the same.
    pub fn both(op: &Resample) -> Option<Fir> {
        let fir = Fir::of(&op.vertical)?;
        (Fir::of(&op.horizontal) == Some(fir)).then_some(fir)
    }

    /// The four taps that make the same rows, if there are any.
    fn of(taps: &Taps) -> Option<Fir> {
        let (input, output) = (taps.input, taps.rows.len());
        let step = match () {
            () if output == 2 * input => 0,
            () if input == 2 * output => 2,
            () if input.abs_diff(output) == 1 => 1,
            () => return None,
        };
        let made = (-3..=0).map(|first| {
            let mut fir = Fir { step, first, taps: [0.0; 4] };
            let sources = taps.rows.iter().enumerate().flat_map(|(o, row)| row.iter().map(move |tap| (o, tap)));
            for (o, &(i, weight)) in sources {
                if let Some(tap) = (0..4).find(|&tap| fir.source(o, tap) == Some(i as i32)) {
                    fir.taps[tap] = weight;
                }
            }
            fir
        });
        made.into_iter().find(|fir| fir.rows(input, output) == taps.rows)
    }

    /// What output `o` reads with a tap, if it has that one.
    fn source(&self, o: usize, tap: usize) -> Option<i32> {
        let (begin, k) = match self.step {
            0 => (o.div_ceil(2), tap.checked_sub(o % 2 * 2).filter(|&k| k < 2)?),
            step => (step * o, tap),
        };
        Some((begin + k) as i32 + self.first)
    }

    fn rows(&self, input: usize, output: usize) -> Vec<Vec<(usize, f64)>> {
        let at = |o: usize, tap: usize| self.source(o, tap).and_then(|i| usize::try_from(i).ok());
        let row = |o: usize| {
            let read = (0..4).filter_map(|tap| at(o, tap).map(|i| (i, self.taps[tap])));
            read.filter(|&(i, weight)| i < input && weight != 0.0).collect()
        };
        (0..output).map(row).collect()
    }
}

impl Lowering<'_> {
    /// Resampling by four taps.
    pub(super) fn fir(&mut self, fir: &Fir, io: &Io) -> Result<()> {
        let [batch, h, w, c] = io.shapes[0].known();
        let [_, oh, ow, _] = io.out_shape.known();
        let pack = pack_of(c);
        let (kernel, rows) = match fir.step {
            0 => (KernelName::FirUp { pack }, 4),
            1 => (KernelName::FirSmooth { pack }, 2),
            _ => (KernelName::FirDown { pack }, 2),
        };
        let patches = batch * oh.div_ceil(rows) * ow.div_ceil(2) * (c / pack);
        let arguments = FirArgs {
            out: io.outs[0],
            x: io.ins[0],
            patches: long(patches),
            sizes: [h, w, oh, ow, c].map(int),
            pitch: int(io.pitches[0]),
            first: fir.first,
            taps: fir.taps.map(|tap| tap as f32),
        };
        self.each(kernel, patches, &arguments)
    }

    /// Resampling by tables of taps.
    pub(super) fn resample(&mut self, op: &Resample, io: &Io) -> Result<()> {
        let [_, h, w, c] = io.shapes[0].known();
        let [_, oh, ow, _] = io.out_shape.known();
        let pack = pack_of(c);
        let arguments = ResampleArgs {
            out: io.outs[0],
            x: io.ins[0],
            n: long(io.n),
            sizes: [h, w, oh, ow, c].map(int),
            pitch: int(io.pitches[0]),
            vertical: self.taps(&op.vertical)?,
            horizontal: self.taps(&op.horizontal)?,
        };
        self.each(KernelName::Resample { element: io.element, pack }, io.n / pack, &arguments)
    }

    /// Uploads sparse taps: addresses of starts, sources and weights.
    fn taps(&mut self, taps: &Taps) -> Result<[Address; 3]> {
        let mut starts = vec![0i32];
        let (mut sources, mut weights) = (Vec::new(), Vec::new());
        for row in &taps.rows {
            sources.extend(row.iter().map(|t| t.0 as i32));
            weights.extend(row.iter().map(|t| t.1 as f32));
            starts.push(sources.len() as i32);
        }
        let mut bytes: Vec<u8> = starts.iter().chain(&sources).flat_map(|i| i.to_le_bytes()).collect();
        bytes.extend(weights.iter().flat_map(|w| w.to_le_bytes()));
        let buffer = self.device.upload(&bytes)?;
        let address = buffer.address;
        self.tables.push(buffer);
        let (a, b) = (4 * starts.len() as u64, 4 * sources.len() as u64);
        Ok([address, address + a, address + a + b])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Align;

    #[test]
    fn fir_filters_and_their_adjoints_have_four_taps_and_others_not() {
        let taps = [0.125, 0.375, 0.25, 0.25];
        for size in [4, 8, 17, 32] {
            let filters = [
                (Taps::fir(2 * size, size, &taps, 1, 2, 1), 2),
                (Taps::fir(size, 2 * size, &taps, 2, 1, 2), 0),
                (Taps::fir(size, size + 1, &taps, 1, 1, 2), 1),
            ];
            for (filter, step) in filters {
                assert_eq!(Fir::of(&filter).map(|fir| fir.step), Some(step));
                assert_eq!(Fir::of(&filter.transposed()).map(|fir| fir.step), Some(2 - step));
            }
            assert_eq!(Fir::of(&Taps::linear(size, 2 * size, Align::HalfPixel)), None);
            assert_eq!(Fir::of(&Taps::identity(size)), None);
        }
    }
}
