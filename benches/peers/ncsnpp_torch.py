"""NCSN++ in PyTorch, as fast as we know how to make it: bf16, NHWC, torch.compile, and the whole step as one CUDA graph.
Master weights, moments and averages are flat f32 buffers, so that clipping + Adam + EMA is one fused pass; the projections of
the time are one product, as are queries, keys and values; the FIR filters are slices with adjoints written by hand."""
import torch
import torch.nn.functional as F

started = time.perf_counter()
task, size, batch, steps, channels, blocks = sys.argv[1], *map(int, sys.argv[2:7])
on_gpu = torch.cuda.is_available()
device = torch.device("cuda" if on_gpu else "cpu")
half = torch.bfloat16 if on_gpu else torch.float32
net = Net(size, channels, blocks)
torch.manual_seed(0)
torch.backends.cudnn.benchmark = True


def filtered(x, axis, stride, count):
    part = lambda k: x.narrow(axis, k, stride * (count - 1) + 1)[(slice(None),) * axis + (slice(None, None, stride),)]
    return part(0) + part(3) + 3 * (part(1) + part(2))


def shrink(x, factor, stride, pad):
    y = F.pad(x.permute(0, 2, 3, 1).float(), (0, 0, pad, pad, pad, pad))
    rows, columns = (y.shape[1] - 4) // stride + 1, (y.shape[2] - 4) // stride + 1
    y = filtered(filtered(y, 1, stride, rows), 2, stride, columns)
    return (y * (factor / 64)).to(x.dtype).permute(0, 3, 1, 2)


def grow(x, factor):
    n, c, h, w = x.shape
    y = F.pad(x.permute(0, 2, 3, 1).float(), (0, 0, 1, 1, 1, 1))
    near = lambda y, axis, m: [3 * y.narrow(axis, 1, m) + y.narrow(axis, k, m) for k in (0, 2)]
    rows = [torch.stack(near(row, 2, w), 3) for row in near(y, 1, h)]
    return (torch.stack(rows, 2).reshape(n, 2 * h, 2 * w, c) * (factor / 16)).to(x.dtype).permute(0, 3, 1, 2)


