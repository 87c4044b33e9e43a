import os

import numpy as np
import pytest

import softdiff


def test_metrics_of_pixels_need_no_network(fashion):
    same = softdiff.evaluate(fashion, fashion, ["sliced-wasserstein", "pairs"], progress=False)
    assert same["sliced_wasserstein"] == pytest.approx(0, abs=1e-9)
    assert same["ssim"] == pytest.approx(1)
    other = softdiff.evaluate(fashion[:100], fashion[100:200], ["sliced-wasserstein"], progress=False)
    assert other["sliced_wasserstein"] > 1e-4


def test_pairs_are_measured_as_defined(fashion):
    noisy = np.clip(fashion[:4].astype(int) + np.random.default_rng(0).integers(-9, 10, fashion[:4].shape), 0, 255)
    found = softdiff.evaluate(noisy.astype(np.uint8), fashion[:4], ["pairs"], progress=False)
    errors = ((noisy - fashion[:4].astype(float)) ** 2).mean(axis=(1, 2, 3))
    assert found["psnr"] == pytest.approx(np.mean(10 * np.log10(255**2 / errors)), abs=1e-6)


def test_fid_says_where_its_network_is_missing(fashion, monkeypatch):
    monkeypatch.setenv("SOFTDIFF_INCEPTION", "")
    with pytest.raises(softdiff.Error) as error:
        softdiff.fid(fashion, fashion)
    assert error.value.hint.startswith('softdiff.fetch("fid-inception")') and "network=" in error.value.hint
    with pytest.raises(softdiff.Error, match='no metric "fit"'):
        softdiff.evaluate(fashion, fashion, ["fit"])
    with pytest.raises(softdiff.Error):
        softdiff.evaluate(fashion, fashion[:, ::2, ::2], ["sliced-wasserstein"], progress=False)


@pytest.mark.skipif("SOFTDIFF_INCEPTION" not in os.environ, reason="SOFTDIFF_INCEPTION names no network")
def test_fid_of_equal_sets_is_zero(fashion):
    assert softdiff.fid(fashion[:16], fashion[:16], progress=False) == pytest.approx(0, abs=1e-3)
    assert softdiff.fid(fashion[:16], 255 - fashion[:16], progress=False) > 10
