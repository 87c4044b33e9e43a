// Results of a step for the host, one row of a ring buffer per step and part; outputs copied to inputs; batches of images.

extern "C" __global__ void record_step(float* ring, const u32* step, const State* state, const float* loss,
                                       const float* losses, const float* times, int n, int parts, int updates) {
    await_previous();
    float* row = ring + (size_t)(step[0] % updates * parts + step[1]) * (4 + 2 * n);
    if (threadIdx.x == 0) {
        row[0] = *loss;
        row[1] = state->norm;
        row[2] = state->applied ? 1.0f : 0.0f;
    }
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        row[4 + i] = times[i];
        row[4 + n + i] = losses[i];
    }
}

extern "C" __global__ void carry_f32(float* to, const float* from, int n) {
    await_previous();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i];
}

extern "C" __global__ void carry_bf16(float* to, const bf16* from, int n) {
    await_previous();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = widen(from[i]);
}

// A block's image, as f32 from 0 to 1.
__device__ void write_image(float* out, const u8* image, u32 size) {
    out += (u64)blockIdx.x * size;
    for (u32 i = threadIdx.x; i < size; i += blockDim.x) out[i] = __fdiv_rn((float)image[i], 255.0f);
}

// The image in each place of a batch. Which one is as shuffle.rs: every epoch in its own order.
extern "C" __global__ void gather_images(float* out, const u8* images, const u32* step, u32 batch, u32 parts, u64 count,
                                         u32 size, u64 seed, u32 purpose, u32 half_bits) {
    await_previous();
    __shared__ u64 chosen;
    if (threadIdx.x == 0) {
        u64 seen = ((u64)step[0] * parts + step[1]) * batch + blockIdx.x, value = seen % count, mask = (1ull << half_bits) - 1;
        u32 epoch = (u32)(seen / count);
        do {
            u64 left = value >> half_bits, right = value & mask;
            for (u64 round = 0; round < 6; round++) {
                u64 word = philox(round << 32 | right, epoch, purpose, seed).x, before = left;
                left = right, right = before ^ (word & mask);
            }
            value = left << half_bits | right;
        } while (value >= count);
        chosen = value;
    }
    __syncthreads();
    write_image(out, images + chosen * size, size);
}

// The same where the batches of `runs` runs are stored in order; each batch has `parts` runs here, of which the number of the
// first is a multiple.
extern "C" __global__ void take_images(float* out, const u8* batches, const u32* step, u32 batch, u32 parts, u32 runs,
                                       u32 size) {
    await_previous();
    write_image(out, batches + (((u64)step[0] * parts + step[1] % parts) % runs * batch + blockIdx.x) * size, size);
}
