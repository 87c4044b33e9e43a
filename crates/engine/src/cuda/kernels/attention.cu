// Attention in bf16 that keeps scores and weights on the chip, for up to 256 tokens.
//
// A block has ROWS tokens as rows and all WIDTH tokens as columns, so that a row of scores is whole and its softmax
// needs no second pass. Its warps stand in rows of 64 tokens and four columns. Everything else is streamed in chunks:
// of 32 channels for products of rows with rows, of 32 tokens for products of weights with rows. Tokens beyond the last
// are zeros.

#if __CUDA_ARCH__ >= 800
// d += a b: 16 x 16 times 16 x 8, summed in f32.
__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Four matrices of 8 x 8 from shared memory; eight threads each name the rows of one.
__device__ __forceinline__ void load_four(u32 (&r)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}
__device__ __forceinline__ void load_four_transposed(u32 (&r)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}
// Sixteen bytes to shared memory, later; zeros unless `there`.
__device__ __forceinline__ void fetch16(u32 to, const void* from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#else
// Never launched on such GPUs.
__device__ void multiply(float (&)[4], const u32 (&)[4], u32, u32) {}
__device__ void load_four(u32 (&)[4], u32) {}
__device__ void load_four_transposed(u32 (&)[4], u32) {}
__device__ void fetch16(u32, const void*, bool) {}
__device__ float power_of_two(float x) { return x; }
#endif

#define LOG2_E 1.44269504f
#define LN_2 0.693147181f
// Chunks: one in use, two on their way.
#define STAGES 3

// Where a unit of 16 bytes lies in a tile with UNITS of them in a row: eight rows of one column are in different banks.
template <int UNITS> __device__ __forceinline__ u32 place(int row, int unit) {
    return (row * UNITS + (unit ^ (UNITS == 4 ? row / 2 % 4 : row % 8))) * 16;
}

// A tile from rows of C channels, of which the first `rows` are there.
template <int COUNT, int UNITS, int C, int THREADS>
__device__ __forceinline__ void fetch_tile(u32 to, const bf16* from, int rows) {
    constexpr int STEP = THREADS / UNITS;
    int row = threadIdx.x / UNITS, unit = threadIdx.x % UNITS;
    from += row * C + 8 * unit;
    // Rows eight apart have their units in the same order.
#pragma unroll
    for (int i = 0; i < COUNT; i += STEP)
        fetch16(to + place<UNITS>(row + i % 8, unit) + 16 * UNITS * (i - i % 8), from + i * C, row + i < rows);
}

// Half a chunk of both factors: 64 rows by 16, 16 by 8 NT columns.
template <int NT> struct Factors {
    u32 a[4][4], b[NT / 2][4];
    // Rows of 32 channels, of which `half` is taken.
    __device__ __forceinline__ void load_rows(u32 from_a, u32 from_b, int half) {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < 4; i++) load_four(a[i], from_a + place<4>(lane % 16, 2 * half + lane / 16) + 1024 * i);
#pragma unroll
        for (int j = 0; j < NT / 2; j++)
            load_four(b[j], from_b + place<4>(lane / 16 * 8 + lane % 8, 2 * half + lane / 8 % 2) + 1024 * j);
    }
    // Weights from their unit `first` on, and 32 tokens from their unit `column` on.
    template <int WIDTH, int C>
    __device__ __forceinline__ void load_weights(u32 weights, int first, u32 from_b, int column, int half) {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < 4; i++)
            load_four(a[i], weights + place<WIDTH / 8>(lane % 16, first + 2 * half + lane / 16) + 32 * WIDTH * i);
#pragma unroll
        for (int j = 0; j < NT / 2; j++)
            load_four_transposed(b[j], from_b + place<C / 8>(16 * half + lane % 16, column + 2 * j + lane / 16));
    }
    __device__ __forceinline__ void add_product(float (&sum)[4][NT][4]) const {
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) multiply(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
};

