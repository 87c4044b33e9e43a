//! The inner loops of Sinkhorn iteration, written so that the compiler vectorises them.

/// Rows handled together, so that each load of v serves several.
pub(super) const ROWS: usize = 4;
const LANES: usize = 4;

/// min over j of c_j - g_j.
pub(super) fn least_difference(c: &[f64], g: &[f64]) -> f64 {
    let mut least = [f64::INFINITY; LANES];
    let ((c_blocks, c_rest), (g_blocks, g_rest)) = (c.as_chunks::<LANES>(), g.as_chunks::<LANES>());
    for (c, g) in c_blocks.iter().zip(g_blocks) {
        for l in 0..LANES {
            let slack = c[l] - g[l];
            least[l] = if slack < least[l] { slack } else { least[l] };
        }
    }
    let rest = c_rest.iter().zip(g_rest).map(|(c, g)| c - g);
    least.into_iter().chain(rest).fold(f64::INFINITY, f64::min)
}

/// Largest less smallest value.
pub(super) fn spread(values: &[f64]) -> f64 {
    let (mut least, mut most) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
    let (blocks, rest) = values.as_chunks::<LANES>();
    for block in blocks {
        for l in 0..LANES {
            least[l] = if block[l] < least[l] { block[l] } else { least[l] };
            most[l] = if block[l] > most[l] { block[l] } else { most[l] };
        }
    }
    let least = least.iter().chain(rest).copied().fold(f64::INFINITY, f64::min);
    most.iter().chain(rest).copied().fold(f64::NEG_INFINITY, f64::max) - least
}

/// The inner products of four rows with the same weights.
pub(super) fn four_products(rows: [&[f64]; ROWS], weights: &[f64]) -> [f64; ROWS] {
    let mut sums = [[0.0; LANES]; ROWS];
    let (blocks, rest) = weights.as_chunks::<LANES>();
    let rows = rows.map(|row| row.as_chunks::<LANES>());
    for (index, w) in blocks.iter().enumerate() {
        for r in 0..ROWS {
            let k = &rows[r].0[index];
            for l in 0..LANES {
                sums[r][l] += k[l] * w[l];
            }
        }
    }
    std::array::from_fn(|r| {
        let tail: f64 = rest.iter().zip(rows[r].1).map(|(w, k)| w * k).sum();
        sums[r].iter().sum::<f64>() + tail
    })
}

/// Adds four rows, each times its factor.
pub(super) fn add_four(columns: &mut [f64], rows: [&[f64]; ROWS], factors: [f64; ROWS]) {
    let [a, b, c, d] = rows.map(|row| &row[..columns.len()]);
    for (j, column) in columns.iter_mut().enumerate() {
        *column += (factors[0] * a[j] + factors[1] * b[j]) + (factors[2] * c[j] + factors[3] * d[j]);
    }
}
