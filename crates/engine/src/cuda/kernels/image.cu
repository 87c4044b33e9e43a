// Images: resampling, pooling, attention's softmax, tables.

// Sparse rows and columns: out[y, x] = sum over taps. Lists are flat: starts[o] .. starts[o + 1] index (source, weight).
// Pixels of x lie `pitch` elements apart.
template <class T, int V>
__device__ void resample(T* out, const T* x, i64 n, int h, int w, int oh, int ow, int c, int pitch,
                         const int* v_start, const int* v_source, const float* v_weight, const int* h_start,
                         const int* h_source, const float* h_weight) {
    FOR_EACH(i, n / V) {
        u32 at = i * V, rest = at / (u32)c, channel = at % (u32)c, ox = rest % (u32)ow;
        rest /= (u32)ow;
        u32 oy = rest % (u32)oh;
        const T* image = x + (i64)(rest / (u32)oh) * h * w * pitch + channel;
        float sum[V];
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] = 0.0f;
        for (int a = v_start[oy]; a < v_start[oy + 1]; a++)
            for (int b = h_start[ox]; b < h_start[ox + 1]; b++) {
                float weight = v_weight[a] * h_weight[b], v[V];
                load<V>(image + (v_source[a] * w + h_source[b]) * pitch, v);
#pragma unroll
                for (int j = 0; j < V; j++) sum[j] += weight * v[j];
            }
        store<V>(out + at, sum);
    }
}
#define RESAMPLE(T, V)                                                                                                 \
    extern "C" __global__ void resample_##T##_##V(T* out, const T* x, i64 n, int h, int w, int oh, int ow, int c,      \
                                                  int pitch, const int* vs, const int* vi, const float* vw,            \
                                                  const int* hs, const int* hi, const float* hw) {                     \
        await_previous();                                                                                              \
        resample<T, V>(out, x, n, h, w, oh, ow, c, pitch, vs, vi, vw, hs, hi, hw);                                     \
    }
RESAMPLE(float, 1) RESAMPLE(float, 8) RESAMPLE(bf16, 1) RESAMPLE(bf16, 8)

// The first maximum of a window; a NaN wins.
template <class T>
__device__ int window_argmax(const T* image, int h, int w, int c, int y, int x, int channel, int kernel, int stride, int pad) {
    int best = -1;
    float most = 0.0f;
    for (int iy = max(y * stride - pad, 0); iy < min(y * stride + kernel - pad, h); iy++)
        for (int ix = max(x * stride - pad, 0); ix < min(x * stride + kernel - pad, w); ix++) {
            int at = (iy * w + ix) * c + channel;
            float v = widen(image[at]);
            if (best < 0 || v > most || v != v) best = at, most = v;
        }
    return best;
}
#define MAX_POOL(T)                                                                                                    \
    extern "C" __global__ void max_pool_##T(T* out, const T* x, i64 n, int h, int w, int oh, int ow, int c, int kernel,\
                                            int stride, int pad) {                                                     \
        await_previous();                                                                                              \
        FOR_EACH(i, n) {                                                                                               \
            u32 at = (u32)i / (u32)c, channel = (u32)i % (u32)c, ox = at % (u32)ow, rest = at / (u32)ow;               \
            const T* image = x + (i64)(rest / (u32)oh) * h * w * c;                                                    \
            out[i] = image[window_argmax(image, h, w, c, rest % (u32)oh, ox, channel, kernel, stride, pad)];           \
        }                                                                                                              \
    }                                                                                                                  \
    extern "C" __global__ void max_pool_gradient_##T(T* dx, const T* x, const T* dy, i64 n, int h, int w, int oh,      \
                                                     int ow, int c, int kernel, int stride, int pad) {                 \
        await_previous();                                                                                              \
        FOR_EACH(i, n) {                                                                                               \
            int channel = i % c, ix = i / c % w, iy = i / c / w % h;                                                   \
            i64 image = i / c / w / h;                                                                                 \
            int at = (iy * w + ix) * c + channel;                                                                      \
            float sum = 0.0f;                                                                                          \
            for (int oy = 0; oy < oh; oy++)                                                                            \
                for (int ox = 0; ox < ow; ox++) {                                                                      \
                    int top = oy * stride - pad, left = ox * stride - pad;                                             \
                    if (iy < top || iy >= top + kernel || ix < left || ix >= left + kernel) continue;                  \
                    if (window_argmax(x + image * h * w * c, h, w, c, oy, ox, channel, kernel, stride, pad) == at)     \
                        sum += widen(dy[((image * oh + oy) * ow + ox) * c + channel]);                                 \
                }                                                                                                      \
            dx[i] = narrow<T>(sum);                                                                                    \
        }                                                                                                              \
    }
