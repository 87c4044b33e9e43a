"""Degrades and restores photographs with NumPy, SciPy, Pillow, scikit-image and bm3d, for `softdiff bench restore`.

Speaks JSON lines: first one object naming the methods there are and those missing, then one answer per request.

{"degrade": task, "truth": file, "out": file}: degrades a photograph. A task is {"kind": "blur", "level": 2.0, "noise": 2},
{"kind": "noise", "noise": 25} or {"kind": "shrink", "factor": 4}; noise in units of 1/255. Results are rounded to 8 bits.

{"restore": method, "task": task, "image": file, "out": file}: restores what was degraded so. Every method is told the task. A method
that fails is answered with {"error": why}.
"""
import json
import sys
import time
import zlib

import numpy as np
from PIL import Image
from scipy import ndimage

METHODS, MISSING, VERSIONS = {}, {}, {"numpy": np.__version__, "scipy": __import__("scipy").__version__}
# Which methods are for which kind of task.
KINDS = {
    "wiener": ["blur"],
    "richardson-lucy": ["blur"],
    "tv": ["blur", "noise"],
    "nlm": ["noise"],
    # The deblurring of bm3d 4.0.3 ends in an error of its own ("Estimate passed in stage_arg must be equal size to z!").
    "bm3d": ["noise"],
    "bicubic": ["shrink"],
}


def read(path):
    return np.asarray(Image.open(path).convert("RGB"), dtype=np.float64) / 255


def write(path, image):
    Image.fromarray(np.clip(np.round(image * 255), 0, 255).astype(np.uint8)).save(path)


def gaussian(level):
    radius = int(4 * level + 0.5)  # as scipy.ndimage.gaussian_filter
    taps = np.exp(-0.5 * (np.arange(-radius, radius + 1) / level) ** 2)
    kernel = np.outer(taps, taps)
    return kernel / kernel.sum()


def padded(image, kernel, restore):
    """Restores with the image mirrored beyond its border, since most methods take it to be periodic or black."""
    pad = 2 * kernel.shape[0]
    wide = np.pad(image, ((pad, pad), (pad, pad), (0, 0)), mode="symmetric")
    return restore(wide)[pad:-pad, pad:-pad]


def degrade(task, truth, out):
    if task["kind"] == "shrink":
        image, factor = Image.open(truth).convert("RGB"), task["factor"]
        image.resize((image.width // factor, image.height // factor), Image.Resampling.BICUBIC).save(out)
        return
    image = read(truth)
    if task["kind"] == "blur":
        image = ndimage.gaussian_filter(image, (task["level"], task["level"], 0), mode="reflect")
    # The same noise whenever the same photograph is degraded the same way.
    seed = zlib.crc32(json.dumps([task, image.shape], sort_keys=True).encode())
    image = image + np.random.default_rng(seed).normal(0, task["noise"] / 255, image.shape)
    write(out, image)


try:
    import skimage
    from skimage import restoration

    VERSIONS["scikit-image"] = skimage.__version__

    def by_channel(image, method):
        return np.stack([method(image[..., c]) for c in range(3)], -1)

    def best(image, candidates):
        """What explains the degraded image to within its noise (Morozov's discrepancy principle), else the closest to that."""
        results = [(abs(misfit - 1), restored) for misfit, restored in candidates]
        return min(results, key=lambda result: result[0])[1]

    def blurred(image, level):
        return ndimage.gaussian_filter(image, (level, level, 0), mode="reflect")

    def wiener(image, task):
        kernel = gaussian(task["level"])

        def solve(balance):
            return padded(image, kernel, lambda wide: by_channel(wide, lambda c: restoration.wiener(c, kernel, balance)))

        return chosen(image, task, solve, np.geomspace(1e-4, 10, 11))

    def richardson_lucy(image, task):
        kernel = gaussian(task["level"])

        def solve(steps):
            def method(channel):
                return restoration.richardson_lucy(channel, kernel, num_iter=int(steps), filter_epsilon=1e-6)

            return padded(image, kernel, lambda wide: by_channel(wide, method))

        return chosen(image, task, solve, [4, 8, 16, 32, 64])

    def chosen(image, task, solve, strengths):
        """The strength by the discrepancy principle, as one who knows the noise would choose it."""
        noise = task["noise"] / 255

        def candidate(strength):
            restored = solve(strength)
            return np.sqrt(np.mean((blurred(restored, task["level"]) - image) ** 2)) / noise, restored

        return best(image, [candidate(strength) for strength in strengths])

    def total_variation(image, task):
        noise = task["noise"] / 255
        if task["kind"] == "noise":
            # 1.2 of the noise is near the best weight of all for photographs.
            return restoration.denoise_tv_chambolle(image, weight=1.2 * noise, channel_axis=-1, max_num_iter=200)
        # Least squares with total variation by forward-backward splitting; the data term's slope is at most 1.
        restored, weight = image.copy(), 0.3 * noise * noise / 0.01
        for _ in range(60):
            gradient = blurred(blurred(restored, task["level"]) - image, task["level"])
            restored = restoration.denoise_tv_chambolle(restored - gradient, weight=weight, channel_axis=-1, max_num_iter=20)
        return restored

    def nonlocal_means(image, task):
        noise = task["noise"] / 255
        return restoration.denoise_nl_means(
            image, patch_size=5, patch_distance=9, h=0.6 * noise, sigma=noise, fast_mode=True, channel_axis=-1
        )

    METHODS.update({"wiener": wiener, "richardson-lucy": richardson_lucy, "tv": total_variation, "nlm": nonlocal_means})
except ImportError as error:
    for name in ("wiener", "richardson-lucy", "tv", "nlm"):
        MISSING[name] = f"{error}: pip install scikit-image"

try:
    import bm3d
    from importlib.metadata import version

    VERSIONS["bm3d"] = version("bm3d")

    def block_matching(image, task):
        return bm3d.bm3d_rgb(image, task["noise"] / 255)

    METHODS["bm3d"] = block_matching
except ImportError as error:
    MISSING["bm3d"] = f"{error}: pip install bm3d"


def bicubic(path, task):
    image = Image.open(path)
    size = (image.width * task["factor"], image.height * task["factor"])
    return np.asarray(image.resize(size, Image.Resampling.BICUBIC), dtype=np.float64) / 255


METHODS["bicubic"] = bicubic


def answer(request):
    if "degrade" in request:
        degrade(request["degrade"], request["truth"], request["out"])
        return {}
    task, start = request["task"], time.perf_counter()
    try:
        if request["restore"] == "bicubic":
            restored = bicubic(request["image"], task)
        else:
            restored = METHODS[request["restore"]](read(request["image"]), task)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    seconds = time.perf_counter() - start
    write(request["out"], restored)
    return {"seconds": seconds}


kinds = {name: KINDS[name] for name in METHODS}
print(json.dumps({"methods": kinds, "missing": MISSING, "versions": VERSIONS}), flush=True)
for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
