"""What both peers of `softdiff bench step` and `bench evaluate` share: NCSN++ as a list of layers, its parameters, and the
noise and blur of the training step. Plain numpy; the frameworks' programs are put behind this file."""
import json, math, sys, time
import numpy as np

SQRT_HALF = math.sqrt(0.5)
NOISE_END = 0.18  # until here the noise grows from 0.01 to 0.1; then the blur grows


class Net:
    def __init__(self, size, channels=128, blocks=4, multipliers=(1, 2, 2, 2), attention=(16,)):
        self.size, self.channels, self.blocks, self.attention = size, channels, blocks, attention
        self.widths = [channels * m for m in multipliers]
        self.fourier = size == 32
        self.largest_blur, self.reach = (18.0, 32) if size == 32 else (23.0, 80)
        self.layers = list(self.walk())

    def walk(self):
        """(kind, input channels, output channels, resampling), in order of use."""
        width, last = self.channels, len(self.widths) - 1
        skips, deep = [width], 3
        for level, out in enumerate(self.widths):
            for _ in range(self.blocks):
                yield "block", width, out, None
                width = out
                if self.size >> level in self.attention:
                    yield "attention", width, width, None
                skips.append(width)
            if level < last:
                yield "block", width, width, "down"
                yield "pyramid", deep, width, None
                deep = width
                skips.append(width)
        yield "block", width, width, None
        yield "attention", width, width, None
        yield "block", width, width, None
        for level in range(last, -1, -1):
            for _ in range(self.blocks + 1):
                yield "block", width + skips.pop(), self.widths[level], None
                width = self.widths[level]
            if self.size >> level in self.attention:
                yield "attention", width, width, None
            if level:
                yield "block", width, width, "up"

    def parameters(self):
        """Name to (shape, scale): scale None is a zero, 'one' a one, else the variance scaling; shapes are [out, in, ...]."""
        c, table = self.channels, {}
        emb = 2 * c if self.fourier else c
        table["time0.w"], table["time0.b"] = ((4 * c, emb), 1.0), ((4 * c,), None)
        table["time1.w"], table["time1.b"] = ((4 * c, 4 * c), 1.0), ((4 * c,), None)
        table["first.w"], table["first.b"] = ((c, 3, 3, 3), 1.0), ((c,), None)
        shifts = sum(out for kind, _, out, _ in self.layers if kind == "block")
        table["shift.w"], table["shift.b"] = ((shifts, 4 * c), 1.0), ((shifts,), None)
        for i, (kind, a, b, resampling) in enumerate(self.layers):
            put = lambda name, shape, scale: table.__setitem__(f"{i}.{name}", (shape, scale))
            if kind == "block":
                put("norm0.g", (a,), "one"), put("norm0.b", (a,), None), put("conv0.w", (b, a, 3, 3), 1.0)
                put("norm1.g", (b,), "one"), put("norm1.b", (b,), None), put("conv1.w", (b, b, 3, 3), 1e-10)
                put("conv1.b", (b,), None)
                if a != b or resampling:
                    put("skip.w", (b, a, 1, 1), 1.0)
            elif kind == "attention":
                put("norm.g", (a,), "one"), put("norm.b", (a,), None)
                put("qkv.w", (3 * a, a), 0.1), put("qkv.b", (3 * a,), None)
                put("out.w", (a, a), 1e-10), put("out.b", (a,), None)
            else:
                put("conv.w", (b, a, 3, 3), 1.0), put("conv.b", (b,), None)
        table["norm.g"], table["norm.b"] = ((c,), "one"), ((c,), None)
        table["last.w"], table["last.b"] = ((3, c, 3, 3), 1e-10), ((3,), None)
        return table

    def initial(self):
        draw, values = np.random.default_rng(0), {}
        for name, (shape, scale) in self.parameters().items():
            if scale is None or scale == "one":
                values[name] = np.full(shape, 0.0 if scale is None else 1.0, np.float32)
            else:
                area = math.prod(shape[2:])
                bound = math.sqrt(3 * scale / (area * (shape[0] + shape[1]) / 2))
                values[name] = draw.uniform(-bound, bound, shape).astype(np.float32)
        return values

    def frequencies(self):
        if self.fourier:
            return (2 * math.pi * 16 * np.random.default_rng(1).standard_normal(self.channels)).astype(np.float32)
        half = self.channels // 2
        return (999 * np.exp(-math.log(1e4) * np.arange(half) / (half - 1))).astype(np.float32)

    def knots(self):
        return np.exp(np.linspace(math.log(0.05), math.log(self.largest_blur), 32)).astype(np.float32)


def groups(channels):
    return min(channels // 4, 32)


def measure(run, wait, steps, rounds=3):
    """Median over rounds of the milliseconds per step."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(steps):
            run()
        wait()
        times.append((time.perf_counter() - begin) / steps * 1e3)
    return sorted(times)[len(times) // 2]
