//! Convolution of images of any size with any kernel.

use super::separable::{image_from_planes, planes_from_image};
use super::{Boundary, CosineFilter, LinearMap, LinearOperator, Shape, SharedOperator};
use rayon::prelude::*;
use softdiff_engine::HintedMessage;
use std::f64::consts::PI;

/// A kernel: its taps that are not zero, by their distance from the centre in rows and columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    taps: Vec<(i64, i64, f64)>,
}

/// The most rows and columns of a kernel that is given in full.
const LARGEST: usize = 201;
/// How far from 1 its sum may be.
const TOLERANCE: f64 = 1e-3;

/// Taps below this part of the largest are left out.
const NOTHING: f64 = 1e-9;

impl Kernel {
    /// A kernel by its weight at each distance up to `half` rows and columns from the centre; it is scaled to sum to 1.
    pub fn new(half: (i64, i64), weight: impl Fn(i64, i64) -> f64) -> Kernel {
        let places = (-half.0..=half.0).flat_map(|y| (-half.1..=half.1).map(move |x| (y, x)));
        let all: Vec<_> = places.map(|(y, x)| (y, x, weight(y, x))).collect();
        let largest = all.iter().fold(0.0, |largest: f64, tap| largest.max(tap.2.abs()));
        let mut taps: Vec<_> = all.into_iter().filter(|tap| tap.2.abs() > NOTHING * largest).collect();
        let total: f64 = taps.iter().map(|tap| tap.2).sum();
        taps.iter_mut().for_each(|tap| tap.2 /= total);
        Kernel { taps }
    }

    /// A blur by what a point of light becomes of it: rows of weights that sum to 1, odd in number and in length, with the point
    /// in their middle.
    pub fn from_rows(rows: &[Vec<f64>]) -> Result<Kernel, HintedMessage> {
        let sum = Self::check_rows(rows)?;
        if (sum - 1.0).abs() > TOLERANCE {
            let hint = "divide it by its sum: a blur keeps the brightness";
            return Err(HintedMessage::new(format!("the kernel sums to {sum:.4}"), hint));
        }
        Self::from_rows_scaled(rows)
    }

    /// The same for rows of any sum above 0, which are scaled to a sum of 1.
    pub fn from_rows_scaled(rows: &[Vec<f64>]) -> Result<Kernel, HintedMessage> {
        Self::check_rows(rows)?;
        let half = ((rows.len() / 2) as i64, (rows[0].len() / 2) as i64);
        // A kernel weighs what lies around a pixel; light goes the other way.
        Ok(Kernel::new(half, |y, x| rows[(half.0 - y) as usize][(half.1 - x) as usize]))
    }

    /// The sum of rows that make a kernel.
    fn check_rows(rows: &[Vec<f64>]) -> Result<f64, HintedMessage> {
        let (height, width) = (rows.len(), rows.first().map_or(0, Vec::len));
        if rows.iter().any(|row| row.len() != width) {
            return Err(HintedMessage::new("rows of unequal length", "give every row as many numbers"));
        }
        if height % 2 == 0 || width % 2 == 0 || height.max(width) > LARGEST {
            let hint = format!("give odd numbers of rows and columns up to {LARGEST}, so that there is a centre");
            return Err(HintedMessage::new(format!("a kernel of {width}x{height}"), hint));
        }
        let sum: f64 = rows.iter().flatten().sum();
        match sum.is_finite() && sum > 0.0 {
            true => Ok(sum),
            false => Err(HintedMessage::new(format!("the kernel sums to {sum}"), "give one that sums to 1")),
        }
    }

    /// A Gaussian of this standard deviation in pixels.
    pub fn gaussian(deviation: f64) -> Kernel {
        let half = (8.0 * deviation).ceil() as i64;
        let line = |a: i64| if a == 0 { 1.0 } else { (-((a * a) as f64) / (2.0 * deviation * deviation)).exp() };
        Kernel::new((half, half), |y, x| line(y) * line(x))
    }

