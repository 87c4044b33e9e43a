// GroupNorm with SiLU. A block has one image and a slice of channels (whole groups, a multiple of eight): thread x goes
// over the slice in packs of eight, thread y over pixels. Up to R packs stay in registers; statistics are f32.

// Sums eight values per thread over y: afterwards shared[0 .. slice) holds the sums.
__device__ __forceinline__ void reduce_slice(float* shared, const float (&v)[8], int slice) {
    __syncthreads();
    float* mine = shared + threadIdx.y * slice + threadIdx.x * 8;
#pragma unroll
    for (int i = 0; i < 8; i++) mine[i] = v[i];
    // Halve the rows until one is left.
    for (int rows = blockDim.y; rows > 1;) {
        int half = (rows + 1) / 2;
        __syncthreads();
        if (threadIdx.y < rows - half) {
            const float* other = mine + half * slice;
#pragma unroll
            for (int i = 0; i < 8; i++) mine[i] += other[i];
        }
        rows = half;
    }
    __syncthreads();
}

template <class T, int R>
__device__ void group_norm(T* y, float* means, float* inverses, const T* x, const float* gamma, const float* beta,
                           int pixels, int channels, int slice, int per_group, float epsilon, int silu) {
    extern __shared__ float shared[];
    int c = blockIdx.x * slice + threadIdx.x * 8;
    const T* in = x + (i64)blockIdx.y * pixels * channels + c;
    T* out = y + (i64)blockIdx.y * pixels * channels + c;
    float kept[R][8];
    float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    float count = 1.0f / ((float)pixels * per_group);
#pragma unroll
    for (int r = 0; r < R; r++) {
        int pixel = threadIdx.y + r * blockDim.y;
        if (pixel < pixels) {
            load<8>(in + (i64)pixel * channels, kept[r]);
#pragma unroll
            for (int i = 0; i < 8; i++) sum[i] += kept[r][i];
        }
    }
    for (int pixel = threadIdx.y + R * blockDim.y; pixel < pixels; pixel += blockDim.y) {
        float v[8];
        load<8>(in + (i64)pixel * channels, v);
#pragma unroll
        for (int i = 0; i < 8; i++) sum[i] += v[i];
    }
    reduce_slice(shared, sum, slice);
    float mean[8], scale[8], shift[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int group = (threadIdx.x * 8 + i) / per_group;
        float total = 0.0f;
        for (int j = 0; j < per_group; j++) total += shared[group * per_group + j];
        mean[i] = total * count;
        sum[i] = 0.0f;
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        if (threadIdx.y + r * blockDim.y < pixels) {
#pragma unroll
            for (int i = 0; i < 8; i++) sum[i] += (kept[r][i] - mean[i]) * (kept[r][i] - mean[i]);
        }
    }
    for (int pixel = threadIdx.y + R * blockDim.y; pixel < pixels; pixel += blockDim.y) {
        float v[8];
        load<8>(in + (i64)pixel * channels, v);
#pragma unroll
        for (int i = 0; i < 8; i++) sum[i] += (v[i] - mean[i]) * (v[i] - mean[i]);
    }
    reduce_slice(shared, sum, slice);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int group = (threadIdx.x * 8 + i) / per_group;
        float total = 0.0f;
        for (int j = 0; j < per_group; j++) total += shared[group * per_group + j];
        float inverse = rsqrtf(total * count + epsilon);
        if (threadIdx.y == 0 && (threadIdx.x * 8 + i) % per_group == 0) {
            int at = blockIdx.y * (channels / per_group) + (c + i) / per_group;
            means[at] = mean[i];
            inverses[at] = inverse;
        }
        scale[i] = gamma[c + i] * inverse;
        shift[i] = beta[c + i] - mean[i] * scale[i];
    }
    auto finish = [&](int pixel, float (&v)[8]) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float z = scale[i] * v[i] + shift[i];
            v[i] = silu ? z * sigmoid_for<T>(z) : z;
        }
        store<8>(out + (i64)pixel * channels, v);
    };
#pragma unroll
    for (int r = 0; r < R; r++) {
        int pixel = threadIdx.y + r * blockDim.y;
        if (pixel < pixels) finish(pixel, kept[r]);
    }
    for (int pixel = threadIdx.y + R * blockDim.y; pixel < pixels; pixel += blockDim.y) {
        float v[8];
        load<8>(in + (i64)pixel * channels, v);
        finish(pixel, v);
    }
}
#define GROUP_NORM(T, R)                                                                                               \
    extern "C" __global__ void __launch_bounds__(512)                                                                  \
        group_norm_##T##_##R(T* y, float* mean, float* inverse, const T* x, const float* gamma, const float* beta,     \
                             int pixels, int channels, int slice, int per_group, float epsilon, int silu) {            \
        group_norm<T, R>(y, mean, inverse, x, gamma, beta, pixels, channels, slice, per_group, epsilon, silu);         \
    }
