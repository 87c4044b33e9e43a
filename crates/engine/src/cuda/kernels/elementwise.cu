// Tensors have fewer than 2^30 elements: indices are divided in 32 bits, which costs a fraction.
// Element by element: combinations, broadcasts, functions, casts, copies, dropout, random numbers.

template <class T, int V>
__device__ void combine(T* out, const T* a, const T* b, const T* c, const T* d, float ca, float cb, float cc, float cd, i64 n) {
    FOR_EACH(i, n / V) {
        float sum[V], x[V];
        load<V>(a + i * V, x);
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] = ca * x[j];
        if (b) {
            load<V>(b + i * V, x);
#pragma unroll
            for (int j = 0; j < V; j++) sum[j] += cb * x[j];
        }
        if (c) {
            load<V>(c + i * V, x);
#pragma unroll
            for (int j = 0; j < V; j++) sum[j] += cc * x[j];
        }
        if (d) {
            load<V>(d + i * V, x);
#pragma unroll
            for (int j = 0; j < V; j++) sum[j] += cd * x[j];
        }
        store<V>(out + i * V, sum);
    }
}
#define COMBINE(T, V)                                                                                                  \
    extern "C" __global__ void combine_##T##_##V(T* out, const T* a, const T* b, const T* c, const T* d, float ca,     \
                                                 float cb, float cc, float cd, i64 n) {                                \
        await_previous();                                                                                              \
        combine<T, V>(out, a, b, c, d, ca, cb, cc, cd, n);                                                             \
    }
COMBINE(float, 1) COMBINE(float, 8) COMBINE(bf16, 1) COMBINE(bf16, 8)
// Any number of terms; a table has the address of each and its coefficient.
#define COMBINE_ALL(T, V)                                                                                              \
    extern "C" __global__ void combine_all_##T##_##V(T* out, const u64* terms, int count, i64 n) {                     \
        await_previous();                                                                                              \
        FOR_EACH(i, n / V) {                                                                                           \
            float sum[V] = {}, x[V];                                                                                   \
            _Pragma("unroll 4") for (int t = 0; t < count; t++) {                                                      \
                load<V>((const T*)terms[2 * t] + i * V, x);                                                            \
                float by = __uint_as_float((u32)terms[2 * t + 1]);                                                     \
                for (int j = 0; j < V; j++) sum[j] += by * x[j];                                                       \
            }                                                                                                          \
            store<V>(out + i * V, sum);                                                                                \
        }                                                                                                              \
    }
COMBINE_ALL(float, 1) COMBINE_ALL(float, 8) COMBINE_ALL(bf16, 1) COMBINE_ALL(bf16, 8)
// Many combinations: block z has its arguments in row z of a table.
#define COMBINE_MANY(V)                                                                                                \
    extern "C" __global__ void combine_float_##V##_many(const u64* table) {                                            \
        await_previous();                                                                                              \
        Row w(table);                                                                                                  \
        combine<float, V>(w.to(0), w.from(1), w.from(2), w.from(3), w.from(4), w.number(5), w.number(6), w.number(7),  \
                          w.number(8), w[9]);                                                                          \
    }
COMBINE_MANY(1) COMBINE_MANY(8)

// out[i0, i1, i2, i3] = a[...] op b[...]; strides are 0 where an input is broadcast. n3 is a multiple of V.
template <class A, class B, class T, int V>
__device__ void binary(T* out, const A* a, const B* b, int multiply, i64 n, u32 n1, u32 n2, u32 n3, i64 a0, i64 a1,
                       i64 a2, i64 a3, i64 b0, i64 b1, i64 b2, i64 b3) {
    FOR_EACH(i, n / V) {
        u32 at = i * V, rest = at / n3, i3 = at % n3, i2 = rest % n2;
        rest /= n2;
        u32 i1 = rest % n1;
        i64 i0 = rest / n1;
        const A* pa = a + i0 * a0 + i1 * a1 + i2 * a2 + i3 * a3;
        const B* pb = b + i0 * b0 + i1 * b1 + i2 * b2 + i3 * b3;
        float x[V], y[V];
        if (a3) load<V>(pa, x);
        if (b3) load<V>(pb, y);
#pragma unroll
        for (int j = 0; j < V; j++) {
            float left = a3 ? x[j] : widen(*pa), right = b3 ? y[j] : widen(*pb);
            x[j] = multiply ? left * right : left + right;
        }
        store<V>(out + at, x);
    }
}
#define BINARY(A, B, T, V)                                                                                             \
    extern "C" __global__ void binary_##A##_##B##_##V(T* out, const A* a, const B* b, int multiply, i64 n, int n1,     \
                                                      int n2, int n3, i64 a0, i64 a1, i64 a2, i64 a3, i64 b0, i64 b1,  \
                                                      i64 b2, i64 b3) {                                                \
        await_previous();                                                                                              \
        binary<A, B, T, V>(out, a, b, multiply, n, n1, n2, n3, a0, a1, a2, a3, b0, b1, b2, b3);                        \
    }
