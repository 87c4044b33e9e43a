// GroupNorm of 16-bit images with every value read once. A block has one image's part and a slice of channels (whole
// groups, a multiple of eight): thread x goes over the slice in packs of eight, thread y over pixels, and the packs stay
// in registers. The blocks of one image and slice, if there are several, are a cluster and share their sums.

template <int R, int SLICE>
__device__ __forceinline__ void group_norm_one_pass(bf16* y, float* means, float* inverses, u8* bits, const bf16* x,
                                              const float* gamma, const float* beta, const float* shift,
                                              NormSizes size, float epsilon, int silu, Mask mask, int x_pitch) {
    extern __shared__ float shared[];
    if (gridDim.y > 1) cluster_arrive();
    int channels = size.channels, slice = SLICE ? SLICE : size.slice, per_group = size.per_group;
    if (SLICE) silu = 1;
    Share<SLICE> share(size);
    int thread = share.thread, channel = share.channel;
    // The pixels of x, which may be a part of another tensor, lie `x_pitch` apart.
    x += (i64)share.pixel * x_pitch + blockIdx.x * slice + threadIdx.x * 8;
    u32 x_hop = share.rows * x_pitch;
    uint4 kept[R];
#pragma unroll
    for (int r = 0; r < R; r++)
        kept[r] = share.has(r) ? *(const uint4*)(x + r * x_hop) : nothing();
    float weight = 0.0f, offset = 0.0f, moved = 0.0f;
    if (thread < slice) {
        weight = gamma[channel], offset = beta[channel];
        if (shift) moved = shift[(i64)image() * channels + channel];
    }
    float sums[2][8];
#pragma unroll
    for (int i = 0; i < 8; i++) sums[0][i] = sums[1][i] = 0.0f;
#pragma unroll
    for (int r = 0; r < R; r++) {
        float v[8];
        unpack8(kept[r], v);
#pragma unroll
        for (int i = 0; i < 8; i++) sums[0][i] += v[i], sums[1][i] += v[i] * v[i];
    }
    float *totals = channel_totals<2, SLICE>(shared, sums, slice, true), *squares = totals + slice;
    // Per channel the mean with its shift and the variance; then a group's from its channels', so nothing cancels.
    if (thread < slice) {
        float inverse_pixels = 1.0f / size.pixels, middle = totals[thread] * inverse_pixels;
        squares[thread] = fmaxf(squares[thread] * inverse_pixels - middle * middle, 0.0f);
        totals[thread] = middle + moved;
    }
    __syncthreads();
    if (thread < slice) {
        int first = thread / per_group * per_group;
        float mean = 0.0f, variance = 0.0f, part = 1.0f / per_group;
        for (int j = first; j < first + per_group; j++) mean += totals[j];
        mean *= part;
        for (int j = first; j < first + per_group; j++) {
            float away = totals[j] - mean;
            variance += squares[j] + away * away;
        }
        float inverse = rsqrtf(variance * part + epsilon), half = silu ? 0.5f : 1.0f;
        if (thread == first && blockIdx.y == 0) {
            i64 group = (i64)image() * (channels / per_group) + channel / per_group;
            means[group] = mean, inverses[group] = inverse;
        }
        float a = half * weight * inverse;
        shared[thread] = a, shared[slice + thread] = half * offset + (moved - mean) * a;
    }
    __syncthreads();
    if (!share.has(0)) return;
    float a[8], b[8];
    load<8>(shared + threadIdx.x * 8, a);
    load<8>(shared + slice + threadIdx.x * 8, b);
#pragma unroll
    for (int r = 0; r < R; r++) {
        if (!share.has(r)) break;
        i64 at = share.at + r * share.hop;
        float v[8];
        unpack8(kept[r], v);
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] = a[i] * v[i] + b[i];
        if (silu) {
#pragma unroll
            for (int i = 0; i < 8; i++) v[i] = v[i] * fast_tanh(v[i]) + v[i];
        }
        if (!mask.threshold) {
            store<8>(y + at, v);
            continue;
        }
        u32 keep = keep_bits(mask, at);
        bits[at / 8] = keep;
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] *= mask.kept;
        uint4 pack = make_uint4(pack2(v[0], v[1]), pack2(v[2], v[3]), pack2(v[4], v[5]), pack2(v[6], v[7]));
        drop(pack, keep);
        *(uint4*)(y + at) = pack;
    }
}

