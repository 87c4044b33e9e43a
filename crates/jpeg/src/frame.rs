//! Segments, the frame header, and the samples or coefficients of each component.

use crate::{JpegError, JpegLimits, cut, damaged, idct, unsupported};

/// Position in a block (row by row) of each coefficient of the zigzag sequence.
pub const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
    28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63,
];

/// A marker and what follows it.
pub struct JpegSegment<'a> {
    pub marker: u8,
    pub body: &'a [u8],
}

impl<'a> JpegSegment<'a> {
    /// The next segment; bytes before its marker are skipped, as libjpeg does.
    pub fn next(bytes: &'a [u8], at: &mut usize) -> Result<JpegSegment<'a>, JpegError> {
        loop {
            let rest = bytes.get(*at..).unwrap_or_default();
            let start = rest.iter().position(|&byte| byte == 0xFF).ok_or_else(cut)?;
            let after = rest.get(start..).unwrap_or_default();
            let fill = after.iter().position(|&byte| byte != 0xFF).ok_or_else(cut)?;
            let marker = *after.get(fill).ok_or_else(cut)?;
            *at += start + fill + 1;
            match marker {
                // Stuffed zeros, restarts and standalone markers carry nothing.
                0x00 | 0x01 | 0xD0..=0xD8 => continue,
                0xD9 => return Ok(JpegSegment { marker, body: &[] }),
                _ => {}
            }
            let length = bytes.get(*at..).and_then(|rest| rest.first_chunk::<2>()).ok_or_else(cut)?;
            let length = usize::from(u16::from_be_bytes(*length));
            if length < 2 {
                return Err(damaged("a segment shorter than its own length"));
            }
            let body = bytes.get(*at + 2..*at + length).ok_or_else(cut)?;
            *at += length;
            return Ok(JpegSegment { marker, body });
        }
    }
}

/// Reads a DQT segment.
pub fn read_quantization(mut body: &[u8], tables: &mut [Option<[u16; 64]>; 4]) -> Result<(), JpegError> {
    while let Some((&selector, rest)) = body.split_first() {
        let width = match selector >> 4 {
            0 => 1,
            1 => 2,
            _ => return Err(damaged("a quantization table of unknown precision")),
        };
        let (values, rest) = rest.split_at_checked(64 * width).ok_or_else(cut)?;
        let slot = tables.get_mut(usize::from(selector & 15));
        let table = slot.ok_or_else(|| damaged("a quantization table with a wrong number"))?.insert([0; 64]);
        for (value, &place) in values.chunks_exact(width).zip(&ZIGZAG) {
            table[usize::from(place)] = value.iter().fold(0, |sum, &byte| sum << 8 | u16::from(byte));
        }
        body = rest;
    }
    Ok(())
}

/// Reads a DRI segment.
pub fn read_restart_interval(body: &[u8]) -> Result<usize, JpegError> {
    Ok(u16::from_be_bytes(*body.first_chunk::<2>().ok_or_else(cut)?).into())
}

/// One colour component of the image.
pub struct JpegComponent {
    pub id: u8,
    pub h: usize,
    pub v: usize,
    pub table: usize,
    /// Real samples, without the padding to whole blocks.
    pub width: usize,
    pub height: usize,
    /// Blocks in a row and in a column, padded to whole MCUs.
    pub blocks_wide: usize,
    pub blocks_high: usize,
    /// The table in force when the component's first scan began.
    pub quantization: Option<[u16; 64]>,
    /// Samples, of sequential images; made by the first scan.
    pub samples: Vec<u8>,
    /// Coefficients in natural order, of progressive images.
    pub coefficients: Vec<[i16; 64]>,
    /// Whether a scan (of DC) has covered it.
    pub seen: bool,
}

/// The frame: size and components.
pub struct JpegFrame {
    pub progressive: bool,
    pub width: usize,
    pub height: usize,
    pub h_max: usize,
    pub v_max: usize,
    pub components: Vec<JpegComponent>,
}

/// One component's samples before upsampling.
pub struct Plane {
    pub id: u8,
    pub samples: Vec<u8>,
    /// Samples from one row to the next.
    pub stride: usize,
    pub width: usize,
    pub height: usize,
    /// How many pixels one sample covers.
    pub h_factor: usize,
    pub v_factor: usize,
}

/// All components.
pub struct Planes {
    pub width: usize,
    pub height: usize,
    pub planes: Vec<Plane>,
}

impl JpegFrame {
    /// Reads an SOF segment and checks the limits; allocates nothing yet.
    pub fn read(body: &[u8], progressive: bool, file: &[u8], limits: JpegLimits) -> Result<JpegFrame, JpegError> {
        let (&[precision, h1, h0, w1, w0, count], specs) = body.split_first_chunk::<6>().ok_or_else(cut)?;
        if precision != 8 {
            return Err(unsupported("a precision other than 8 bits"));
        }
        if !matches!(count, 1 | 3 | 4) {
            return Err(unsupported("a number of components other than 1, 3 and 4"));
        }
        let (width, height) = (u16::from_be_bytes([w1, w0]), u16::from_be_bytes([h1, h0]));
        limits.check(width.into(), height.into(), count.into(), file.len() as u64)?;
        let (width, height) = (usize::from(width), usize::from(height));
        let specs = specs.get(..3 * usize::from(count)).ok_or_else(cut)?.as_chunks::<3>().0;
        let factors = || specs.iter().map(|&[_, factors, _]| (usize::from(factors >> 4), usize::from(factors & 15)));
        if factors().any(|(h, v)| !(1..=4).contains(&h) || !(1..=4).contains(&v)) {
            return Err(damaged("a sampling factor outside 1 to 4"));
        }
        let h_max = factors().map(|(h, _)| h).max().unwrap_or(1);
        let v_max = factors().map(|(_, v)| v).max().unwrap_or(1);
        if factors().any(|(h, v)| h_max % h != 0 || v_max % v != 0) {
            return Err(unsupported("a fractional sampling factor"));
        }
        let components: Vec<JpegComponent> = specs
            .iter()
            .zip(factors())
            .map(|(&[id, _, table], (h, v))| JpegComponent {
                id,
                h,
                v,
                table: table.into(),
                width: (width * h).div_ceil(h_max),
                height: (height * v).div_ceil(v_max),
                blocks_wide: width.div_ceil(8 * h_max) * h,
                blocks_high: height.div_ceil(8 * v_max) * v,
                quantization: None,
                samples: Vec::new(),
                coefficients: Vec::new(),
                seen: false,
            })
            .collect();
        let blocks: usize = components.iter().map(|component| component.blocks_wide * component.blocks_high).sum();
        let bytes = blocks as u64 * if progressive { 128 } else { 64 };
        if bytes > limits.max_bytes {
            return Err(JpegError::Allocation { bytes, limit: limits.max_bytes });
        }
        Ok(JpegFrame { progressive, width, height, h_max, v_max, components })
    }