BINARY(float, float, float, 1) BINARY(float, float, float, 8) BINARY(bf16, bf16, bf16, 1) BINARY(bf16, bf16, bf16, 8)
BINARY(bf16, float, bf16, 1) BINARY(bf16, float, bf16, 8) BINARY(float, bf16, bf16, 1) BINARY(float, bf16, bf16, 8)
extern "C" __global__ void binary_float_float_8_many(const u64* table) {
    await_previous();
    Row w(table);
    binary<float, float, float, 8>(w.to(0), w.from(1), w.from(2), w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11],
                                   w[12], w[13], w[14], w[15]);
}

// Functions in the order of op::Function::ALL.
__device__ float function_value(int f, float x) {
    switch (f) {
        case 0: return x * exact_sigmoid(x);
        case 1: return x < 0.0f ? 0.0f : x;
        case 2: return expf(x);
        case 3: return logf(x);
        case 4: return sqrtf(x);
        case 5: return x * x;
        case 6: return 1.0f / x;
        case 7: return sinf(x);
        default: return cosf(x);
    }
}
__device__ float function_slope(int f, float x) {
    switch (f) {
        case 0: return silu_slope<float>(x);
        case 1: return x > 0.0f ? 1.0f : 0.0f;
        case 2: return expf(x);
        case 3: return 1.0f / x;
        case 4: return 0.5f / sqrtf(x);
        case 5: return x + x;
        case 6: return -1.0f / (x * x);
        case 7: return cosf(x);
        default: return -sinf(x);
    }
}
#define UNARY(T)                                                                                                       \
    extern "C" __global__ void unary_##T(T* out, const T* x, int f, i64 n) {                                           \
        await_previous();                                                                                              \
        FOR_EACH(i, n) out[i] = narrow<T>(function_value(f, widen(x[i])));                                             \
    }                                                                                                                  \
    extern "C" __global__ void unary_gradient_##T(T* out, const T* x, const T* dy, int f, i64 n) {                     \
        await_previous();                                                                                              \
        FOR_EACH(i, n) out[i] = narrow<T>(widen(dy[i]) * function_slope(f, widen(x[i])));                              \
    }
UNARY(float) UNARY(bf16)

#define CAST(A, B, V)                                                                                                  \
    extern "C" __global__ void cast_##A##_##B##_##V(B* out, const A* x, i64 n) {                                       \
        await_previous();                                                                                              \
        FOR_EACH(i, n / V) {                                                                                           \
            float v[V];                                                                                                \
            load<V>(x + i * V, v);                                                                                     \
            store<V>(out + i * V, v);                                                                                  \
        }                                                                                                              \
    }
CAST(float, bf16, 1) CAST(float, bf16, 8) CAST(bf16, float, 1) CAST(bf16, float, 8)

// rows x width units from one pitch to another; a unit is U bytes.
#define COPY(U)                                                                                                        \
    extern "C" __global__ void copy_rows_##U(U* out, const U* x, i64 rows, int width, i64 out_pitch, i64 x_pitch) {    \
        await_previous();                                                                                              \
        FOR_EACH(i, rows * width) {                                                                                    \
            u32 row = (u32)i / (u32)width, column = (u32)i % (u32)width;                                               \
            out[row * out_pitch + column] = x[row * x_pitch + column];                                                 \
        }                                                                                                              \
    }
COPY(uint4) COPY(u16) COPY(u32)

