"""The peer of `softdiff bench engine`: the same U-Net, forward + backward + Adam, in PyTorch on the CPU.

Started by `softdiff bench engine --against torch` with the network's configuration, the weights and the number of
threads. Speaks one JSON line per request on standard input: {"do": "step"} or {"do": "loss"}.
"""
import json, math, struct, sys, time

import numpy as np
import torch
import torch.nn.functional as F


def read_safetensors(path):
    raw = open(path, "rb").read()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    out = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(raw[8 + length + begin : 8 + length + end], np.float32).reshape(entry["shape"])
        out[name] = torch.from_numpy(values.copy())
    return out


class UNet(torch.nn.Module):
    def __init__(self, config, weights):
        super().__init__()
        self.c = config
        self.names = {name: name.replace(".", "_") for name in weights}
        for name, value in weights.items():
            # Ours are [out, rows, cols, in]; torch wants [out, in, rows, cols].
            value = value.permute(0, 3, 1, 2).contiguous() if value.dim() == 4 else value
            frozen = name.endswith("frequencies")
            self.register_parameter(self.names[name], torch.nn.Parameter(value, requires_grad=not frozen))
        taps = torch.tensor(config["fir"], dtype=torch.float32)
        kernel = torch.outer(taps, taps) / taps.sum() ** 2
        self.register_buffer("kernel", kernel)

    def p(self, name):
        return getattr(self, self.names[name])

    def fir(self, x, up):
        kernel = self.kernel[None, None].expand(x.shape[1], 1, 4, 4)
        if up:
            return F.conv_transpose2d(x, kernel * 4, stride=2, padding=1, groups=x.shape[1])
        return F.conv2d(x, kernel, stride=2, padding=1, groups=x.shape[1])

    def norm(self, x, name, silu=True):
        groups = min(max(x.shape[1] // 4, 1), 32)
        y = F.group_norm(x, groups, self.p(name + "weight"), self.p(name + "bias"), 1e-6)
        return F.silu(y) if silu else y

    def conv(self, x, name, stride=1, padding=None):
        weight = self.p(name + "weight")
        padding = weight.shape[-1] // 2 if padding is None else padding
        return F.conv2d(x, weight, self.p(name + "bias"), stride, padding)

    def residual(self, x, time, name, resample=None):
        h = self.norm(x, name + "norm0.")
        if resample is not None:
            h, x = self.fir(h, resample), self.fir(x, resample)
        h = self.conv(h, name + "conv0.")
        h = h + F.linear(time, self.p(name + "time.weight"), self.p(name + "time.bias"))[:, :, None, None]
        h = self.conv(self.norm(h, name + "norm1."), name + "conv1.")
        if name + "skip.weight" in self.names:
            x = self.conv(x, name + "skip.")
        return (x + h) * math.sqrt(0.5)

    def attention(self, x, name):
        n, c, height, width = x.shape
        h = self.norm(x, name + "norm.", silu=False)
        q, k, v = (self.conv(h, f"{name}{part}.").flatten(2).transpose(1, 2)[:, None] for part in ("query", "key", "value"))
        h = F.scaled_dot_product_attention(q, k, v)[:, 0].transpose(1, 2).reshape(n, c, height, width)
        return (x + self.conv(h, name + "out.")) * math.sqrt(0.5)

    def forward(self, x, t):
        c = self.c
        half = c["channels"] // 2
        frequencies = torch.exp(torch.arange(half) * (-math.log(10000) / max(half - 1, 1)))
        angles = t[:, None] * frequencies[None]
        time = torch.cat([angles.sin(), angles.cos()], 1)
        time = F.silu(F.linear(time, self.p("time.linear0.weight"), self.p("time.linear0.bias")))
        time = F.silu(F.linear(time, self.p("time.linear1.weight"), self.p("time.linear1.bias")))
        h = self.conv(2 * x - 1, "conv_in.")
        skips, levels = [h], len(c["multipliers"])
        for level in range(levels):
            attends = (c["image_size"] >> level) in c["attention"]
            for block in range(c["blocks"]):
                h = self.residual(h, time, f"down.{level}.res.{block}.")
                if attends:
                    h = self.attention(h, f"down.{level}.attention.{block}.")
                skips.append(h)
            if level + 1 < levels:
                h = self.residual(h, time, f"down.{level}.halve.", False)
                skips.append(h)
        h = self.residual(h, time, "middle.res.0.")
        if c["middle_attention"]:
            h = self.attention(h, "middle.attention.")
        h = self.residual(h, time, "middle.res.1.")
        for level in reversed(range(levels)):
            for block in range(c["blocks"] + 1):
                h = self.residual(torch.cat([h, skips.pop()], 1), time, f"up.{level}.res.{block}.")
            if (c["image_size"] >> level) in c["attention"]:
                h = self.attention(h, f"up.{level}.attention.")
            if level:
                h = self.residual(h, time, f"up.{level}.double.", True)
        return self.conv(self.norm(h, "norm_out."), "conv_out.")


def main():
    config, weights, batch, threads = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(threads)
    size, channels = config["image_size"], config["image_channels"]
    n = batch * size * size * channels
    # The inputs that the Rust side makes: NHWC there.
    wave = torch.from_numpy(np.sin(np.arange(n, dtype=np.float64)).astype(np.float32)).view(batch, size, size, channels)
    x = (0.5 + 0.5 * wave).permute(0, 3, 1, 2)
    target = torch.from_numpy(np.cos(np.arange(n, dtype=np.float64)).astype(np.float32)).view(batch, size, size, channels).permute(0, 3, 1, 2)
    t = torch.arange(batch, dtype=torch.float32) * (999.0 / batch)

    def make(layout):
        net = UNet(config, read_safetensors(weights)).to(memory_format=layout)
        optimiser = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=2e-4, foreach=True)
        a, b = x.contiguous(memory_format=layout), target.contiguous(memory_format=layout)

        def loss():
            return 0.5 * (net(a, t) - b).square().sum() / batch

        def step():
            optimiser.zero_grad(set_to_none=True)
            loss().backward()
            optimiser.step()

        return loss, step

    # Whichever memory layout is faster on this machine.
    best = None
    for name, layout in (("contiguous", torch.contiguous_format), ("channels_last", torch.channels_last)):
        loss, step = make(layout)
        step()
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            step()
            times.append(time.perf_counter() - begin)
        if best is None or min(times) < best[0]:
            best = (min(times), name, layout)
    loss, step = make(best[2])
    print(json.dumps({"version": torch.__version__, "layout": best[1]}), flush=True)
    for line in sys.stdin:
        if json.loads(line)["do"] == "loss":
            with torch.no_grad():
                print(json.dumps({"loss": loss().item()}), flush=True)
        else:
            begin = time.perf_counter()
            step()
            print(json.dumps({"seconds": time.perf_counter() - begin}), flush=True)


main()