// What is added to the gradient: up to three tensors of x's shape, times a number.
struct Addends {
    const bf16* from[3];
    float by[3];
};

__device__ __forceinline__ void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// With ADDS there are addends and perhaps sums of the result, else perhaps a shift and its gradient.
template <int R, int SLICE, int ADDS>
__device__ __forceinline__ void group_norm_one_pass_gradient(bf16* dx, bf16* second, int split, float* dshift,
                                                       float* partials, int sums, const float* means,
                                                       const float* inverses, const bf16* dy, const bf16* x, const float* gamma,
                                                       const float* beta, const float* shift, const u8* bits,
                                                       Addends add, NormSizes size, int silu, float kept, int x_pitch) {
    extern __shared__ float shared[];
    if (gridDim.y > 1) cluster_arrive();
    int channels = size.channels, slice = SLICE ? SLICE : size.slice, per_group = size.per_group;
    if (SLICE) silu = 1;
    Share<SLICE> share(size);
    int thread = share.thread, channel = share.channel;
    x += (i64)share.pixel * x_pitch + blockIdx.x * slice + threadIdx.x * 8;
    u32 x_hop = share.rows * x_pitch;
    uint4 kept_x[R], kept_d[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        kept_x[r] = share.has(r) ? *(const uint4*)(x + r * x_hop) : nothing();
        kept_d[r] = share.has(r) ? *(const uint4*)(dy + share.at + r * share.hop) : nothing();
    }
    if (bits) {
        u32 keep[R];
#pragma unroll
        for (int r = 0; r < R; r++) keep[r] = share.has(r) ? bits[(share.at + r * share.hop) / 8] : 0;
#pragma unroll
        for (int r = 0; r < R; r++) drop(kept_d[r], keep[r]);
    }
#pragma unroll
    for (int j = 0; j < ADDS; j++) {
        if (!SLICE && !add.from[j]) break;
#pragma unroll
        for (int r = 0; r < R; r++)
            if (share.has(r)) prefetch(add.from[j] + share.at + r * share.hop);
    }
    float weight = 0.0f, inverse = 0.0f, center = 0.0f, half = silu ? 0.5f : 1.0f;
    if (thread < slice) {
        i64 group = (i64)image() * (channels / per_group) + channel / per_group;
        weight = gamma[channel], inverse = inverses[group], center = means[group];
        if (shift) center -= shift[(i64)image() * channels + channel];
        float a = half * weight * inverse;
        shared[thread] = a;
        shared[slice + thread] = half * beta[channel] - center * a;
    }
    __syncthreads();
    // Of the gradient before SiLU, of its products with x, and of x.
    constexpr int K = ADDS ? 2 : 3;
    float each[K][8];
    {
        float a[8], b[8];
        load<8>(shared + threadIdx.x * 8 % slice, a);
        load<8>(shared + slice + threadIdx.x * 8 % slice, b);
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int i = 0; i < 8; i++) each[k][i] = 0.0f;
        // The gradient before SiLU takes dy's place; it is twice as large.
#pragma unroll
        for (int r = 0; r < R; r++) {
            float v[8], d[8];
            unpack8(kept_x[r], v);
            unpack8(kept_d[r], d);
            if (silu) {
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    // With t = tanh h: 2 (sigmoid + z sigmoid (1 - sigmoid)) = (1 + t) (1 + h (1 - t)).
                    float h = a[i] * v[i] + b[i], t = fast_tanh(h), m = h * (1.0f - t) + 1.0f;
                    d[i] *= m * t + m;
                }
                kept_d[r] = make_uint4(pack2(d[0], d[1]), pack2(d[2], d[3]), pack2(d[4], d[5]), pack2(d[6], d[7]));
            }
#pragma unroll
            for (int i = 0; i < 8; i++) {
                each[0][i] += d[i], each[1][i] += d[i] * v[i];
                if (!ADDS) each[K - 1][i] += v[i];
            }
        }
    }
    __syncthreads();
    float *totals = channel_totals<K, SLICE>(shared, each, slice, true), by = half * kept;
    float sum = 0.0f, product = 0.0f;
    if (thread < slice) {
        sum = by * totals[thread];
        // Of the gradient and the normalised value.
        product = (by * totals[slice + thread] - center * sum) * inverse;
        shared[thread] = weight * sum, shared[slice + thread] = weight * product;
    }
    __syncthreads();
    float* constants = shared + 2 * slice;
    if (thread < slice) {
        int first = thread / per_group * per_group;
        float part = 1.0f / ((float)size.pixels * per_group), all = 0.0f, dot = 0.0f;
        for (int j = first; j < first + per_group; j++) all += shared[j], dot += shared[slice + j];
        // dx = a d - inverse (mean(gamma d) + u mean(gamma d u)), u = (x - center) inverse
        float slope = -inverse * inverse * dot * part, constant = -inverse * all * part - slope * center;
        if (blockIdx.y == 0) {
            i64 at = (i64)image() * channels + channel, set = (i64)gridDim.z * channels;
            partials[at] = product;
            partials[set + at] = sum;
            if (!ADDS) {
                // The sum of dx over the pixels.
                float total = inverse * weight * sum + slope * totals[2 * slice + thread] + constant * size.pixels;
                if (dshift) dshift[at] = total;
                if (sums) partials[2 * set + at] = total;
            }
        }
        constants[thread] = by * weight * inverse, constants[slice + thread] = slope;
        constants[2 * slice + thread] = constant;
    }
    __syncthreads();
    float out[1][8];
    if (ADDS) {
#pragma unroll
        for (int i = 0; i < 8; i++) out[0][i] = 0.0f;
    }
    if (share.has(0)) {
        float a[8], tilt[8], level[8];
        load<8>(constants + threadIdx.x * 8, a);
        load<8>(constants + slice + threadIdx.x * 8, tilt);
        load<8>(constants + 2 * slice + threadIdx.x * 8, level);
        // Where this thread's channels go.
        int c = blockIdx.x * slice + threadIdx.x * 8, pitch = c < split ? split : channels - split;
        bf16* to = (c < split ? dx + c : second + (c - split)) + (i64)share.pixel * pitch;
        u32 hop = share.rows * pitch;
        constexpr int TOGETHER = R < 2 ? R : 2;
#pragma unroll
        for (int begin = 0; begin < R; begin += TOGETHER) {
            float d[TOGETHER][8];
#pragma unroll
            for (int r = 0; r < TOGETHER; r++) {
                float v[8];
                unpack8(kept_x[begin + r], v);
                unpack8(kept_d[begin + r], d[r]);
#pragma unroll
                for (int i = 0; i < 8; i++) d[r][i] = a[i] * d[r][i] + (tilt[i] * v[i] + level[i]);
            }
#pragma unroll
            for (int j = 0; j < ADDS; j++) {
                if (!SLICE && !add.from[j]) break;
                const bf16* from = add.from[j] + share.at + begin * share.hop;
                uint4 more[TOGETHER];
#pragma unroll
                for (int r = 0; r < TOGETHER; r++)
                    more[r] = share.has(begin + r) ? *(const uint4*)(from + r * share.hop) : nothing();
#pragma unroll
                for (int r = 0; r < TOGETHER; r++) {
                    float v[8];
                    unpack8(more[r], v);
#pragma unroll
                    for (int i = 0; i < 8; i++) d[r][i] += add.by[j] * v[i];
                }
            }
#pragma unroll
            for (int r = 0; r < TOGETHER; r++) {
                if (!share.has(begin + r)) break;
                store<8>(to + (begin + r) * hop, d[r]);
                if (ADDS) {
#pragma unroll
                    for (int i = 0; i < 8; i++) out[0][i] += d[r][i];
                }
            }
        }
    }
    if (ADDS && sums) {
        __syncthreads();
        totals = channel_totals<1, SLICE>(shared, out, slice, false);
        i64 row = (i64)image() * gridDim.y + blockIdx.y, before = 2 * (i64)gridDim.z * channels;
        if (thread < slice) partials[before + row * channels + channel] = totals[thread];
    }
}

