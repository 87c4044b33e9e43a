// What the kernels of group_norm_one_pass.cu share: sums over a block or a cluster, dropout's bits, and what a thread has.

// sigmoid(2 h) = (1 + tanh h) / 2, with one special instruction instead of two.
__device__ __forceinline__ float fast_tanh(float x) {
#if __CUDA_ARCH__ >= 750
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return 2.0f * sigmoid(2.0f * x) - 1.0f;
#endif
}

#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_write(float* mine, int block, float value) {
    u32 local = (u32)__cvta_generic_to_shared(mine), remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(block));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(remote), "f"(value) : "memory");
}
#else
__device__ __forceinline__ void cluster_arrive() {}
__device__ __forceinline__ void cluster_wait() {}
__device__ __forceinline__ void cluster_write(float* mine, int, float value) { *mine = value; }
#endif

// Halves the values a thread holds: lanes that differ in bit `offset` keep one half each and add the other's.
template <int N> __device__ __forceinline__ void fold(float (&v)[8], int offset, bool upper) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        float keep = upper ? v[i + N] : v[i], send = upper ? v[i] : v[i + N];
        v[i] = keep + __shfl_xor_sync(0xFFFFFFFF, send, offset);
    }
}

// Threads along the channels of a slice, a power of two; none for a slice that is not known when this is compiled.
constexpr __device__ int lanes_of(int slice) {
    int lanes = slice ? 1 : 0;
    while (8 * lanes < slice) lanes *= 2;
    return lanes;
}

// Sums K sets of eight values per thread over the block's pixels and, if `whole`, over those of its cluster:
// totals[k * slice + channel]. Lanes are a power of two up to 16, and threads whole warps. The caller's shared memory holds
// K * slice * (warps + 1 + blocks of the cluster) floats, and no one may still read it. Ends with a barrier.
template <int K, int SLICE>
__device__ __forceinline__ float* channel_totals(float* shared, float (&v)[K][8], int slice, bool whole) {
    constexpr int LANES = lanes_of(SLICE);
    int lanes = LANES ? LANES : blockDim.x, threads = LANES ? 256 : lanes * blockDim.y;
    int thread = threadIdx.y * lanes + threadIdx.x, warps = threads / 32, count = lanes == 16 ? 4 : lanes == 8 ? 2 : 1;
    int first = threadIdx.x * 8 + (thread & 16 ? 4 : 0) + (lanes <= 8 && thread & 8 ? 2 : 0) + (lanes <= 4 && thread & 4 ? 1 : 0);
#pragma unroll
    for (int k = 0; k < K; k++) fold<4>(v[k], 16, thread & 16);
    if (lanes <= 8) {
#pragma unroll
        for (int k = 0; k < K; k++) fold<2>(v[k], 8, thread & 8);
    }
    if (lanes <= 4) {
#pragma unroll
        for (int k = 0; k < K; k++) fold<1>(v[k], 4, thread & 4);
    }
#pragma unroll
    for (int other = 2; other; other /= 2) {
        if (lanes > other) break;
#pragma unroll
        for (int k = 0; k < K; k++) v[k][0] += __shfl_xor_sync(0xFFFFFFFF, v[k][0], other);
    }
    if (SLICE && SLICE == 8 * LANES || threadIdx.x * 8 < slice) {
        float* to = shared + thread / 32 * K * slice + first;
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (i < count) to[k * slice + i] = v[k][i];
    }
    __syncthreads();
    float *totals = shared + K * slice * warps, *slots = totals + K * slice;
    bool alone = !whole || gridDim.y == 1;
    // Every block of the cluster has begun.
    if (!alone) cluster_wait();
    for (int at = thread; at < K * slice; at += threads) {
        float total = 0.0f;
        for (int w = 0; w < warps; w++) total += shared[w * K * slice + at];
        if (alone) totals[at] = total;
        else
            for (int block = 0; block < gridDim.y; block++) cluster_write(slots + blockIdx.y * K * slice + at, block, total);
    }
    if (alone) {
        __syncthreads();
        return totals;
    }
    cluster_arrive();
    cluster_wait();
    for (int at = thread; at < K * slice; at += threads) {
        float total = 0.0f;
        for (int block = 0; block < gridDim.y; block++) total += slots[block * K * slice + at];
        totals[at] = total;
    }
    __syncthreads();
    return totals;
}

__device__ __forceinline__ u32 keep_bits(const Mask& mask, i64 first) {
    first += first_element(mask.step, mask.elements);
    uint4 r = philox(first / 8, *mask.step, mask.purpose, mask.seed);
    u32 words[4] = {r.x, r.y, r.z, r.w}, limit = mask.threshold << 16, bits = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        bits |= (words[i] << 16) < limit ? 0 : 1 << (2 * i);
        bits |= words[i] < limit ? 0 : 2 << (2 * i);
    }
    return bits;
}

// Leaves of a pack what its bits keep.
__device__ __forceinline__ void drop(uint4& pack, u32 keep) {
    pack.x &= ((keep & 1) | (keep & 2) << 15) * 0xFFFF;
    pack.y &= ((keep >> 2 & 1) | (keep & 8) << 13) * 0xFFFF;
    pack.z &= ((keep >> 4 & 1) | (keep & 32) << 11) * 0xFFFF;
    pack.w &= ((keep >> 6 & 1) | (keep & 128) << 9) * 0xFFFF;
}

struct NormSizes {
    int pixels, channels, slice, per_group;
};

// A block's image, the last one first: the end of what the kernel before wrote is still in L2.
__device__ __forceinline__ int image() { return gridDim.z - 1 - blockIdx.z; }

// What a thread of a block has: packs that are `hop` elements apart, the first at `at`. Where the slice is known when this
// is compiled, a thread has all packs or none.
template <int SLICE> struct Share {
    static constexpr int LANES = lanes_of(SLICE);
    int thread, channel, packs, pixel;
    u32 rows, hop;
    i64 at;
    __device__ __forceinline__ Share(const NormSizes& size) {
        int lanes = LANES ? LANES : blockDim.x, part = size.pixels / gridDim.y, c = blockIdx.x * size.slice;
        rows = LANES ? 256 / LANES : blockDim.y, hop = rows * size.channels;
        thread = threadIdx.y * lanes + threadIdx.x, channel = c + thread;
        packs = threadIdx.x * 8 < size.slice ? (part - threadIdx.y + rows - 1) / rows : 0;
        pixel = image() * size.pixels + blockIdx.y * part + threadIdx.y;
        at = (i64)pixel * size.channels + c + threadIdx.x * 8;
    }
    __device__ __forceinline__ bool has(int pack) const {
        return SLICE ? SLICE == 8 * LANES || threadIdx.x * 8 < SLICE : pack < packs;
    }
};

__device__ __forceinline__ uint4 nothing() { return make_uint4(0, 0, 0, 0); }