MAX_POOL(float) MAX_POOL(bf16)

__device__ __forceinline__ float warp_max(float v) {
    for (int o = 16; o; o /= 2) v = fmaxf(v, __shfl_xor_sync(0xFFFFFFFF, v, o));
    return v;
}
__device__ __forceinline__ float warp_sum(float v) {
    for (int o = 16; o; o /= 2) v += __shfl_xor_sync(0xFFFFFFFF, v, o);
    return v;
}

// One warp per row: softmax of f32 scores, and the logarithm of each row's sum.
#define SOFTMAX(T)                                                                                                     \
    extern "C" __global__ void softmax_##T(T* out, float* logs, const float* scores, i64 rows, int width) {            \
        await_previous();                                                                                              \
        i64 row = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32;                                                   \
        if (row >= rows) return;                                                                                       \
        int lane = threadIdx.x % 32;                                                                                   \
        const float* in = scores + row * width;                                                                        \
        float top = __int_as_float(0xFF800000);                                                                        \
        for (int i = lane; i < width; i += 32) top = fmaxf(top, in[i]);                                                \
        top = warp_max(top);                                                                                           \
        float sum = 0.0f;                                                                                              \
        for (int i = lane; i < width; i += 32) sum += expf(in[i] - top);                                               \
        sum = warp_sum(sum);                                                                                           \
        float inverse = 1.0f / sum;                                                                                    \
        for (int i = lane; i < width; i += 32) out[row * width + i] = narrow<T>(expf(in[i] - top) * inverse);          \
        if (lane == 0) logs[row] = top + logf(sum);                                                                    \
    }                                                                                                                  \
    extern "C" __global__ void softmax_gradient_##T(T* weights, T* slopes, const float* scores, const float* dp,       \
                                                    const float* logs, const T* out, const T* dy, i64 rows, int width, \
                                                    int channels) {                                                    \
        await_previous();                                                                                              \
        i64 row = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32;                                                   \
        if (row >= rows) return;                                                                                       \
        int lane = threadIdx.x % 32;                                                                                   \
        float delta = 0.0f;                                                                                            \
        for (int i = lane; i < channels; i += 32) delta += widen(out[row * channels + i]) * widen(dy[row * channels + i]); \
        delta = warp_sum(delta);                                                                                       \
        float log = logs[row];                                                                                         \
        for (int i = lane; i < width; i += 32) {                                                                       \
            float p = expf(scores[row * width + i] - log);                                                             \
            weights[row * width + i] = narrow<T>(p);                                                                   \
            slopes[row * width + i] = narrow<T>(p * (dp[row * width + i] - delta));                                    \
        }                                                                                                              \
    }
SOFTMAX(float) SOFTMAX(bf16)

// The position in a table: lower row and fraction, as op/interpolate.rs.
__device__ int locate(float position, int rows, float* fraction) {
    float last = rows - 1;
    float at = position < 0.0f ? 0.0f : position > last ? last : position;
    float low = floorf(at), top = rows > 1 ? last - 1.0f : 0.0f;
    low = low > top ? top : low;
    if (!(low >= 0.0f)) low = 0.0f;
    *fraction = at - low;
    return (int)low;
}
extern "C" __global__ void interpolate(float* out, const float* table, const float* position, i64 n, int rows, int d) {
    await_previous();
    FOR_EACH(i, n * d) {
        float f;
        int row = locate(position[i / d], rows, &f), j = i % d;
        float low = table[row * d + j], high = table[min(row + 1, rows - 1) * d + j];
        out[i] = low + f * (high - low);
    }
}
extern "C" __global__ void interpolate_slope(float* out, const float* table, const float* position, const float* dy, i64 n,
                                             int rows, int d) {
    await_previous();
    FOR_EACH(i, n) {
        float f, p = position[i], sum = 0.0f;
        int row = locate(p, rows, &f), next = min(row + 1, rows - 1);
        for (int j = 0; j < d; j++) sum += dy[i * d + j] * (table[next * d + j] - table[row * d + j]);
        out[i] = p >= 0.0f && p <= rows - 1 && rows > 1 ? sum : 0.0f;
    }
}
extern "C" __global__ void interpolate_table_gradient(float* out, const float* position, const float* dy, i64 n, int rows,
                                                      int d) {
    await_previous();
    FOR_EACH(i, (i64)rows * d) {
        int row = i / d, j = i % d;
        float sum = 0.0f;
        for (i64 k = 0; k < n; k++) {
            float f;
            int low = locate(position[k], rows, &f);
            if (low == row) sum += (1.0f - f) * dy[k * d + j];
            if (min(low + 1, rows - 1) == row) sum += f * dy[k * d + j];
        }
        out[i] = sum;
    }
}
