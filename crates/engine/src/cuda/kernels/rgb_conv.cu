// 3 x 3 convolutions between a narrow image of at most three channels (colours) and a wide one with channels in 64s.
//
// Pixel q of the wide image and pixel stride q + tap - pad of the narrow one are joined by weight[channel, tap, colour].
// The three kernels are the three sums over such joints: for the wide image, for the narrow one, and for the weights.
// Rows of the wide image are whole 16s of pixels. The order of a product's rows, columns and sum is free, and chosen so
// that memory is read and written in whole sixteen bytes.

struct Joint {
    int height, width, colours;
    int wide_height, wide_width, channels;
    int stride, pad;
    // Strides of the weight; the taps may go backwards.
    int channel_step, tap_step, colour_step;
    // i / colours for i < 32, without a division.
    __device__ __forceinline__ int tap(int i) const { return i * (colours == 3 ? 11 : colours == 2 ? 16 : 32) / 32; }
    __device__ __forceinline__ int colour(int i) const { return i - tap(i) * colours; }
};
// One parameter each, as `joint` of arguments.rs.
#define JOINT                                                                                                          \
    int height, int width, int colours, int wide_height, int wide_width, int channels, int stride, int pad,            \
        int channel_step, int tap_step, int colour_step
#define THE_JOINT                                                                                                      \
    { height, width, colours, wide_height, wide_width, channels, stride, pad, channel_step, tap_step, colour_step }

// Rows of the wide image in a strip.
#define ROWS 8
// Values from one channel's weights to the next.
#define PITCH 34

extern __shared__ uint4 shared_memory[];

// Some rows of the wide image: the strips of an image follow each other.
struct Strip {
    int image, first, rows, pitch;
    __device__ __forceinline__ Strip(const Joint& j, int index) {
        int strips = (j.wide_height + ROWS - 1) / ROWS;
        image = index / strips, first = index % strips * ROWS;
        rows = min(ROWS, j.wide_height - first);
        pitch = ((j.wide_width - 1) * j.stride + 3) * j.colours;
    }
    // Its first pixel in the wide image.
    __device__ __forceinline__ i64 start(const Joint& j) const {
        return ((i64)image * j.wide_height + first) * j.wide_width;
    }
    // The part of the narrow image that it is joined to, with zeros around the image.
    __device__ __forceinline__ void load(u16* to, const bf16* narrow, const Joint& j) const {
        int row_size = j.width * j.colours, lane = threadIdx.x % 32;
        const bf16* from = narrow + (i64)image * j.height * row_size;
        for (int row = threadIdx.x / 32; row < (rows - 1) * j.stride + 3; row += blockDim.x / 32) {
            int y = first * j.stride - j.pad + row;
#pragma unroll 4
            for (int i = lane; i < pitch; i += 32) {
                int x = i - j.pad * j.colours;
                bool there = (u32)y < (u32)j.height && (u32)x < (u32)row_size;
                to[row * pitch + i] = there ? from[y * row_size + x].bits : 0;
            }
        }
    }
};

