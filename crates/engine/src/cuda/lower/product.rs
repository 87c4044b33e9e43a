//! Matrix products: batched and many small ones.

use super::{Command, Io, Lowering};
use crate::TensorShape;
use crate::cuda::arguments::*;
use crate::cuda::cublas::Gemm;
use crate::cuda::driver::{Address, USUAL_SHARED};
use crate::cuda::kernels::KernelName;
use crate::error::Result;
use crate::op::Matmul;
use crate::op::matmul::Product;
use crate::plan::Step;

/// Columns that a block of kernels/products.cu has.
const COLUMNS: usize = 32;
/// Blocks that a grid can have along y.
const MOST_RUNS: usize = 65_535;

/// The longest run, of which all products consist, that has one left matrix.
fn run_of_one(batch: &[(usize, usize)]) -> usize {
    let same = |run: &[(usize, usize)]| run.iter().all(|product| product.0 == run[0].0);
    let first = batch.iter().take_while(|product| product.0 == batch[0].0).count();
    let whole = batch.len().is_multiple_of(first.max(1)) && batch.chunks(first.max(1)).all(same);
    if whole { first.max(1) } else { 1 }
}

/// A batch of products, and how it is launched.
#[derive(Clone, Debug)]
pub(in crate::cuda) struct Products {
    product: Product,
    small: Option<SmallProducts>,
}

/// Products that a kernel of ours computes in one launch.
#[derive(Clone, Copy, Debug)]
struct SmallProducts {
    /// Products in a row with one left matrix.
    run: usize,
    /// Bytes of shared memory: columns of B, and A with its rows in fours and a little apart.
    shared: usize,
}

impl Products {
    pub fn new(op: &Matmul, a: &TensorShape, b: &TensorShape) -> Products {
        let (product, _) = op.product(a, b).expect("shapes were checked when the node was added");
        let Product { m, n, k, .. } = product;
        let shared = 4 * k * (COLUMNS + m.next_multiple_of(4) + 4);
        let run = run_of_one(&product.batch);
        let runs = product.batch.len() / run;
        let fits = shared <= USUAL_SHARED && runs <= MOST_RUNS;
        let small =
            (product.batch.len() >= 32 && m * n * k <= 1 << 20 && fits).then_some(SmallProducts { run, shared });
        Products { product, small }
    }
}

impl Lowering<'_> {
    /// A batch of products, where an operand may be repeated.
    pub(super) fn matmul(&mut self, products: &Products, op: &Matmul, step: &Step, io: &Io) -> Result<()> {
        let Io { ins, outs, half, .. } = io;
        let (half, tf32) = (*half, self.precision.tf32());
        if self.half(step.inputs[1]) != half {
            return Err(self.unsupported(step, "mixes bf16 and f32; cast one"));
        }
        let product = &products.product;
        let element = io.element.bytes();
        let (m, width, k) = (product.m, product.n, product.k);
        if let Some(SmallProducts { run, shared }) = products.small {
            let starts = product.batch.iter().flat_map(|&(a, b)| [a as u64, b as u64]);
            let table = self.device.upload(&starts.flat_map(u64::to_le_bytes).collect::<Vec<_>>())?;
            let strides = |transposed: bool, columns: usize, rows: usize| {
                if transposed { [1, rows] } else { [columns, 1] }.map(int)
            };
            let arguments = SmallProductsArgs {
                out: outs[0],
                a: ins[0],
                b: ins[1],
                starts: table.address,
                run: int(run),
                m: int(m),
                n: int(width),
                k: int(k),
                a_strides: strides(op.transpose[0], k, m),
                b_strides: strides(op.transpose[1], width, k),
            };
            self.tables.push(table);
            let grid = [(run * width).div_ceil(COLUMNS), product.batch.len() / run, 1];
            return self.launch(
                KernelName::SmallProducts { element: io.element },
                grid,
                [256, 1, 1],
                shared,
                &arguments,
            );
        }
        let mut first = 0;
        while first < product.batch.len() {
            // The longest run of equal steps is one batched product.
            let rest = &product.batch[first..];
            let steps = rest.get(1).map_or((0, 0), |b| (b.0.wrapping_sub(rest[0].0), b.1.wrapping_sub(rest[0].1)));
            let run = rest
                .windows(2)
                .take_while(|w| (w[1].0.wrapping_sub(w[0].0), w[1].1.wrapping_sub(w[0].1)) == steps)
                .count();
            let (a, b) = rest[0];
            self.commands.push(Command::Product(Gemm {
                m: product.m,
                n: product.n,
                k: product.k,
                alpha: 1.0,
                a: ins[0] + (a * element) as u64,
                b: ins[1] + (b * element) as u64,
                out: outs[0] + (first * product.m * product.n * element) as u64,
                transpose: op.transpose,
                pitches: [if op.transpose[0] { m } else { k }, if op.transpose[1] { k } else { width }, width],
                strides: [steps.0, steps.1, product.m * product.n],
                batch: run + 1,
                addresses: None,
                half,
                half_out: half,
                tf32,
            }));
            first += run + 1;
        }
        Ok(())
    }

    /// A batch of products without repeated operands. Each is an address and the elements from row to row.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn product(
        &mut self,
        [m, n, k]: [usize; 3],
        batch: usize,
        alpha: f32,
        [a, b, out]: [(Address, usize); 3],
        transpose: [bool; 2],
        half: bool,
        half_out: bool,
    ) {
        let pitches = [a.1, b.1, out.1];
        let rows = [if transpose[0] { k } else { m }, if transpose[1] { n } else { k }, m];
        let strides = std::array::from_fn(|i| rows[i] * pitches[i]);
        let tf32 = self.precision.tf32();
        self.commands.push(Command::Product(Gemm {
            m,
            n,
            k,
            alpha,
            a: a.0,
            b: b.0,
            out: out.0,
            transpose,
            pitches,
            strides,
            batch,
            addresses: None,
            half,
            half_out,
            tf32,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_with_one_left_matrix_are_found_in_runs() {
        let batch = |lefts: &[usize]| lefts.iter().map(|&left| (left, 0)).collect::<Vec<_>>();
        assert_eq!(run_of_one(&batch(&[0, 0, 0, 0])), 4);
        assert_eq!(run_of_one(&batch(&[0, 0, 9, 9, 18, 18])), 2);
        assert_eq!(run_of_one(&batch(&[0, 9, 18])), 1);
        assert_eq!(run_of_one(&batch(&[0, 0, 9])), 1);
        assert_eq!(run_of_one(&batch(&[0, 0, 9, 18])), 1);
    }
}
