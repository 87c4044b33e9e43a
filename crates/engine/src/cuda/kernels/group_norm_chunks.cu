// For large images, two passes over the whole GPU: sums per image, chunk of pixels and channel, then the result.
// Block (8, 32): 64 channels by 32 pixels at a time. Grid (channels / 64 rounded up, chunks, images).

template <class T> __device__ __forceinline__ void chunk(int pixels, int chunks, int* first, int* last) {
    int per = (pixels + chunks - 1) / chunks;
    *first = blockIdx.y * per;
    *last = min(*first + per, pixels);
}

// Sums K values per thread and channel over thread y; the first row of threads writes them to out[k].
template <int K> __device__ __forceinline__ void write_sums(float* out, float (&v)[K][8], i64 stride, bool valid) {
    __shared__ float shared[8][K][64];
    int warp = threadIdx.y / 4;
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            v[k][i] += __shfl_xor_sync(0xFFFFFFFF, v[k][i], 8);
            v[k][i] += __shfl_xor_sync(0xFFFFFFFF, v[k][i], 16);
            if (threadIdx.y % 4 == 0) shared[warp][k][threadIdx.x * 8 + i] = v[k][i];
        }
    __syncthreads();
    int thread = threadIdx.y * 8 + threadIdx.x, channel = thread % 64, k = thread / 64;
    bool inside = blockIdx.x * 64 + channel < stride;
    if (k < K && inside) {
        float total = 0.0f;
        for (int w = 0; w < 8; w++) total += shared[w][k][channel];
        out[k * stride + blockIdx.x * 64 + channel] = total;
    }
}

template <class T>
__device__ void group_norm_sums(float* sums, const T* x, const float* shift, int pixels, int channels, int chunks) {
    int c = blockIdx.x * 64 + threadIdx.x * 8, first, last;
    bool valid = c < channels;
    chunk<T>(pixels, chunks, &first, &last);
    const T* in = x + (i64)blockIdx.z * pixels * channels + c;
    float v[8], total[2][8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        total[0][i] = total[1][i] = 0.0f;
    }
    float s[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    if (shift && valid) load<8>(shift + (i64)blockIdx.z * channels + c, s);
    for (int pixel = first + threadIdx.y; valid && pixel < last; pixel += 32) {
        load<8>(in + (i64)pixel * channels, v);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float w = v[i] + s[i];
            total[0][i] += w;
            total[1][i] += w * w;
        }
    }
    write_sums<2>(sums + ((i64)blockIdx.z * chunks + blockIdx.y) * 2 * channels, total, channels, valid);
}

// The channels of the groups that a block's channels are in.
struct Reach {
    int begin, width;
};

// Per-channel totals over the chunks, for those channels, in shared memory.
template <int K>
__device__ __forceinline__ Reach gather_sums(float* shared, const float* sums, int channels, int chunks, int per_group) {
    const float* mine = sums + (i64)blockIdx.z * chunks * K * channels;
    int begin = blockIdx.x * 64 / per_group * per_group;
    int end = min((min(blockIdx.x * 64 + 64, channels) + per_group - 1) / per_group * per_group, channels);
    int width = end - begin;
    for (int at = threadIdx.y * 8 + threadIdx.x; at < K * width; at += 256) {
        int k = at / width, c = begin + at % width;
        float total = 0.0f;
        for (int i = 0; i < chunks; i++) total += mine[(i * K + k) * channels + c];
        shared[at] = total;
    }
    __syncthreads();
    return {begin, width};
}