// The wide image from the narrow one, (sum + bias + residual) scale. A block of four warps has a strip and 64 channels.
// Pixels of the result and of the residual lie their pitch apart.
// The sum has 32 places: ten for each row of taps, of which the first 3 * colours are next to each other in the image.
extern "C" __global__ void __launch_bounds__(128, 4) rgb_conv_to_wide(bf16* out, const bf16* narrow, const bf16* weight,
                                                                    const float* bias, const bf16* residual,
                                                                    float scale, int relu, int pitch,
                                                                    int residual_pitch, JOINT) {
    await_previous();
    const Joint j = THE_JOINT;
    u16 *weights = (u16*)shared_memory, *image = weights + 64 * PITCH;
    Strip strip(j, blockIdx.x);
    strip.load(image, narrow, j);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, part = lane % 4;
    // Every thread has one place of the weights of 16 channels.
    int place = lane % 10, joint = lane / 10 * 3 + j.tap(place);
    bool taken = lane < 30 && place < 3 * j.colours;
    const bf16* from = weight + (blockIdx.y * 64 + warp) * j.channel_step;
    from += joint * j.tap_step + j.colour(place) * j.colour_step;
#pragma unroll
    for (int i = 0; i < 16; i++) weights[(warp + 4 * i) * PITCH + lane] = taken ? from[4 * i * j.channel_step].bits : 0;
    __syncthreads();

    // Of the four pairs of places that are this thread's: where in the image, which halves count, and the weights.
    int offset[4];
    u32 mask[4], w[4][8];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int pair = part + 4 * i, row = pair / 5, place = pair % 5 * 2;
        int halves = row < 3 ? max(min(3 * j.colours - place, 2), 0) : 0;
        offset[i] = halves ? row * strip.pitch + place : 0;
        mask[i] = halves == 2 ? 0xFFFFFFFF : halves ? 0xFFFF : 0;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            // Column 2 p + e of the k-th eight is channel 8 p + 2 k + e of 32: a thread gets eight channels in a row.
            int channel = k / 4 * 32 + group / 2 * 8 + k % 4 * 2 + group % 2;
            w[i][k] = *(const u32*)(weights + channel * PITCH + 2 * pair);
        }
    }
    int channel = blockIdx.y * 64 + 8 * part;
    float shift[2][8] = {};
    if (bias) load<8>(bias + channel, shift[0]), load<8>(bias + channel + 32, shift[1]);

    int pixel_step = j.stride * j.colours;
    i64 start = strip.start(j) + group;
#pragma unroll 1
    for (int y = warp; y < strip.rows; y += 4)
#pragma unroll 1
        for (int x = 0; x < j.wide_width; x += 16) {
            const u16* p = image + y * j.stride * strip.pitch + (x + group) * pixel_step;
            float sum[8][4];
#pragma unroll
            for (int k = 0; k < 32; k++) sum[k / 4][k % 4] = shift[k / 16][k / 4 % 4 * 2 + k % 2];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                u32 a[4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const u16* two = p + i % 2 * 8 * pixel_step + offset[2 * half + i / 2];
                    a[i] = (two[0] | (u32)two[1] << 16) & mask[2 * half + i / 2];
                }
#pragma unroll
                for (int k = 0; k < 8; k++) multiply(sum[k], a, w[2 * half][k], w[2 * half + 1][k]);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                // Two pixels, each with two eights of channels.
                i64 pixel = start + (y * j.wide_width + x + i / 2 * 8);
                int first = channel + i % 2 * 32;
                float v[8];
#pragma unroll
                for (int k = 0; k < 8; k++) v[k] = sum[i % 2 * 4 + k / 2][i / 2 * 2 + k % 2];
                if (residual) {
                    float r[8];
                    load<8>(residual + pixel * residual_pitch + first, r);
#pragma unroll
                    for (int k = 0; k < 8; k++) v[k] += r[k];
                }
#pragma unroll
                for (int k = 0; k < 8; k++) v[k] = relu && v[k] * scale < 0.0f ? 0.0f : v[k] * scale;
                store<8>(out + pixel * pitch + first, v);
            }
        }
}