def with_adjoint(forward, backward):
    class Map(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            return forward(x)

        @staticmethod
        def backward(_, g):
            return backward(g)

    return Map.apply


down = with_adjoint(lambda x: shrink(x, 1.0, 2, 1), lambda g: grow(g, 0.25))
up = with_adjoint(lambda x: grow(x, 1.0), lambda g: shrink(g, 4.0, 2, 1))
smooth = with_adjoint(lambda x: shrink(x, 1.0, 1, 2), lambda g: shrink(g, 1.0, 1, 1))
resample = {"down": down, "up": up}


def norm(x, gamma, beta, silu):
    n, c = x.shape[:2]
    g, wide = groups(c), x.float()
    count = wide[0, 0].numel() * (c // g)
    mean = wide.sum((2, 3)).view(n, g, -1).sum(2, keepdim=True) / count
    square = (wide * wide).sum((2, 3)).view(n, g, -1).sum(2, keepdim=True) / count
    scale = torch.rsqrt((square - mean * mean).clamp_min(0) + 1e-6) * gamma.view(1, g, -1)
    offset = beta.view(1, g, -1) - mean * scale
    y = wide * scale.view(n, c, 1, 1) + offset.view(n, c, 1, 1)
    return (F.silu(y) if silu else y).to(x.dtype)


def add_bias(x, b):
    return x + b.to(x.dtype).view(1, -1, 1, 1)


def network(p, frequencies, x, t, dropout):
    angle = t[:, None] * frequencies[None]
    e = torch.cat([angle.sin(), angle.cos()], 1).to(half)
    e = F.silu(F.linear(e, p["time0.w"], p["time0.b"].to(half)))
    e = F.silu(F.linear(e, p["time1.w"], p["time1.b"].to(half)))
    widths = [out for kind, _, out, _ in net.layers if kind == "block"]
    shifts = iter(F.linear(e, p["shift.w"], p["shift.b"].to(half)).split(widths, 1))
    order = iter(enumerate(net.layers))

    def block(x):
        i, (_, a, b, kind) = next(order)
        h = norm(x, p[f"{i}.norm0.g"], p[f"{i}.norm0.b"], True)
        if kind:
            h, x = resample[kind](h), resample[kind](x)
        h = F.conv2d(h, p[f"{i}.conv0.w"], padding=1) + next(shifts)[:, :, None, None]
        h = norm(h, p[f"{i}.norm1.g"], p[f"{i}.norm1.b"], True)
        h = F.dropout(h, dropout) if dropout else h
        h = add_bias(F.conv2d(h, p[f"{i}.conv1.w"], padding=1), p[f"{i}.conv1.b"])
        return ((x if a == b and not kind else F.conv2d(x, p[f"{i}.skip.w"])) + h) * SQRT_HALF

    def attend(x):
        i, _ = next(order)
        n, c, height, width = x.shape
        h = norm(x, p[f"{i}.norm.g"], p[f"{i}.norm.b"], False).permute(0, 2, 3, 1).reshape(n, -1, c)
        q, k, v = F.linear(h, p[f"{i}.qkv.w"], p[f"{i}.qkv.b"].to(half)).split(c, -1)
        h = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]
        h = F.linear(h, p[f"{i}.out.w"], p[f"{i}.out.b"].to(half))
        return (x + h.reshape(n, height, width, c).permute(0, 3, 1, 2)) * SQRT_HALF

    x = (2 * x - 1).to(half, memory_format=torch.channels_last)
    pyramid, last = x, len(net.widths) - 1
    skips = [add_bias(F.conv2d(x, p["first.w"], padding=1), p["first.b"])]
    for level in range(last + 1):
        for _ in range(net.blocks):
            h = block(skips[-1])
            skips.append(attend(h) if net.size >> level in net.attention else h)
        if level < last:
            h = block(skips[-1])
            i, _ = next(order)
            pyramid = (add_bias(F.conv2d(smooth(pyramid), p[f"{i}.conv.w"], stride=2), p[f"{i}.conv.b"]) + h) * SQRT_HALF
            skips.append(pyramid)
    h = block(attend(block(skips[-1])))
    for level in range(last, -1, -1):
        for _ in range(net.blocks + 1):
            h = block(torch.cat([h, skips.pop()], 1))
        h = attend(h) if net.size >> level in net.attention else h
        h = block(h) if level else h
    h = F.conv2d(norm(h, p["norm.g"], p["norm.b"], True), p["last.w"], padding=1)
    return h.float() + p["last.b"].view(1, -1, 1, 1)


class Store:
    """All parameters in one f32 buffer; matrices are also in a bf16 buffer, which the network reads."""

    def __init__(self, values):
        names = sorted(values, key=lambda name: values[name].ndim == 1)
        room = lambda n: (n + 15) // 16 * 16
        self.matrices = sum(room(values[n].size) for n in names if values[n].ndim > 1)
        self.p = torch.zeros(sum(room(values[n].size) for n in names), device=device)
        self.low = torch.zeros(self.matrices, device=device, dtype=half)
        self.m, self.v, self.g = (torch.zeros_like(self.p) for _ in range(3))
        self.step, self.named, self.gradients, at = torch.zeros((), device=device), {}, [], 0
        for name in names:
            value = torch.from_numpy(values[name]).to(device)
            shape, n = value.shape, value.numel()

            def view(buffer, at=at, shape=shape, n=n):
                flat = buffer[at : at + n]
                if len(shape) == 4:
                    return flat.view(shape[0], shape[2], shape[3], shape[1]).permute(0, 3, 1, 2)
                return flat.view(shape)

            view(self.p).copy_(value)
            matrix = len(shape) > 1
            if matrix:
                view(self.low).copy_(value)
            self.named[name] = view(self.low if matrix else self.p).detach().requires_grad_()
            self.gradients.append(view(self.g))
            at += room(n)
        self.ema = self.p.clone()


def update(p, low, m, v, ema, g, step, matrices: int):
    k = step + 1
    g = g / torch.linalg.vector_norm(g).clamp(min=1.0)
    first, second = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    rate = 2e-4 * (step / 5000).clamp(max=1.0) / (1 - torch.exp(k * math.log(0.9)))
    new = p - rate * first / (torch.sqrt(second / (1 - torch.exp(k * math.log(0.999)))) + 1e-8)
    m.copy_(first), v.copy_(second), p.copy_(new), low.copy_(new[:matrices])
    ema.copy_(ema + 0.001 * (new - ema)), step.copy_(k)


def noise_level(t):
    return 0.01 * torch.exp(math.log(10.0) * (t / NOISE_END).clamp(max=1.0))[:, None, None, None]


knots = torch.from_numpy(net.knots()).to(device)
places = torch.arange(size, device=device).float()
apart = (places[:, None] - places[None]) ** 2
reach = torch.arange(-net.reach, net.reach + 1, device=device).float() ** 2


def blur(t):
    at = ((t - NOISE_END) / (1 - NOISE_END)).clamp(0, 1) * (len(knots) - 1)
    low = at.floor().clamp(max=len(knots) - 2)
    a, b = knots[low.long()], knots[low.long() + 1]
    width = torch.where(t < NOISE_END, torch.full_like(t, 0.01), a + (at - low) * (b - a))
    w = 0.5 / (width * width)
    total = torch.exp(-reach[None] * w[:, None]).sum(1)
    return (torch.exp(-apart[None] * w[:, None, None]) / total[:, None, None])[:, None]


def loss_of(p, frequencies, pictures, flip, t, z):
    x0 = pictures.float() / 255
    x0 = torch.where(flip[:, None, None, None], x0.flip(3), x0)
    sigma, g = noise_level(t), blur(t)
    xt = g @ x0 @ g + sigma * z
    away = sigma * network(p, frequencies, xt, t, 0.1) - (x0 - xt)
    away = g @ away.contiguous() @ g / sigma
    return 0.5 * (away * away).sum() / len(x0)


store = Store(net.initial())
frequencies = torch.from_numpy(net.frequencies()).to(device)
shape = (batch, 3, size, size)
pack = lambda f: torch.compile(f, fullgraph=True, dynamic=False) if on_gpu else f
if task == "step":
    pictures = torch.randint(0, 256, shape, dtype=torch.uint8, device=device)
    forward, fused = pack(loss_of), pack(update)
    parameters = list(store.named.values())

    def step():
        flip, t, z = torch.rand(batch, device=device) < 0.5, torch.rand(batch, device=device), torch.randn(shape, device=device)
        loss = forward(store.named, frequencies, pictures, flip, t, z)
        torch._foreach_copy_(store.gradients, torch.autograd.grad(loss, parameters))
        fused(store.p, store.low, store.m, store.v, store.ema, store.g, store.step, store.matrices)
        return loss.detach()

else:
    x, t = torch.rand(shape, device=device), torch.rand(batch, device=device)
    forward = pack(lambda p, x, t: noise_level(t) * network(p, frequencies, x, t, 0.0) + x)

    def step():
        with torch.no_grad():
            return forward(store.named, x, t)


if on_gpu:
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(beside)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
    run, wait = graph.replay, torch.cuda.synchronize
else:
    result = step()
    run, wait = step, lambda: None
for _ in range(3):
    run()
wait()
ready = time.perf_counter() - started
milliseconds = measure(run, wait, steps)
memory = torch.cuda.max_memory_allocated() if on_gpu else None
print(json.dumps({"version": torch.__version__, "milliseconds": milliseconds, "seconds_to_steady": ready,
                  "peak_bytes": memory, "value": float(result.float().mean())}), flush=True)
