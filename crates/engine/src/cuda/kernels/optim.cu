// The optimiser: global norm, then clip + Adam + EMA + 16-bit copy in one pass over all parameters.

// One entry per block: which tensor, and from which element on.
struct Piece {
    float* value;
    float* first;
    float* second;
    const void* gradient;
    bf16* copy;
    float* ema[4];
    int count;
    int half;
};

extern "C" __global__ void gradient_squares(float* out, const Piece* pieces) {
    Piece p = pieces[blockIdx.x];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < p.count; i += blockDim.x) {
        float g = p.half ? widen(((const bf16*)p.gradient)[i]) : ((const float*)p.gradient)[i];
        sum += g * g;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

// What the passes share. `skipped` counts updates in a row that were not finite.
struct State {
    double updates;
    float norm, scale, step, root;
    u32 skipped, applied;
};

// One block: the global norm, and from it the constants of this update.
extern "C" __global__ void gradient_norm(State* state, const float* squares, int n, double rate, double warmup,
                                         double beta1, double beta2, double clip) {
    double sum = 0.0;
    __shared__ double sums[256];
    for (int i = threadIdx.x; i < n; i += 256) sum += squares[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    for (int i = 1; i < 256; i++) sum += sums[i];
    double norm = sqrt(sum);
    bool finite = norm - norm == 0.0;
    state->norm = (float)norm;
    state->applied = finite;
    state->skipped = finite ? 0 : state->skipped + 1;
    if (!finite) return;
    if (state->updates < warmup) rate *= state->updates / warmup;
    state->updates += 1.0;
    state->scale = (float)(clip > 0.0 ? clip / fmax(norm, clip) : 1.0);
    state->step = (float)(rate / (1.0 - pow(beta1, state->updates)));
    state->root = (float)(1.0 / sqrt(1.0 - pow(beta2, state->updates)));
}

extern "C" __global__ void adam(const Piece* pieces, const State* state, float beta1, float beta2, float epsilon, int emas,
                                float d0, float d1, float d2, float d3) {
    // A gradient that is not finite changes nothing.
    if (!state->applied) return;
    Piece p = pieces[blockIdx.x];
    float scale = state->scale, step = state->step, root = state->root;
    float decays[4] = {d0, d1, d2, d3};
    for (int i = threadIdx.x; i < p.count; i += blockDim.x) {
        float g = scale * (p.half ? widen(((const bf16*)p.gradient)[i]) : ((const float*)p.gradient)[i]);
        float m = p.first[i] + (1.0f - beta1) * (g - p.first[i]);
        float v = beta2 * p.second[i] + (1.0f - beta2) * g * g;
        float w = p.value[i] - step * m / (sqrtf(v) * root + epsilon);
        p.first[i] = m, p.second[i] = v, p.value[i] = w;
        if (p.copy) p.copy[i] = narrow<bf16>(w);
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (e < emas) p.ema[e][i] -= (1.0f - decays[e]) * (p.ema[e][i] - w);
    }
}
