// GroupNorm of 16-bit images with every value read once. A block has one image's part and a slice of channels (whole
// groups, a multiple of eight): thread x goes over the slice in packs of eight, thread y over pixels, and the packs stay
// in registers. The blocks of one image and slice, if there are several, are a cluster and share their sums.

// sigmoid(2 h) = (1 + tanh h) / 2, with one special instruction instead of two.
__device__ __forceinline__ float fast_tanh(float x) {
#if __CUDA_ARCH__ >= 750
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return 2.0f * sigmoid(2.0f * x) - 1.0f;
#endif
}

#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
__device__ __forceinline__ float cluster_read(const float* mine, int block) {
    u32 local = (u32)__cvta_generic_to_shared(mine), remote;
    float value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(block));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(remote) : "memory");
    return value;
}
#else
__device__ __forceinline__ void cluster_barrier() {}
__device__ __forceinline__ float cluster_read(const float* mine, int) { return *mine; }
#endif

// Halves the values a thread holds: lanes that differ in bit `offset` keep one half each and add the other's.
template <int N> __device__ __forceinline__ void fold(float (&v)[8], int offset, bool upper) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        float keep = upper ? v[i + N] : v[i], send = upper ? v[i] : v[i + N];
        v[i] = keep + __shfl_xor_sync(0xFFFFFFFF, send, offset);
    }
}

// Sums K sets of eight values per thread over all pixels of the image: totals[k * slice + channel], for the whole block.
// Lanes are a power of two up to 16, and threads whole warps. The caller's shared memory holds K * slice * (warps + 2)
// floats. Ends with a barrier.
template <int K> __device__ __forceinline__ float* channel_totals(float* shared, float (&v)[K][8], int slice) {
    int lanes = blockDim.x, thread = threadIdx.y * lanes + threadIdx.x, threads = lanes * blockDim.y;
    int rows = threads / 32, row = thread / 32, count = lanes == 16 ? 4 : lanes == 8 ? 2 : 1;
    int first = threadIdx.x * 8 + (thread & 16 ? 4 : 0) + (lanes <= 8 && thread & 8 ? 2 : 0) + (lanes <= 4 && thread & 4 ? 1 : 0);
#pragma unroll
    for (int k = 0; k < K; k++) {
        fold<4>(v[k], 16, thread & 16);
        if (lanes <= 8) fold<2>(v[k], 8, thread & 8);
        if (lanes <= 4) fold<1>(v[k], 4, thread & 4);
        if (lanes <= 2) v[k][0] += __shfl_xor_sync(0xFFFFFFFF, v[k][0], 2);
        if (lanes <= 1) v[k][0] += __shfl_xor_sync(0xFFFFFFFF, v[k][0], 1);
    }
    bool valid = threadIdx.x * 8 < slice;
    float *totals = shared + K * slice * rows, *whole = totals + K * slice;
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i < count && valid) shared[(row * K + k) * slice + first + i] = v[k][i];
    __syncthreads();
    for (int at = thread; at < K * slice; at += threads) {
        float total = 0.0f;
        for (int r = 0; r < rows; r++) total += shared[r * K * slice + at];
        totals[at] = total;
    }
    if (gridDim.y == 1) {
        __syncthreads();
        return totals;
    }
    cluster_barrier();
    for (int at = thread; at < K * slice; at += threads) {
        float total = 0.0f;
        for (int block = 0; block < gridDim.y; block++) total += cluster_read(totals + at, block);
        whole[at] = total;
    }
    // Nobody may overwrite or leave while another block reads.
    cluster_barrier();
    return whole;
}

// Dropout's decisions about a thread's packs, one bit per element, as the forward pass left them.
template <int R> struct Bits;
template <> struct Bits<1> { typedef u8 type; };
template <> struct Bits<2> { typedef u16 type; };
template <> struct Bits<4> { typedef u32 type; };
template <> struct Bits<8> { typedef u64 type; };

