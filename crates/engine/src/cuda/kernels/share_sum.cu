// Sums over the shares of a batch in the order of a fixed tree, as the CPU adds them (ranks/tree.rs).

// One entry per block: a part of a gradient, and where its sums are.
struct SharePiece {
    const void* gradient;
    float* sum;
    int count;
    int half;
};
static_assert(sizeof(SharePiece) == 24, "SharePiece of gradient_sum.rs");

// The waiting sums that a share's gradient is added to, as bits, and the buffer that the result goes to.
struct Addition {
    u32 levels, to;
};
static_assert(sizeof(Addition) == 8, "Addition of ranks/additions.rs");

// Adds a share's gradients to the sums that wait for them. `step[1]` is the number of the share, `first` that of the first one
// here. Products and sums are rounded one by one, as on the CPU: fused, the order would matter for more than the tree.
extern "C" __global__ void share_add(const SharePiece* pieces, const Addition* additions, i64 stride, int lowest,
                                     const u32* step, int first, float share) {
    await_previous();
    SharePiece p = pieces[blockIdx.x];
    Addition addition = additions[step[1] - first];
    for (int i = threadIdx.x; i < p.count; i += blockDim.x) {
        float g = p.half ? widen(((const bf16*)p.gradient)[i]) : ((const float*)p.gradient)[i];
        g = __fmul_rn(share, g);
        int level = 0;
        for (u32 rest = addition.levels; rest; rest >>= 1, level++)
            if (rest & 1) g = __fadd_rn(p.sum[(lowest + level) * stride + i], g);
        p.sum[addition.to * stride + i] = g;
    }
}

// Adds `count` rows of `n` values: neighbours, then neighbouring sums, where the last goes up as it is if their number is odd.
// This rank's own rows, `own` of them from number `first` on, lie `pitch` values apart from `out` on, where the sum goes too.
extern "C" __global__ void rows_sum(float* out, i64 pitch, int first, int own, const float* rows, int count, i64 n) {
    await_previous();
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        // Sums that wait, by level: a binary counter. Ranks and their shares are fewer than 2^20.
        float waiting[20], sum = 0.0f;
        for (int row = 0; row < count; row++) {
            bool is_own = row >= first && row < first + own;
            sum = is_own ? out[(row - first) * pitch + i] : rows[row * n + i];
            int level = 0;
            for (; row >> level & 1; level++) sum = __fadd_rn(waiting[level], sum);
            waiting[level] = sum;
        }
        // What is left is added from the lowest level up.
        int level = __ffs(count) - 1;
        sum = waiting[level];
        for (level++; count >> level; level++)
            if (count >> level & 1) sum = __fadd_rn(waiting[level], sum);
        out[i] = sum;
    }
}