    /// Whether every component had a scan.
    pub fn is_complete(&self) -> bool {
        self.components.iter().all(|component| component.seen)
    }

    /// The samples of all components; transforms the coefficients of a progressive image.
    pub fn into_planes(self) -> Result<Planes, JpegError> {
        let JpegFrame { width, height, h_max, v_max, .. } = self;
        let planes = self.components.into_iter().map(|mut component| {
            let coefficients = std::mem::take(&mut component.coefficients);
            if !coefficients.is_empty() {
                component.samples = vec![0; coefficients.len() * 64];
                for (number, block) in coefficients.iter().enumerate() {
                    component.transform(number, block)?;
                }
            }
            Ok(Plane {
                id: component.id,
                stride: component.blocks_wide * 8,
                width: component.width,
                height: component.height,
                h_factor: h_max / component.h,
                v_factor: v_max / component.v,
                samples: component.samples,
            })
        });
        Ok(Planes { width, height, planes: planes.collect::<Result<_, JpegError>>()? })
    }
}

impl JpegComponent {
    /// Makes room and fixes the quantization table, at the component's first scan.
    pub fn begin(&mut self, tables: &[Option<[u16; 64]>; 4], progressive: bool) -> Result<(), JpegError> {
        if self.quantization.is_none() {
            let table = tables.get(self.table).copied().flatten();
            self.quantization = Some(table.ok_or_else(|| damaged("a quantization table is missing"))?);
            let blocks = self.blocks_wide * self.blocks_high;
            if progressive {
                self.coefficients = vec![[0; 64]; blocks];
            } else {
                self.samples = vec![0; blocks * 64];
            }
        }
        Ok(())
    }

    /// Turns the coefficients of block `number` into samples.
    pub fn transform(&mut self, number: usize, block: &[i16; 64]) -> Result<(), JpegError> {
        let stride = self.blocks_wide * 8;
        let start = number / self.blocks_wide * 8 * stride + number % self.blocks_wide * 8;
        let (Some(quantization), Some(samples)) = (&self.quantization, self.samples.get_mut(start..)) else {
            return Err(damaged("a block outside the image"));
        };
        idct::islow(block, quantization, samples, stride);
        Ok(())
    }
}