__device__ __forceinline__ u32 keep_bits(const Mask& mask, i64 first) {
    uint4 r = philox(first / 8, *mask.step, mask.purpose, mask.seed);
    u32 words[4] = {r.x, r.y, r.z, r.w}, limit = mask.threshold << 16, bits = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        bits |= (words[i] << 16) < limit ? 0 : 1 << (2 * i);
        bits |= words[i] < limit ? 0 : 2 << (2 * i);
    }
    return bits;
}

struct NormSizes {
    int pixels, channels, slice, per_group;
};

template <int R>
__device__ __forceinline__ void norm_resident(bf16* y, float* means, float* inverses, void* bits, const bf16* x,
                                              const float* gamma, const float* beta, const float* shift,
                                              NormSizes size, float epsilon, int silu, Mask mask, int pitch) {
    extern __shared__ float shared[];
    int channels = size.channels, slice = size.slice, per_group = size.per_group;
    int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    int all = size.pixels / gridDim.y, part = threadIdx.x * 8 < slice ? all : 0, channel = blockIdx.x * slice + thread;
    i64 image = ((i64)blockIdx.z * size.pixels + blockIdx.y * all) * channels + blockIdx.x * slice + threadIdx.x * 8;
    // The pixels of x, which may be a part of another tensor, lie `pitch` apart.
    x += ((i64)blockIdx.z * size.pixels + blockIdx.y * all) * pitch + blockIdx.x * slice + threadIdx.x * 8;
    uint4 kept[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        int pixel = threadIdx.y + r * blockDim.y;
        kept[r] = pixel < part ? *(const uint4*)(x + (i64)pixel * pitch) : make_uint4(0, 0, 0, 0);
    }
    float weight = 0.0f, offset = 0.0f, moved = 0.0f;
    if (thread < slice) {
        weight = gamma[channel], offset = beta[channel];
        if (shift) moved = shift[(i64)blockIdx.z * channels + channel];
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
    float *totals = channel_totals<2>(shared, sums, slice), *squares = totals + slice;
    float inverse_pixels = 1.0f / size.pixels, share = 1.0f / per_group;
    // Per channel the mean with its shift and the variance; then a group's from its channels', so nothing cancels.
    float middle = 0.0f;
    if (thread < slice) {
        middle = totals[thread] * inverse_pixels;
        squares[thread] = fmaxf(squares[thread] * inverse_pixels - middle * middle, 0.0f);
        totals[thread] = middle + moved;
    }
    __syncthreads();
    float a = 0.0f, b = 0.0f;
    if (thread < slice) {
        int first = thread / per_group * per_group;
        float mean = 0.0f, variance = 0.0f;
        for (int j = first; j < first + per_group; j++) mean += totals[j];
        mean *= share;
        for (int j = first; j < first + per_group; j++) {
            float away = totals[j] - mean;
            variance += squares[j] + away * away;
        }
        float inverse = rsqrtf(variance * share + epsilon), half = silu ? 0.5f : 1.0f;
        if (thread == first && blockIdx.y == 0) {
            i64 group = (i64)blockIdx.z * (channels / per_group) + channel / per_group;
            means[group] = mean, inverses[group] = inverse;
        }
        a = half * weight * inverse;
        b = half * offset + (moved - mean) * a;
    }
    __syncthreads();
    if (thread < slice) totals[thread] = a, squares[thread] = b;
    __syncthreads();
    float scale[8], constant[8];
    if (!part) return;
    load<8>(totals + threadIdx.x * 8, scale);
    load<8>(squares + threadIdx.x * 8, constant);
    u64 decided = 0;
#pragma unroll
    for (int r = 0; r < R; r++) {
        int pixel = threadIdx.y + r * blockDim.y;
        if (pixel >= part) break;
        i64 at = image + (i64)pixel * channels;
        float v[8];
        unpack8(kept[r], v);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float h = scale[i] * v[i] + constant[i];
            v[i] = silu ? h * fast_tanh(h) + h : h;
        }
        if (mask.threshold) {
            u32 keep = keep_bits(mask, at);
            decided |= (u64)keep << (8 * r);
#pragma unroll
            for (int i = 0; i < 8; i++) v[i] = keep & (1 << i) ? v[i] * mask.kept : 0.0f;
        }
        store<8>(y + at, v);
    }
    if (mask.threshold) {
        i64 block = ((i64)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        typedef typename Bits<R>::type Word;
        ((Word*)bits)[block * threads + thread] = (Word)decided;
    }
}

// What is added to the gradient: up to three tensors of x's shape, times a number.
struct Addends {
    const bf16 *a, *b, *c;
    float by_a, by_b, by_c;
};

__device__ __forceinline__ void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

__device__ __forceinline__ void add_pack(float (&v)[8], const bf16* from, float by, i64 at) {
    float w[8];
    load<8>(from + at, w);
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] += by * w[i];
}

