// Shared by all kernels: storage types, packs of eight, Philox. No headers, so that NVRTC alone compiles it.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// What every kernel begins with: its blocks may start before the previous kernel has ended (programmatic dependent launch). Waits until that is complete
// and its writes are visible; what came before it is then complete too, since it waited likewise.
__device__ __forceinline__ void await_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// 16-bit brain floats, stored as bits.
struct bf16 {
    u16 bits;
};

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(bf16 x) { return __uint_as_float((u32)x.bits << 16); }

// Round to nearest even; NaN stays NaN.
__device__ __forceinline__ u32 narrow_bits(float x) {
    u32 bits = __float_as_uint(x);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return 0x7FFF;
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
}
template <class T> __device__ __forceinline__ T narrow(float x);
template <> __device__ __forceinline__ float narrow<float>(float x) { return x; }
template <> __device__ __forceinline__ bf16 narrow<bf16>(float x) {
    bf16 out;
    out.bits = (u16)narrow_bits(x);
    return out;
}

__device__ __forceinline__ u32 pack2(float low, float high) {
#if __CUDA_ARCH__ >= 800
    u32 out;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
#else
    return narrow_bits(low) | narrow_bits(high) << 16;
#endif
}

// V consecutive values as floats: whole 16-byte transactions when V is 8.
template <int V> __device__ __forceinline__ void load(const float* p, float (&v)[V]) {
    if constexpr (V == 8) {
        float4 a = ((const float4*)p)[0], b = ((const float4*)p)[1];
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    } else {
#pragma unroll
        for (int i = 0; i < V; i++) v[i] = p[i];
    }
}
__device__ __forceinline__ void unpack8(uint4 a, float (&v)[8]) {
    u32 w[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[2 * i] = __uint_as_float(w[i] << 16);
        v[2 * i + 1] = __uint_as_float(w[i] & 0xFFFF0000);
    }
}
template <int V> __device__ __forceinline__ void load(const bf16* p, float (&v)[V]) {
    if constexpr (V == 8) {
        unpack8(*(const uint4*)p, v);
    } else {
#pragma unroll
        for (int i = 0; i < V; i++) v[i] = widen(p[i]);
    }
}
template <int V> __device__ __forceinline__ void store(float* p, const float (&v)[V]) {
    if constexpr (V == 8) {
        ((float4*)p)[0] = make_float4(v[0], v[1], v[2], v[3]);
        ((float4*)p)[1] = make_float4(v[4], v[5], v[6], v[7]);
    } else {
#pragma unroll
        for (int i = 0; i < V; i++) p[i] = v[i];
    }
}
template <int V> __device__ __forceinline__ void store(bf16* p, const float (&v)[V]) {
    if constexpr (V == 8) {
        *(uint4*)p = make_uint4(pack2(v[0], v[1]), pack2(v[2], v[3]), pack2(v[4], v[5]), pack2(v[6], v[7]));
    } else {
#pragma unroll
        for (int i = 0; i < V; i++) p[i] = narrow<bf16>(v[i]);
    }
}

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
// In f32 mode the fast intrinsics would show; use the exact ones.
__device__ __forceinline__ float exact_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
template <class T> __device__ __forceinline__ float sigmoid_for(float x) { return exact_sigmoid(x); }
template <> __device__ __forceinline__ float sigmoid_for<bf16>(float x) { return sigmoid(x); }
// The derivative of x sigmoid(x).
template <class T> __device__ __forceinline__ float silu_slope(float x) {
    float s = sigmoid_for<T>(x);
    return s * (1.0f + x * (1.0f - s));
}

// Philox4x32-10, as rng.rs.
__device__ __forceinline__ uint4 philox(u64 block, u32 step, u32 purpose, u64 seed) {
    u32 c0 = (u32)block, c1 = (u32)(block >> 32), c2 = step, c3 = purpose, k0 = (u32)seed, k1 = (u32)(seed >> 32);
#pragma unroll
    for (int i = 0; i < 10; i++) {
        u32 h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
        u32 h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
        c0 = h1 ^ c1 ^ k0, c1 = l1, c2 = h0 ^ c3 ^ k1, c3 = l0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return make_uint4(c0, c1, c2, c3);
}

// A run's numbers, `Draw` of rng.rs: step[0] is the step, step[1] the part of its batch. The place in the whole batch's tensor
// of the first element of a part's, which has `elements`.
__device__ __forceinline__ i64 first_element(const u32* step, i64 elements) { return step[1] * elements; }

// Dropout's bits for eight elements from a multiple of eight on; threshold 0 drops nothing. `elements` are those of the tensor.
struct Mask {
    u32 threshold, purpose;
    float kept;
    u64 seed;
    const u32* step;
    i64 elements;
    __device__ __forceinline__ void apply(float (&v)[8], i64 first) const {
        if (!threshold) return;
        uint4 r = philox((first_element(step, elements) + first) / 8, *step, purpose, seed);
        u32 words[4] = {r.x, r.y, r.z, r.w};
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] = ((words[i / 2] >> (16 * (i % 2))) & 0xFFFF) < threshold ? 0.0f : v[i] * kept;
    }
    __device__ __forceinline__ float apply(float v, i64 at) const {
        if (!threshold) return v;
        at += first_element(step, elements);
        uint4 r = philox(at / 8, *step, purpose, seed);
        u32 words[4] = {r.x, r.y, r.z, r.w};
        int i = at % 8;
        return ((words[i / 2] >> (16 * (i % 2))) & 0xFFFF) < threshold ? 0.0f : v * kept;
    }
};

// The sum of a block's values, for its first thread.
__device__ __forceinline__ float block_sum(float value) {
    __shared__ float warps[32];
    for (int offset = 16; offset; offset /= 2) value += __shfl_down_sync(0xFFFFFFFF, value, offset);
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0.0f;
    if (threadIdx.x < 32)
        for (int offset = 16; offset; offset /= 2) value += __shfl_down_sync(0xFFFFFFFF, value, offset);
    return value;
}

// Every thread's share of n items.
#define FOR_EACH(i, n) for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (i64)gridDim.x * blockDim.x)

// Arguments of one of the batched launches in a table: block z's, eight bytes each.
struct Row {
    const u64* words;
    __device__ __forceinline__ Row(const u64* table) : words(table + blockIdx.z * 16) {}
    __device__ __forceinline__ i64 operator[](int i) const { return (i64)words[i]; }
    __device__ __forceinline__ float* to(int i) const { return (float*)words[i]; }
    __device__ __forceinline__ const float* from(int i) const { return (const float*)words[i]; }
    __device__ __forceinline__ float number(int i) const { return __uint_as_float((u32)words[i]); }
};