// The sum of chunks' products. While one half is multiplied the next is loaded, also across the barrier in `advance`.
template <int NT, class Load, class Advance>
__device__ __forceinline__ void multiply_chunks(float (&sum)[4][NT][4], int chunks, Load load, Advance advance) {
    Factors<NT> first, second;
#pragma unroll
    for (int i = 0; i < 16 * NT; i++) sum[i / NT / 4][i / 4 % NT][i % 4] = 0.0f;
    load(first, 0, 0);
#pragma unroll 1
    for (int i = 0; i < chunks; i++) {
        load(second, i, 1);
        first.add_product(sum);
        advance(i);
        if (i + 1 < chunks) load(first, i + 1, 0);
        second.add_product(sum);
    }
}

// Writes one row of a warp's 8 NT columns. Four threads have two columns of every eight; they exchange them, so that each
// writes whole sixteen bytes.
template <int NT> __device__ __forceinline__ void store_row(bf16* out, u32 (&v)[NT], bool there) {
    int part = threadIdx.x % 4;
    if constexpr (NT % 4 == 0) {
#pragma unroll
        for (int j = 0; j < NT; j += 4) {
            bool odd = part & 1, high = part & 2;
            u32 a = __shfl_xor_sync(0xFFFFFFFF, odd ? v[j] : v[j + 1], 1);
            u32 b = __shfl_xor_sync(0xFFFFFFFF, odd ? v[j + 2] : v[j + 3], 1);
            // Two threads' columns of eight number j + odd, and of j + 2 + odd.
            u32 low0 = odd ? a : v[j], low1 = odd ? v[j + 1] : a, up0 = odd ? b : v[j + 2], up1 = odd ? v[j + 3] : b;
            u32 c = __shfl_xor_sync(0xFFFFFFFF, high ? low0 : up0, 2), d = __shfl_xor_sync(0xFFFFFFFF, high ? low1 : up1, 2);
            uint4 eight = high ? make_uint4(c, d, up0, up1) : make_uint4(low0, low1, c, d);
            if (there) *(uint4*)(out + 8 * (j + part)) = eight;
        }
    } else {
#pragma unroll
        for (int j = 0; j < NT; j++)
            if (there) *(u32*)(out + 8 * j + 2 * part) = v[j];
    }
}