// Concatenates rows of up to three parts; each part has a width and a pitch.
#define JOIN(U)                                                                                                        \
    extern "C" __global__ void join_rows_##U(U* out, i64 rows, i64 pitch, const U* a, int wa, int pa, const U* b,      \
                                             int wb, int pb, const U* c, int wc, int pc) {                             \
        await_previous();                                                                                              \
        int width = wa + wb + wc;                                                                                      \
        FOR_EACH(i, rows * width) {                                                                                    \
            u32 row = (u32)i / (u32)width, column = (u32)i % (u32)width;                                               \
            const U* x = column < wa        ? a + (i64)row * pa + column                                               \
                         : column < wa + wb ? b + (i64)row * pb + (column - wa)                                        \
                                            : c + (i64)row * pc + (column - wa - wb);                                  \
            out[row * pitch + column] = *x;                                                                            \
        }                                                                                                              \
    }
JOIN(uint4) JOIN(u16) JOIN(u32)

#define EXPAND(T)                                                                                                      \
    extern "C" __global__ void expand_##T(T* out, const T* x, i64 n, int n1, int n2, int n3, i64 s0, i64 s1, i64 s2,   \
                                          i64 s3) {                                                                    \
        await_previous();                                                                                              \
        FOR_EACH(i, n) {                                                                                               \
            u32 i3 = (u32)i % (u32)n3, rest = (u32)i / (u32)n3, i2 = rest % (u32)n2;                                   \
            rest /= n2;                                                                                                \
            out[i] = x[rest / (u32)n1 * s0 + rest % (u32)n1 * s1 + i2 * s2 + i3 * s3];                                 \
        }                                                                                                              \
    }
EXPAND(float) EXPAND(bf16)

// Sixteen random bits per element, as op/dropout.rs.
template <class T, int V>
__device__ void dropout(T* out, const T* x, u32 threshold, float kept, u64 seed, u32 purpose, const u32* step, i64 n) {
    Mask mask = {threshold, purpose, kept, seed, step, n};
    FOR_EACH(block, (n + 7) / 8) {
        if constexpr (V == 8) {
            float v[8];
            load<8>(x + block * 8, v);
            mask.apply(v, block * 8);
            store<8>(out + block * 8, v);
        } else {
            for (i64 i = block * 8; i < block * 8 + 8 && i < n; i++) out[i] = narrow<T>(mask.apply(widen(x[i]), i));
        }
    }
}
#define DROPOUT(T, V)                                                                                                  \
    extern "C" __global__ void dropout_##T##_##V(T* out, const T* x, u32 threshold, float kept, u64 seed, u32 purpose, \
                                                 const u32* step, i64 n) {                                             \
        await_previous();                                                                                              \
        dropout<T, V>(out, x, threshold, kept, seed, purpose, step, n);                                                \
    }
DROPOUT(float, 1) DROPOUT(float, 8) DROPOUT(bf16, 1) DROPOUT(bf16, 8)

