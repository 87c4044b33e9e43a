//! What a filter sees beyond the edge of an image.

use crate::linalg::Matrix;

/// Continuation of an image beyond its edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// Black: the paper (appendix, "Blur parameters"). Energy is lost at the border.
    #[default]
    Zero,
    /// Mirrored at the edge of the outer pixel; symmetric filters become diagonal in the cosine basis (DCT-II).
    Reflect,
    /// Continued from the opposite side; filters become diagonal in the Fourier basis.
    Periodic,
}

impl Boundary {
    /// All of them.
    pub const ALL: [Boundary; 3] = [Boundary::Zero, Boundary::Reflect, Boundary::Periodic];

    /// One word for files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Boundary::Zero => "zero",
            Boundary::Reflect => "reflect",
            Boundary::Periodic => "periodic",
        }
    }

    /// The pixel of 0..n that stands at `position`, if any.
    pub(super) fn fold(self, position: i64, n: usize) -> Option<usize> {
        let n = n as i64;
        let inside = match self {
            Boundary::Zero => return (0..n).contains(&position).then_some(position as usize),
            Boundary::Periodic => position.rem_euclid(n),
            Boundary::Reflect => {
                let folded = position.rem_euclid(2 * n);
                folded.min(2 * n - 1 - folded)
            }
        };
        Some(inside as usize)
    }
}

/// The n x n matrix of `out[i] = sum_a taps[a + half] in[i + a]`, where `taps` has 2 half + 1 entries.
pub fn convolution_matrix(taps: &[f64], n: usize, boundary: Boundary) -> Matrix {
    let half = (taps.len() / 2) as i64;
    let mut matrix = Matrix::zeros(n, n);
    for i in 0..n {
        for (index, &tap) in taps.iter().enumerate() {
            if let Some(j) = boundary.fold(i as i64 + index as i64 - half, n) {
                matrix[(i, j)] += tap;
            }
        }
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_continue_as_their_names_say() {
        let taps = [1.0, 10.0, 100.0];
        let row = |boundary, i| convolution_matrix(&taps, 3, boundary).row(i).to_vec();
        assert_eq!(row(Boundary::Zero, 0), [10.0, 100.0, 0.0]);
        assert_eq!(row(Boundary::Reflect, 0), [11.0, 100.0, 0.0]);
        assert_eq!(row(Boundary::Periodic, 0), [10.0, 100.0, 1.0]);
        assert_eq!(row(Boundary::Reflect, 2), [0.0, 1.0, 110.0]);
        assert_eq!(row(Boundary::Zero, 1), [1.0, 10.0, 100.0]);
    }

    #[test]
    fn a_kernel_longer_than_the_image_folds_completely() {
        for boundary in [Boundary::Reflect, Boundary::Periodic] {
            let matrix = convolution_matrix(&[0.1; 21], 4, boundary);
            for i in 0..4 {
                assert!((matrix.row(i).iter().sum::<f64>() - 2.1).abs() < 1e-14);
            }
        }
    }
}