template <class T>
__device__ void group_norm_apply(T* y, float* means, float* inverses, const float* sums, const T* x, const float* gamma,
                                 const float* beta, const float* shift, int pixels, int channels, int chunks,
                                 int per_group, float epsilon, int silu, Mask mask) {
    extern __shared__ float shared[];
    int c = blockIdx.x * 64 + threadIdx.x * 8, first, last;
    bool valid = c < channels;
    auto [begin, width] = gather_sums<2>(shared, sums, channels, chunks, per_group);
    __shared__ float constants[2][64];
    int thread = threadIdx.y * 8 + threadIdx.x, channel = blockIdx.x * 64 + thread;
    float count = 1.0f / ((float)pixels * per_group), scale[8], offset[8];
    // One thread per channel works out its constants.
    if (thread < 64 && channel < channels) {
        int from = channel / per_group * per_group - begin;
        float total = 0.0f, squares = 0.0f;
        for (int j = from; j < from + per_group; j++) total += shared[j], squares += shared[width + j];
        float mean = total * count, inverse = rsqrtf(fmaxf(squares * count - mean * mean, 0.0f) + epsilon);
        if (blockIdx.y == 0 && channel % per_group == 0) {
            int at = blockIdx.z * (channels / per_group) + channel / per_group;
            means[at] = mean, inverses[at] = inverse;
        }
        float center = mean - (shift ? shift[(i64)blockIdx.z * channels + channel] : 0.0f);
        constants[0][thread] = gamma[channel] * inverse;
        constants[1][thread] = beta[channel] - center * gamma[channel] * inverse;
    }
    __syncthreads();
    if (!valid) return;
    load<8>(&constants[0][threadIdx.x * 8], scale);
    load<8>(&constants[1][threadIdx.x * 8], offset);
    chunk<T>(pixels, gridDim.y, &first, &last);
    i64 image = (i64)blockIdx.z * pixels * channels + c;
#pragma unroll 4
    for (int pixel = first + threadIdx.y; pixel < last; pixel += 32) {
        float v[8];
        i64 at = image + (i64)pixel * channels;
        load<8>(x + at, v);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float z = scale[i] * v[i] + offset[i];
            v[i] = silu ? z * sigmoid_for<T>(z) : z;
        }
        mask.apply(v, at);
        store<8>(y + at, v);
    }
}

// Sums of dz, dz x and x, where dz is the gradient before SiLU and x includes the shift.
template <class T>
__device__ void group_norm_gradient_sums(float* sums, const float* means, const float* inverses, const T* dy, const T* x,
                                         const float* gamma, const float* beta, const float* shift, int pixels,
                                         int channels, int chunks, int per_group, int silu, Mask mask) {
    int c = blockIdx.x * 64 + threadIdx.x * 8, first, last;
    bool valid = c < channels;
    chunk<T>(pixels, chunks, &first, &last);
    i64 image = (i64)blockIdx.z * pixels * channels + c;
    float a[8], b[8], mean[8], total[3][8];
    __shared__ float constants[3][64];
    int thread = threadIdx.y * 8 + threadIdx.x, channel = blockIdx.x * 64 + thread;
    if (thread < 64 && channel < channels) {
        int group = blockIdx.z * (channels / per_group) + channel / per_group;
        // Centred, so that the sums below do not cancel.
        constants[0][thread] = means[group] - (shift ? shift[(i64)blockIdx.z * channels + channel] : 0.0f);
        constants[1][thread] = gamma[channel] * inverses[group];
        constants[2][thread] = beta[channel];
    }
    __syncthreads();
    load<8>(&constants[0][threadIdx.x * 8], mean);
    load<8>(&constants[1][threadIdx.x * 8], a);
    load<8>(&constants[2][threadIdx.x * 8], b);
#pragma unroll
    for (int i = 0; i < 8; i++) total[0][i] = total[1][i] = total[2][i] = 0.0f;
    for (int pixel = first + threadIdx.y; valid && pixel < last; pixel += 32) {
        float v[8], d[8];
        i64 at = image + (i64)pixel * channels;
        load<8>(x + at, v);
        load<8>(dy + at, d);
        mask.apply(d, at);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            v[i] -= mean[i];
            if (silu) d[i] *= silu_slope<T>(a[i] * v[i] + b[i]);
            total[0][i] += d[i];
            total[1][i] += d[i] * v[i];
            total[2][i] += v[i];
        }
    }
    write_sums<3>(sums + ((i64)blockIdx.z * chunks + blockIdx.y) * 3 * channels, total, channels, valid);
}