// The float transforms of rng.rs, with every operation rounded by itself, so that the bits agree.
#define ADD(a, b) __fadd_rn(a, b)
#define MUL(a, b) __fmul_rn(a, b)
__device__ float ln_unit(float x) {
    u32 offset = __float_as_uint(x) - 0x3F3504F3u;
    float exponent = (float)((int)offset >> 23);
    float f = ADD(__uint_as_float((offset & 0x007FFFFFu) + 0x3F3504F3u), -1.0f);
    float z = MUL(f, f);
    float p = 7.0376836e-2f;
    p = ADD(MUL(p, f), -1.151461e-1f);
    p = ADD(MUL(p, f), 1.1676999e-1f);
    p = ADD(MUL(p, f), -1.2420141e-1f);
    p = ADD(MUL(p, f), 1.4249323e-1f);
    p = ADD(MUL(p, f), -1.6668057e-1f);
    p = ADD(MUL(p, f), 2.0000715e-1f);
    p = ADD(MUL(p, f), -2.4999994e-1f);
    p = ADD(MUL(p, f), 3.333333e-1f);
    float y = MUL(MUL(f, z), p);
    y = ADD(y, MUL(exponent, -2.1219444e-4f));
    y = ADD(y, -MUL(0.5f, z));
    return ADD(ADD(f, y), MUL(exponent, 0.6933594f));
}
__device__ float2 box_muller(u32 radius_word, u32 angle_word) {
    float u = MUL(ADD((float)radius_word, 0.5f), 1.0f / 4294967296.0f);
    float radius = __fsqrt_rn(MUL(-2.0f, ln_unit(u)));
    u32 quarter = (angle_word + (1u << 29)) >> 30;
    int rest = (int)(angle_word - (quarter << 30));
    float x = MUL((float)rest, 1.57079637f / 1073741824.0f);
    float z = MUL(x, x);
    float s = ADD(MUL(MUL(ADD(MUL(ADD(MUL(-1.9515296e-4f, z), 8.332161e-3f), z), -1.6666655e-1f), z), x), x);
    float c = ADD(ADD(MUL(MUL(ADD(MUL(ADD(MUL(2.4433157e-5f, z), -1.3887316e-3f), z), 4.1666646e-2f), z), z), -MUL(0.5f, z)), 1.0f);
    float sine, cosine;
    switch (quarter & 3) {
        case 0: sine = s, cosine = c; break;
        case 1: sine = c, cosine = -s; break;
        case 2: sine = -s, cosine = -c; break;
        default: sine = -c, cosine = s;
    }
    return make_float2(MUL(radius, cosine), MUL(radius, sine));
}
__device__ float uniform(u32 word) { return MUL(ADD((float)(word >> 9), 0.5f), 1.0f / 8388608.0f); }

// Four numbers by `RandomKind` of op/random.rs.
__device__ float4 draw(int kind, u64 block, u64 seed, u32 purpose, u32 step) {
    if (kind == 2) return make_float4(block * 4, block * 4 + 1, block * 4 + 2, block * 4 + 3);
    uint4 r = philox(block, step, purpose, seed);
    if (kind == 1) return make_float4(uniform(r.x), uniform(r.y), uniform(r.z), uniform(r.w));
    float2 a = box_muller(r.x, r.y), b = box_muller(r.z, r.w);
    return make_float4(a.x, a.y, b.x, b.y);
}
extern "C" __global__ void random_float(float* out, int kind, u64 seed, u32 purpose, const u32* step, i64 n) {
    await_previous();
    // Blocks of four of the whole batch; the first and the last may belong to this part in part.
    i64 first = first_element(step, n);
    FOR_EACH(block, (first % 4 + n + 3) / 4) {
        float4 v = draw(kind, first / 4 + block, seed, purpose, *step);
        float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            i64 at = block * 4 + i - first % 4;
            if (at >= 0 && at < n) out[at] = values[i];
        }
    }
}

// y = scale (y + bias[channel] + r), with ReLU if asked for, in place: a convolution's epilogue. Pixels of y and r are their
// pitch apart.
#define EPILOGUE(T, V)                                                                                                 \
    extern "C" __global__ void epilogue_##T##_##V(T* y, const float* bias, const T* r, float scale, int relu, i64 n,   \
                                                  int c, int y_pitch, int r_pitch) {                                   \
        await_previous();                                                                                              \
        FOR_EACH(i, n / V) {                                                                                           \
            u32 pixel = (u32)(i * V) / (u32)c, channel = (u32)(i * V) % (u32)c;                                        \
            T* to = y + (i64)pixel * y_pitch + channel;                                                                \
            float v[V], w[V];                                                                                          \
            load<V>(to, v);                                                                                            \
            if (bias) {                                                                                                \
                load<V>(bias + channel, w);                                                                            \
                for (int j = 0; j < V; j++) v[j] += w[j];                                                              \
            }                                                                                                          \
            if (r) {                                                                                                   \
                load<V>(r + (i64)pixel * r_pitch + channel, w);                                                        \
                for (int j = 0; j < V; j++) v[j] += w[j];                                                              \
            }                                                                                                          \
            for (int j = 0; j < V; j++) {                                                                              \
                v[j] *= scale;                                                                                         \
                if (relu && v[j] < 0.0f) v[j] = 0.0f;                                                                  \
            }                                                                                                          \
            store<V>(to, v);                                                                                           \
        }                                                                                                              \
    }
EPILOGUE(float, 1) EPILOGUE(float, 8) EPILOGUE(bf16, 1) EPILOGUE(bf16, 8)