// The output and the logarithms of the rows' sums. Grid: (tiles of ROWS tokens, images).
template <int ROWS, int WIDTH, int C>
__device__ __forceinline__ void attention(bf16* out, float* logs, const bf16* q, const bf16* k, const bf16* v, int tokens,
                                          float scale) {
    constexpr int THREADS = 2 * ROWS, STAGE = 64 * (ROWS + WIDTH > C ? ROWS + WIDTH : C), NS = WIDTH / 32, NO = C / 32;
    extern __shared__ uint4 shared[];
    u32 stages = shared_address(shared), weights = stages + STAGES * STAGE;
    float* most = (float*)(shared + (STAGES * STAGE + 2 * ROWS * WIDTH) / 16);
    float* totals = most + 4 * ROWS;
    int lane = threadIdx.x % 32, column = threadIdx.x / 32 % 4, row = threadIdx.x / 128 * 64, first = blockIdx.x * ROWS;
    i64 image = (i64)blockIdx.y * tokens;
    q += (image + first) * C, out += (image + first) * C, k += image * C, v += image * C, logs += image + first;

    constexpr int SCORES = C / 32;
    int chunks = SCORES + (tokens + 31) / 32, fetched = 0, to = stages, at = stages;
    auto next = [&](int slot) { return slot == (int)stages + (STAGES - 1) * STAGE ? (int)stages : slot + STAGE; };
    auto fetch = [&]() {
        if (fetched < SCORES) {
            fetch_tile<ROWS, 4, C, THREADS>(to, q + 32 * fetched, tokens - first);
            fetch_tile<WIDTH, 4, C, THREADS>(to + 64 * ROWS, k + 32 * fetched, tokens);
        } else if (fetched < chunks) {
            int token = 32 * (fetched - SCORES);
            fetch_tile<32, C / 8, C, THREADS>(to, v + token * C, tokens - token);
        }
        fetched++, to = next(to);
        fetch_end();
    };
    // When all have read a chunk, the next is there and another goes in its place.
    auto advance = [&](int) {
        fetch_wait<STAGES - 2>();
        __syncthreads();
        fetch();
        at = next(at);
    };
    auto rows = [&](Factors<NS>& factors, int, int half) {
        factors.load_rows(at + 64 * row, at + 64 * (ROWS + column * WIDTH / 4), half);
    };
    auto weighted = [&](Factors<NO>& factors, int i, int half) {
        factors.template load_weights<WIDTH, C>(weights + row * WIDTH * 2, 4 * i, at, column * NO, half);
    };
    for (int i = 0; i < STAGES; i++) fetch();
    fetch_wait<STAGES - 1>();
    __syncthreads();

    float s[4][NS][4];
    multiply_chunks(s, SCORES, rows, advance);
    // Each row's largest score: a thread's, that of the four threads with the row, that of the four warps.
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float top = __int_as_float(0xFF800000);
#pragma unroll
        for (int j = 0; j < 2 * NS; j++) {
            float& score = s[i / 2][j / 2][i % 2 * 2 + j % 2];
            bool there = column * (WIDTH / 4) + j / 2 * 8 + lane % 4 * 2 + j % 2 < tokens;
            score = there ? score * (scale * LOG2_E) : __int_as_float(0xFF800000);
            top = fmaxf(top, score);
        }
        top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFF, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFF, top, 2));
        if (lane % 4 == 0) most[column * ROWS + row + 8 * i + lane / 4] = top;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int mine = row + 8 * i + lane / 4;
        float top = most[mine], total = 0.0f;
#pragma unroll
        for (int j = 1; j < 4; j++) top = fmaxf(top, most[j * ROWS + mine]);
#pragma unroll
        for (int j = 0; j < NS; j++) {
            float a = power_of_two(s[i / 2][j][i % 2 * 2] - top), b = power_of_two(s[i / 2][j][i % 2 * 2 + 1] - top);
            total += a + b;
            u32 offset = weights - stages + place<WIDTH / 8>(mine, column * NS + j) + lane % 4 * 4;
            *(u32*)((char*)shared + offset) = pack2(a, b);
        }
        total += __shfl_xor_sync(0xFFFFFFFF, total, 1);
        total += __shfl_xor_sync(0xFFFFFFFF, total, 2);
        if (lane % 4 == 0) totals[column * ROWS + mine] = total;
    }

    __syncthreads();

    float o[4][NO][4];
    multiply_chunks(o, chunks - SCORES, weighted, advance);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int mine = row + 8 * i + lane / 4;
        float top = most[mine], total = totals[mine];
#pragma unroll
        for (int j = 1; j < 4; j++) top = fmaxf(top, most[j * ROWS + mine]), total += totals[j * ROWS + mine];
        bool there = first + mine < tokens;
        if (there && column == 0 && lane % 4 == 0) logs[mine] = LN_2 * (top + log2f(total));
        float inverse = __fdividef(1.0f, total);
        u32 packed[NO];
#pragma unroll
        for (int j = 0; j < NO; j++) packed[j] = pack2(o[i / 2][j][i % 2 * 2] * inverse, o[i / 2][j][i % 2 * 2 + 1] * inverse);
        store_row(out + mine * C + column * (C / 4), packed, there);
    }
}

