"""The peer of `softdiff bench features`: the FID network in PyTorch on the CPU, pytorch-fid's preparation included.

Started with the path of inception-2015-12-05.safetensors, the number of pictures and of threads. Speaks one JSON line per
request on standard input: {"do": "features"} gives the seconds and the features' sum and sum of squares.
"""
import json, struct, sys, time

import numpy as np
import torch
import torch.nn.functional as F

path, count, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(threads)
torch.set_grad_enabled(False)


def read_safetensors(path):
    raw = open(path, "rb").read()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    out = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(raw[8 + length + begin : 8 + length + end], np.float32).reshape(entry["shape"])
        out[name.removeprefix("net.layers.")] = torch.from_numpy(values.copy())
    return out


class Network:
    def __init__(self, raw, layout):
        self.units = {}
        for name in {name.rsplit(".", 1)[0] for name in raw}:
            gain = 1 / torch.sqrt(raw[name + ".var"].double() + 1e-3)
            weight = (raw[name + ".weight"].double() * gain[:, None, None, None]).float()
            bias = (raw[name + ".beta"].double() - raw[name + ".mean"].double() * gain).float()
            self.units[name] = weight.contiguous(memory_format=layout), bias
        self.layout = layout

    def c(self, x, name, stride=1, same=True):
        weight, bias = self.units[name]
        pad = [side // 2 for side in weight.shape[2:]] if same else 0
        return F.relu_(F.conv2d(x, weight, bias, stride, pad))

    def chain(self, x, block, names):
        for name in names:
            x = self.c(x, f"{block}.{name}")
        return x

    def pooled(self, x, block, name, average=True):
        # Padding is not counted.
        x = F.avg_pool2d(x, 3, 1, 1, count_include_pad=False) if average else F.max_pool2d(x, 3, 1, 1)
        return self.c(x, f"{block}.{name}")

    def features(self, u8):
        x = u8.permute(0, 3, 1, 2).float().div_(255)
        x = F.interpolate(x, (299, 299), mode="bilinear", align_corners=False)
        x = (2 * x - 1).contiguous(memory_format=self.layout)
        c = self.c
        x = c(c(c(x, "conv", 2, False), "conv_1", 1, False), "conv_2")
        x = c(c(F.max_pool2d(x, 3, 2), "conv_3"), "conv_4", 1, False)
        x = F.max_pool2d(x, 3, 2)
        for b in ["mixed", "mixed_1", "mixed_2"]:
            five = self.chain(x, b, ["tower.conv", "tower.conv_1"])
            three = self.chain(x, b, ["tower_1.conv", "tower_1.conv_1", "tower_1.conv_2"])
            x = torch.cat([c(x, b + ".conv"), five, three, self.pooled(x, b, "tower_2.conv")], 1)
        b = "mixed_3"
        three = c(self.chain(x, b, ["tower.conv", "tower.conv_1"]), b + ".tower.conv_2", 2, False)
        x = torch.cat([c(x, b + ".conv", 2, False), three, F.max_pool2d(x, 3, 2)], 1)
        for b in ["mixed_4", "mixed_5", "mixed_6", "mixed_7"]:
            seven = self.chain(x, b, ["tower.conv", "tower.conv_1", "tower.conv_2"])
            double = self.chain(x, b, ["tower_1.conv"] + [f"tower_1.conv_{i}" for i in range(1, 5)])
            x = torch.cat([c(x, b + ".conv"), seven, double, self.pooled(x, b, "tower_2.conv")], 1)
        b = "mixed_8"
        three = c(self.chain(x, b, ["tower.conv"]), b + ".tower.conv_1", 2, False)
        seven = self.chain(x, b, ["tower_1.conv", "tower_1.conv_1", "tower_1.conv_2"])
        x = torch.cat([three, c(seven, b + ".tower_1.conv_3", 2, False), F.max_pool2d(x, 3, 2)], 1)
        for b, average in [("mixed_9", True), ("mixed_10", False)]:
            one = self.chain(x, b, ["tower_conv"])
            two = self.chain(x, b, ["tower_1_conv", "tower_1_conv_1"])
            parts = [c(x, b + ".conv"), c(one, b + ".tower_mixed_conv"), c(one, b + ".tower_mixed_conv_1")]
            parts += [c(two, b + ".tower_1_mixed_conv"), c(two, b + ".tower_1_mixed_conv_1")]
            x = torch.cat(parts + [self.pooled(x, b, "tower_2_conv", average)], 1)
        return x.mean((2, 3))


def timed(network, pictures):
    begin = time.perf_counter()
    # In batches of 8: larger ones are no faster on a CPU.
    features = torch.cat([network.features(part) for part in pictures.split(8)])
    return time.perf_counter() - begin, features


numbers = torch.arange(count * 32 * 32 * 3, dtype=torch.int64)
pictures = ((numbers * 37 + numbers // 7) % 256).to(torch.uint8).reshape(count, 32, 32, 3)
raw = read_safetensors(path)
best = None
for name, layout in [("channels last", torch.channels_last), ("channels first", torch.contiguous_format)]:
    network = Network(raw, layout)
    timed(network, pictures[:8])
    seconds = min(timed(network, pictures)[0] for _ in range(2))
    if best is None or seconds < best[0]:
        best = seconds, name, network
print(json.dumps({"version": torch.__version__, "layout": best[1]}), flush=True)
for line in sys.stdin:
    seconds, features = timed(best[2], pictures)
    sums = features.double()
    print(json.dumps({"seconds": seconds, "sum": sums.sum().item(), "squares": (sums**2).sum().item()}), flush=True)
