// Convolutions of f32 on tensor cores. A number is the sum of two f16 (11 bits each), x = x1 + x2, so that
// x w = x1 w1 + x1 w2 + x2 w1 up to 2^-22: as accurate as f32, at three times the products of f16.
//
// A block computes 128 pixels by 8 NT filters as one matrix product over taps and channels; the image is gathered tap by
// tap (implicit GEMM). Both factors are in shared memory as rows of 16 along the sum, four bytes an element.

#if __CUDA_ARCH__ >= 800
// Two numbers as their first f16 (x) and second f16 (y). Beyond 65504 these are infinite and the sum NaN.
__device__ __forceinline__ uint2 f16x2(float a, float b) {
    uint2 out;
    asm("{ .reg .b16 p, q; .reg .f32 u, v;\n"
        "cvt.rn.f16x2.f32 %0, %3, %2;\n"
        "mov.b32 {p, q}, %0;\n"
        "cvt.f32.f16 u, p;\n"
        "cvt.f32.f16 v, q;\n"
        "sub.f32 u, %2, u;\n"
        "sub.f32 v, %3, v;\n"
        "cvt.rn.f16x2.f32 %1, v, u; }"
        : "=&r"(out.x), "=&r"(out.y)
        : "f"(a), "f"(b));
    return out;
}
// d += a b: 16 x 16 times 16 x 8, in f16, summed in f32.
__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Asynchronous copy of 16 bytes to shared memory; zeros unless `there`. Through L1: neighbouring taps and blocks read the
// same bytes.
__device__ __forceinline__ void fetch16(u32 to, const void* from, bool there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
#else
// Never launched on such GPUs.
__device__ uint2 f16x2(float, float) { return make_uint2(0, 0); }
__device__ void multiply(float (&)[4], const u32 (&)[4], u32, u32) {}
__device__ void fetch16(u32, const void*, bool) {}
#endif

// Weights are scaled so that their second f16 are normal numbers too; 1 / F16X2_SCALE is exact.
#define F16X2_SCALE 64.0f

// Four weights as four first and four second f16: the layout of w in the kernel below.
extern "C" __global__ void f16x2_weights(uint4* out, const float4* w, i64 fours) {
    await_previous();
    FOR_EACH(i, fours) {
        float4 v = w[i];
        uint2 a = f16x2(F16X2_SCALE * v.x, F16X2_SCALE * v.y), b = f16x2(F16X2_SCALE * v.z, F16X2_SCALE * v.w);
        out[i] = make_uint4(a.x, b.x, a.y, b.y);
    }
}

// Along a sum of 16, a thread has four neighbours instead of the two pairs of the instruction's layout: the order
// of a sum is free if both factors have the same.
template <int NT>
__device__ void conv_f16x2(float* y, const float* x, const uint4* w, const float* bias, int pixels, int height, int width,
                           int channels, int out_height, int out_width, int filters, int rows, int columns, int stride_y,
                           int stride_x, int pad_y, int pad_x, int relu) {
    // Two steps in flight hide the memory's latency; more would take from L1.
    constexpr int BM = 128, BN = 8 * NT, STAGES = 3;
    __shared__ float4 image[STAGES][BM * 4];
    __shared__ uint4 weight[STAGES][BN * 4];
    int columns_of_blocks = (filters + BN - 1) / BN;
    // Blocks that read the same pixels are neighbours.
    int first_filter = blockIdx.x % columns_of_blocks * BN, first_pixel = blockIdx.x / columns_of_blocks * BM;
    int part = threadIdx.x % 4, row = threadIdx.x / 4;

    // Where the windows of this thread's four pixels begin.
    int top[4], left[4], start[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        u32 pixel = first_pixel + row + 32 * i, column = pixel % (u32)out_width, rest = pixel / (u32)out_width;
        top[i] = (int)(rest % (u32)out_height) * stride_y - pad_y;
        left[i] = (int)column * stride_x - pad_x;
        start[i] = (((int)(rest / (u32)out_height) * height + top[i]) * width + left[i]) * channels + 4 * part;
        // Beyond the last pixel nothing is in the image.
        if (pixel >= (u32)pixels) top[i] = -0x40000000;
    }
    constexpr int FILTER_ROWS = (BN + 31) / 32;
    int depth = rows * columns * channels, weight_start[FILTER_ROWS];
#pragma unroll
    for (int i = 0; i < FILTER_ROWS; i++) weight_start[i] = (first_filter + row + 32 * i) * (depth / 4) + part;
    u32 image_to = shared_address(&image[0][row * 4 + part]), weight_to = shared_address(&weight[0][row * 4 + part]);
    // All taps of 16 channels before the next 16, so that what taps share is still cached.
    int tiles = depth / 16, fetched = 0, next_slot = 0, channel = 0, tap_y = 0, tap_x = 0;
    int offset = 0, weight_offset = 0;
    auto fetch = [&]() {
        if (fetched++ < tiles) {
            u32 to = image_to + next_slot * (int)sizeof(image[0]);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                bool there = (u32)(top[i] + tap_y) < (u32)height && (u32)(left[i] + tap_x) < (u32)width;
                fetch16(to + 32 * 64 * i, x + (start[i] + offset), there);
            }
            to = weight_to + next_slot * (int)sizeof(weight[0]);
#pragma unroll
            for (int i = 0; i < FILTER_ROWS; i++) {
                int filter = row + 32 * i;
                bool there = first_filter + filter < filters;
                if (BN % 32 == 0 || filter < BN) fetch16(to + 32 * 64 * i, w + (weight_start[i] + weight_offset), there);
            }
            next_slot = next_slot + 1 == STAGES ? 0 : next_slot + 1;
            offset += channels, weight_offset += channels / 4;
            if (++tap_x == columns) {
                tap_x = 0, offset += (width - columns) * channels;
                if (++tap_y == rows) tap_y = 0, channel += 16, offset = channel, weight_offset = channel / 4;
            }
        }
        fetch_end();
    };

    int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, slot = 0;
    float sum[2][NT][4] = {};
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; i++) fetch();
#pragma unroll 1
    for (int tile = 0; tile < tiles; tile++) {
        fetch_wait<STAGES - 2>();
        __syncthreads();
        // Into the slot that all have read before the barrier.
        fetch();
        u32 high[2][4], low[2][4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float4 v = image[slot][(warp * 32 + 8 * i + group) * 4 + part];
            uint2 a = f16x2(v.x, v.y), b = f16x2(v.z, v.w);
            high[i / 2][i % 2] = a.x, low[i / 2][i % 2] = a.y;
            high[i / 2][2 + i % 2] = b.x, low[i / 2][2 + i % 2] = b.y;
        }
        // Four sums at a time: one waits for its products, the others go on.
#pragma unroll
        for (int j = 0; j < NT; j += 2) {
            uint4 v[2] = {weight[slot][(8 * j + group) * 4 + part], weight[slot][(8 * j + 8 + group) * 4 + part]};
            // Sums leave the tensor core after every 16 products, because it cuts off where f32 rounds.
            float d[4][4] = {};
#pragma unroll
            for (int i = 0; i < 4; i++) multiply(d[i], low[i % 2], v[i / 2].x, v[i / 2].y);
#pragma unroll
            for (int i = 0; i < 4; i++) multiply(d[i], high[i % 2], v[i / 2].z, v[i / 2].w);
#pragma unroll
            for (int i = 0; i < 4; i++) multiply(d[i], high[i % 2], v[i / 2].x, v[i / 2].y);
#pragma unroll
            for (int i = 0; i < 16; i++) sum[i / 4 % 2][j + i / 8][i % 4] += d[i / 4][i % 4];
        }
        slot = slot + 1 == STAGES ? 0 : slot + 1;
    }

