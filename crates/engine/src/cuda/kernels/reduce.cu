// Sums over the middle of [outer, middle, inner], in a fixed order.

// Block (32, 8): 32 threads over columns, 8 over rows. Grid: (columns, parts, outer). Writes partial[outer, part, inner].
template <class T>
__device__ void sum_middle(float* out, const T* x, i64 middle, int inner, int rows_per_part, int parts, float scale) {
    __shared__ float sums[8][33];
    int column = blockIdx.x * 32 + threadIdx.x;
    i64 first = (i64)blockIdx.y * rows_per_part;
    i64 last = min(first + rows_per_part, middle);
    const T* base = x + (i64)blockIdx.z * middle * inner;
    float sum = 0.0f;
    if (column < inner)
        for (i64 row = first + threadIdx.y; row < last; row += 8) sum += widen(base[row * inner + column]);
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < inner) {
        for (int i = 1; i < 8; i++) sum += sums[i][threadIdx.x];
        out[((i64)blockIdx.z * parts + blockIdx.y) * inner + column] = sum * scale;
    }
}
extern "C" __global__ void sum_middle_float(float* out, const float* x, i64 middle, int inner, int rows, int parts, float scale) {
    await_previous();
    sum_middle(out, x, middle, inner, rows, parts, scale);
}
extern "C" __global__ void sum_middle_bf16(float* out, const bf16* x, i64 middle, int inner, int rows, int parts, float scale) {
    await_previous();
    sum_middle(out, x, middle, inner, rows, parts, scale);
}

// Eight columns per thread: block (lanes, 256 / lanes), where lanes * 8 columns are done at once; inner is a multiple of 8.
template <class T>
__device__ void sum_middle_wide(float* out, const T* x, i64 middle, int inner, int rows_per_part, int parts, float scale,
                                int outer) {
    extern __shared__ float shared[];
    int column = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    i64 first = (i64)blockIdx.y * rows_per_part;
    i64 last = min(first + rows_per_part, middle);
    const T* base = x + (i64)outer * middle * inner;
    float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    if (column < inner)
        // Several loads in flight.
#pragma unroll 4
        for (i64 row = first + threadIdx.y; row < last; row += blockDim.y) {
            float v[8];
            load<8>(base + row * inner + column, v);
#pragma unroll
            for (int i = 0; i < 8; i++) sum[i] += v[i];
        }
    float* mine = shared + (threadIdx.y * blockDim.x + threadIdx.x) * 8;
#pragma unroll
    for (int i = 0; i < 8; i++) mine[i] = sum[i];
    __syncthreads();
    int width = blockDim.x * 8;
    for (int c = threadIdx.y * blockDim.x + threadIdx.x; c < width; c += blockDim.x * blockDim.y) {
        int at = blockIdx.x * width + c;
        if (at < inner) {
            float total = 0.0f;
            for (int y = 0; y < blockDim.y; y++) total += shared[y * width + c];
            out[((i64)outer * parts + blockIdx.y) * inner + at] = total * scale;
        }
    }
}
extern "C" __global__ void sum_middle_wide_float(float* out, const float* x, i64 middle, int inner, int rows, int parts, float scale) {
    await_previous();
    sum_middle_wide(out, x, middle, inner, rows, parts, scale, blockIdx.z);
}
extern "C" __global__ void sum_middle_wide_bf16(float* out, const bf16* x, i64 middle, int inner, int rows, int parts, float scale) {
    await_previous();
    sum_middle_wide(out, x, middle, inner, rows, parts, scale, blockIdx.z);
}

extern "C" __global__ void sum_middle_wide_float_many(const u64* table) {
    await_previous();
    Row w(table);
    sum_middle_wide(w.to(0), w.from(1), w[2], w[3], w[4], w[5], w.number(6), 0);
}

// Rows of consecutive values: grid (parts, rows), block 256.
#define SUM_ROWS(T)                                                                                                    \
    extern "C" __global__ void sum_rows_##T(float* out, const T* x, i64 width, i64 per_part, int parts,       \
                                          float scale) {                                                               \
        await_previous();                                                                                              \
        i64 first = blockIdx.x * per_part, last = min(first + per_part, width);                                        \
        float sum = 0.0f;                                                                                              \
        for (i64 i = first + threadIdx.x; i < last; i += blockDim.x) sum += widen(x[(i64)blockIdx.y * width + i]);     \
        sum = block_sum(sum);                                                                                          \
        if (threadIdx.x == 0) out[(i64)blockIdx.y * parts + blockIdx.x] = sum * scale;                                 \
    }
SUM_ROWS(float) SUM_ROWS(bf16)

// Sums two or three sets over the images: dgamma and dbeta of [images, channels], and the sums of dx of [parts, channels].
// Block (32, 8).
__device__ void image_sums(float* first, float* second, float* third, const float* partials, int images, int parts,
                           int channels, float by_third) {
    __shared__ float shared[8][32];
    int set = blockIdx.y, channel = blockIdx.x * 32 + threadIdx.x, rows = set == 2 ? parts : images;
    const float* from = partials + (i64)set * images * channels + channel;
    float total = 0.0f;
    if (channel < channels) {
#pragma unroll 8
        for (int row = threadIdx.y; row < rows; row += 8) total += from[(i64)row * channels];
    }
    shared[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y || channel >= channels) return;
    for (int row = 1; row < 8; row++) total += shared[row][threadIdx.x];
    if (set == 0) first[channel] = total;
    if (set == 1) second[channel] = total;
    if (set == 2) third[channel] = by_third * total;
}
extern "C" __global__ void norm_image_sums(float* first, float* second, float* third, const float* partials, int images,
                                           int parts, int channels, float by_third) {
    await_previous();
    image_sums(first, second, third, partials, images, parts, channels, by_third);
}
extern "C" __global__ void norm_image_sums_many(const u64* table) {
    await_previous();
    Row w(table);
    image_sums(w.to(0), w.to(1), w.to(2), w.from(3), w[4], w[5], w[6], w.number(7));
}
