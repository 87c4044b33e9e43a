// GroupNorm of x + shift, then SiLU, then dropout. A block has one image and a slice of channels (whole groups, a multiple
// of eight): thread x goes over the slice in packs of eight, thread y over pixels. Packs stay in registers as they were
// read; statistics are f32.

template <class T> struct Pack;
template <> struct Pack<bf16> {
    uint4 raw;
    __device__ __forceinline__ void read(const bf16* p) { raw = *(const uint4*)p; }
    __device__ __forceinline__ void open(float (&v)[8]) const { unpack8(raw, v); }
};
template <> struct Pack<float> {
    float4 a, b;
    __device__ __forceinline__ void read(const float* p) { a = ((const float4*)p)[0], b = ((const float4*)p)[1]; }
    __device__ __forceinline__ void open(float (&v)[8]) const {
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    }
};

// Sums eight values per thread over all pixels' threads; gives the sums of the slice in shared memory.
__device__ __forceinline__ float* reduce_slice(float* shared, float (&v)[8], int slice) {
    int lanes = blockDim.x, thread = threadIdx.y * lanes + threadIdx.x, rows = blockDim.y, row = threadIdx.y;
    bool writes = true;
    if (lanes <= 16 && (lanes & (lanes - 1)) == 0 && rows * lanes % 32 == 0) {
        for (int offset = lanes; offset < 32; offset *= 2) {
#pragma unroll
            for (int i = 0; i < 8; i++) v[i] += __shfl_xor_sync(0xFFFFFFFF, v[i], offset);
        }
        rows = rows * lanes / 32;
        row = thread / 32;
        writes = thread % 32 < lanes;
    }
    if (writes) {
        float* mine = shared + row * slice + threadIdx.x * 8;
#pragma unroll
        for (int i = 0; i < 8; i++) mine[i] = v[i];
    }
    float* totals = shared + rows * slice;
    __syncthreads();
    for (int c = thread; c < slice; c += blockDim.x * blockDim.y) {
        float total = 0.0f;
        for (int r = 0; r < rows; r++) total += shared[r * slice + c];
        totals[c] = total;
    }
    __syncthreads();
    return totals;
}

template <class T, int R>
__device__ void group_norm(T* y, float* means, float* inverses, const T* x, const float* gamma, const float* beta,
                           const float* shift, int pixels, int channels, int slice, int per_group, float epsilon,
                           int silu, Mask mask) {
    extern __shared__ float shared[];
    int c = blockIdx.x * slice + threadIdx.x * 8;
    i64 image = (i64)blockIdx.y * pixels * channels + c;
    const T* in = x + image;
    Pack<T> kept[R];
    float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    float count = 1.0f / ((float)pixels * per_group);
#pragma unroll
    for (int r = 0; r < R; r++) {
        int pixel = threadIdx.y + r * blockDim.y;
        if (pixel < pixels) kept[r].read(in + (i64)pixel * channels);
    }
    auto each = [&](auto visit) {
        float v[8];
#pragma unroll
        for (int r = 0; r < R; r++) {
            int pixel = threadIdx.y + r * blockDim.y;
            if (pixel < pixels) {
                kept[r].open(v);
                visit(pixel, v);
            }
        }
        for (int pixel = threadIdx.y + R * blockDim.y; pixel < pixels; pixel += blockDim.y) {
            load<8>(in + (i64)pixel * channels, v);
            visit(pixel, v);
        }
    };
    each([&](int, float (&v)[8]) {
#pragma unroll
        for (int i = 0; i < 8; i++) sum[i] += v[i];
    });
    float* totals = reduce_slice(shared, sum, slice);
    float *results = totals + slice, center[8], scale[8], offset[8];
    int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    for (int at = thread; at < slice; at += threads) {
        int first = at / per_group * per_group;
        float total = 0.0f;
        for (int j = first; j < first + per_group; j++) {
            total += totals[j];
            if (shift) total += pixels * shift[blockIdx.y * channels + blockIdx.x * slice + j];
        }
        if (at == first) means[blockIdx.y * (channels / per_group) + (blockIdx.x * slice + at) / per_group] = total * count;
        // The mean of the group, less the channel's shift.
        results[at] = total * count - (shift ? shift[blockIdx.y * channels + blockIdx.x * slice + at] : 0.0f);
    }
    __syncthreads();
    load<8>(results + threadIdx.x * 8, center);
#pragma unroll
    for (int i = 0; i < 8; i++) sum[i] = 0.0f;
    each([&](int, float (&v)[8]) {
#pragma unroll
        for (int i = 0; i < 8; i++) sum[i] += (v[i] - center[i]) * (v[i] - center[i]);
    });
    totals = reduce_slice(shared, sum, slice);
    for (int at = thread; at < slice; at += threads) {
        int first = at / per_group * per_group;
        float total = 0.0f;
        for (int j = first; j < first + per_group; j++) total += totals[j];
        float inverse = rsqrtf(total * count + epsilon);
        if (at == first) inverses[blockIdx.y * (channels / per_group) + (blockIdx.x * slice + at) / per_group] = inverse;
        results[slice + at] = gamma[blockIdx.x * slice + at] * inverse;
    }
    __syncthreads();
    load<8>(results + slice + threadIdx.x * 8, scale);
#pragma unroll
    for (int i = 0; i < 8; i++) offset[i] = beta[c + i] - center[i] * scale[i];
    each([&](int pixel, float (&v)[8]) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float z = scale[i] * v[i] + offset[i];
            v[i] = silu ? z * sigmoid_for<T>(z) : z;
        }
        i64 at = image + (i64)pixel * channels;
        mask.apply(v, at);
        store<8>(y + at, v);
    });
}
#define GROUP_NORM(T, R)                                                                                               \
    extern "C" __global__ void __launch_bounds__(512, 2) group_norm_##T##_##R(                                         \
        T* y, float* mean, float* inverse, const T* x, const float* gamma, const float* beta, const float* shift,      \
        int pixels, int channels, int slice, int per_group, float epsilon, int silu, u32 threshold, u32 purpose,       \
        float kept, u64 seed, const u32* step) {                                                                       \
        await_previous();                                                                                              \
        group_norm<T, R>(y, mean, inverse, x, gamma, beta, shift, pixels, channels, slice, per_group, epsilon, silu,   \
                         Mask{threshold, purpose, kept, seed, step});                                                  \
    }
