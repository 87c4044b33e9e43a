// Resampling by four taps, the same along rows and columns: to twice the size, to half of it, or smoothing. A thread makes
// a patch of ROWS x 2 pixels and V channels: its indices are computed once, all loads are known when compiling, and what
// the pixels share is read once. Pixels of x lie `pitch` elements apart.

// Output o reads TAPS inputs from begin(o) on. STEP is how far inputs go with outputs; 0 for a half, where the outputs take
// turns: even ones have the first two taps, odd ones the others.
template <int STEP> struct Fir {
    static constexpr int TAPS = STEP ? 4 : 2;
    static __device__ constexpr int begin(int o) { return STEP ? STEP * o : (o + 1) / 2; }
    static __device__ constexpr int tap(int o, int k) { return STEP ? k : o % 2 * 2 + k; }
};

// Zeros unless `there`.
template <int V> __device__ __forceinline__ void load_if(bool there, const bf16* p, float (&v)[V]) {
    if constexpr (V == 8) {
        uint4 a = make_uint4(0, 0, 0, 0);
        if (there) a = *(const uint4*)p;
        unpack8(a, v);
    } else {
        u32 a = 0;
        if (there) a = p->bits;
        v[0] = __uint_as_float(a << 16);
    }
}

template <int STEP, int ROWS, int V>
__device__ void fir(bf16* out, const bf16* x, i64 patches, int h, int w, int oh, int ow, int c, int pitch, int first,
                    const float (&taps)[4]) {
    using F = Fir<STEP>;
    constexpr int HIGH = F::begin(ROWS - 1) + F::TAPS, WIDE = F::begin(1) + F::TAPS;
    FOR_EACH(i, patches) {
        u32 units = c / V, across = (ow + 1) / 2, down = (oh + ROWS - 1) / ROWS;
        u32 channel = (u32)i % units * V, rest = (u32)i / units, ox = rest % across * 2;
        rest /= across;
        u32 oy = rest % down * ROWS, image = rest / down;
        int top = F::begin(oy) + first, left = F::begin(ox) + first;
        const bf16* from = x + ((i64)image * h * w + top * w + left) * pitch + channel;
        float sum[ROWS][2][V] = {};
#pragma unroll
        for (int y = 0; y < HIGH; y++) {
            bool inside = (u32)(top + y) < (u32)h;
            float row[2][V] = {};
#pragma unroll
            for (int column = 0; column < WIDE; column++) {
                float v[V];
                load_if<V>(inside && (u32)(left + column) < (u32)w, from + (y * w + column) * pitch, v);
#pragma unroll
                for (int o = 0; o < 2; o++)
                    if (int k = column - F::begin(o); k >= 0 && k < F::TAPS)
#pragma unroll
                        for (int j = 0; j < V; j++) row[o][j] += taps[F::tap(o, k)] * v[j];
            }
#pragma unroll
            for (int o = 0; o < ROWS; o++)
                if (int k = y - F::begin(o); k >= 0 && k < F::TAPS)
#pragma unroll
                    for (int j = 0; j < 2 * V; j++) sum[o][j / V][j % V] += taps[F::tap(o, k)] * row[j / V][j % V];
        }
        bf16* to = out + ((i64)image * oh * ow + oy * ow + ox) * c + channel;
#pragma unroll
        for (int o = 0; o < 2 * ROWS; o++)
            if (oy + o / 2 < oh && ox + o % 2 < ow) store<V>(to + (o / 2 * ow + o % 2) * c, sum[o / 2][o % 2]);
    }
}
#define FIR(NAME, STEP, ROWS, V)                                                                                       \
    extern "C" __global__ void __launch_bounds__(256, 2) fir_##NAME##_##V(bf16* out, const bf16* x, i64 patches, int h,\
                                                                          int w, int oh, int ow, int c, int pitch,     \
                                                                          int first, float a, float b, float d,        \
                                                                          float e) {                                   \
        await_previous();                                                                                              \
        fir<STEP, ROWS, V>(out, x, patches, h, w, oh, ow, c, pitch, first, {a, b, d, e});                              \
    }
FIR(up, 0, 4, 1) FIR(up, 0, 4, 8) FIR(smooth, 1, 2, 1) FIR(smooth, 1, 2, 8) FIR(down, 2, 2, 1) FIR(down, 2, 2, 8)
