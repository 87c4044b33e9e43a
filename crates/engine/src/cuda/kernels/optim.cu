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
static_assert(sizeof(Piece) == 80, "Piece of optim.rs");

// What the passes share. `skipped` counts updates in a row that were not finite.
struct State {
    double updates;
    float norm, scale, step, root;
    u32 skipped, applied;
};
static_assert(sizeof(State) == 32, "State of optim.rs");

extern "C" __global__ void gradient_squares(float* out, const Piece* pieces) {
    await_previous();
    Piece p = pieces[blockIdx.x];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < p.count; i += blockDim.x) {
        float g = p.half ? widen(((const bf16*)p.gradient)[i]) : ((const float*)p.gradient)[i];
        sum += g * g;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

// One block: the global norm, and from it the constants of this update. A loss (if there is one) or a norm that is not
// finite blocks it.
extern "C" __global__ void gradient_norm(State* state, const float* squares, int n, double rate, double warmup,
                                         double cooldown, double last, double beta1, double beta2, double clip,
                                         const float* loss) {
    await_previous();
    double sum = 0.0;
    __shared__ double sums[256];
    for (int i = threadIdx.x; i < n; i += 256) sum += squares[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    for (int i = 1; i < 256; i++) sum += sums[i];
    double norm = sqrt(sum);
    bool finite = norm - norm == 0.0 && (!loss || *loss - *loss == 0.0f);
    state->norm = (float)norm;
    state->applied = finite;
    state->skipped = finite ? 0 : state->skipped + 1;
    if (!finite) return;
    if (state->updates < warmup) rate *= state->updates / warmup;
    if (last - state->updates < cooldown) rate *= fmax(last - state->updates, 0.0) / cooldown;
    state->updates += 1.0;
    state->scale = (float)(clip > 0.0 ? clip / fmax(norm, clip) : 1.0);
    state->step = (float)(rate / (1.0 - pow(beta1, state->updates)));
    state->root = (float)(1.0 / sqrt(1.0 - pow(beta2, state->updates)));
}

extern "C" __global__ void adam(const Piece* pieces, const State* state, float beta1, float beta2, float epsilon, int emas,
                                float d0, float d1, float d2, float d3) {
    await_previous();
    // A loss or gradient that is not finite changes nothing.
    if (!state->applied) return;
    Piece p = pieces[blockIdx.x];
    float scale = state->scale, step = state->step, root = state->root;
    float decays[4] = {d0, d1, d2, d3};
    auto update = [&](float g, float& w, float& m, float& v) {
        m += (1.0f - beta1) * (g - m);
        v = beta2 * v + (1.0f - beta2) * g * g;
        w -= step * m / (sqrtf(v) * root + epsilon);
    };
    // Eight at a time in whole transactions; pieces begin at multiples of that.
    int packs = p.count / 8;
    for (int pack = threadIdx.x; pack < packs; pack += blockDim.x) {
        float g[8], w[8], m[8], v[8];
        if (p.half) load<8>((const bf16*)p.gradient + pack * 8, g);
        else load<8>((const float*)p.gradient + pack * 8, g);
        load<8>(p.value + pack * 8, w);
        load<8>(p.first + pack * 8, m);
        load<8>(p.second + pack * 8, v);
#pragma unroll
        for (int i = 0; i < 8; i++) update(scale * g[i], w[i], m[i], v[i]);
        store<8>(p.value + pack * 8, w);
        store<8>(p.first + pack * 8, m);
        store<8>(p.second + pack * 8, v);
        if (p.copy) store<8>(p.copy + pack * 8, w);
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (e < emas) {
                float average[8];
                load<8>(p.ema[e] + pack * 8, average);
#pragma unroll
                for (int i = 0; i < 8; i++) average[i] -= (1.0f - decays[e]) * (average[i] - w[i]);
                store<8>(p.ema[e] + pack * 8, average);
            }
    }
    for (int i = packs * 8 + threadIdx.x; i < p.count; i += blockDim.x) {
        float g = scale * (p.half ? widen(((const bf16*)p.gradient)[i]) : ((const float*)p.gradient)[i]);
        float w = p.value[i];
        update(g, w, p.first[i], p.second[i]);
        p.value[i] = w;
        if (p.copy) p.copy[i] = narrow<bf16>(w);
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (e < emas) p.ema[e][i] -= (1.0f - decays[e]) * (p.ema[e][i] - w);
    }
}
