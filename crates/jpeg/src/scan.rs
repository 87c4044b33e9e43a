//! Scans: which components and coefficients they carry, and how their blocks are decoded (T.81, annexes F and G).

use crate::bits::Bits;
use crate::frame::{JpegComponent, JpegFrame, ZIGZAG};
use crate::huffman::HuffmanTable;
use crate::{JpegError, Tables, cut, damaged};

/// A scan header.
pub struct Scan {
    /// JpegComponent, DC table, AC table.
    components: Vec<(usize, usize, usize)>,
    /// First and last coefficient in zigzag order.
    spectrum: (usize, usize),
    /// Bit of the previous scan of these coefficients, 0 for the first, and of this one.
    high: u32,
    low: u32,
}

/// The state of entropy decoding, reset at each restart.
#[derive(Default)]
struct ScanState {
    predictions: [i32; 4],
    /// Blocks left that have no more coefficients in this band.
    end_of_band_run: u32,
}

impl Scan {
    /// Reads an SOS segment.
    pub fn read(body: &[u8], frame: &JpegFrame) -> Result<Scan, JpegError> {
        let (&count, rest) = body.split_first().ok_or_else(cut)?;
        let (selectors, rest) = rest.split_at_checked(2 * usize::from(count)).ok_or_else(cut)?;
        let &[first, last, bits] = rest.first_chunk::<3>().ok_or_else(cut)?;
        let mut components = Vec::new();
        for &[id, tables] in selectors.as_chunks::<2>().0 {
            let index = frame.components.iter().position(|component| component.id == id);
            let index = index.ok_or_else(|| damaged("a scan of an unknown component"))?;
            if components.iter().any(|&(other, _, _)| other == index) {
                return Err(damaged("a component twice in one scan"));
            }
            components.push((index, usize::from(tables >> 4), usize::from(tables & 15)));
        }
        let scan = if frame.progressive {
            let (spectrum, high, low) = ((first.into(), last.into()), (bits >> 4).into(), (bits & 15).into());
            Scan { components, spectrum, high, low }
        } else {
            Scan { components, spectrum: (0, 63), high: 0, low: 0 }
        };
        let (first, last) = scan.spectrum;
        let band =
            if first == 0 { last == 0 || !frame.progressive } else { first <= last && scan.components.len() == 1 };
        if scan.components.is_empty()
            || last > 63
            || !band
            || scan.low > 13
            || (scan.high > 0 && scan.high != scan.low + 1)
        {
            return Err(damaged("a scan header that makes no sense"));
        }
        Ok(scan)
    }