GROUP_NORM(float, 1) GROUP_NORM(float, 4) GROUP_NORM(bf16, 1) GROUP_NORM(bf16, 4) GROUP_NORM(bf16, 8)

// dx, and per image the sums that make dgamma and dbeta.
template <class T>
__device__ void group_norm_gradient(T* dx, float* dgammas, float* dbetas, const T* x, const float* gamma,
                                    const float* beta, const float* means, const float* inverses, const T* dy,
                                    int pixels, int channels, int slice, int per_group, int silu) {
    extern __shared__ float shared[];
    int c = blockIdx.x * slice + threadIdx.x * 8;
    i64 image = (i64)blockIdx.y * pixels * channels + c;
    float mean[8], inverse[8], a[8], b[8], sum[8], product[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int group = blockIdx.y * (channels / per_group) + (c + i) / per_group;
        mean[i] = means[group];
        inverse[i] = inverses[group];
        a[i] = gamma[c + i] * inverse[i];
        b[i] = beta[c + i] - mean[i] * a[i];
        sum[i] = product[i] = 0.0f;
    }
    for (int pixel = threadIdx.y; pixel < pixels; pixel += blockDim.y) {
        float v[8], d[8];
        load<8>(x + image + (i64)pixel * channels, v);
        load<8>(dy + image + (i64)pixel * channels, d);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (silu) {
                float z = a[i] * v[i] + b[i], s = sigmoid_for<T>(z);
                d[i] *= s * (1.0f + z * (1.0f - s));
            }
            sum[i] += d[i];
            product[i] += d[i] * ((v[i] - mean[i]) * inverse[i]);
        }
    }
    reduce_slice(shared, sum, slice);
    float total[8];
    float count = 1.0f / ((float)pixels * per_group);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (threadIdx.y == 0) dbetas[blockIdx.y * channels + c + i] = shared[threadIdx.x * 8 + i];
        int group = (threadIdx.x * 8 + i) / per_group;
        total[i] = 0.0f;
        for (int j = 0; j < per_group; j++)
            total[i] += gamma[blockIdx.x * slice + group * per_group + j] * shared[group * per_group + j];
        total[i] *= count;
    }
    reduce_slice(shared, product, slice);
    float slope[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (threadIdx.y == 0) dgammas[blockIdx.y * channels + c + i] = shared[threadIdx.x * 8 + i];
        int group = (threadIdx.x * 8 + i) / per_group;
        float t = 0.0f;
        for (int j = 0; j < per_group; j++)
            t += gamma[blockIdx.x * slice + group * per_group + j] * shared[group * per_group + j];
        // dx = a dz - inverse (total + u t), u = (x - mean) inverse
        slope[i] = -inverse[i] * inverse[i] * t * count;
        total[i] = -inverse[i] * total[i] - slope[i] * mean[i];
    }
    for (int pixel = threadIdx.y; pixel < pixels; pixel += blockDim.y) {
        float v[8], d[8];
        load<8>(x + image + (i64)pixel * channels, v);
        load<8>(dy + image + (i64)pixel * channels, d);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (silu) {
                float z = a[i] * v[i] + b[i], s = sigmoid_for<T>(z);
                d[i] *= s * (1.0f + z * (1.0f - s));
            }
            d[i] = a[i] * d[i] + slope[i] * v[i] + total[i];
        }
        store<8>(dx + image + (i64)pixel * channels, d);
    }
}
#define GROUP_NORM_GRADIENT(T)                                                                                         \
    extern "C" __global__ void __launch_bounds__(512) group_norm_gradient_##T(                                         \
        T* dx, float* dgammas, float* dbetas, const T* x, const float* gamma, const float* beta, const float* mean,    \
        const float* inverse, const T* dy, int pixels, int channels, int slice, int per_group, int silu) {             \
        group_norm_gradient<T>(dx, dgammas, dbetas, x, gamma, beta, mean, inverse, dy, pixels, channels, slice,        \
                               per_group, silu);                                                                       \
    }
GROUP_NORM_GRADIENT(float) GROUP_NORM_GRADIENT(bf16)