// The narrow image from the wide one, for stride 1 and padding 1. A block of four warps first multiplies every pixel of a
// strip, and of a row above and below, with the weights of all taps and colours; then it adds up what meets in a pixel. So
// a wide pixel is read once, and straight into the product.
extern "C" __global__ void __launch_bounds__(128) rgb_conv_from_wide(bf16* out, const bf16* wide, const bf16* weight,
                                                                 const float* bias, const bf16* residual, float scale,
                                                                 int relu, JOINT) {
    await_previous();
    const Joint j = THE_JOINT;
    Strip strip(j, blockIdx.x);
    int lane = threadIdx.x % 32, group = lane / 4, part = lane % 4, units = channels / 8;
    // Products by tap and colour; four more pixels, so that a warp's are in different banks.
    int joints = 9 * j.colours, plane = (ROWS + 2) * width + 4;
    uint4* w = shared_memory;
    float* products = (float*)(w + 32 * units);

    int across = width / 16, top = max(strip.first - 1, 0), bottom = min(strip.first + strip.rows + 1, j.wide_height);
    int pieces = (bottom - top) * across, chunks = j.channels / 64;
    const bf16* image = wide + (((i64)strip.image * j.wide_height + top) * width + group) * j.channels + 8 * part;
    // 64 channels of 16 pixels: two eights of each of the two pixels. The next are loaded while these are multiplied.
    int piece = threadIdx.x / 32, chunk = 0;
    uint4 next[2][2];
    auto fetch = [&]() {
        const bf16* from = image + piece * 16 * j.channels + chunk * 64;
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (piece < pieces) next[i / 2][i % 2] = *(const uint4*)(from + i / 2 * 32 + i % 2 * 8 * j.channels);
        if (++chunk == chunks) chunk = 0, piece += 4;
    };
    fetch();

    // A row of weights for each tap and colour; odd rows are turned, so that a warp reads different banks.
    int starts[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int row = threadIdx.x / 32 + 4 * i;
        starts[i] = row < joints ? j.tap(row) * j.tap_step + j.colour(row) * j.colour_step : 0;
    }
#pragma unroll 2
    for (int channel = lane; channel < j.channels; channel += 32) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int row = threadIdx.x / 32 + 4 * i, unit = channel / 8 ^ row % 2 * 4;
            // Rows beyond the last are anything, and not used.
            ((u16*)w)[(row * units + unit) * 8 + channel % 8] = weight[channel * j.channel_step + starts[i]].bits;
        }
    }
    __syncthreads();

#pragma unroll 1
    for (int now = threadIdx.x / 32; now < pieces; now += 4) {
        float sum[4][4] = {};
#pragma unroll 1
        for (int c = 0; c < chunks; c++) {
            uint4 x[2][2] = {{next[0][0], next[0][1]}, {next[1][0], next[1][1]}};
            fetch();
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const uint4 *p = x[half], *from = w + group * units + ((c * 8 + half * 4 + part) ^ group % 2 * 4);
                u32 a[4] = {p[0].x, p[1].x, p[0].y, p[1].y}, b[4] = {p[0].z, p[1].z, p[0].w, p[1].w};
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    uint4 v = from[8 * k * units];
                    multiply(sum[k], a, v.x, v.y);
                    multiply(sum[k], b, v.z, v.w);
                }
            }
        }
#pragma unroll
        for (int k = 0; k < 16; k++) {
            int row = k / 4 * 8 + 2 * part + k % 2;
            if (row < joints) products[row * plane + now * 16 + group + k % 4 / 2 * 8] = sum[k / 4][k % 4];
        }
    }
    __syncthreads();

    for (int i = threadIdx.x; i < strip.rows * width; i += 128) {
        int x = i % width, y = strip.first + i / width;
        i64 at = (strip.start(j) + i) * j.colours;
        const float* from = products + (y + 1 - top) * width + x + 1;
        for (int colour = 0; colour < j.colours; colour++, from += plane) {
            float sum = bias ? bias[colour] : 0.0f;
#pragma unroll
            for (int tap = 0; tap < 9; tap++) {
                bool there = (u32)(y + 1 - tap / 3) < (u32)j.wide_height && (u32)(x + 1 - tap % 3) < (u32)width;
                if (there) sum += from[tap * j.colours * plane - tap / 3 * width - tap % 3];
            }
            if (residual) sum += widen(residual[at + colour]);
            sum *= scale;
            out[at + colour] = narrow<bf16>(relu && sum < 0.0f ? 0.0f : sum);
        }
    }
}

// Sums for the weights of 64 channels over every gridDim.x-th strip; each warp of a block has a row. Rows of the product are
// channels, columns taps and colours, and the sum is over pixels.
extern "C" __global__ void __launch_bounds__(32 * ROWS, 2) rgb_conv_weight_sums(float* out, const bf16* narrow, const bf16* wide,
                                                                          int strips, JOINT) {
    await_previous();
    const Joint j = THE_JOINT;
    // The image first, then what warps give to each other.
    u16* image = (u16*)shared_memory;
    float(*others)[64][32] = (float(*)[64][32])shared_memory;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, part = lane % 4;
    int pixel_step = j.stride * j.colours, offset[4];
    float sum[4][4][4] = {};
    for (int index = blockIdx.x; index < strips; index += gridDim.x) {
        Strip strip(j, index);
        // Eight channels of four pixels of 16, two and two next to each other.
        const bf16* row = wide + (strip.start(j) + warp * j.wide_width + 2 * part) * j.channels + blockIdx.y * 64 + group * 8;
        int width = warp < strip.rows ? j.wide_width : 0;
        uint4 next[4];
        auto fetch = [&](int x) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (x < width) next[i] = *(const uint4*)(row + (x + i / 2 * 8 + i % 2) * j.channels);
        };
        fetch(0);
        __syncthreads();
        strip.load(image, narrow, j);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 4; k++) {
            // Columns beyond the last are anything, and not used.
            int column = min(8 * k + group, 9 * j.colours - 1), tap = j.tap(column);
            offset[k] = tap / 3 * strip.pitch + tap % 3 * j.colours + j.colour(column);
        }
