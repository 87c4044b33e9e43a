// Attention in bf16 that keeps scores and weights on the chip, for up to 256 tokens.
//
// A block has ROWS tokens as rows and all WIDTH tokens as columns, so that a row of scores is whole and its softmax
// needs no second pass. Its warps are arranged in rows of 64 tokens and four columns. Everything else is streamed in chunks:
// of 32 channels for products of rows with rows, of 32 tokens for products of weights with rows. Tokens beyond the last
// are zeros.

#define LOG2_E 1.44269504f
#define LN_2 0.693147181f

// The output and the logarithms of the rows' sums, from tokens of C queries, C keys and C values.
// Grid: (tiles of ROWS tokens, images).
template <int ROWS, int WIDTH, int C>
__device__ __forceinline__ void attention(bf16* out, float* logs, const bf16* qkv, int tokens, float scale) {
    using Block = Block<ROWS, WIDTH, C>;
    constexpr int NS = Block::NS, NO = Block::NO, THREE = Block::THREE, SCORES = C / 32;
    extern __shared__ uint4 shared[];
    Block block(shared);
    // Of each row, by warp.
    float *most = block.numbers(), *totals = most + 4 * ROWS;
    int first = blockIdx.x * ROWS, rows = tokens - first;
    i64 image = (i64)blockIdx.y * tokens;
    const bf16 *q = qkv + (image + first) * THREE, *k = qkv + image * THREE + C, *v = k + C;
    out += (image + first) * C, logs += image + first;

    int parts = (tokens + 31) / 32, fetched = 0;
    auto fetch = [&]() {
        if (fetched < SCORES)
            block.template fetch_rows<THREE>(q, rows, k, tokens, fetched);
        else if (fetched < SCORES + parts)
            block.template fetch_tokens<THREE>(v, tokens, fetched - SCORES);
        fetched++;
    };
    auto advance = [&](int) { block.advance(fetch); };
    block.begin(fetch);

    float s[4][NS][4];
    multiply_chunks(s, SCORES, [&](Factors<NS>& f, int, int half) { block.load_rows(f, half); }, advance);
    // Each row's largest score: a thread's, that of the four threads with the row, that of the four warps.
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float top = __int_as_float(0xFF800000);
#pragma unroll
        for (int j = 0; j < 2 * NS; j++) {
            float& score = s[i / 2][j / 2][i % 2 * 2 + j % 2];
            bool there = block.my_column(j / 2) + j % 2 < tokens;
            score = there ? score * (scale * LOG2_E) : __int_as_float(0xFF800000);
            top = fmaxf(top, score);
        }
        top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFF, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFF, top, 2));
        if (block.lane % 4 == 0) most[block.column * ROWS + block.my_row(i)] = top;
    }
    __syncthreads();
    auto top_of = [&](int row) {
        return fmaxf(fmaxf(most[row], most[ROWS + row]), fmaxf(most[2 * ROWS + row], most[3 * ROWS + row]));
    };
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float top = top_of(block.my_row(i)), total = 0.0f;
#pragma unroll
        for (int j = 0; j < NS; j++) {
            float a = power_of_two(s[i / 2][j][i % 2 * 2] - top), b = power_of_two(s[i / 2][j][i % 2 * 2 + 1] - top);
            total += a + b;
            *block.weight(i, j) = pack2(a, b);
        }
        total += __shfl_xor_sync(0xFFFFFFFF, total, 1);
        total += __shfl_xor_sync(0xFFFFFFFF, total, 2);
        if (block.lane % 4 == 0) totals[block.column * ROWS + block.my_row(i)] = total;
    }
    __syncthreads();

    float o[4][NO][4];
    multiply_chunks(o, parts, [&](Factors<NO>& f, int i, int half) { block.load_weights(f, i, half); }, advance);
    block.template write<C>(out, o, rows, [&](int i) {
        int row = block.my_row(i);
        float total = totals[row] + totals[ROWS + row] + totals[2 * ROWS + row] + totals[3 * ROWS + row];
        if (row < rows && block.column == 0 && block.lane % 4 == 0) logs[row] = LN_2 * (top_of(row) + log2f(total));
        return __fdividef(1.0f, total);
    });
}

