"""Results of PyTorch's operations on closed-form inputs, for tests/forward.rs."""
import json, struct, sys

import numpy as np
import torch
import torch.nn.functional as F


def wave(*shape, phase=0.0):
    n = int(np.prod(shape))
    return torch.from_numpy(np.sin(np.arange(n) * 1.7 + phase)).view(*shape)


results = {}
x = wave(2, 3, 9, 8)
results["conv_rectangular"] = F.conv2d(x, wave(5, 3, 1, 7, phase=1), wave(5, phase=2), stride=(2, 3), padding=(0, 3))
results["conv_strided"] = F.conv2d(x, wave(40, 3, 3, 3, phase=1), None, stride=2)
results["conv_padded"] = F.conv2d(x, wave(3, 3, 5, 5, phase=1), wave(3, phase=2), padding=(4, 2))
results["conv_wide"] = F.conv2d(wave(2, 32, 7, 6), wave(40, 32, 3, 3, phase=1), wave(40, phase=2), padding=1)
results["max_pool"] = F.max_pool2d(x, 3, 2)
results["max_pool_padded"] = F.max_pool2d(x, 3, 1, 1)
results["average_pool_counting"] = F.avg_pool2d(x, 3, 1, 1, count_include_pad=True)
results["average_pool_inside"] = F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
results["resize_up"] = F.interpolate(x, size=(20, 13), mode="bilinear", align_corners=False)
results["resize_down"] = F.interpolate(x, size=(4, 5), mode="bilinear", align_corners=False)
results["group_norm_silu"] = F.silu(F.group_norm(wave(2, 12, 4, 5), 3, wave(12, phase=1), wave(12, phase=2), 1e-6))
q, k, v = (wave(2, 7, 6, phase=p) for p in (0, 1, 2))
results["attention"] = F.scaled_dot_product_attention(q, k, v, scale=0.3)
results["linear"] = F.linear(wave(5, 7), wave(4, 7, phase=1), wave(4, phase=2))

# Adam with clipping and warm-up, as score_sde's optimize_fn: 12 steps of two tensors.
for suffix, dtype in (("", torch.float64), ("_f32", torch.float32)):
    a, b = torch.nn.Parameter(wave(6, 5).to(dtype)), torch.nn.Parameter(wave(7, phase=1).to(dtype))
    optimiser = torch.optim.Adam([a, b], lr=0.02, betas=(0.9, 0.999), eps=1e-8)
    for step in range(12):
        scale = 0.05 if step % 3 == 0 else 3.0
        a.grad, b.grad = (scale * wave(6, 5, phase=step)).to(dtype), (scale * wave(7, phase=-step)).to(dtype)
        for group in optimiser.param_groups:
            group["lr"] = 0.02 * min(step / 5, 1.0)
        # As clip_grad_norm_, without the 1e-6 that it adds to the norm.
        norm = (a.grad.square().sum() + b.grad.square().sum()).sqrt()
        for p in (a, b):
            p.grad *= 1.0 / torch.clamp(norm, min=1.0)
        optimiser.step()
    results["adam_a" + suffix], results["adam_b" + suffix] = a.detach(), b.detach()

header, blob = {}, b""
for name, value in results.items():
    raw = value.contiguous().numpy().tobytes()
    dtype = "F64" if value.dtype == torch.float64 else "F32"
    header[name] = {"dtype": dtype, "shape": list(value.shape), "data_offsets": [len(blob), len(blob) + len(raw)]}
    blob += raw
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + blob)