GROUP_NORM(float, 1) GROUP_NORM(float, 4) GROUP_NORM(bf16, 1) GROUP_NORM(bf16, 4) GROUP_NORM(bf16, 8)

// dx, dshift, and per image the sums that make dgamma and dbeta.
template <class T, int R>
__device__ void group_norm_gradient(T* dx, float* dgammas, float* dbetas, float* dshift, const float* means,
                                    const float* inverses, const T* dy, const T* x, const float* gamma,
                                    const float* beta, const float* shift, int pixels, int channels, int slice,
                                    int per_group, int silu, Mask mask) {
    extern __shared__ float shared[];
    int c = blockIdx.x * slice + threadIdx.x * 8;
    i64 image = (i64)blockIdx.y * pixels * channels + c;
    Pack<T> kept_x[R], kept_dy[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        int pixel = threadIdx.y + r * blockDim.y;
        if (pixel < pixels) {
            kept_x[r].read(x + image + (i64)pixel * channels);
            kept_dy[r].read(dy + image + (i64)pixel * channels);
        }
    }
    float center[8], inverse[8], a[8], b[8], sum[8], product[8], plain[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int group = blockIdx.y * (channels / per_group) + (c + i) / per_group;
        center[i] = means[group] - (shift ? shift[blockIdx.y * channels + c + i] : 0.0f);
        inverse[i] = inverses[group];
        a[i] = gamma[c + i] * inverse[i];
        b[i] = beta[c + i] - center[i] * a[i];
        sum[i] = product[i] = plain[i] = 0.0f;
    }
    // Visits x and the gradient before SiLU.
    auto each = [&](auto visit) {
        auto open = [&](int pixel, float (&v)[8], float (&d)[8]) {
            mask.apply(d, image + (i64)pixel * channels);
            if (silu) {
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    float z = a[i] * v[i] + b[i], s = sigmoid_for<T>(z);
                    d[i] *= s * (1.0f + z * (1.0f - s));
                }
            }
            visit(pixel, v, d);
        };
        float v[8], d[8];
#pragma unroll
        for (int r = 0; r < R; r++) {
            int pixel = threadIdx.y + r * blockDim.y;
            if (pixel < pixels) {
                kept_x[r].open(v);
                kept_dy[r].open(d);
                open(pixel, v, d);
            }
        }
        for (int pixel = threadIdx.y + R * blockDim.y; pixel < pixels; pixel += blockDim.y) {
            load<8>(x + image + (i64)pixel * channels, v);
            load<8>(dy + image + (i64)pixel * channels, d);
            open(pixel, v, d);
        }
    };
    each([&](int, float (&v)[8], float (&d)[8]) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            sum[i] += d[i];
            product[i] += d[i] * ((v[i] - center[i]) * inverse[i]);
            plain[i] += v[i];
        }
    });
    float count = 1.0f / ((float)pixels * per_group);
    float constant[8], slope[8];
    int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    // Sums over each group, weighted by gamma, worked out by one thread per channel.
    auto group_sums = [&](float (&v)[8], float (&weighted)[8]) {
        float *totals = reduce_slice(shared, v, slice), *results = totals + slice;
        for (int at = thread; at < slice; at += threads) {
            int first = at / per_group * per_group;
            float total = 0.0f;
            for (int j = first; j < first + per_group; j++) total += gamma[blockIdx.x * slice + j] * totals[j];
            results[at] = total;
        }
        __syncthreads();
        load<8>(results + threadIdx.x * 8, weighted);
        load<8>(totals + threadIdx.x * 8, v);
    };
    group_sums(sum, constant);
    group_sums(product, slope);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        // dx = a dz - inverse (mean(gamma dz) + u mean(gamma dz u)), u = (x - center) inverse
        slope[i] *= -inverse[i] * inverse[i] * count;
        constant[i] = -inverse[i] * constant[i] * count - slope[i] * center[i];
    }
    if (dshift) {
        const float* totals = reduce_slice(shared, plain, slice);
        if (threadIdx.y == 0) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                dshift[blockIdx.y * channels + c + i] =
                    a[i] * sum[i] + slope[i] * totals[threadIdx.x * 8 + i] + pixels * constant[i];
        }
    }
    if (threadIdx.y == 0) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            dbetas[blockIdx.y * channels + c + i] = sum[i];
            dgammas[blockIdx.y * channels + c + i] = product[i];
        }
    }
    each([&](int pixel, float (&v)[8], float (&d)[8]) {
#pragma unroll
        for (int i = 0; i < 8; i++) d[i] = a[i] * d[i] + slope[i] * v[i] + constant[i];
        store<8>(dx + image + (i64)pixel * channels, d);
    });
}
#define GROUP_NORM_GRADIENT(T, R)                                                                                      \
    extern "C" __global__ void __launch_bounds__(512) group_norm_gradient_##T##_##R(                                   \
        T* dx, float* dgammas, float* dbetas, float* dshift, const float* mean, const float* inverse, const T* dy,     \
        const T* x, const float* gamma, const float* beta, const float* shift, int pixels, int channels, int slice,    \
        int per_group, int silu, u32 threshold, u32 purpose, float kept, u64 seed, const u32* step) {                  \
        await_previous();                                                                                              \
        group_norm_gradient<T, R>(dx, dgammas, dbetas, dshift, mean, inverse, dy, x, gamma, beta, shift, pixels,       \
                                  channels, slice, per_group, silu, Mask{threshold, purpose, kept, seed, step});       \
    }
