//! Matrix products: batched and many small ones.

use super::{Command, Io, Lowering};
use crate::cuda::cublas::Gemm;
use crate::cuda::driver::Address;
use crate::error::Result;
use crate::op::Matmul;
use crate::plan::Step;

impl Lowering<'_> {
    /// A batch of products, where an operand may be repeated.
    pub(super) fn matmul(&mut self, op: &Matmul, step: &Step, io: &Io) -> Result<()> {
        let Io { shapes, ins, outs, kind, half, n, .. } = io;
        let (kind, half, n, tf32) = (*kind, *half, *n, self.numbers.tf32());
        if self.half(step.inputs[1]) != half {
            return Err(self.unsupported(step, "mixes bf16 and f32; cast one"));
        }
        let (product, _) = op.product(shapes[0], shapes[1]).map_err(|e| self.unsupported(step, &e))?;
        let element = if half { 2 } else { 4 };
        let (m, width, k) = (product.m, product.n, product.k);
        if product.batch.len() >= 32 && m * width * k <= 1 << 18 {
            let starts = product.batch.iter().flat_map(|&(a, b)| [a as u64, b as u64]);
            let table = self.device.upload(&starts.flat_map(u64::to_le_bytes).collect::<Vec<_>>())?;
            let mut arguments = vec![outs[0], ins[0], ins[1], table.address, n as u64];
            self.tables.push(table);
            let strides = |transposed: bool, columns: usize, rows: usize| {
                if transposed { [1, rows] } else { [columns, 1] }
            };
            let (a, b) = (strides(op.transpose[0], k, m), strides(op.transpose[1], width, k));
            arguments.extend([m, width, k, a[0], a[1], b[0], b[1]].map(|v| v as u64));
            return self.each(&format!("small_products_{kind}"), n, &arguments);
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
        let tf32 = self.numbers.tf32();
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
