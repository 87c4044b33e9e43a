"""Loads an exported checkpoint with torch and evaluates NCSN++, module by module under the official names.

usage: evaluate.py CHECKPOINT INPUT OUTPUT LEVELS BLOCKS ATTENDING...   (LEVELS of the network; ATTENDING are level numbers)
INPUT: safetensors with x [n, 3, size, size] in [0, 1] and cond [n], what the embedding takes; OUTPUT: one tensor, out.
Written from the description of the network in the papers, without code of score_sde_pytorch."""
import math, sys
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

checkpoint, source, target, levels, blocks = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])
attending = {int(level) for level in sys.argv[6:]}
if checkpoint.endswith(".safetensors"):
    weights = load_file(checkpoint)
else:
    state = torch.load(checkpoint, weights_only=True)
    weights = {name.removeprefix("module."): tensor for name, tensor in state["model"].items()}
    # What score_sde's restore_checkpoint does with the rest.
    trained = [t for n, t in weights.items() if n != "sigmas" and not (n.endswith(".W") and t.ndim == 1)]
    assert all(torch.equal(a, b) for a, b in zip(state["ema"]["shadow_params"], trained, strict=True))
    parameters = [torch.nn.Parameter(t.clone()) for n, t in weights.items() if n != "sigmas"]
    torch.optim.Adam(parameters).load_state_dict(state["optimizer"])
assert all(t.is_contiguous() for t in weights.values())

used, module = set(), -1


def p(name):
    key = f"all_modules.{module}.{name}"
    used.add(key)
    return weights[key]


def has(name):
    return f"all_modules.{module}.{name}" in weights


def following():
    global module
    module += 1


def norm(x, name):
    return F.group_norm(x, min(x.shape[1] // 4, 32), p(f"{name}weight"), p(f"{name}bias"), 1e-6)


def fir(x, up=False, down=False):
    k = torch.tensor([1.0, 3.0, 3.0, 1.0])
    k = torch.outer(k, k) / 64
    n, c, h, w = x.shape
    if up:
        wide = torch.zeros(n, c, 2 * h, 2 * w)
        wide[:, :, ::2, ::2] = x
        x, k, pad = wide, 4 * k, (2, 1, 2, 1)
    else:
        pad = (1, 1, 1, 1) if down else (2, 2, 2, 2)
    k = k.expand(c, 1, 4, 4)
    return F.conv2d(F.pad(x, pad), k, groups=c, stride=2 if down else 1)


def residual(x, up=False, down=False):
    following()
    h = F.silu(norm(x, "GroupNorm_0."))
    if up or down:
        h, x = fir(h, up, down), fir(x, up, down)
    h = F.conv2d(h, p("Conv_0.weight"), p("Conv_0.bias"), padding=1)
    h = h + F.linear(time, p("Dense_0.weight"), p("Dense_0.bias"))[:, :, None, None]
    h = F.silu(norm(h, "GroupNorm_1."))
    h = F.conv2d(h, p("Conv_1.weight"), p("Conv_1.bias"), padding=1)
    if has("Conv_2.weight"):
        x = F.conv2d(x, p("Conv_2.weight"), p("Conv_2.bias"))
    return (x + h) / math.sqrt(2)


def attention(x):
    following()
    n, c, height, width = x.shape
    h = norm(x, "GroupNorm_0.").flatten(2).transpose(1, 2)
    q, k, v = (h @ p(f"NIN_{i}.W") + p(f"NIN_{i}.b") for i in range(3))
    h = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(c), -1) @ v
    h = h @ p("NIN_3.W") + p("NIN_3.b")
    return (x + h.transpose(1, 2).reshape(n, c, height, width)) / math.sqrt(2)


given = load_file(source)
x, cond = 2 * given["x"] - 1, given["cond"]
if "all_modules.0.W" in weights:
    following()
    angle = 2 * math.pi * cond[:, None] * p("W")[None]
    time = torch.cat([angle.sin(), angle.cos()], 1)
else:
    half = weights["all_modules.0.weight"].shape[1] // 2
    angle = cond[:, None] * torch.exp(-math.log(10000) * torch.arange(half) / (half - 1))[None]
    time = torch.cat([angle.sin(), angle.cos()], 1)
following()
time = F.linear(time, p("weight"), p("bias"))
following()
time = F.silu(F.linear(F.silu(time), p("weight"), p("bias")))
following()
skips, pyramid = [F.conv2d(x, p("weight"), p("bias"), padding=1)], x
for level in range(levels):
    for _ in range(blocks):
        h = residual(skips[-1])
        skips.append(attention(h) if level in attending else h)
    if level + 1 < levels:
        h = residual(skips[-1], down=True)
        following()
        pyramid = F.conv2d(fir(pyramid), p("Conv2d_0.weight"), p("Conv2d_0.bias"), stride=2)
        pyramid = (pyramid + h) / math.sqrt(2)
        skips.append(pyramid)
h = residual(attention(residual(skips[-1])))
for level in reversed(range(levels)):
    for _ in range(blocks + 1):
        h = residual(torch.cat([h, skips.pop()], 1))
    if level in attending:
        h = attention(h)
    if level:
        h = residual(h, up=True)
following()
h = F.silu(norm(h, ""))
following()
save_file({"out": F.conv2d(h, p("weight"), p("bias"), padding=1).contiguous()}, target)
left = set(weights) - used - {"sigmas"}
assert not left, left