GROUP_NORM_GRADIENT(float, 1) GROUP_NORM_GRADIENT(bf16, 1) GROUP_NORM_GRADIENT(bf16, 4)

// Any number of channels and groups, one block per image and group; for shapes the kernels above cannot take.
template <class T>
__device__ void group_norm_any(T* y, float* means, float* inverses, const T* x, const float* gamma, const float* beta,
                               const float* shift, int pixels, int channels, int per_group, float epsilon, int silu,
                               Mask mask) {
    __shared__ float result;
    int n = pixels * per_group, first = blockIdx.x * per_group, group = blockIdx.y * gridDim.x + blockIdx.x;
    i64 image = (i64)blockIdx.y * pixels * channels + first;
    auto value = [&](int i) {
        float s = shift ? shift[blockIdx.y * channels + first + i % per_group] : 0.0f;
        return widen(x[image + (i64)(i / per_group) * channels + i % per_group]) + s;
    };
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += value(i);
    sum = block_sum(sum);
    if (threadIdx.x == 0) means[group] = result = sum / n;
    __syncthreads();
    float mean = result;
    sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += (value(i) - mean) * (value(i) - mean);
    sum = block_sum(sum);
    __syncthreads();
    if (threadIdx.x == 0) inverses[group] = result = rsqrtf(sum / n + epsilon);
    __syncthreads();
    float inverse = result;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int c = first + i % per_group;
        i64 at = image + (i64)(i / per_group) * channels + i % per_group;
        float z = (value(i) - mean) * inverse * gamma[c] + beta[c];
        y[at] = narrow<T>(mask.apply(silu ? z * exact_sigmoid(z) : z, at));
    }
}
template <class T>
__device__ void group_norm_gradient_any(T* dx, float* dgammas, float* dbetas, float* dshift, const float* means,
                                        const float* inverses, const T* dy, const T* x, const float* gamma,
                                        const float* beta, const float* shift, int pixels, int channels,
                                        int per_group, int silu, Mask mask) {
    __shared__ float results[2];
    int first = blockIdx.x * per_group, group = blockIdx.y * gridDim.x + blockIdx.x;
    i64 image = (i64)blockIdx.y * pixels * channels + first;
    float mean = means[group], inverse = inverses[group], total = 0.0f, product = 0.0f;
    // The normalised value and the gradient before SiLU, of pixel p and channel k of the group.
    auto open = [&](int p, int k, float* u) {
        i64 at = image + (i64)p * channels + k;
        float s = shift ? shift[blockIdx.y * channels + first + k] : 0.0f;
        *u = (widen(x[at]) + s - mean) * inverse;
        float d = mask.apply(widen(dy[at]), at);
        if (silu) {
            float z = *u * gamma[first + k] + beta[first + k], g = exact_sigmoid(z);
            d *= g * (1.0f + z * (1.0f - g));
        }
        return d;
    };
    for (int k = 0; k < per_group; k++) {
        float sum = 0.0f, dot = 0.0f, u;
        for (int p = threadIdx.x; p < pixels; p += blockDim.x) {
            float d = open(p, k, &u);
            sum += d, dot += d * u;
        }
        sum = block_sum(sum);
        __syncthreads();
        dot = block_sum(dot);
        if (threadIdx.x == 0) {
            dbetas[blockIdx.y * channels + first + k] = sum, dgammas[blockIdx.y * channels + first + k] = dot;
            total += gamma[first + k] * sum, product += gamma[first + k] * dot;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) results[0] = total / (pixels * per_group), results[1] = product / (pixels * per_group);
    __syncthreads();
    total = results[0], product = results[1];
    for (int k = 0; k < per_group; k++) {
        float sum = 0.0f, u;
        for (int p = threadIdx.x; p < pixels; p += blockDim.x) {
            float d = open(p, k, &u);
            d = inverse * (gamma[first + k] * d - total - u * product);
            dx[image + (i64)p * channels + k] = narrow<T>(d);
            sum += d;
        }
        if (dshift) {
            __syncthreads();
            sum = block_sum(sum);
            if (threadIdx.x == 0) dshift[blockIdx.y * channels + first + k] = sum;
        }
    }
}
#define GROUP_NORM_ANY(T)                                                                                              \
    extern "C" __global__ void group_norm_any_##T(                                                                     \
        T* y, float* mean, float* inverse, const T* x, const float* gamma, const float* beta, const float* shift,      \
        int pixels, int channels, int per_group, float epsilon, int silu, u32 threshold, u32 purpose, float kept,      \
        u64 seed, const u32* step) {                                                                                   \
        await_previous();                                                                                              \
        group_norm_any<T>(y, mean, inverse, x, gamma, beta, shift, pixels, channels, per_group, epsilon, silu,         \
                          Mask{threshold, purpose, kept, seed, step});                                                 \
    }                                                                                                                  \
    extern "C" __global__ void group_norm_gradient_any_##T(                                                            \
        T* dx, float* dgammas, float* dbetas, float* dshift, const float* mean, const float* inverse, const T* dy,     \
        const T* x, const float* gamma, const float* beta, const float* shift, int pixels, int channels,               \
        int per_group, int silu, u32 threshold, u32 purpose, float kept, u64 seed, const u32* step) {                  \
        await_previous();                                                                                              \
        group_norm_gradient_any<T>(dx, dgammas, dbetas, dshift, mean, inverse, dy, x, gamma, beta, shift, pixels,      \
                                   channels, per_group, silu, Mask{threshold, purpose, kept, seed, step});             \
    }