// The gradients of keys and values, and those of the scores before scaling, [image, key, query], from which a product
// makes the queries'. Here keys are rows and queries columns. Grid: (tiles of ROWS keys, images).
template <int ROWS, int WIDTH, int C>
__device__ __forceinline__ void attention_gradient(bf16* dk, bf16* dv, bf16* slopes, const bf16* q, const bf16* k,
                                                   const bf16* v, const bf16* out, const float* logs, const bf16* dy,
                                                   int tokens, float scale) {
    constexpr int THREADS = 2 * ROWS, STAGE = 64 * (ROWS + WIDTH > C ? ROWS + WIDTH : C), NS = WIDTH / 32, NO = C / 32;
    extern __shared__ uint4 shared[];
    u32 stages = shared_address(shared), weights = stages + STAGES * STAGE;
    char* weight = (char*)shared + STAGES * STAGE;
    float* log = (float*)(weight + 2 * ROWS * WIDTH);
    float* delta = log + WIDTH;
    int lane = threadIdx.x % 32, column = threadIdx.x / 32 % 4, row = threadIdx.x / 128 * 64, first = blockIdx.x * ROWS;
    i64 image = (i64)blockIdx.y * tokens;
    k += (image + first) * C, v += (image + first) * C, dk += (image + first) * C, dv += (image + first) * C;
    q += image * C, out += image * C, dy += image * C, logs += image, slopes += (image + first) * tokens;
    for (int i = threadIdx.x; i < WIDTH; i += THREADS) log[i] = i < tokens ? logs[i] * LOG2_E : __int_as_float(0x7F800000);

    constexpr int SCORES = C / 32;
    int parts = (tokens + 31) / 32, fetched = 0, to = stages, at = stages;
    auto next = [&](int slot) { return slot == (int)stages + (STAGES - 1) * STAGE ? (int)stages : slot + STAGE; };
    // Keys and queries for the scores, dy for dv, values and dy for the weights' gradients, queries for dk.
    auto fetch = [&]() {
        bool second = fetched >= SCORES + parts;
        int i = second ? fetched - SCORES - parts : fetched, token = 32 * (i - SCORES);
        if (i < SCORES) {
            fetch_tile<ROWS, 4, C, THREADS>(to, (second ? v : k) + 32 * i, tokens - first);
            fetch_tile<WIDTH, 4, C, THREADS>(to + 64 * ROWS, (second ? dy : q) + 32 * i, tokens);
        } else if (i < SCORES + parts) {
            fetch_tile<32, C / 8, C, THREADS>(to, (second ? q : dy) + token * C, tokens - token);
        }
        fetched++, to = next(to);
        fetch_end();
    };
    auto advance = [&](int) {
        fetch_wait<STAGES - 2>();
        __syncthreads();
        fetch();
        at = next(at);
    };
    auto rows = [&](Factors<NS>& factors, int, int half) {
        factors.load_rows(at + 64 * row, at + 64 * (ROWS + column * WIDTH / 4), half);
    };
    auto weighted = [&](Factors<NO>& factors, int i, int half) {
        factors.template load_weights<WIDTH, C>(weights + row * WIDTH * 2, 4 * i, at, column * NO, half);
    };
    auto write = [&](bf16* to, float (&sum)[4][NO][4], float factor) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int mine = row + 8 * i + lane / 4;
            u32 packed[NO];
#pragma unroll
            for (int j = 0; j < NO; j++) packed[j] = pack2(sum[i / 2][j][i % 2 * 2] * factor, sum[i / 2][j][i % 2 * 2 + 1] * factor);
            store_row(to + mine * C + column * (C / 4), packed, first + mine < tokens);
        }
    };
    for (int i = 0; i < STAGES; i++) fetch();
    fetch_wait<STAGES - 1>();
    __syncthreads();

    float s[4][NS][4];
    multiply_chunks(s, SCORES, rows, advance);
