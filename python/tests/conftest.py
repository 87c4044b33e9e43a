import os
import pathlib
import subprocess

import numpy as np
import pytest

import softdiff

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "cifar10-small"

# Small enough for two cores: a network of 8 channels, 8 levels.
TINY = {"network.channels": 8, "schedule.knots": 8, "schedule.candidates": 16, "train.warmup": 2}


def program():
    """The command line, built by the same workspace."""
    file = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "softdiff"
    if not file.exists():
        subprocess.run(["cargo", "build", "--release", "-p", "softdiff-cli"], cwd=ROOT, check=True)
    return file


@pytest.fixture(scope="session")
def model():
    return softdiff.load(MODEL, device="cpu")


@pytest.fixture(scope="session")
def fashion():
    """256 images of the embedded Fashion-MNIST, [256, 28, 28, 1]."""
    return softdiff.read_images("embedded:fashion-mnist", limit=256, progress=False)


@pytest.fixture(scope="session")
def run(fashion):
    """A model that is hardly trained, in memory."""
    return softdiff.train(images=fashion, corruption=softdiff.Blur(4), steps=4, batch=8, set=TINY, progress=False)


@pytest.fixture
def picture():
    """A smooth image of 32x32 in colour."""
    y, x = np.mgrid[0:32, 0:32] / 31
    return np.stack([0.2 + 0.6 * x, 0.3 + 0.5 * y, 0.5 + 0.3 * np.sin(6 * x) * np.cos(5 * y)], axis=-1)