#pragma unroll
    for (int i = 0; i < 4; i++) {
        int pixel = first_pixel + warp * 32 + 8 * i + group;
        if (pixel >= pixels) continue;
#pragma unroll
        for (int j = 0; j < NT; j++) {
            int filter = first_filter + 8 * j + 2 * part;
            if (filter >= filters) continue;
            float v[2];
#pragma unroll
            for (int k = 0; k < 2; k++) {
                v[k] = sum[i / 2][j][i % 2 * 2 + k] * (1.0f / F16X2_SCALE) + (bias ? bias[filter + k] : 0.0f);
                if (relu && v[k] < 0.0f) v[k] = 0.0f;
            }
            *(float2*)(y + (i64)pixel * filters + filter) = make_float2(v[0], v[1]);
        }
    }
}
#define SPLIT_CONV(NT)                                                                                                 \
    extern "C" __global__ void __launch_bounds__(128) conv_f16x2_##NT(                                                 \
        float* y, const float* x, const uint4* w, const float* bias, int pixels, int height, int width, int channels,  \
        int out_height, int out_width, int filters, int rows, int columns, int stride_y, int stride_x, int pad_y,      \
        int pad_x, int relu) {                                                                                         \
        await_previous();                                                                                              \
        conv_f16x2<NT>(y, x, w, bias, pixels, height, width, channels, out_height, out_width, filters, rows, columns,  \
                       stride_y, stride_x, pad_y, pad_x, relu);                                                        \
    }
SPLIT_CONV(4) SPLIT_CONV(6) SPLIT_CONV(8) SPLIT_CONV(12)