    /// Decodes the whole scan into the frame.
    pub fn decode(&self, frame: &mut JpegFrame, tables: &Tables, bits: &mut Bits) -> Result<(), JpegError> {
        for &(index, ..) in &self.components {
            if let Some(component) = frame.components.get_mut(index) {
                component.begin(&tables.quantization, frame.progressive)?;
                component.seen |= self.spectrum.0 == 0;
            }
        }
        let mut state = ScanState::default();
        let mut units = 0;
        let mut restart = |state: &mut ScanState, bits: &mut Bits| {
            if tables.restart_interval > 0 && units > 0 && units % tables.restart_interval == 0 {
                *state = ScanState::default();
                bits.restart(units / tables.restart_interval - 1)?;
            }
            units += 1;
            Ok::<(), JpegError>(())
        };
        if let &[(index, dc, ac)] = self.components.as_slice() {
            // A scan of one component goes block by block and leaves the padding out.
            let Some(component) = frame.components.get_mut(index) else { return Ok(()) };
            let (wide, high) = (component.width.div_ceil(8), component.height.div_ceil(8));
            for row in 0..high {
                for column in 0..wide {
                    restart(&mut state, bits)?;
                    let number = row * component.blocks_wide + column;
                    self.block(component, number, (index, dc, ac), tables, &mut state, bits, frame.progressive)?;
                }
            }
            return Ok(());
        }
        let (mcus_wide, mcus_high) = (frame.width.div_ceil(8 * frame.h_max), frame.height.div_ceil(8 * frame.v_max));
        for mcu in 0..mcus_wide * mcus_high {
            restart(&mut state, bits)?;
            for &(index, dc, ac) in &self.components {
                let Some(component) = frame.components.get_mut(index) else { continue };
                for y in 0..component.v {
                    for x in 0..component.h {
                        let row = mcu / mcus_wide * component.v + y;
                        let number = row * component.blocks_wide + mcu % mcus_wide * component.h + x;
                        self.block(component, number, (index, dc, ac), tables, &mut state, bits, frame.progressive)?;
                    }
                }
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)] // One call site each way; a struct would only rename them.
    fn block(
        &self,
        component: &mut JpegComponent,
        number: usize,
        (index, dc, ac): (usize, usize, usize),
        tables: &Tables,
        state: &mut ScanState,
        bits: &mut Bits,
        progressive: bool,
    ) -> Result<(), JpegError> {
        let prediction = &mut state.predictions[index & 3];
        if !progressive {
            let (dc, ac) = (table(&tables.dc, dc)?, table(&tables.ac, ac)?);
            let mut block = [0; 64];
            block[0] = next_dc(dc, prediction, bits)? as i16;
            sequential_ac(ac, &mut block, bits)?;
            return component.transform(number, &block);
        }
        let block = component.coefficients.get_mut(number).ok_or_else(|| damaged("a block outside the image"))?;
        match (self.spectrum.0, self.high) {
            (0, 0) => block[0] = (next_dc(table(&tables.dc, dc)?, prediction, bits)?.wrapping_shl(self.low)) as i16,
            (0, _) => block[0] |= i16::from(bits.bit()?) << self.low,
            (_, 0) => self.ac_first(table(&tables.ac, ac)?, block, &mut state.end_of_band_run, bits)?,
            _ => self.ac_refine(table(&tables.ac, ac)?, block, &mut state.end_of_band_run, bits)?,
        }
        Ok(())
    }

    /// T.81, G.1.2.2: the first scan of a band.
    fn ac_first(
        &self,
        ac: &HuffmanTable,
        block: &mut [i16; 64],
        run: &mut u32,
        bits: &mut Bits,
    ) -> Result<(), JpegError> {
        if *run > 0 {
            *run -= 1;
            return Ok(());
        }
        let (mut k, last) = self.spectrum;
        while k <= last {
            let symbol = ac.decode(bits)?;
            let (zeros, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
            if size == 0 {
                if zeros < 15 {
                    *run = (1 << zeros) - 1 + bits.take(zeros as u32)? as u32;
                    return Ok(());
                }
                k += 16;
                continue;
            }
            k += zeros;
            let value = bits.signed(size)? << self.low;
            *place(block, k, last)? = value as i16;
            k += 1;
        }
        Ok(())
    }

    /// T.81, G.1.2.3: one more bit of a band, interleaved with coefficients that now become non-zero.
    fn ac_refine(
        &self,
        ac: &HuffmanTable,
        block: &mut [i16; 64],
        run: &mut u32,
        bits: &mut Bits,
    ) -> Result<(), JpegError> {
        let (mut k, last) = self.spectrum;
        let bit = 1i16 << self.low;
        if *run == 0 {
            while k <= last {
                let symbol = ac.decode(bits)?;
                let (mut zeros, size) = (symbol >> 4, symbol & 15);
                let mut value = 0;
                match size {
                    0 if zeros < 15 => {
                        *run = (1 << zeros) + bits.take(zeros.into())? as u32;
                        break;
                    }
                    0 => {}
                    1 => value = if bits.bit()? { bit } else { -bit },
                    _ => return Err(damaged("a refinement of more than one bit")),
                }
                while k <= last {
                    let coefficient = place(block, k, last)?;
                    k += 1;
                    if *coefficient != 0 {
                        refine(coefficient, bit, bits)?;
                    } else if zeros == 0 {
                        *coefficient = value;
                        break;
                    } else {
                        zeros -= 1;
                    }
                }
            }
        }
        if *run > 0 {
            for k in k..=last {
                let coefficient = place(block, k, last)?;
                if *coefficient != 0 {
                    refine(coefficient, bit, bits)?;
                }
            }
            *run -= 1;
        }
        Ok(())
    }
}

fn table(tables: &[Option<HuffmanTable>; 4], number: usize) -> Result<&HuffmanTable, JpegError> {
    tables.get(number).and_then(Option::as_ref).ok_or_else(|| damaged("a Huffman table is missing"))
}

fn refine(coefficient: &mut i16, bit: i16, bits: &mut Bits) -> Result<(), JpegError> {
    if bits.bit()? && *coefficient & bit == 0 {
        *coefficient = if *coefficient > 0 { coefficient.wrapping_add(bit) } else { coefficient.wrapping_sub(bit) };
    }
    Ok(())
}

/// The coefficient number `k` of the zigzag sequence.
#[inline]
fn place(block: &mut [i16; 64], k: usize, last: usize) -> Result<&mut i16, JpegError> {
    match ZIGZAG.get(k) {
        Some(&place) if k <= last => Ok(&mut block[usize::from(place & 63)]),
        _ => Err(damaged("more than 64 coefficients in a block")),
    }
}

fn next_dc(dc: &HuffmanTable, prediction: &mut i32, bits: &mut Bits) -> Result<i32, JpegError> {
    let size = dc.decode(bits)?;
    if size > 15 {
        return Err(damaged("a DC difference of more than 15 bits"));
    }
    *prediction = prediction.wrapping_add(bits.signed(size.into())?);
    Ok(*prediction)
}

fn sequential_ac(ac: &HuffmanTable, block: &mut [i16; 64], bits: &mut Bits) -> Result<(), JpegError> {
    let mut k = 1;
    while k < 64 {
        let symbol = ac.decode(bits)?;
        let (zeros, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
        if size == 0 {
            if zeros < 15 {
                break;
            }
            k += 16;
            continue;
        }
        k += zeros;
        *place(block, k, 63)? = bits.signed(size)? as i16;
        k += 1;
    }
    Ok(())
}
