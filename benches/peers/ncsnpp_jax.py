"""NCSN++ in JAX, as fast as we know how to make it: bf16, NHWC, one jitted step with donated state; the projections of the
time are one product, as are queries, keys and values; the FIR filters are slices with adjoints written by hand."""
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import functools
import jax
import jax.numpy as jnp
from jax import lax

started = time.perf_counter()
task, size, batch, steps, channels, blocks = sys.argv[1], *map(int, sys.argv[2:7])
jax.config.update("jax_default_prng_impl", "rbg")
on_gpu = jax.devices()[0].platform == "gpu"
half = jnp.bfloat16 if on_gpu else jnp.float32
exact = functools.partial(jnp.einsum, precision=lax.Precision.HIGHEST)
net = Net(size, channels, blocks)


def wide(x):
    return x.astype(jnp.float32)


def padded(x, p):
    return jnp.pad(wide(x), ((0, 0), (p, p), (p, p), (0, 0)))


def filtered(x, axis, stride):
    count = (x.shape[axis] - 4) // stride + 1
    part = lambda k: lax.slice_in_dim(x, k, k + stride * (count - 1) + 1, stride, axis)
    return part(0) + part(3) + 3 * (part(1) + part(2))


def shrink(x, factor, stride, pad):
    return (filtered(filtered(padded(x, pad), 1, stride), 2, stride) * (factor / 64)).astype(x.dtype)


def grow(x, factor):
    n, h, w, c = x.shape
    cut = lambda y, k, m, axis: lax.slice_in_dim(y, k, k + m, 1, axis)
    near = lambda y, axis, m: [3 * cut(y, 1, m, axis) + cut(y, k, m, axis) for k in (0, 2)]
    rows = [jnp.stack(near(row, 2, w), 3) for row in near(padded(x, 1), 1, h)]
    return (jnp.stack(rows, 2).reshape(n, 2 * h, 2 * w, c) * (factor / 16)).astype(x.dtype)


def with_adjoint(forward, backward):
    mapped = jax.custom_vjp(forward)
    mapped.defvjp(lambda x: (forward(x), None), lambda _, g: (backward(g),))
    return mapped


resample = {
    "down": with_adjoint(lambda x: shrink(x, 1.0, 2, 1), lambda g: grow(g, 0.25)),
    "up": with_adjoint(lambda x: grow(x, 1.0), lambda g: shrink(g, 4.0, 2, 1)),
}
smooth = with_adjoint(lambda x: shrink(x, 1.0, 1, 2), lambda g: shrink(g, 1.0, 1, 1))


def conv(x, w, stride=1, pad=1):
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w.astype(x.dtype), (stride, stride), [(pad, pad)] * 2, dimension_numbers=layout)


def plus(x, b):
    return (wide(x) + b).astype(x.dtype)


def norm(x, gamma, beta, silu):
    n, h, w, c = x.shape
    g, f = groups(c), wide(x)
    count = h * w * (c // g)
    over = lambda y: y.sum((1, 2)).reshape(n, g, -1).sum(2, keepdims=True) / count
    mean, square = over(f), over(f * f)
    scale = lax.rsqrt(jnp.maximum(square - mean * mean, 0) + 1e-6) * gamma.reshape(1, g, -1)
    offset = beta.reshape(1, g, -1) - mean * scale
    y = f * scale.reshape(n, 1, 1, c) + offset.reshape(n, 1, 1, c)
    return (jax.nn.silu(y) if silu else y).astype(x.dtype)


def network(p, frequencies, x, t, dropout, key):
    angle = t[:, None] * frequencies[None]
    e = jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], 1).astype(half)
    for name in ("time0", "time1"):
        e = jax.nn.silu(plus(e @ p[name + ".w"].astype(half), p[name + ".b"]))
    shifts, used = wide(e @ p["shift.w"].astype(half)) + p["shift.b"], [0]
    order = iter(enumerate(net.layers))

    def block(x):
        i, (_, a, b, kind) = next(order)
        h = norm(x, p[f"{i}.norm0.g"], p[f"{i}.norm0.b"], True)
        if kind:
            h, x = resample[kind](h), resample[kind](x)
        h = plus(conv(h, p[f"{i}.conv0.w"]), shifts[:, None, None, used[0] : used[0] + b])
        used[0] += b
        h = norm(h, p[f"{i}.norm1.g"], p[f"{i}.norm1.b"], True)
        if dropout:
            keep = jax.random.bernoulli(jax.random.fold_in(key, i), 1 - dropout, h.shape)
            h = jnp.where(keep, h / (1 - dropout), 0).astype(h.dtype)
        h = conv(h, p[f"{i}.conv1.w"])
        x = x if a == b and not kind else conv(x, p[f"{i}.skip.w"], 1, 0)
        return ((wide(x) + wide(h) + p[f"{i}.conv1.b"]) * SQRT_HALF).astype(h.dtype)

    def attend(x):
        i, _ = next(order)
        n, height, width, c = x.shape
        h = norm(x, p[f"{i}.norm.g"], p[f"{i}.norm.b"], False).reshape(n, -1, c)
        q, k, v = jnp.split(plus(h @ p[f"{i}.qkv.w"].astype(half), p[f"{i}.qkv.b"]), 3, -1)
        weights = jax.nn.softmax(wide(jnp.einsum("bik,bjk->bij", q, k)) * c**-0.5, -1).astype(half)
        h = wide(jnp.einsum("bij,bjk->bik", weights, v) @ p[f"{i}.out.w"].astype(half)) + p[f"{i}.out.b"]
        return ((wide(x) + h.reshape(n, height, width, c)) * SQRT_HALF).astype(x.dtype)

    x = (2 * x - 1).astype(half)
    pyramid, last = x, len(net.widths) - 1
    skips = [plus(conv(x, p["first.w"]), p["first.b"])]
    for level in range(last + 1):
        for _ in range(net.blocks):
            h = block(skips[-1])
            skips.append(attend(h) if net.size >> level in net.attention else h)
        if level < last:
            h = block(skips[-1])
            i, _ = next(order)
            deeper = wide(conv(smooth(pyramid), p[f"{i}.conv.w"], 2, 0)) + p[f"{i}.conv.b"]
            pyramid = ((deeper + wide(h)) * SQRT_HALF).astype(half)
            skips.append(pyramid)
    h = block(attend(block(skips[-1])))
    for level in range(last, -1, -1):
        for _ in range(net.blocks + 1):
            h = block(jnp.concatenate([h, skips.pop()], -1))
        h = attend(h) if net.size >> level in net.attention else h
        h = block(h) if level else h
    return wide(conv(norm(h, p["norm.g"], p["norm.b"], True), p["last.w"])) + p["last.b"]


