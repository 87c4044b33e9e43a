// GroupNorm's gradient with the next image on its way while one is computed. Blocks go over tiles (an image's slice of
// channels) and keep two in shared memory, where every thread copies and reads its own packs only, so that the copies need
// no barrier. For images in one part; see norm_resident.cu for the rest.

#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ void copy_async(uint4* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
#else
__device__ __forceinline__ void copy_async(uint4* to, const void* from) { *to = *(const uint4*)from; }
__device__ __forceinline__ void end_copies() {}
template <int N> __device__ __forceinline__ void wait_copies() {}
#endif

// What a channel's thread needs of its tile, fetched one tile ahead.
struct ChannelFacts {
    float weight, offset, inverse, center;
};

template <int R>
__device__ __forceinline__ void norm_stream_gradient(bf16* dx, bf16* second, int split, float* dshift, float* partials,
                                                     int sums, const float* means, const float* inverses,
                                                     const bf16* dy, const bf16* x, const float* gamma,
                                                     const float* beta, const float* shift, const void* bits,
                                                     Addends add, NormSizes size, int silu, u32 threshold, float kept,
                                                     int images) {
    extern __shared__ uint4 tiles[];
    typedef typename Bits<R>::type Word;
    int channels = size.channels, slice = size.slice, per_group = size.per_group, slices = channels / slice;
    int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y, total = images * slices;
    int sets = add.a ? 3 : 2, pixels = threadIdx.x * 8 < slice ? size.pixels : 0;
    float half = silu ? 0.5f : 1.0f, *shared = (float*)(tiles + 2 * sets * R * threads);
    auto slot = [&](int stage, int set, int r) { return tiles + ((stage * sets + set) * R + r) * threads + thread; };
    auto place = [&](int tile) {
        return (i64)(tile / slices) * size.pixels * channels + tile % slices * slice + threadIdx.x * 8;
    };
    auto fetch = [&](int tile, int stage) {
        if (tile < total) {
            i64 image = place(tile);
#pragma unroll
            for (int r = 0; r < R; r++) {
                int pixel = threadIdx.y + r * blockDim.y;
                if (pixel < pixels) {
                    i64 at = image + (i64)pixel * channels;
                    copy_async(slot(stage, 0, r), x + at);
                    copy_async(slot(stage, 1, r), dy + at);
                    if (add.a) copy_async(slot(stage, 2, r), add.a + at);
                }
            }
        }
        end_copies();
    };
    auto facts = [&](int tile) {
        ChannelFacts f = {0.0f, 0.0f, 0.0f, 0.0f};
        if (thread < slice && tile < total) {
            int channel = tile % slices * slice + thread;
            i64 image = tile / slices, group = image * (channels / per_group) + channel / per_group;
            f.weight = gamma[channel], f.offset = beta[channel], f.inverse = inverses[group], f.center = means[group];
            if (shift) f.center -= shift[image * channels + channel];
        }
        return f;
    };
    auto decisions = [&](int tile) -> u64 {
        return threshold && tile < total ? (u64)((const Word*)bits)[(i64)tile * threads + thread] : 0;
    };
    // Packs beyond the image stay zero.
    for (int stage = 0; stage < 2; stage++)
        for (int set = 0; set < sets; set++)
#pragma unroll
            for (int r = 0; r < R; r++)
                if (threadIdx.y + r * blockDim.y >= pixels) *slot(stage, set, r) = make_uint4(0, 0, 0, 0);
    fetch(blockIdx.x, 0);
    ChannelFacts coming = facts(blockIdx.x);
    u64 decided_next = decisions(blockIdx.x);
    int stage = 0;
    for (int tile = blockIdx.x; tile < total; tile += gridDim.x, stage ^= 1) {
        ChannelFacts now = coming;
        u64 decided = decided_next;
        fetch(tile + gridDim.x, stage ^ 1);
        coming = facts(tile + gridDim.x);
        decided_next = decisions(tile + gridDim.x);
        int at_image = tile / slices, channel = tile % slices * slice + thread;
        if (thread < slice) {
            float a = half * now.weight * now.inverse;
            shared[thread] = a;
            shared[slice + thread] = half * now.offset - now.center * a;
        }
        __syncthreads();
        wait_copies<1>();
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
                unpack8(*slot(stage, 0, r), v);
                unpack8(*slot(stage, 1, r), d);
                if (threshold) {
                    u32 keep = (u32)(decided >> (8 * r));
#pragma unroll
                    for (int i = 0; i < 8; i++) d[i] = keep & (1 << i) ? d[i] * kept : 0.0f;
                }
                if (silu) {
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        float h = a[i] * v[i] + b[i], t = fast_tanh(h);
                        float bend = 0.5f + 0.5f * t, curve = 0.5f - 0.5f * t * t;
                        d[i] *= bend + h * curve;
                    }
                }
                store<8>((bf16*)slot(stage, 1, r), d);
#pragma unroll
                for (int i = 0; i < 8; i++) each[0][i] += d[i], each[1][i] += d[i] * v[i];
            }
        }
        __syncthreads();
        float *totals = channel_totals<2>(shared, each, slice), *products = totals + slice;
        float sum = 0.0f, product = 0.0f;
        if (thread < slice) {
            sum = totals[thread];
            product = (products[thread] - now.center * sum) * now.inverse;
            totals[thread] = now.weight * sum, products[thread] = now.weight * product;
        }
        __syncthreads();
        float constant = 0.0f, slope = 0.0f;
        i64 where = (i64)at_image * channels + channel, set = (i64)images * channels;
        if (thread < slice) {
            int first = thread / per_group * per_group;
            float share = 1.0f / ((float)size.pixels * per_group), all = 0.0f, dot = 0.0f;
            for (int j = first; j < first + per_group; j++) all += totals[j], dot += products[j];
            slope = -now.inverse * now.inverse * dot * share;
            constant = -now.inverse * all * share - slope * now.center;
            partials[where] = product;
            partials[set + where] = sum;
        }
        __syncthreads();
        if (thread < slice) {
            shared[thread] = now.weight * now.inverse;
            shared[slice + thread] = slope, shared[2 * slice + thread] = constant;
        }
        __syncthreads();
        float out[1][8];
        {
            float a[8], tilt[8], level[8];
            load<8>(shared + threadIdx.x * 8, a);
            load<8>(shared + slice + threadIdx.x * 8, tilt);
            load<8>(shared + 2 * slice + threadIdx.x * 8, level);
#pragma unroll
            for (int i = 0; i < 8; i++) out[0][i] = 0.0f;
            i64 image = place(tile);
            int c = tile % slices * slice + threadIdx.x * 8, pitch = c < split ? split : channels - split;
            bf16* to = (c < split ? dx + c : second + (c - split)) + (i64)at_image * size.pixels * pitch;
#pragma unroll
            for (int r = 0; r < R; r++) {
                int pixel = threadIdx.y + r * blockDim.y;
                if (pixel >= pixels) break;
                float v[8], d[8];
                unpack8(*slot(stage, 0, r), v);
                unpack8(*slot(stage, 1, r), d);
#pragma unroll
                for (int i = 0; i < 8; i++) d[i] = a[i] * d[i] + (tilt[i] * v[i] + level[i]);
                if (add.a) {
                    unpack8(*slot(stage, 2, r), v);
#pragma unroll
                    for (int i = 0; i < 8; i++) d[i] += add.by_a * v[i];
                }
                if (add.b) add_pack(d, add.b, add.by_b, image + (i64)pixel * channels);
                if (add.c) add_pack(d, add.c, add.by_c, image + (i64)pixel * channels);
                store<8>(to + (i64)pixel * pitch, d);
#pragma unroll
                for (int i = 0; i < 8; i++) out[0][i] += d[i];
            }
        }
        __syncthreads();
        if (dshift || sums) {
            totals = channel_totals<1>(shared, out, slice);
            if (thread < slice) {
                if (dshift) dshift[where] = totals[thread];
                if (sums) partials[2 * set + where] = totals[thread];
            }
            __syncthreads();
        }
    }
}

#define NORM_STREAM(R)                                                                                                 \
    extern "C" __global__ void __launch_bounds__(512, 1) norm_stream_gradient_##R(                                     \
        bf16* dx, bf16* second, int split, float* dshift, float* partials, int sums, const float* mean,                \
        const float* inverse, const bf16* dy, const bf16* x, const float* gamma, const float* beta,                    \
        const float* shift, const void* bits, const bf16* add_a, const bf16* add_b, const bf16* add_c, float by_a,     \
        float by_b, float by_c, int pixels, int channels, int slice, int per_group, int silu, u32 threshold,           \
        float kept, int images) {                                                                                      \
        norm_stream_gradient<R>(dx, second, split, dshift, partials, sums, mean, inverse, dy, x, gamma, beta, shift,   \
                                bits, Addends{add_a, add_b, add_c, by_a, by_b, by_c},                                  \
                                NormSizes{pixels, channels, slice, per_group}, silu, threshold, kept, images);         \
    }
NORM_STREAM(1) NORM_STREAM(2) NORM_STREAM(4)
