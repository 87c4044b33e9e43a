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
        float kept, u64 seed, const u32* step, i64 elements) {                                                         \
        await_previous();                                                                                              \
        group_norm<T, R>(y, mean, inverse, x, gamma, beta, shift, pixels, channels, slice, per_group, epsilon, silu,   \
                         Mask{threshold, purpose, kept, seed, step, elements});                                        \
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
                for (int i = 0; i < 8; i++) d[i] *= silu_slope<T>(a[i] * v[i] + b[i]);
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
        int per_group, int silu, u32 threshold, u32 purpose, float kept, u64 seed, const u32* step, i64 elements) {    \
        await_previous();                                                                                              \
        group_norm_gradient<T, R>(dx, dgammas, dbetas, dshift, mean, inverse, dy, x, gamma, beta, shift, pixels,       \
                                  channels, slice, per_group, silu, Mask{threshold, purpose, kept, seed, step, elements}); \
    }
GROUP_NORM_GRADIENT(float, 1) GROUP_NORM_GRADIENT(bf16, 1) GROUP_NORM_GRADIENT(bf16, 4)