// The gradients of keys and values, and those of the scores before scaling, [image, key, query], from which a product
// makes the queries'. Here keys are rows and queries columns. Grid: (tiles of ROWS keys, images).
template <int ROWS, int WIDTH, int C>
__device__ __forceinline__ void attention_gradient(bf16* dqkv, bf16* slopes, const bf16* qkv, const bf16* out,
                                                   const float* logs, const bf16* dy, int tokens, float scale) {
    using Block = Block<ROWS, WIDTH, C>;
    constexpr int NS = Block::NS, NO = Block::NO, THREADS = Block::THREADS, THREE = Block::THREE, SCORES = C / 32;
    extern __shared__ uint4 shared[];
    Block block(shared);
    // Of each column.
    float *log = block.numbers(), *delta = log + WIDTH;
    int first = blockIdx.x * ROWS, rows = tokens - first;
    i64 image = (i64)blockIdx.y * tokens;
    const bf16 *q = qkv + image * THREE, *k = qkv + (image + first) * THREE + C, *v = k + C;
    bf16 *dk = dqkv + (image + first) * THREE + C, *dv = dk + C;
    out += image * C, dy += image * C, logs += image, slopes += (image + first) * tokens;
    // Beyond the last query weights are zero.
    for (int i = threadIdx.x; i < WIDTH; i += THREADS)
        log[i] = i < tokens ? LOG2_E * logs[i] : __int_as_float(0x7F800000);

    // Keys and queries for the scores, dy for dv; values and dy for the weights' gradients, queries for dk.
    int parts = (tokens + 31) / 32, fetched = 0;
    auto fetch = [&]() {
        int i = fetched++, again = i - SCORES - parts;
        if (i < SCORES)
            block.template fetch_rows<THREE>(k, rows, q, tokens, i);
        else if (again < 0)
            block.template fetch_tokens<C>(dy, tokens, i - SCORES);
        else if (again < SCORES)
            block.template fetch_rows<C>(v, rows, dy, tokens, again);
        else if (again < SCORES + parts)
            block.template fetch_tokens<THREE>(q, tokens, again - SCORES);
    };
    auto advance = [&](int) { block.advance(fetch); };
    auto load_rows = [&](Factors<NS>& f, int, int half) { block.load_rows(f, half); };
    auto load_weights = [&](Factors<NO>& f, int i, int half) { block.load_weights(f, i, half); };
    block.begin(fetch);

    float s[4][NS][4];
    multiply_chunks(s, SCORES, load_rows, advance);
#pragma unroll
    for (int j = 0; j < NS; j++) {
        float2 b = *(float2*)(log + block.my_column(j));
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float* two = &s[i / 2][j][i % 2 * 2];
            float x = power_of_two(two[0] * (scale * LOG2_E) - b.x), y = power_of_two(two[1] * (scale * LOG2_E) - b.y);
            *block.weight(i, j) = pack2(x, y);
        }
    }
    __syncthreads();

    // Together with dv, the products of the output with its gradient, for 32 queries at a time.
    constexpr int UNITS = C / 8, STEP = THREADS / UNITS;
    int query = threadIdx.x / UNITS, unit = threadIdx.x % UNITS;
    uint4 outputs[32 / STEP];
    auto load_outputs = [&](int i) {
#pragma unroll
        for (int j = 0; j < 32 / STEP; j++) {
            int token = 32 * i + query + j * STEP;
            outputs[j] = token < tokens ? *(const uint4*)(out + token * C + 8 * unit) : make_uint4(0, 0, 0, 0);
        }
    };
    load_outputs(0);
    float d[4][NO][4];
    multiply_chunks(d, parts, load_weights, [&](int i) {
#pragma unroll
        for (int j = 0; j < 32 / STEP; j++) {
            float a[8], b[8], sum = 0.0f;
            unpack8(outputs[j], a);
            unpack8(*(uint4*)(block.memory + (block.at - block.stages) + place<UNITS>(query + j * STEP, unit)), b);
#pragma unroll
            for (int e = 0; e < 8; e++) sum += a[e] * b[e];
#pragma unroll
            for (int offset = UNITS / 2; offset; offset /= 2) sum += __shfl_xor_sync(0xFFFFFFFF, sum, offset);
            if (unit == 0) delta[32 * i + query + j * STEP] = sum;
        }
        advance(i);
        load_outputs(i + 1);
    });
    block.template write<THREE>(dv, d, rows, [](int) { return 1.0f; });

    multiply_chunks(s, SCORES, load_rows, advance);
    // P (dP - delta), where the weights were: each thread finds its own there.
#pragma unroll
    for (int j = 0; j < NS; j++) {
        float2 b = *(float2*)(delta + block.my_column(j));
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float* two = &s[i / 2][j][i % 2 * 2];
            u32 *at = block.weight(i, j), p = *at;
            *at = pack2(__uint_as_float(p << 16) * (two[0] - b.x), __uint_as_float(p & 0xFFFF0000) * (two[1] - b.y));
        }
    }
    __syncthreads();

    multiply_chunks(d, parts, load_weights, advance);
    block.template write<THREE>(dk, d, rows, [=](int) { return scale; });
    const char* weights = block.memory + STAGES * Block::STAGE;
    for (int i = threadIdx.x; i < ROWS * WIDTH / 8; i += THREADS) {
        int row = i / (WIDTH / 8), eight = i % (WIDTH / 8);
        if (row < rows && 8 * eight < tokens)
            *(uint4*)(slopes + row * tokens + 8 * eight) = *(const uint4*)(weights + place<WIDTH / 8>(row, eight));
    }
}

#define ATTENTION(ROWS, WIDTH, C)                                                                                      \
    extern "C" __global__ void __launch_bounds__(2 * ROWS) attention_##ROWS##_##WIDTH##_##C(                           \
        bf16* out, float* logs, const bf16* qkv, int tokens, float scale) {                                            \
        await_previous();                                                                                              \
        attention<ROWS, WIDTH, C>(out, logs, qkv, tokens, scale);                                                      \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(2 * ROWS) attention_gradient_##ROWS##_##WIDTH##_##C(                  \
        bf16* dqkv, bf16* slopes, const bf16* qkv, const bf16* out, const float* logs, const bf16* dy, int tokens,     \
        float scale) {                                                                                                 \
        await_previous();                                                                                              \
        attention_gradient<ROWS, WIDTH, C>(dqkv, slopes, qkv, out, logs, dy, tokens, scale);                           \
    }
// CHANNELS is defined by nvrtc.rs: each number of channels is a program of its own.
#define ATTENTION_OF(ROWS, WIDTH, C) ATTENTION(ROWS, WIDTH, C)
ATTENTION_OF(64, 64, CHANNELS) ATTENTION_OF(64, 256, CHANNELS) ATTENTION_OF(128, 256, CHANNELS)