template <class T>
__device__ void group_norm_gradient_apply(T* dx, float* dgammas, float* dbetas, float* dshift, const float* sums,
                                          const float* means, const float* inverses, const T* dy, const T* x,
                                          const float* gamma, const float* beta, const float* shift, int pixels,
                                          int channels, int chunks, int per_group, int silu, Mask mask) {
    extern __shared__ float shared[];
    int c = blockIdx.x * 64 + threadIdx.x * 8, first, last;
    bool valid = c < channels;
    auto [begin, width] = gather_sums<3>(shared, sums, channels, chunks, per_group);
    __shared__ float constants[4][64];
    int thread = threadIdx.y * 8 + threadIdx.x, channel = blockIdx.x * 64 + thread;
    float count = 1.0f / ((float)pixels * per_group), a[8], b[8], slope[8], constant[8];
    // One thread per channel works out its constants.
    if (thread < 64 && channel < channels) {
        int from = channel / per_group * per_group;
        int group = blockIdx.z * (channels / per_group) + channel / per_group;
        float inverse = inverses[group], center = means[group] - (shift ? shift[(i64)blockIdx.z * channels + channel] : 0.0f);
        float total = 0.0f, product = 0.0f;
        for (int j = from; j < from + per_group; j++) {
            total += gamma[j] * shared[j - begin];
            product += gamma[j] * shared[width + j - begin];
        }
        float scale = gamma[channel] * inverse, tilt = -inverse * inverse * inverse * product * count;
        constants[0][thread] = scale;
        constants[1][thread] = beta[channel] - center * scale;
        constants[2][thread] = tilt;
        constants[3][thread] = -inverse * total * count - tilt * center;
        if (blockIdx.y == 0) {
            i64 at = (i64)blockIdx.z * channels + channel;
            float sum = shared[channel - begin], plain = shared[2 * width + channel - begin];
            dbetas[at] = sum;
            dgammas[at] = shared[width + channel - begin] * inverse;
            // x = (x - center) + center, and tilt * center + constant is -inverse * total * count.
            if (dshift) dshift[at] = scale * sum + tilt * plain - pixels * inverse * total * count;
        }
    }
    __syncthreads();
    if (!valid) return;
    load<8>(&constants[0][threadIdx.x * 8], a);
    load<8>(&constants[1][threadIdx.x * 8], b);
    load<8>(&constants[2][threadIdx.x * 8], slope);
    load<8>(&constants[3][threadIdx.x * 8], constant);
    chunk<T>(pixels, gridDim.y, &first, &last);
    i64 image = (i64)blockIdx.z * pixels * channels + c;
#pragma unroll 2
    for (int pixel = first + threadIdx.y; pixel < last; pixel += 32) {
        float v[8], d[8];
        i64 at = image + (i64)pixel * channels;
        load<8>(x + at, v);
        load<8>(dy + at, d);
        mask.apply(d, at);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (silu) d[i] *= silu_slope<T>(a[i] * v[i] + b[i]);
            d[i] = a[i] * d[i] + slope[i] * v[i] + constant[i];
        }
        store<8>(dx + at, d);
    }
}
#define GROUP_NORM_CHUNKS(T)                                                                                           \
    extern "C" __global__ void __launch_bounds__(256)                                                                  \
        group_norm_sums_##T(float* sums, const T* x, const float* shift, int pixels, int channels, int chunks) {       \
        await_previous();                                                                                              \
        group_norm_sums<T>(sums, x, shift, pixels, channels, chunks);                                                  \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) group_norm_apply_##T(                                            \
        T* y, float* mean, float* inverse, const float* sums, const T* x, const float* gamma, const float* beta,       \
        const float* shift, int pixels, int channels, int chunks, int per_group, float epsilon, int silu,              \
        u32 threshold, u32 purpose, float kept, u64 seed, const u32* step, i64 elements) {                             \
        await_previous();                                                                                              \
        group_norm_apply<T>(y, mean, inverse, sums, x, gamma, beta, shift, pixels, channels, chunks, per_group,        \
                            epsilon, silu, Mask{threshold, purpose, kept, seed, step, elements});                      \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) group_norm_gradient_sums_##T(                                    \
        float* sums, const float* mean, const float* inverse, const T* dy, const T* x, const float* gamma,             \
        const float* beta, const float* shift, int pixels, int channels, int chunks, int per_group, int silu,          \
        u32 threshold, u32 purpose, float kept, u64 seed, const u32* step, i64 elements) {                             \
        await_previous();                                                                                              \
        group_norm_gradient_sums<T>(sums, mean, inverse, dy, x, gamma, beta, shift, pixels, channels, chunks,          \
                                    per_group, silu, Mask{threshold, purpose, kept, seed, step, elements});            \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) group_norm_gradient_apply_##T(                                   \
        T* dx, float* dgammas, float* dbetas, float* dshift, const float* sums, const float* mean,                     \
        const float* inverse, const T* dy, const T* x, const float* gamma, const float* beta, const float* shift,      \
        int pixels, int channels, int chunks, int per_group, int silu, u32 threshold, u32 purpose, float kept,         \
        u64 seed, const u32* step, i64 elements) {                                                                     \
        await_previous();                                                                                              \
        group_norm_gradient_apply<T>(dx, dgammas, dbetas, dshift, sums, mean, inverse, dy, x, gamma, beta, shift,      \
                                     pixels, channels, chunks, per_group, silu,                                        \
                                     Mask{threshold, purpose, kept, seed, step, elements});                            \
    }
GROUP_NORM_CHUNKS(bf16)
