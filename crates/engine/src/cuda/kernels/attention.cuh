// What attention's kernels are made of: tiles in shared memory, chunks in flight, products of these.

#if __CUDA_ARCH__ >= 800
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
// Asynchronous copy of 16 bytes to shared memory; zeros unless `there`.
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
__device__ void load_four(u32 (&)[4], u32) {}
__device__ void load_four_transposed(u32 (&)[4], u32) {}
__device__ void fetch16(u32, const void*, bool) {}
__device__ float power_of_two(float x) { return x; }
#endif

// Chunks: one in use, two in flight.
#define STAGES 3

// The place of a unit of 16 bytes in a tile with UNITS of them in a row: eight rows of one column are in different banks.
template <int UNITS> __device__ __forceinline__ u32 place(int row, int unit) {
    return (row * UNITS + (unit ^ (UNITS == 4 ? row / 2 % 4 : row % 8))) * 16;
}

// A tile from rows PITCH apart, of which the first `rows` are there.
template <int COUNT, int UNITS, int PITCH, int THREADS>
__device__ __forceinline__ void fetch_tile(u32 to, const bf16* from, int rows) {
    constexpr int STEP = THREADS / UNITS;
    int row = threadIdx.x / UNITS, unit = threadIdx.x % UNITS;
    from += row * PITCH + 8 * unit;
    // Rows eight apart have their units in the same order.
#pragma unroll
    for (int i = 0; i < COUNT; i += STEP)
        fetch16(to + place<UNITS>(row + i % 8, unit) + 16 * UNITS * (i - i % 8), from + i * PITCH, row + i < rows);
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

// Writes one row of a warp's 8 NT columns. Four threads have two columns of every eight; they exchange them, so that
// each writes whole sixteen bytes.
template <int NT> __device__ __forceinline__ void store_row(bf16* out, const u32 (&v)[NT], bool there) {
    int part = threadIdx.x % 4;
    if constexpr (NT % 4 == 0) {
        bool odd = part & 1, high = part & 2;
#pragma unroll
        for (int j = 0; j < NT; j += 4) {
            u32 a = __shfl_xor_sync(0xFFFFFFFF, odd ? v[j] : v[j + 1], 1);
            u32 b = __shfl_xor_sync(0xFFFFFFFF, odd ? v[j + 2] : v[j + 3], 1);
            // Two threads' columns of the eights j + odd and j + 2 + odd.
            u32 low[2] = {odd ? a : v[j], odd ? v[j + 1] : a}, top[2] = {odd ? b : v[j + 2], odd ? v[j + 3] : b};
            u32 c = __shfl_xor_sync(0xFFFFFFFF, high ? low[0] : top[0], 2);
            u32 d = __shfl_xor_sync(0xFFFFFFFF, high ? low[1] : top[1], 2);
            uint4 eight = high ? make_uint4(c, d, top[0], top[1]) : make_uint4(low[0], low[1], c, d);
            if (there) *(uint4*)(out + 8 * (j + part)) = eight;
        }
    } else {
#pragma unroll
        for (int j = 0; j < NT; j++)
            if (there) *(u32*)(out + 8 * j + 2 * part) = v[j];
    }
}

// What both kernels share: where chunks and weights lie, and which rows and columns are this thread's.
template <int ROWS, int WIDTH, int C> struct Block {
    static constexpr int THREADS = 2 * ROWS, STAGE = 64 * (ROWS + WIDTH > C ? ROWS + WIDTH : C);
    // Eights of columns of a warp: among the scores, among the channels.
    static constexpr int NS = WIDTH / 32, NO = C / 32;
    // From token to token where queries, keys and values are together.
    static constexpr int THREE = 3 * C;
    char* memory;
    u32 stages, to, at;
    int lane, column, row;

    __device__ __forceinline__ Block(void* shared) : memory((char*)shared), stages(shared_address(shared)) {
        to = at = stages;
        lane = threadIdx.x % 32, column = threadIdx.x / 32 % 4, row = threadIdx.x / 128 * 64;
    }
    // Behind the weights.
    __device__ __forceinline__ float* numbers() const { return (float*)(memory + STAGES * STAGE + 2 * ROWS * WIDTH); }
    // The thread's row number i of eight, and its two weights of an eight of columns there.
    __device__ __forceinline__ int my_row(int i) const { return row + 8 * i + lane / 4; }
    __device__ __forceinline__ u32* weight(int i, int eight) const {
        return (u32*)(memory + STAGES * STAGE + place<WIDTH / 8>(my_row(i), column * NS + eight) + lane % 4 * 4);
    }
    __device__ __forceinline__ int my_column(int eight) const { return column * (WIDTH / 4) + 8 * eight + lane % 4 * 2; }

    // Chunk i of rows `a` (of queries, keys or values) by columns `b`, and of weights by tokens `x`.
    template <int PITCH>
    __device__ __forceinline__ void fetch_rows(const bf16* a, int rows, const bf16* b, int tokens, int i) const {
        fetch_tile<ROWS, 4, THREE, THREADS>(to, a + 32 * i, rows);
        fetch_tile<WIDTH, 4, PITCH, THREADS>(to + 64 * ROWS, b + 32 * i, tokens);
    }
    template <int PITCH> __device__ __forceinline__ void fetch_tokens(const bf16* x, int tokens, int i) const {
        fetch_tile<32, C / 8, PITCH, THREADS>(to, x + 32 * i * PITCH, tokens - 32 * i);
    }
    __device__ __forceinline__ void load_rows(Factors<NS>& factors, int half) const {
        factors.load_rows(at + 64 * row, at + 64 * (ROWS + column * (WIDTH / 4)), half);
    }
    __device__ __forceinline__ void load_weights(Factors<NO>& factors, int i, int half) const {
        u32 weights = stages + STAGES * STAGE + row * WIDTH * 2;
        factors.template load_weights<WIDTH, C>(weights, 4 * i, at, column * NO, half);
    }
    __device__ __forceinline__ u32 after(u32 slot) const {
        return slot == stages + (STAGES - 1) * STAGE ? stages : slot + STAGE;
    }
    template <class Fetch> __device__ __forceinline__ void begin(Fetch fetch) {
        for (int i = 0; i < STAGES; i++) fetch(), fetch_end(), to = after(to);
        fetch_wait<STAGES - 1>();
        __syncthreads();
    }
    // When all have read a chunk, the next is there and another goes in its place.
    template <class Fetch> __device__ __forceinline__ void advance(Fetch fetch) {
        fetch_wait<STAGES - 2>();
        __syncthreads();
        fetch(), fetch_end();
        to = after(to), at = after(at);
    }
    // Rows times factor(i), of which the first `rows` are there.
    template <int PITCH, class Factor>
    __device__ __forceinline__ void write(bf16* out, const float (&sum)[4][NO][4], int rows, Factor factor) const {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float f = factor(i);
            u32 packed[NO];
#pragma unroll
            for (int j = 0; j < NO; j++) {
                const float* two = &sum[i / 2][j][i % 2 * 2];
                packed[j] = pack2(two[0] * f, two[1] * f);
            }
            store_row(out + my_row(i) * PITCH + column * (C / 4), packed, my_row(i) < rows);
        }
    }
};

