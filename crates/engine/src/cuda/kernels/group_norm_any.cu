// Any number of channels and groups, one block per image and group; for shapes that those of group_norm.cu cannot take.
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
        u64 seed, const u32* step, i64 elements) {                                                                     \
        await_previous();                                                                                              \
        group_norm_any<T>(y, mean, inverse, x, gamma, beta, shift, pixels, channels, per_group, epsilon, silu,         \
                          Mask{threshold, purpose, kept, seed, step, elements});                                       \
    }                                                                                                                  \
    extern "C" __global__ void group_norm_gradient_any_##T(                                                            \
        T* dx, float* dgammas, float* dbetas, float* dshift, const float* mean, const float* inverse, const T* dy,     \
        const T* x, const float* gamma, const float* beta, const float* shift, int pixels, int channels,               \
        int per_group, int silu, u32 threshold, u32 purpose, float kept, u64 seed, const u32* step, i64 elements) {    \
        await_previous();                                                                                              \
        group_norm_gradient_any<T>(dx, dgammas, dbetas, dshift, mean, inverse, dy, x, gamma, beta, shift, pixels,      \
                                   channels, per_group, silu, Mask{threshold, purpose, kept, seed, step, elements});   \
    }
GROUP_NORM_ANY(float) GROUP_NORM_ANY(bf16)