    /// A disc of this radius in pixels, as a lens out of focus makes it; pixels at its edge count by their area in it.
    pub fn disc(radius: f64) -> Kernel {
        /// Points of a pixel that are looked at, along one side.
        const POINTS: i64 = 16;
        let half = radius.ceil() as i64 + 1;
        let inside = |y: i64, x: i64| {
            let at = |place: i64, i: i64| place as f64 + (i as f64 + 0.5) / POINTS as f64 - 0.5;
            let points = (0..POINTS).flat_map(|i| (0..POINTS).map(move |j| (i, j)));
            points.filter(|&(i, j)| at(y, i).hypot(at(x, j)) <= radius).count() as f64
        };
        Kernel::new((half, half), |y, x| inside(y, x) + if (y, x) == (0, 0) { 1e-6 } else { 0.0 })
    }

    /// Motion over this length in pixels, at an angle in degrees from the horizontal, counterclockwise.
    pub fn motion(length: f64, angle: f64) -> Kernel {
        /// Points of the motion for each pixel of its length.
        const POINTS: f64 = 32.0;
        let half = (length / 2.0).ceil() as i64 + 1;
        let count = (length * POINTS).ceil().max(1.0);
        let (down, across) = (-angle.to_radians().sin(), angle.to_radians().cos());
        let place = |i: f64| ((i + 0.5) / count - 0.5) * length;
        let tent = |x: f64| (1.0 - x.abs()).max(0.0);
        Kernel::new((half, half), |y, x| {
            let point = |i: u64| {
                let s = place(i as f64);
                tent(y as f64 - s * down) * tent(x as f64 - s * across)
            };
            (0..count as u64).map(point).sum()
        })
    }

    /// Its taps: rows and columns from the centre, and weights.
    pub fn taps(&self) -> &[(i64, i64, f64)] {
        &self.taps
    }

    /// Whether it is the same upside down and in a mirror.
    fn is_even(&self) -> bool {
        // The taps are in the order of their places.
        let place = |y: i64, x: i64| self.taps.binary_search_by_key(&(y, x), |tap| (tap.0, tap.1));
        let at = |y: i64, x: i64| place(y, x).map_or(0.0, |index| self.taps[index].2);
        let largest = self.taps.iter().fold(0.0, |largest: f64, tap| largest.max(tap.2.abs()));
        self.taps.iter().all(|&(y, x, w)| {
            let same = |other: f64| (w - other).abs() <= 1e-12 * largest;
            same(at(-y, x)) && same(at(y, -x))
        })
    }

    /// The convolution of images of `shape`: diagonal in the cosine basis where kernel and boundary are symmetric.
    pub fn map(&self, shape: Shape, boundary: Boundary) -> LinearMap {
        if boundary == Boundary::Reflect && self.is_even() {
            return CosineFilter::new(shape, self.cosine_gains(shape)).map();
        }
        LinearMap::Operator(SharedOperator::new(Convolution { shape, kernel: self.clone(), boundary }))
    }

    /// `sum of w cos(pi k y / h) cos(pi l x / w)` over the taps, for an even kernel.
    fn cosine_gains(&self, shape: Shape) -> Vec<f64> {
        let half = |of: fn(&(i64, i64, f64)) -> i64| self.taps.iter().map(of).max().unwrap_or(0);
        let (down, across) = (half(|tap| tap.0), half(|tap| tap.1));
        let table = |n: usize, half: i64| -> Vec<Vec<f64>> {
            let cosine = |k: usize, a: i64| (PI * k as f64 * a as f64 / n as f64).cos();
            (0..n).map(|k| (0..=half).map(|a| cosine(k, a)).collect()).collect()
        };
        let (rows, cols) = (table(shape.height, down), table(shape.width, across));
        // First over the columns of the kernel, then over its rows.
        let mut folded = vec![vec![0.0; across as usize + 1]; down as usize + 1];
        for &(y, x, w) in &self.taps {
            folded[y.unsigned_abs() as usize][x.unsigned_abs() as usize] += w;
        }
        let by_row: Vec<Vec<f64>> = folded
            .iter()
            .map(|line| cols.iter().map(|c| line.iter().zip(c).map(|(w, c)| w * c).sum()).collect())
            .collect();
        let gain = |index: usize| {
            let (k, l) = (index / shape.width, index % shape.width);
            by_row.iter().zip(&rows[k]).map(|(line, c)| line[l] * c).sum()
        };
        (0..shape.pixels()).into_par_iter().map(gain).collect()
    }
}

