"""Diffusion models whose corruption is any linear path: x_t = C_t x_0 + sigma_t noise.

    import softdiff

    model = softdiff.load("models/cifar10-small")
    images = model.sample(seeds=range(16))                  # uint8 array [16, 32, 32, 3]
    result = model.restore(blurred, task="deblur")          # .mean, .std, .samples, .misfit
    run = softdiff.train("quickstart", out="runs/first")    # progress bar; Ctrl-C saves, the same call continues

Images are NumPy arrays: uint8, or floats from 0 to 1; [n, height, width, channels], [height, width, channels],
[n, height, width] or [height, width]. What softdiff cannot do raises `softdiff.Error`, whose `hint` says what to do.
"""

from ._softdiff import (
    Corruption,
    DenoiseSteps,
    Error,
    Model,
    Path,
    Restored,
    Run,
    Schedule,
    __version__,
    corrupt,
    evaluate,
    fetch,
    fid,
    load,
    read_images,
    sample,
    schedule,
    train,
)
from ._softdiff import photo_model as _photo_model
from .corruptions import (
    Blur,
    Composed,
    Custom,
    Decolourisation,
    Fading,
    Heat,
    Masking,
    Motion,
    Pixelation,
)

__all__ = [
    "Blur",
    "Composed",
    "Corruption",
    "Custom",
    "Decolourisation",
    "DenoiseSteps",
    "Error",
    "Fading",
    "Heat",
    "Masking",
    "Model",
    "Motion",
    "Path",
    "Pixelation",
    "Restored",
    "Run",
    "Schedule",
    "__version__",
    "corrupt",
    "evaluate",
    "fetch",
    "fid",
    "load",
    "read_images",
    "restore",
    "sample",
    "schedule",
    "train",
]


def restore(photo, task=None, *, model=None, device="auto", **options):
    """Restores a photograph of any size: `load(model).restore(photo, task, ...)`.

    Args:
        photo: a file, or an array [height, width, channels] or [height, width].
        task: as of `Model.restore`.
        model: by default the model for photographs: the one that the environment variable SOFTDIFF_PHOTO_MODEL names, or
            models/photos in the current folder, or the one inside the package.
        device: as of `load`.
        options: as of `Model.restore`.
    """
    return load(_photo_model() if model is None else model, device=device).restore(photo, task, **options)