// Sums two or three sets of [images, channels] over the images: dgamma, dbeta, and the sums of dx. Block (32, 8).
extern "C" __global__ void norm_image_sums(float* first, float* second, float* third, const float* partials, int images,
                                           int channels, float by_third) {
    await_previous();
    __shared__ float shared[8][32];
    int set = blockIdx.y, channel = blockIdx.x * 32 + threadIdx.x;
    const float* from = partials + (i64)set * images * channels + channel;
    float total = 0.0f;
    if (channel < channels) {
#pragma unroll 8
        for (int image = threadIdx.y; image < images; image += 8) total += from[(i64)image * channels];
    }
    shared[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y || channel >= channels) return;
    for (int row = 1; row < 8; row++) total += shared[row][threadIdx.x];
    if (set == 0) first[channel] = total;
    if (set == 1) second[channel] = total;
    if (set == 2) third[channel] = by_third * total;
}

template <int R>
__device__ __forceinline__ void norm_resident_gradient(bf16* dx, bf16* second, int split, float* dshift,
                                                       float* partials, int sums, const float* means,
                                                       const float* inverses, const bf16* dy, const bf16* x,
                                                       const float* gamma, const float* beta, const float* shift,
                                                       const void* bits, Addends add, NormSizes size, int silu,
                                                       u32 threshold, float kept, int x_pitch) {
    extern __shared__ float shared[];
    int channels = size.channels, slice = size.slice, per_group = size.per_group;
    int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    int all = size.pixels / gridDim.y, part = threadIdx.x * 8 < slice ? all : 0, channel = blockIdx.x * slice + thread;
    i64 image = ((i64)blockIdx.z * size.pixels + blockIdx.y * all) * channels + blockIdx.x * slice + threadIdx.x * 8;
    x += ((i64)blockIdx.z * size.pixels + blockIdx.y * all) * x_pitch + blockIdx.x * slice + threadIdx.x * 8;
    uint4 kept_x[R], kept_d[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        int pixel = threadIdx.y + r * blockDim.y;
        i64 at = image + (i64)pixel * channels;
        kept_x[r] = pixel < part ? *(const uint4*)(x + (i64)pixel * x_pitch) : make_uint4(0, 0, 0, 0);
        kept_d[r] = pixel < part ? *(const uint4*)(dy + at) : make_uint4(0, 0, 0, 0);
        if (pixel < part && add.a) prefetch(add.a + at);
        if (pixel < part && add.b) prefetch(add.b + at);
        if (pixel < part && add.c) prefetch(add.c + at);
    }
    typedef typename Bits<R>::type Word;
    u64 decided = 0;
    if (threshold) {
        i64 block = ((i64)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        decided = ((const Word*)bits)[block * threads + thread];
    }
    float weight = 0.0f, inverse = 0.0f, center = 0.0f;
    float half = silu ? 0.5f : 1.0f;
    if (thread < slice) {
        i64 group = (i64)blockIdx.z * (channels / per_group) + channel / per_group;
        weight = gamma[channel], inverse = inverses[group], center = means[group];
        if (shift) center -= shift[(i64)blockIdx.z * channels + channel];
        float a = half * weight * inverse;
        shared[thread] = a;
        shared[slice + thread] = half * beta[channel] - center * a;
    }
    __syncthreads();
    float each[2][8];
    {
        float a[8], b[8];
        load<8>(shared + threadIdx.x * 8, a);
        load<8>(shared + slice + threadIdx.x * 8, b);
#pragma unroll
        for (int i = 0; i < 8; i++) each[0][i] = each[1][i] = 0.0f;
        // The gradient before SiLU takes dy's place.
#pragma unroll
        for (int r = 0; r < R; r++) {
            float v[8], d[8];
            unpack8(kept_x[r], v);
            unpack8(kept_d[r], d);
            if (threshold) {
                u32 keep = (u32)(decided >> (8 * r));
#pragma unroll
                for (int i = 0; i < 8; i++) d[i] = keep & (1 << i) ? d[i] * kept : 0.0f;
            }
            if (silu) {
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    // With t = tanh h: sigmoid + z sigmoid (1 - sigmoid) = (1 + t + h (1 - t^2)) / 2.
                    float h = a[i] * v[i] + b[i], t = fast_tanh(h);
                    float bend = 0.5f + 0.5f * t, curve = 0.5f - 0.5f * t * t;
                    d[i] *= bend + h * curve;
                }
            }
            kept_d[r] = make_uint4(pack2(d[0], d[1]), pack2(d[2], d[3]), pack2(d[4], d[5]), pack2(d[6], d[7]));
#pragma unroll
            for (int i = 0; i < 8; i++) each[0][i] += d[i], each[1][i] += d[i] * v[i];
        }
    }
    __syncthreads();
    float *totals = channel_totals<2>(shared, each, slice), *products = totals + slice;
    float sum = 0.0f, product = 0.0f;
    if (thread < slice) {
        sum = totals[thread];
        // Of d and the normalised value.
        product = (products[thread] - center * sum) * inverse;
    }
    __syncthreads();
    if (thread < slice) totals[thread] = weight * sum, products[thread] = weight * product;
    __syncthreads();
    float constant = 0.0f, slope = 0.0f;
    if (thread < slice) {
        int first = thread / per_group * per_group;
        float share = 1.0f / ((float)size.pixels * per_group), all = 0.0f, dot = 0.0f;
        for (int j = first; j < first + per_group; j++) all += totals[j], dot += products[j];
        // dx = a d - inverse (mean(gamma d) + u mean(gamma d u)), u = (x - center) inverse
        slope = -inverse * inverse * dot * share;
        constant = -inverse * all * share - slope * center;
        if (blockIdx.y == 0) {
            i64 at = (i64)blockIdx.z * channels + channel, set = (i64)gridDim.z * channels;
            partials[at] = product;
            partials[set + at] = sum;
        }
    }
    __syncthreads();
    if (thread < slice) shared[thread] = weight * inverse, shared[slice + thread] = slope, shared[2 * slice + thread] = constant;
    __syncthreads();
    float out[1][8];
    {
        float a[8], tilt[8], level[8];
        load<8>(shared + threadIdx.x * 8, a);
        load<8>(shared + slice + threadIdx.x * 8, tilt);
        load<8>(shared + 2 * slice + threadIdx.x * 8, level);
#pragma unroll
        for (int i = 0; i < 8; i++) out[0][i] = 0.0f;
        // Where this thread's channels go.
        int c = blockIdx.x * slice + threadIdx.x * 8, pitch = c < split ? split : channels - split;
        bf16* to = c < split ? dx + c : second + (c - split);
        to += ((i64)blockIdx.z * size.pixels + blockIdx.y * all) * pitch;
        constexpr int STRIDE = R < 4 ? R : 4;
#pragma unroll
        for (int begin = 0; begin < R; begin += STRIDE) {
            uint4 ready[STRIDE];
            if (add.a) {
#pragma unroll
                for (int r = 0; r < STRIDE; r++) {
                    int pixel = threadIdx.y + (begin + r) * blockDim.y;
                    if (pixel < part) ready[r] = *(const uint4*)(add.a + image + (i64)pixel * channels);
                }
            }
#pragma unroll
            for (int r = 0; r < STRIDE; r++) {
                int pixel = threadIdx.y + (begin + r) * blockDim.y;
                if (pixel >= part) break;
                i64 at = image + (i64)pixel * channels;
                float v[8], d[8];
                unpack8(kept_x[begin + r], v);
                unpack8(kept_d[begin + r], d);
#pragma unroll
                for (int i = 0; i < 8; i++) d[i] = a[i] * d[i] + (tilt[i] * v[i] + level[i]);
                if (add.a) {
                    unpack8(ready[r], v);
#pragma unroll
                    for (int i = 0; i < 8; i++) d[i] += add.by_a * v[i];
                }
                if (add.b) add_pack(d, add.b, add.by_b, at);
                if (add.c) add_pack(d, add.c, add.by_c, at);
                store<8>(to + (i64)pixel * pitch, d);
#pragma unroll
                for (int i = 0; i < 8; i++) out[0][i] += d[i];
            }
        }
    }
    if (dshift || sums) {
        __syncthreads();
        totals = channel_totals<1>(shared, out, slice);
        if (thread < slice && blockIdx.y == 0) {
            i64 at = (i64)blockIdx.z * channels + channel, set = (i64)gridDim.z * channels;
            if (dshift) dshift[at] = totals[thread];
            if (sums) partials[2 * set + at] = totals[thread];
        }
    }
}