#pragma unroll
    for (int j = 0; j < NS; j++) {
        float2 b = *(float2*)(log + column * (WIDTH / 4) + 8 * j + lane % 4 * 2);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float* two = &s[i / 2][j][i % 2 * 2];
            u32 p = pack2(power_of_two(two[0] * (scale * LOG2_E) - b.x), power_of_two(two[1] * (scale * LOG2_E) - b.y));
            *(u32*)(weight + place<WIDTH / 8>(row + 8 * i + lane / 4, column * NS + j) + lane % 4 * 4) = p;
        }
    }

    __syncthreads();

    // Beside dv, the products of the output with its gradient, for 32 queries at a time.
    constexpr int UNITS = C / 8, EACH = 32 * UNITS / THREADS;
    int query = threadIdx.x / UNITS, unit = threadIdx.x % UNITS;
    uint4 outputs[EACH];
    auto load_outputs = [&](int i) {
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            int token = 32 * i + query + j * (THREADS / UNITS);
            outputs[j] = token < tokens ? *(const uint4*)(out + token * C + 8 * unit) : make_uint4(0, 0, 0, 0);
        }
    };
    load_outputs(0);
    float d[4][NO][4];
    multiply_chunks(d, parts, weighted, [&](int i) {
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            int mine = query + j * (THREADS / UNITS);
            float a[8], b[8], sum = 0.0f;
            unpack8(outputs[j], a);
            unpack8(*(const uint4*)((char*)shared + (at - stages) + place<UNITS>(mine, unit)), b);
#pragma unroll
            for (int e = 0; e < 8; e++) sum += a[e] * b[e];
#pragma unroll
            for (int offset = UNITS / 2; offset; offset /= 2) sum += __shfl_xor_sync(0xFFFFFFFF, sum, offset);
            if (unit == 0) delta[32 * i + mine] = sum;
        }
        advance(i);
        load_outputs(i + 1);
    });
    write(dv, d, 1.0f);

    multiply_chunks(s, SCORES, rows, advance);
    // P (dP - delta), where the weights were: each thread finds its own there.
#pragma unroll
    for (int j = 0; j < NS; j++) {
        float2 b = *(float2*)(delta + column * (WIDTH / 4) + 8 * j + lane % 4 * 2);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float* two = &s[i / 2][j][i % 2 * 2];
            u32* p = (u32*)(weight + place<WIDTH / 8>(row + 8 * i + lane / 4, column * NS + j) + lane % 4 * 4);
            *p = pack2(__uint_as_float(*p << 16) * (two[0] - b.x), __uint_as_float(*p & 0xFFFF0000) * (two[1] - b.y));
        }
    }

    __syncthreads();
    multiply_chunks(d, parts, weighted, advance);
    write(dk, d, scale);
    for (int i = threadIdx.x; i < ROWS * WIDTH / 8; i += THREADS) {
        int mine = i / (WIDTH / 8), unit = i % (WIDTH / 8);
        if (first + mine < tokens && 8 * unit < tokens)
            *(uint4*)(slopes + mine * tokens + 8 * unit) = *(uint4*)(weight + place<WIDTH / 8>(mine, unit));
    }
}

#define ATTENTION(ROWS, WIDTH, C)                                                                                      \
    extern "C" __global__ void __launch_bounds__(2 * ROWS) attention_##ROWS##_##WIDTH##_##C(                           \
        bf16* out, float* logs, const bf16* q, const bf16* k, const bf16* v, int tokens, float scale) {                \
        attention<ROWS, WIDTH, C>(out, logs, q, k, v, tokens, scale);                                                  \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(2 * ROWS) attention_gradient_##ROWS##_##WIDTH##_##C(                  \
        bf16* dk, bf16* dv, bf16* slopes, const bf16* q, const bf16* k, const bf16* v, const bf16* out,                \
        const float* logs, const bf16* dy, int tokens, float scale) {                                                  \
        attention_gradient<ROWS, WIDTH, C>(dk, dv, slopes, q, k, v, out, logs, dy, tokens, scale);                     \
    }
// CHANNELS is defined by who compiles, so that each number of them is a program of its own.
#define ATTENTION_OF(ROWS, WIDTH, C) ATTENTION(ROWS, WIDTH, C)
ATTENTION_OF(64, 64, CHANNELS) ATTENTION_OF(64, 256, CHANNELS) ATTENTION_OF(128, 256, CHANNELS)