// The forward kernel and the gradient's with a number of addends, for R packs a thread.
#define FORWARD(NAME, R, SLICE, BLOCKS)                                                                                \
    extern "C" __global__ void __launch_bounds__(256, BLOCKS) NAME(                                                    \
        bf16* y, float* mean, float* inverse, u8* bits, const bf16* x, const float* gamma, const float* beta,          \
        const float* shift, int pixels, int channels, int slice, int per_group, float epsilon, int silu,               \
        u32 threshold, u32 purpose, float kept, u64 seed, const u32* step, i64 elements, int pitch) {                  \
        await_previous();                                                                                              \
        group_norm_one_pass<R, SLICE>(y, mean, inverse, bits, x, gamma, beta, shift,                                   \
                                NormSizes{pixels, channels, slice, per_group}, epsilon, silu,                          \
                                Mask{threshold, purpose, kept, seed, step, elements}, pitch);                          \
    }
#define GRADIENT(NAME, R, SLICE, ADDS, BLOCKS)                                                                         \
    extern "C" __global__ void __launch_bounds__(256, BLOCKS) NAME(                                                    \
        bf16* dx, bf16* second, int split, float* dshift, float* partials, int sums, const float* mean,                \
        const float* inverse, const bf16* dy, const bf16* x, const float* gamma, const float* beta, const float* shift, \
        const u8* bits, const bf16* add_a, const bf16* add_b, const bf16* add_c, float by_a, float by_b, float by_c,   \
        int pixels, int channels, int slice, int per_group, int silu, float kept, int pitch) {                         \
        await_previous();                                                                                              \
        group_norm_one_pass_gradient<R, SLICE, ADDS>(dx, second, split, dshift, partials, sums, mean, inverse, dy, x, gamma, \
                                               beta, shift, bits, Addends{{add_a, add_b, add_c}, {by_a, by_b, by_c}},  \
                                               NormSizes{pixels, channels, slice, per_group}, silu, kept, pitch);      \
    }
// For any cut.
#define ANY(R, BLOCKS)                                                                                                 \
    FORWARD(group_norm_one_pass_##R, R, 0, R == 8 ? 3 : 4)                                                             \
    GRADIENT(group_norm_one_pass_gradient_0_##R, R, 0, 0, BLOCKS)                                                      \
    GRADIENT(group_norm_one_pass_gradient_3_##R, R, 0, 3, BLOCKS)
// For 256 threads, a slice of channels, whole rows of packs, and SiLU.
#define KNOWN(R, SLICE, BLOCKS)                                                                                        \
    FORWARD(group_norm_one_pass_##R##x##SLICE, R, SLICE, R == 8 ? 3 : 4)                                               \
    GRADIENT(group_norm_one_pass_gradient_0_##R##x##SLICE, R, SLICE, 0, BLOCKS)                                        \
    GRADIENT(group_norm_one_pass_gradient_1_##R##x##SLICE, R, SLICE, 1, BLOCKS)                                        \
    GRADIENT(group_norm_one_pass_gradient_2_##R##x##SLICE, R, SLICE, 2, BLOCKS)