#pragma unroll 1
        for (int x = 0; x < width; x += 16) {
            uint4 now[4] = {next[0], next[1], next[2], next[3]};
            fetch(x + 16);
            const u16* p = image + warp * j.stride * strip.pitch + (x + 2 * part) * pixel_step;
            u32 b[4][2];
#pragma unroll
            for (int k = 0; k < 8; k++) {
                const u16* two = p + k % 2 * 8 * pixel_step + offset[k / 2];
                b[k / 2][k % 2] = two[0] | (u32)two[pixel_step] << 16;
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                // Channels 2 i and 2 i + 1 of the eight, each of two pixels.
                u32 a[4];
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    const uint4 &first = now[k / 2 * 2], &second = now[k / 2 * 2 + 1];
                    u32 low = i == 0 ? first.x : i == 1 ? first.y : i == 2 ? first.z : first.w;
                    u32 high = i == 0 ? second.x : i == 1 ? second.y : i == 2 ? second.z : second.w;
                    a[k] = __byte_perm(low, high, k % 2 ? 0x7632 : 0x5410);
                }
#pragma unroll
                for (int k = 0; k < 4; k++) multiply(sum[i][k], a, b[k][0], b[k][1]);
            }
        }
    }
    __syncthreads();
    // Half of the warps to the others, and again.
#pragma unroll 1
    for (int half = ROWS / 2; half; half /= 2) {
        if (warp >= half && warp < 2 * half)
#pragma unroll
            for (int k = 0; k < 64; k++) others[warp - half][k][lane] = sum[k / 16][k / 4 % 4][k % 4];
        __syncthreads();
        if (warp < half)
#pragma unroll
            for (int k = 0; k < 64; k++) sum[k / 16][k / 4 % 4][k % 4] += others[warp][k][lane];
        __syncthreads();
    }
    if (warp) return;
    out += (i64)(blockIdx.x * gridDim.y + blockIdx.y) * 2048 + lane;
#pragma unroll
    for (int k = 0; k < 64; k++) out[32 * k] = sum[k / 16][k / 4 % 4][k % 4];
}

// Adds the blocks' sums, in a fixed order, and puts them where the weights are. Block (32, 16) for 32 of 2048 sums.
extern "C" __global__ void __launch_bounds__(512) rgb_conv_weights(bf16* out, const float* sums, int parts, int groups,
                                                                 float scale, JOINT) {
    await_previous();
    const Joint j = THE_JOINT;
    __shared__ float others[16][32];
    int lane = threadIdx.x, k = blockIdx.x % 64, wide_group = blockIdx.x / 64;
    float sum = 0.0f;
    for (int p = threadIdx.y; p < parts; p += 16) sum += sums[((i64)p * groups + wide_group) * 2048 + k * 32 + lane];
    others[threadIdx.y][lane] = sum;
    __syncthreads();
    // The sum's place in the product, as the kernel above has it.
    int channel = wide_group * 64 + lane / 4 * 8 + k / 16 * 2 + k % 4 / 2, column = k / 4 % 4 * 8 + lane % 4 * 2 + k % 2;
    if (threadIdx.y || column >= 9 * j.colours) return;
#pragma unroll
    for (int i = 1; i < 16; i++) sum += others[i][lane];
    out[channel * j.channel_step + j.tap(column) * j.tap_step + j.colour(column) * j.colour_step] = narrow<bf16>(sum * scale);
}
