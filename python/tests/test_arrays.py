"""What arrays are taken, and what comes back."""

import numpy as np
import pytest

import softdiff


def test_bytes_give_bytes_and_floats_floats(fashion):
    one = fashion[0]
    blurred = softdiff.corrupt(one, "blur", level=2.0)
    assert blurred.dtype == np.uint8 and blurred.shape == (28, 28, 1)
    values = softdiff.corrupt(one / 255, "blur", level=2.0)
    assert values.dtype == np.float64
    assert np.abs(values - blurred / 255).max() <= 0.5 / 255 + 1e-12
    half = softdiff.corrupt((one / 255).astype(np.float32), "blur", level=2.0)
    assert np.allclose(half, values, atol=1e-6)


def test_all_shapes_of_images_are_the_same_images(fashion):
    batch = softdiff.corrupt(fashion[:3], "blur", level=1.0)
    assert np.array_equal(softdiff.corrupt(fashion[:3, :, :, 0], "blur", level=1.0), batch[..., 0])
    assert np.array_equal(softdiff.corrupt(fashion[1, :, :, 0], "blur", level=1.0), batch[1, ..., 0])
    assert np.array_equal(softdiff.corrupt(fashion[1], "blur", level=1.0), batch[1])


def test_arrays_may_be_read_only_or_not_contiguous(fashion):
    expected = softdiff.corrupt(np.ascontiguousarray(fashion[6::-2]), "blur", level=1.0)
    view = fashion[6::-2]
    assert not view.flags.c_contiguous
    assert np.array_equal(softdiff.corrupt(view, "blur", level=1.0), expected)
    frozen = fashion[6::-2].copy()
    frozen.flags.writeable = False
    assert np.array_equal(softdiff.corrupt(frozen, "blur", level=1.0), expected)
    assert np.array_equal(softdiff.corrupt(np.asfortranarray(view), "blur", level=1.0), expected)
    swapped = (view / 255).astype(">f8")
    assert np.allclose(softdiff.corrupt(swapped, "blur", level=1.0) * 255, expected, atol=0.51)


def test_lists_are_arrays_too():
    assert softdiff.corrupt([[0.0, 1.0], [1.0, 0.0]], "fading", level=0.5).tolist() == [[0.0, 0.5], [0.5, 0.0]]


@pytest.mark.parametrize(
    "images, error, message",
    [
        (np.zeros((2, 3, 8, 8)), ValueError, r"transpose\(0, 2, 3, 1\)"),
        (np.zeros((2, 8, 8, 4)), ValueError, r"drop it by \[\.\.\., :3\]"),
        (np.zeros((2, 8, 8, 2)), ValueError, "no channels"),
        (np.zeros(8), ValueError, "no array of images"),
        (np.zeros((0, 0)), ValueError, "without pixels"),
        (np.zeros((8, 8), np.int64), TypeError, "is of int64; give uint8"),
        (np.zeros((8, 8), complex), TypeError, "is of complex128"),
        (np.full((8, 8), 200.0), ValueError, "floats from 200 to 200; give uint8, or floats from 0 to 1"),
        (np.full((8, 8), -1.0), ValueError, r"x / 2 \+ 0.5"),
        (np.full((8, 8), np.nan), ValueError, "contains NaN"),
        ({"a": 1}, TypeError, "images is dict, not an array"),
        (None, TypeError, "images is NoneType, not an array"),
    ],
)
def test_what_are_no_images_is_said(images, error, message):
    with pytest.raises(error, match=message):
        softdiff.corrupt(images, "blur", level=1.0)


def test_results_can_be_written_to(model):
    images = model.sample([0], steps=1, progress=False)
    images[:] = 7
    assert images.flags.writeable and images.flags.c_contiguous


def test_images_are_read_from_files(fashion):
    assert fashion.dtype == np.uint8 and fashion.shape == (256, 28, 28, 1)
    test = softdiff.read_images("embedded:fashion-mnist", split="test", limit=10, progress=False)
    assert test.shape == (10, 28, 28, 1) and not np.array_equal(test, fashion[:10])
    small = softdiff.read_images("embedded:fashion-mnist", size=14, channels=3, limit=2, progress=False)
    assert small.shape == (2, 14, 14, 3)
