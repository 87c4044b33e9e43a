// Many products of small matrices: out[p] = A[p] B[p].

// Columns of a block.
#define COLUMNS 32

// Products with the same A, `run` of them, follow each other, and their columns are taken side by side. A block has COLUMNS
// of these, a thread four rows at a time of one. starts holds where A and B of each product begin.
// Grid: (blocks of columns, runs).
#define SMALL_PRODUCTS(T)                                                                                              \
    extern "C" __global__ void small_products_##T(T* out, const T* a, const T* b, const i64* starts, int run, int m,   \
                                                  int n, int k, int a_row, int a_col, int b_row, int b_col) {          \
        await_previous();                                                                                              \
        extern __shared__ float numbers[];                                                                             \
        /* A's columns begin with whole sixteen bytes, and apart so that few meet in a bank. */                        \
        int pitch = (m + 3) / 4 * 4 + 4, group = threadIdx.x / COLUMNS, column = threadIdx.x % COLUMNS;                \
        float *from_a = numbers + k * COLUMNS, *from_b = numbers + column;                                             \
        int at = blockIdx.x * COLUMNS + column, product = blockIdx.y * run + at / n, place = at % n;                   \
        bool there = at < run * n;                                                                                     \
        a += starts[2 * blockIdx.y * run];                                                                             \
        for (int i = threadIdx.x; i < m * k; i += blockDim.x) {                                                        \
            int row = a_col == 1 ? i / k : i % m, j = a_col == 1 ? i % k : i / m;                                      \
            from_a[j * pitch + row] = widen(a[row * a_row + j * a_col]);                                               \
        }                                                                                                              \
        if (there) {                                                                                                   \
            b += starts[2 * product + 1] + place * b_col;                                                              \
            for (int j = group; j < k; j += blockDim.x / COLUMNS) from_b[j * COLUMNS] = widen(b[j * b_row]);           \
        }                                                                                                              \
        __syncthreads();                                                                                               \
        if (!there) return;                                                                                            \
        for (int row = 4 * group; row < m; row += blockDim.x / COLUMNS * 4) {                                          \
            float sum[4] = {};                                                                                         \
            _Pragma("unroll 8") for (int j = 0; j < k; j++) {                                                          \
                float4 x = *(const float4*)(from_a + j * pitch + row);                                                 \
                float y = from_b[j * COLUMNS];                                                                         \
                sum[0] += x.x * y, sum[1] += x.y * y, sum[2] += x.z * y, sum[3] += x.w * y;                            \
            }                                                                                                          \
            _Pragma("unroll") for (int i = 0; i < 4; i++)                                                              \
                if (row + i < m) out[((i64)product * m + row + i) * n + place] = narrow<T>(sum[i]);                    \
        }                                                                                                              \
    }
SMALL_PRODUCTS(float) SMALL_PRODUCTS(bf16)