/// `out[i] = sum over taps of w in[i + tap]`, as in [`super::convolution_matrix`].
#[derive(Debug)]
struct Convolution {
    shape: Shape,
    kernel: Kernel,
    boundary: Boundary,
}

impl LinearOperator for Convolution {
    fn name(&self) -> &'static str {
        "convolution"
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn run(&self, shape: Shape, x: &[f64], adjoint: bool) -> Vec<f64> {
        let planes = planes_from_image(shape, x);
        let mut out = vec![0.0; planes.len()];
        let pairs = out.par_chunks_exact_mut(shape.pixels()).zip(planes.par_chunks_exact(shape.pixels()));
        pairs.for_each(|(out, plane)| self.plane(plane, out, adjoint));
        image_from_planes(shape, &out)
    }
}

impl Convolution {
    fn plane(&self, plane: &[f64], out: &mut [f64], adjoint: bool) {
        let (height, width) = (self.shape.height, self.shape.width);
        for &(down, across, weight) in &self.kernel.taps {
            let columns: Vec<_> = (0..width).map(|x| self.boundary.fold(x as i64 + across, width)).collect();
            for y in 0..height {
                let Some(from) = self.boundary.fold(y as i64 + down, height) else { continue };
                for (x, from_x) in columns.iter().enumerate() {
                    let Some(from_x) = from_x else { continue };
                    let (there, here) = (from * width + from_x, y * width + x);
                    match adjoint {
                        false => out[here] += weight * plane[there],
                        true => out[there] += weight * plane[here],
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corruption::{Blur, Corruption, Direction, MotionBlur};
    use crate::linalg::dot;
    use softdiff_engine::rng::RandomStream;

    fn far(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn kernels_do_what_the_corruptions_of_the_same_name_do_at_every_border() {
        let shape = Shape::new(17, 23, 3);
        let x = RandomStream::new(2, "image").normals(shape.len());
        for boundary in Boundary::ALL {
            let blurred = Blur::new(shape, boundary, 4.0).unwrap().at(1.7).unwrap().apply(shape, &x).unwrap();
            let found = Kernel::gaussian(1.7).map(shape, boundary).apply(shape, &x).unwrap();
            assert!(far(&blurred, &found) < 1e-8, "{boundary:?}");
            let motion = MotionBlur::new(shape, Direction::Vertical, boundary, 9.0).unwrap().at(5.0).unwrap();
            let found = Kernel::motion(5.0, 90.0).map(shape, boundary).apply(shape, &x).unwrap();
            assert!(far(&motion.apply(shape, &x).unwrap(), &found) < 1e-3, "{boundary:?}");
        }
    }

    #[test]
    fn the_adjoint_is_the_adjoint_also_of_a_kernel_without_symmetry() {
        let shape = Shape::new(9, 12, 2);
        let kernel = Kernel::new((2, 3), |y, x| 1.0 + 0.3 * y as f64 - 0.1 * x as f64 + 0.05 * (x * y) as f64);
        let [x, y] = ["x", "y"].map(|name| RandomStream::new(3, name).normals(shape.len()));
        for boundary in Boundary::ALL {
            for kernel in [&kernel, &Kernel::motion(6.0, 30.0), &Kernel::disc(2.4)] {
                let map = kernel.map(shape, boundary);
                let (ax, aty) = (map.apply(shape, &x).unwrap(), map.adjoint(shape, &y).unwrap());
                assert!((dot(&ax, &y) - dot(&x, &aty)).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn kernels_sum_to_one_and_a_disc_has_its_area() {
        for kernel in [Kernel::gaussian(0.3), Kernel::disc(0.2), Kernel::disc(3.7), Kernel::motion(8.5, 17.0)] {
            assert!((kernel.taps().iter().map(|tap| tap.2).sum::<f64>() - 1.0).abs() < 1e-12);
        }
        // The second moment of a disc of radius r is r^2 / 4 along each axis, and that of a pixel 1/12 more.
        let moment: f64 = Kernel::disc(5.0).taps().iter().map(|&(y, _, w)| (y * y) as f64 * w).sum();
        assert!((moment - 25.0 / 4.0 - 1.0 / 12.0).abs() < 0.05, "{moment}");
    }
}
