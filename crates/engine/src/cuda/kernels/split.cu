// Convolutions of f32 on tensor cores. A number is the sum of two halves of 11 bits each, x = x1 + x2, so that
// x w = x1 w1 + x1 w2 + x2 w1 up to 2^-22: as accurate as f32, at three times the products of f16.
//
// A block computes 128 pixels by 8 NT filters as one matrix product over taps and channels; the image is gathered tap by
// tap (implicit GEMM). Both factors lie in shared memory as rows of 16 along the sum, four bytes an element.

#if __CUDA_ARCH__ >= 800
// Two numbers as their first halves (x) and second halves (y). Beyond 65504 the halves are infinite and the sum NaN.
__device__ __forceinline__ uint2 split2(float a, float b) {
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
// d += a b: 16 x 16 times 16 x 8, halves, summed in f32.
__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Sixteen bytes to shared memory, later; zeros unless `there`.
__device__ __forceinline__ void fetch16(void* to, const void* from, bool there) {
    u32 at;
    asm("{ .reg .u64 p; cvta.to.shared.u64 p, %1; cvt.u32.u64 %0, p; }" : "=r"(at) : "l"(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(there ? 16 : 0) : "memory");
}
__device__ __forceinline__ void fetch_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void fetch_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
#else
// Never launched on such GPUs.
__device__ uint2 split2(float, float) { return make_uint2(0, 0); }
__device__ void multiply(float (&)[4], const u32 (&)[4], u32, u32) {}
__device__ void fetch16(void*, const void*, bool) {}
__device__ void fetch_end() {}
template <int N> __device__ void fetch_wait() {}
#endif

// Weights are scaled so that their second halves are normal numbers too; 1 / SPLIT_SCALE is exact.
#define SPLIT_SCALE 64.0f

// Pairs of weights as their halves: what the kernel below takes for w.
extern "C" __global__ void split_weights(uint2* out, const float2* w, i64 pairs) {
    FOR_EACH(i, pairs) out[i] = split2(SPLIT_SCALE * w[i].x, SPLIT_SCALE * w[i].y);
}

// Along a sum of 16, a thread's share is four neighbours instead of the two pairs that the instruction means: the order
// of a sum is free if both factors have the same.
template <int NT, int STAGES>
__device__ void split_conv(float* y, const float* x, const uint4* w, const float* bias, int pixels, int height, int width,
                           int channels, int out_height, int out_width, int filters, int rows, int columns, int stride_y,
                           int stride_x, int pad_y, int pad_x, int relu) {
    constexpr int BM = 128, BN = 8 * NT;
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
        start[i] = (((int)(rest / (u32)out_height) * height + top[i]) * width + left[i]) * channels;
        // Beyond the last pixel nothing is in the image.
        if (pixel >= (u32)pixels) top[i] = -0x40000000;
    }
    int tiles = rows * columns * channels / 16, channel = 0, tap_y = 0, tap_x = 0;
    auto fetch = [&](int tile) {
        if (tile < tiles) {
            int slot = tile % STAGES, offset = (tap_y * width + tap_x) * channels + channel + 4 * part;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                bool there = (u32)(top[i] + tap_y) < (u32)height && (u32)(left[i] + tap_x) < (u32)width;
                fetch16(&image[slot][(row + 32 * i) * 4 + part], there ? x + (start[i] + offset) : x, there);
            }
#pragma unroll
            for (int i = 0; i < (BN + 31) / 32; i++) {
                int filter = row + 32 * i;
                bool there = first_filter + filter < filters;
                const uint4* from = w + ((i64)(there ? first_filter + filter : 0) * tiles + tile) * 4 + part;
                if (BN % 32 == 0 || filter < BN) fetch16(&weight[slot][filter * 4 + part], from, there);
            }
            channel += 16;
            if (channel == channels) {
                channel = 0;
                if (++tap_x == columns) tap_x = 0, tap_y++;
            }
        }
        fetch_end();
    };

    int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4;
    float sum[2][NT][4] = {};
    for (int tile = 0; tile < STAGES - 1; tile++) fetch(tile);
    for (int tile = 0; tile < tiles; tile++) {
        fetch_wait<STAGES - 2>();
        __syncthreads();
        // Into the slot that all have read before the barrier.
        fetch(tile + STAGES - 1);
        int slot = tile % STAGES;
        u32 high[2][4], low[2][4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float4 v = image[slot][(warp * 32 + 8 * i + group) * 4 + part];
            uint2 a = split2(v.x, v.y), b = split2(v.z, v.w);
            high[i / 2][i % 2] = a.x, low[i / 2][i % 2] = a.y;
            high[i / 2][2 + i % 2] = b.x, low[i / 2][2 + i % 2] = b.y;
        }
#pragma unroll
        for (int j = 0; j < NT; j++) {
            uint4 v = weight[slot][(8 * j + group) * 4 + part];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                // Sums leave the tensor core after every 16 products, because it cuts off where f32 rounds.
                float d[4] = {};
                multiply(d, low[i], v.x, v.z);
                multiply(d, high[i], v.y, v.w);
                multiply(d, high[i], v.x, v.z);
#pragma unroll
                for (int k = 0; k < 4; k++) sum[i][j][k] += d[k];
            }
        }
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
                v[k] = sum[i / 2][j][i % 2 * 2 + k] * (1.0f / SPLIT_SCALE) + (bias ? bias[filter + k] : 0.0f);
                if (relu && v[k] < 0.0f) v[k] = 0.0f;
            }
            *(float2*)(y + (i64)pixel * filters + filter) = make_float2(v[0], v[1]);
        }
    }
}
#define SPLIT_CONV(NT, STAGES)                                                                                         \
    extern "C" __global__ void __launch_bounds__(128) split_conv_##NT(                                                 \
        float* y, const float* x, const uint4* w, const float* bias, int pixels, int height, int width, int channels,  \
        int out_height, int out_width, int filters, int rows, int columns, int stride_y, int stride_x, int pad_y,      \
        int pad_x, int relu) {                                                                                         \
        split_conv<NT, STAGES>(y, x, w, bias, pixels, height, width, channels, out_height, out_width, filters, rows,   \
                               columns, stride_y, stride_x, pad_y, pad_x, relu);                                       \
    }
// As many stages as 48 KiB hold.
SPLIT_CONV(4, 4) SPLIT_CONV(6, 4) SPLIT_CONV(8, 4) SPLIT_CONV(12, 3)