GROUP_NORM_ANY(float) GROUP_NORM_ANY(bf16)

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

// Per-channel totals over the chunks, for the groups that the block's channels are in, in shared memory.
template <int K>
__device__ __forceinline__ void gather_sums(float* shared, const float* sums, int channels, int chunks, int begin, int end) {
    const float* mine = sums + (i64)blockIdx.z * chunks * K * channels;
    int width = end - begin;
    for (int at = threadIdx.y * 8 + threadIdx.x; at < K * width; at += 256) {
        int k = at / width, c = begin + at % width;
        float total = 0.0f;
        for (int i = 0; i < chunks; i++) total += mine[(i * K + k) * channels + c];
        shared[at] = total;
    }
    __syncthreads();
}

template <class T>
__device__ void group_norm_apply(T* y, float* means, float* inverses, const float* sums, const T* x, const float* gamma,
                                 const float* beta, const float* shift, int pixels, int channels, int chunks,
                                 int per_group, float epsilon, int silu, Mask mask) {
    extern __shared__ float shared[];
    int c = blockIdx.x * 64 + threadIdx.x * 8, first, last;
    bool valid = c < channels;
    int begin = blockIdx.x * 64 / per_group * per_group;
    int end = min((min(blockIdx.x * 64 + 64, channels) + per_group - 1) / per_group * per_group, channels);
    gather_sums<2>(shared, sums, channels, chunks, begin, end);
    __shared__ float constants[2][64];
    int width = end - begin, thread = threadIdx.y * 8 + threadIdx.x, channel = blockIdx.x * 64 + thread;
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
            if (silu) {
                float z = a[i] * v[i] + b[i], s = sigmoid_for<T>(z);
                d[i] *= s * (1.0f + z * (1.0f - s));
            }
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
    int begin = blockIdx.x * 64 / per_group * per_group;
    int end = min((min(blockIdx.x * 64 + 64, channels) + per_group - 1) / per_group * per_group, channels);
    gather_sums<3>(shared, sums, channels, chunks, begin, end);
    __shared__ float constants[4][64];
    int width = end - begin, thread = threadIdx.y * 8 + threadIdx.x, channel = blockIdx.x * 64 + thread;
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
            if (silu) {
                float z = a[i] * v[i] + b[i], s = sigmoid_for<T>(z);
                d[i] *= s * (1.0f + z * (1.0f - s));
            }
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
        u32 threshold, u32 purpose, float kept, u64 seed, const u32* step) {                                           \
        await_previous();                                                                                              \
        group_norm_apply<T>(y, mean, inverse, sums, x, gamma, beta, shift, pixels, channels, chunks, per_group,        \
                            epsilon, silu, Mask{threshold, purpose, kept, seed, step});                                \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) group_norm_gradient_sums_##T(                                    \
        float* sums, const float* mean, const float* inverse, const T* dy, const T* x, const float* gamma,             \
        const float* beta, const float* shift, int pixels, int channels, int chunks, int per_group, int silu,          \
        u32 threshold, u32 purpose, float kept, u64 seed, const u32* step) {                                           \
        await_previous();                                                                                              \
        group_norm_gradient_sums<T>(sums, mean, inverse, dy, x, gamma, beta, shift, pixels, channels, chunks,          \
                                    per_group, silu, Mask{threshold, purpose, kept, seed, step});                      \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) group_norm_gradient_apply_##T(                                   \
        T* dx, float* dgammas, float* dbetas, float* dshift, const float* sums, const float* mean,                     \
        const float* inverse, const T* dy, const T* x, const float* gamma, const float* beta, const float* shift,      \
        int pixels, int channels, int chunks, int per_group, int silu, u32 threshold, u32 purpose, float kept,         \
        u64 seed, const u32* step) {                                                                                   \
        await_previous();                                                                                              \
        group_norm_gradient_apply<T>(dx, dgammas, dbetas, dshift, sums, mean, inverse, dy, x, gamma, beta, shift,      \
                                     pixels, channels, chunks, per_group, silu,                                        \
                                     Mask{threshold, purpose, kept, seed, step});                                      \
    }
GROUP_NORM_CHUNKS(bf16)
