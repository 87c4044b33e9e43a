//! The blocks of the network as data: units of convolution, and how they are joined.

/// A convolution, its batch norm and its rectifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The name within its block.
    pub name: &'static str,
    /// Output channels.
    pub filters: usize,
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// Pixels between outputs.
    pub stride: usize,
    /// Zeros above and below, left and right.
    pub pad: [usize; 2],
}

const fn unit(name: &'static str, filters: usize, kernel: [usize; 2]) -> Unit {
    Unit { name, filters, kernel, stride: 1, pad: [kernel[0] / 2, kernel[1] / 2] }
}

const fn valid(name: &'static str, filters: usize, stride: usize) -> Unit {
    Unit { name, filters, kernel: [3, 3], stride, pad: [0, 0] }
}

/// A pool at the end of which a convolution may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Mean of 3x3 at stride 1, padding not counted, then this unit.
    Average(Unit),
    /// Maximum of 3x3 at stride 1, then this unit.
    Maximum(Unit),
    /// Maximum of 3x3 at stride 2, without padding, and nothing after.
    Halving,
}

/// Units one after the other; the last ones may stand side by side on the same input.
#[derive(Clone, Debug)]
pub struct Branch {
    /// In sequence.
    pub chain: Vec<Unit>,
    /// On the chain's output, side by side; empty where the chain's output is the branch's.
    pub fork: Vec<Unit>,
}

fn chain(units: &[Unit]) -> Branch {
    Branch { chain: units.to_vec(), fork: vec![] }
}

/// Branches on one input and a pool, joined in this order.
#[derive(Clone, Debug)]
pub struct InceptionBlock {
    /// `mixed` and a number.
    pub name: &'static str,
    /// The branches of convolutions.
    pub branches: Vec<Branch>,
    /// The last branch.
    pub pool: Pool,
}

/// The units before the first block; a halving maximum pool follows the third and the fifth.
pub const STEM: [Unit; 5] = [
    valid("conv", 32, 2),
    valid("conv_1", 32, 1),
    unit("conv_2", 64, [3, 3]),
    unit("conv_3", 80, [1, 1]),
    valid("conv_4", 192, 1),
];

/// All blocks, in order.
pub fn blocks() -> Vec<InceptionBlock> {
    vec![
        block_a("mixed", 32),
        block_a("mixed_1", 64),
        block_a("mixed_2", 64),
        block_b("mixed_3"),
        block_c("mixed_4", 128),
        block_c("mixed_5", 160),
        block_c("mixed_6", 160),
        block_c("mixed_7", 192),
        block_d("mixed_8"),
        block_e("mixed_9", Pool::Average),
        block_e("mixed_10", Pool::Maximum),
    ]
}

/// 35 x 35.
fn block_a(name: &'static str, pooled: usize) -> InceptionBlock {
    let branches = vec![
        chain(&[unit("conv", 64, [1, 1])]),
        chain(&[unit("tower.conv", 48, [1, 1]), unit("tower.conv_1", 64, [5, 5])]),
        chain(&[
            unit("tower_1.conv", 64, [1, 1]),
            unit("tower_1.conv_1", 96, [3, 3]),
            unit("tower_1.conv_2", 96, [3, 3]),
        ]),
    ];
    InceptionBlock { name, branches, pool: Pool::Average(unit("tower_2.conv", pooled, [1, 1])) }
}

/// From 35 x 35 to 17 x 17.
fn block_b(name: &'static str) -> InceptionBlock {
    let branches = vec![
        chain(&[valid("conv", 384, 2)]),
        chain(&[unit("tower.conv", 64, [1, 1]), unit("tower.conv_1", 96, [3, 3]), valid("tower.conv_2", 96, 2)]),
    ];
    InceptionBlock { name, branches, pool: Pool::Halving }
}

/// 17 x 17, with kernels of 7 along one axis.
fn block_c(name: &'static str, c: usize) -> InceptionBlock {
    let branches = vec![
        chain(&[unit("conv", 192, [1, 1])]),
        chain(&[unit("tower.conv", c, [1, 1]), unit("tower.conv_1", c, [1, 7]), unit("tower.conv_2", 192, [7, 1])]),
        chain(&[
            unit("tower_1.conv", c, [1, 1]),
            unit("tower_1.conv_1", c, [7, 1]),
            unit("tower_1.conv_2", c, [1, 7]),
            unit("tower_1.conv_3", c, [7, 1]),
            unit("tower_1.conv_4", 192, [1, 7]),
        ]),
    ];
    InceptionBlock { name, branches, pool: Pool::Average(unit("tower_2.conv", 192, [1, 1])) }
}

/// From 17 x 17 to 8 x 8.
fn block_d(name: &'static str) -> InceptionBlock {
    let branches = vec![
        chain(&[unit("tower.conv", 192, [1, 1]), valid("tower.conv_1", 320, 2)]),
        chain(&[
            unit("tower_1.conv", 192, [1, 1]),
            unit("tower_1.conv_1", 192, [1, 7]),
            unit("tower_1.conv_2", 192, [7, 1]),
            valid("tower_1.conv_3", 192, 2),
        ]),
    ];
    InceptionBlock { name, branches, pool: Pool::Halving }
}

/// 8 x 8.
fn block_e(name: &'static str, pool: fn(Unit) -> Pool) -> InceptionBlock {
    let branches = vec![
        chain(&[unit("conv", 320, [1, 1])]),
        Branch {
            chain: vec![unit("tower_conv", 384, [1, 1])],
            fork: vec![unit("tower_mixed_conv", 384, [1, 3]), unit("tower_mixed_conv_1", 384, [3, 1])],
        },
        Branch {
            chain: vec![unit("tower_1_conv", 448, [1, 1]), unit("tower_1_conv_1", 384, [3, 3])],
            fork: vec![unit("tower_1_mixed_conv", 384, [1, 3]), unit("tower_1_mixed_conv_1", 384, [3, 1])],
        },
    ];
    InceptionBlock { name, branches, pool: pool(unit("tower_2_conv", 192, [1, 1])) }
}