def noise_level(t):
    return 0.01 * jnp.exp(math.log(10.0) * jnp.minimum(t / NOISE_END, 1.0))[:, None, None, None]


def blur(t):
    knots = jnp.asarray(net.knots())
    at = jnp.clip((t - NOISE_END) / (1 - NOISE_END), 0, 1) * (len(knots) - 1)
    low = jnp.minimum(jnp.floor(at), len(knots) - 2)
    a, b = knots[low.astype(int)], knots[low.astype(int) + 1]
    width = jnp.where(t < NOISE_END, 0.01, a + (at - low) * (b - a))
    w = 0.5 / (width * width)
    places, reach = jnp.arange(size), jnp.arange(-net.reach, net.reach + 1)
    total = jnp.exp(-(reach**2)[None] * w[:, None]).sum(1)
    return jnp.exp(-((places[:, None] - places[None]) ** 2)[None] * w[:, None, None]) / total[:, None, None]


def blurred(g, x):
    return exact("bij,bjkc->bikc", g, exact("bhwc,bwv->bhvc", x, g))


def loss_of(p, frequencies, pictures, key):
    flips, times, noises, masks = jax.random.split(key, 4)
    x0 = pictures.astype(jnp.float32) / 255
    x0 = jnp.where(jax.random.bernoulli(flips, 0.5, (batch, 1, 1, 1)), x0[:, :, ::-1], x0)
    t = jax.random.uniform(times, (batch,))
    sigma, g = noise_level(t), blur(t)
    xt = blurred(g, x0) + sigma * jax.random.normal(noises, x0.shape)
    away = sigma * network(p, frequencies, xt, t, 0.1, masks) - (x0 - xt)
    away = blurred(g, away) / sigma
    return 0.5 * (away * away).sum() / batch


@functools.partial(jax.jit, donate_argnums=0)
def train(state, frequencies, pictures, key):
    key = jax.random.fold_in(key, state["k"].astype(int))
    loss, g = jax.value_and_grad(loss_of)(state["p"], frequencies, pictures, key)
    each = jax.tree.map
    length = jnp.sqrt(sum(jnp.vdot(v, v) for v in jax.tree.leaves(g)))
    shrink_by, k = 1 / jnp.maximum(length, 1.0), state["k"] + 1
    m = each(lambda m, g: 0.9 * m + 0.1 * shrink_by * g, state["m"], g)
    v = each(lambda v, g: 0.999 * v + 0.001 * (shrink_by * g) ** 2, state["v"], g)
    rate = 2e-4 * jnp.minimum(state["k"] / 5000, 1.0) / (1 - 0.9**k)
    p = each(lambda p, m, v: p - rate * m / (jnp.sqrt(v / (1 - 0.999**k)) + 1e-8), state["p"], m, v)
    ema = each(lambda e, p: e + 0.001 * (p - e), state["ema"], p)
    return dict(p=p, m=m, v=v, ema=ema, k=k), loss


def ours(value):
    """[out, in, ...] to JAX's order."""
    return value.transpose(2, 3, 1, 0) if value.ndim == 4 else value.T


parameters = {name: jnp.asarray(np.ascontiguousarray(ours(v))) for name, v in net.initial().items()}
frequencies = jnp.asarray(net.frequencies())
shape = (batch, size, size, 3)
if task == "step":
    pictures = jnp.asarray(np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8))
    zeros = lambda: jax.tree.map(jnp.zeros_like, parameters)
    copy = jax.tree.map(jnp.array, parameters)
    box = [dict(p=parameters, m=zeros(), v=zeros(), ema=copy, k=jnp.zeros(())), None]
    key = jax.random.key(0)

    def run():
        box[0], box[1] = train(box[0], frequencies, pictures, key)

else:
    p = {name: v.astype(half) if v.ndim > 1 else v for name, v in parameters.items()}
    x, t = jax.random.uniform(jax.random.key(1), shape), jax.random.uniform(jax.random.key(2), (batch,))
    predict = jax.jit(lambda p, x, t: noise_level(t) * network(p, frequencies, x, t, 0.0, None) + x)
    box = [None, None]

    def run():
        box[1] = predict(p, x, t)


wait = lambda: box[1].block_until_ready()
for _ in range(4):
    run()
wait()
ready = time.perf_counter() - started
milliseconds = measure(run, wait, steps)
memory = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
print(json.dumps({"version": jax.__version__, "milliseconds": milliseconds, "seconds_to_steady": ready,
                  "peak_bytes": memory, "value": float(jnp.mean(box[1]))}), flush=True)
