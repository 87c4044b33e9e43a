import numpy as np
import pytest

import softdiff

from conftest import MODEL, ROOT

ASTRONAUT = ROOT / "crates" / "softdiff" / "tests" / "golden" / "blurred"


def psnr(a, b):
    return -10 * np.log10(np.mean((np.asarray(a, float) - b) ** 2))


def test_a_blurred_image_is_deblurred(model):
    truth = softdiff.read_images(ASTRONAUT / "astronaut.png")[0] / 255
    seen = softdiff.corrupt(truth, softdiff.Blur(boundary="reflect"), level=1.5)
    result = model.restore(seen, task="deblur", level=1.5, seeds=range(2), steps=10, progress=False)
    assert result.mean.shape == result.std.shape == (32, 32, 3)
    assert result.samples.shape == (2, 32, 32, 3)
    assert np.allclose(result.samples.mean(axis=0), result.mean)
    assert np.allclose(result.samples.std(axis=0, ddof=1), result.std)
    assert result.image.dtype == np.uint8
    assert result.task == "deblur" and result.level == 1.5 and result.warning is None
    assert result.misfit < 3
    assert psnr(result.mean, truth) > psnr(seen, truth) + 2


def test_files_and_arrays_are_restored_alike(model):
    file = ASTRONAUT / "astronaut-pillow.png"
    options = dict(level=2, seeds=[0], steps=3, progress=False)
    of_file = model.restore(file, "deblur", **options)
    of_array = model.restore(softdiff.read_images(file)[0], "deblur", **options)
    assert np.array_equal(of_file.mean, of_array.mean)
    # The module's function with a model is the method.
    assert np.array_equal(softdiff.restore(file, "deblur", model=MODEL, device="cpu", **options).mean, of_file.mean)


def test_inpainting_keeps_what_is_known(model, picture):
    mask = np.zeros((32, 32), bool)
    mask[8:16, 8:16] = True
    damaged = picture.copy()
    damaged[mask] = 0
    result = model.restore(damaged, mask=mask, seeds=[0], steps=4, progress=False)
    assert result.task == "inpaint"
    assert np.abs(result.mean - picture)[~mask].max() < 0.05


def test_small_and_grey_images_show_their_task(model, picture):
    small = picture.reshape(8, 4, 8, 4, 3).mean(axis=(1, 3))
    result = model.restore(small, seeds=[0], steps=2, progress=False)
    assert result.task == "super-resolve" and result.mean.shape == (32, 32, 3)
    result = model.restore(picture.mean(axis=-1), seeds=[0], steps=2, progress=False)
    assert result.task == "colourise"


def test_a_kernel_is_what_a_point_became(model, picture):
    kernel = np.full((3, 3), 1 / 9)
    result = model.restore(picture, kernel=kernel, seeds=[0], steps=2, progress=False)
    assert result.task == "deblur" and result.level is None
    with pytest.raises(softdiff.Error) as error:
        model.restore(picture, kernel=2 * kernel)
    assert "sums to 2" in str(error.value) and "divide it by its sum" in error.value.hint


def test_arguments_without_effect_are_refused(model, picture):
    for options, message in [
        (dict(task="denoise", level=2), "level has no effect"),
        (dict(task="deblur", mask=np.ones((32, 32))), "mask has no effect"),
        (dict(task="inpaint"), "needs a mask"),
        (dict(quality="best"), "quality has no effect"),
    ]:
        with pytest.raises(TypeError, match=message):
            model.restore(picture, **options)


def test_hints_name_arguments_of_python(model, picture):
    with pytest.raises(softdiff.Error) as error:
        model.restore(picture, "deblur", corruption="motion")
    assert error.value.hint == "give level=, in pixels"
    assert str(error.value).endswith("\nhint: give level=, in pixels")
    with pytest.raises(softdiff.Error, match="24x40 pixels"):
        model.restore(np.zeros((40, 24, 3), np.uint8), "deblur")


def test_without_a_model_for_photographs_the_error_says_so(monkeypatch, tmp_path, picture):
    monkeypatch.setenv("SOFTDIFF_PHOTO_MODEL", "")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(softdiff.Error, match="no model for photographs") as error:
        softdiff.restore(picture)
    assert "SOFTDIFF_PHOTO_MODEL" in error.value.hint


def test_a_photograph_of_any_size_is_restored_with_the_model_for_photographs(monkeypatch):
    monkeypatch.setenv("SOFTDIFF_PHOTO_MODEL", str(ROOT / "models" / "photos"))
    truth = softdiff.read_images(ROOT / "docs" / "images" / "astronaut-blurred.png")[0][200:300, 50:200] / 255
    noisy = truth + np.random.default_rng(0).normal(0, 0.1, truth.shape)
    result = softdiff.restore(np.clip(noisy, 0, 1), "denoise", noise=0.1, device="cpu", progress=False)
    assert result.mean.shape == (100, 150, 3) and result.samples.shape == (0, 100, 150, 3)
    assert psnr(result.mean, truth) > psnr(noisy, truth) + 8
