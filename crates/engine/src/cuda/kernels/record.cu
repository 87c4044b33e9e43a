// What a step leaves for the host: one row of a ring per step, and outputs carried into inputs.

extern "C" __global__ void record_step(float* ring, const u32* step, const State* state, const float* loss,
                                       const float* losses, const float* times, int n, int rows) {
    float* row = ring + (size_t)(*step % rows) * (4 + 2 * n);
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
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i];
}

extern "C" __global__ void carry_bf16(float* to, const bf16* from, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = widen(from[i]);
}