#define NORM_RESIDENT(R)                                                                                       \
    extern "C" __global__ void __launch_bounds__(256, R == 8 ? 3 : 4) norm_resident_##R(                               \
        bf16* y, float* mean, float* inverse, void* bits, const bf16* x, const float* gamma, const float* beta,        \
        const float* shift, int pixels, int channels, int slice, int per_group, float epsilon, int silu,               \
        u32 threshold, u32 purpose, float kept, u64 seed, const u32* step, int pitch) {                                \
        await_previous();                                                                                              \
        norm_resident<R>(y, mean, inverse, bits, x, gamma, beta, shift, NormSizes{pixels, channels, slice, per_group}, \
                         epsilon, silu, Mask{threshold, purpose, kept, seed, step}, pitch);                            \
    }
#define NORM_RESIDENT_GRADIENT(R, BLOCKS)                                                                              \
    extern "C" __global__ void __launch_bounds__(256, BLOCKS) norm_resident_gradient_##R(                              \
        bf16* dx, bf16* second, int split, float* dshift, float* partials, int sums, const float* mean,                \
        const float* inverse, const bf16* dy, const bf16* x, const float* gamma, const float* beta, const float* shift,\
        const void* bits, const bf16* add_a, const bf16* add_b, const bf16* add_c, float by_a, float by_b, float by_c, \
        int pixels, int channels, int slice, int per_group, int silu, u32 threshold, float kept, int x_pitch) {        \
        await_previous();                                                                                              \
        norm_resident_gradient<R>(dx, second, split, dshift, partials, sums, mean, inverse, dy, x, gamma, beta, shift, \
                                  bits, Addends{add_a, add_b, add_c, by_a, by_b, by_c},                                \
                                  NormSizes{pixels, channels, slice, per_group}, silu, threshold, kept, x_pitch);      \
    }
NORM_RESIDENT(1) NORM_RESIDENT(2) NORM_RESIDENT(4) NORM_RESIDENT(8)
NORM_RESIDENT_GRADIENT(1, 4) NORM_RESIDENT_GRADIENT(2, 3) NORM_RESIDENT_GRADIENT(4, 2) NORM_RESIDENT_GRADIENT(8, 2)