// Any number of channels and groups, one block per image and group; for shapes the kernels above cannot take.
#define GROUP_NORM_ANY(T)                                                                                              \
    extern "C" __global__ void group_norm_any_##T(T* y, float* means, float* inverses, const T* x, const float* gamma, \
                                                  const float* beta, int pixels, int channels, int per_group,          \
                                                  float epsilon, int silu) {                                           \
        __shared__ float result;                                                                                       \
        int n = pixels * per_group;                                                                                    \
        const T* in = x + (i64)blockIdx.y * pixels * channels + blockIdx.x * per_group;                                \
        T* out = y + (i64)blockIdx.y * pixels * channels + blockIdx.x * per_group;                                     \
        float sum = 0.0f;                                                                                              \
        for (int i = threadIdx.x; i < n; i += blockDim.x) sum += widen(in[(i64)(i / per_group) * channels + i % per_group]); \
        sum = block_sum(sum);                                                                                          \
        if (threadIdx.x == 0) result = sum / n;                                                                        \
        __syncthreads();                                                                                               \
        float mean = result;                                                                                           \
        sum = 0.0f;                                                                                                    \
        for (int i = threadIdx.x; i < n; i += blockDim.x) {                                                            \
            float d = widen(in[(i64)(i / per_group) * channels + i % per_group]) - mean;                               \
            sum += d * d;                                                                                              \
        }                                                                                                              \
        sum = block_sum(sum);                                                                                          \
        __syncthreads();                                                                                               \
        if (threadIdx.x == 0) result = rsqrtf(sum / n + epsilon);                                                      \
        __syncthreads();                                                                                               \
        float inverse = result;                                                                                        \
        if (threadIdx.x == 0) {                                                                                        \
            means[blockIdx.y * gridDim.x + blockIdx.x] = mean;                                                         \
            inverses[blockIdx.y * gridDim.x + blockIdx.x] = inverse;                                                   \
        }                                                                                                              \
        for (int i = threadIdx.x; i < n; i += blockDim.x) {                                                            \
            int c = blockIdx.x * per_group + i % per_group;                                                            \
            i64 at = (i64)(i / per_group) * channels + i % per_group;                                                  \
            float z = (widen(in[at]) - mean) * inverse * gamma[c] + beta[c];                                           \
            out[at] = narrow<T>(silu ? z * exact_sigmoid(z) : z);                                                      \
        }                                                                                                              \
    }                                                                                                                  \
    extern "C" __global__ void group_norm_gradient_any_##T(                                                            \
        T* dx, float* dgammas, float* dbetas, const T* x, const float* gamma, const float* beta, const float* means,   \
        const float* inverses, const T* dy, int pixels, int channels, int per_group, int silu) {                       \
        __shared__ float results[2];                                                                                   \
        i64 image = (i64)blockIdx.y * pixels * channels + blockIdx.x * per_group;                                      \
        float mean = means[blockIdx.y * gridDim.x + blockIdx.x], inverse = inverses[blockIdx.y * gridDim.x + blockIdx.x]; \
        float total = 0.0f, product = 0.0f;                                                                            \
        for (int k = 0; k < per_group; k++) {                                                                          \
            int c = blockIdx.x * per_group + k;                                                                        \
            float sum = 0.0f, dot = 0.0f;                                                                              \
            for (int p = threadIdx.x; p < pixels; p += blockDim.x) {                                                   \
                i64 at = image + (i64)p * channels + k;                                                                \
                float u = (widen(x[at]) - mean) * inverse, z = u * gamma[c] + beta[c], d = widen(dy[at]);              \
                if (silu) { float s = exact_sigmoid(z); d *= s * (1.0f + z * (1.0f - s)); }                            \
                sum += d, dot += d * u;                                                                                \
            }                                                                                                          \
            sum = block_sum(sum);                                                                                      \
            __syncthreads();                                                                                           \
            dot = block_sum(dot);                                                                                      \
            if (threadIdx.x == 0) {                                                                                    \
                dbetas[blockIdx.y * channels + c] = sum, dgammas[blockIdx.y * channels + c] = dot;                     \
                total += gamma[c] * sum, product += gamma[c] * dot;                                                    \
            }                                                                                                          \
            __syncthreads();                                                                                           \
        }                                                                                                              \
        if (threadIdx.x == 0) results[0] = total / (pixels * per_group), results[1] = product / (pixels * per_group);  \
        __syncthreads();                                                                                               \
        total = results[0], product = results[1];                                                                      \
        for (int i = threadIdx.x; i < pixels * per_group; i += blockDim.x) {                                           \
            int c = blockIdx.x * per_group + i % per_group;                                                            \
            i64 at = image + (i64)(i / per_group) * channels + i % per_group;                                          \
            float u = (widen(x[at]) - mean) * inverse, z = u * gamma[c] + beta[c], d = widen(dy[at]);                  \
            if (silu) { float s = exact_sigmoid(z); d *= s * (1.0f + z * (1.0f - s)); }                                \
            dx[at] = narrow<T>(inverse * (gamma[c] * d - total - u * product));                                        \
        }                                                                                                              \
    }
GROUP_NORM_ANY(float) GROUP_NORM_ANY(bf16)
