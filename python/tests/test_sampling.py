import json
import subprocess
import threading

import numpy as np
import pytest

import softdiff

from conftest import MODEL, program


@pytest.mark.parametrize("sampler", ["momentum", "heun"])
def test_samples_are_the_bytes_of_the_command_line(model, tmp_path, sampler):
    seeds, out = [3, 7, 2**40 + 5], tmp_path / "images.npz"
    images = model.sample(seeds, steps=4, sampler=sampler, progress=False)
    arguments = ["sample", MODEL, "--seeds", ",".join(map(str, seeds)), "--steps", "4", "--sampler", sampler]
    subprocess.run([program(), *arguments, "--device", "cpu", "--out", out], check=True)
    stored = np.load(out)
    # The name that the evaluator of guided-diffusion (ADM) reads; every member is an array.
    assert stored.files == ["arr_0", "dataset_json"] and all(stored[name].dtype == np.uint8 for name in stored)
    assert json.loads(bytes(stored["dataset_json"]))["origin"]["made"]["sampler"] == sampler
    expected = stored["arr_0"]
    assert images.dtype == np.uint8 and images.shape == (3, 32, 32, 3)
    assert np.array_equal(images, expected)


def test_an_image_depends_on_its_own_seed_alone(model):
    both = model.sample([1, 2], steps=2, progress=False)
    assert np.array_equal(both[1], model.sample(2, steps=2, batch=1, progress=False)[0])
    assert not np.array_equal(both[0], both[1])


def test_floats_round_to_the_bytes(model):
    values = model.sample([5], steps=2, dtype=np.float64, progress=False)
    assert values.dtype == np.float64
    rounded = np.floor(np.clip(values, 0, 1) * 255 + 0.5).astype(np.uint8)
    assert np.array_equal(rounded, model.sample([5], steps=2, progress=False))


def test_options_of_the_recipe_can_be_set(model):
    set_by_name = model.sample([0], set={"sample.steps": 2, "sample.sampler": "naive"}, progress=False)
    assert np.array_equal(set_by_name, model.sample([0], steps=2, sampler="naive", progress=False))


def test_denoise_steps_end_with_the_sample(model):
    steps = list(model.denoise_steps(seed=3, steps=4))
    times = [t for t, _, _ in steps]
    assert times == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert all(xt.shape == x0_hat.shape == (32, 32, 3) for _, xt, x0_hat in steps)
    assert np.array_equal(steps[0][1], model.starts([3])[0])
    # The last step of this model returns the clean prediction.
    assert np.array_equal(steps[-1][1], steps[-2][2])
    assert np.array_equal(steps[-1][1], model.sample([3], steps=4, dtype=float, progress=False)[0])


def test_denoise_steps_of_several_seeds_and_what_a_step_predicts(model):
    alone = {"sample.guidance": 1}
    t, xt, x0_hat = next(iter(model.denoise_steps(seeds=[0, 1], steps=3, set=alone)))
    assert xt.shape == (2, 32, 32, 3)
    assert np.array_equal(model.denoise(xt, t), x0_hat)
    assert np.array_equal(model(xt[0], t), x0_hat[0])
    _, same, guided = next(iter(model.denoise_steps(seeds=[0, 1], steps=3)))
    assert np.array_equal(same, xt) and not np.array_equal(guided, x0_hat)


def test_a_model_is_guided_by_a_weaker_one(model, run, tmp_path):
    run.model.export(tmp_path / "tiny")
    tiny = softdiff.load(tmp_path / "tiny", device="cpu", guide=tmp_path / "tiny")
    plain, guided = (
        tiny.sample([1, 2], steps=3, sampler="heun", set={"sample.guidance": factor}, dtype=float, progress=False)
        for factor in (1, 3)
    )
    # Nothing lies between a model and itself.
    assert np.allclose(plain, guided, atol=1e-3)
    with pytest.raises(softdiff.Error, match="cannot guide"):
        softdiff.load(MODEL, device="cpu", guide=tmp_path / "tiny")
    with pytest.raises(softdiff.Error, match="has no guide"):
        softdiff.load(tmp_path / "tiny", device="cpu").sample([1], steps=2, set={"sample.guidance": 2}, progress=False)


def test_a_function_of_python_is_a_denoiser():
    # All images are one image, so it is the exact denoiser, and the only sample.
    path = softdiff.Path.variance_exploding((4, 4, 1), largest=10)
    image = np.linspace(0, 1, 16).reshape(4, 4, 1)
    calls = []

    def denoiser(xt, t):
        calls.append((xt.shape, t, threading.current_thread() is threading.main_thread()))
        return np.broadcast_to(image, xt.shape)

    for sampler in ["momentum", "heun", "naive"]:
        found = softdiff.sample(denoiser, path, range(3), steps=5, sampler=sampler, dtype=float, progress=False)
        assert found.shape == (3, 4, 4, 1)
        assert np.allclose(found, image)
    assert all(shape == (3, 4, 4, 1) and in_main for shape, _, in_main in calls)
    assert calls[0][1] == 1.0


def test_the_exact_denoiser_of_a_gaussian_draws_its_deviation():
    # x0 ~ N(0.5, 0.1^2): E[x0 | x_t] in closed form for the path x_t = x0 + sigma noise.
    path = softdiff.Path.variance_exploding((1, 1, 1), smallest=0.001, largest=5)

    def denoiser(xt, t):
        share = 0.1**2 / (0.1**2 + path.sigma(t) ** 2)
        return 0.5 + share * (xt - 0.5)

    found = softdiff.sample(denoiser, path, range(4000), steps=200, batch=4000, dtype=float, progress=False)
    assert abs(found.mean() - 0.5) < 0.01
    assert abs(found.std() - 0.1) < 0.01


def test_a_model_as_denoiser_samples_as_it_does_itself(model):
    start = model.starts([4, 9])
    found = softdiff.sample(model, model.path, [4, 9], steps=3, start=start, progress=False)
    alone = {"sample.guidance": 1}
    assert np.array_equal(found, model.sample([4, 9], steps=3, sampler="momentum", set=alone, progress=False))


def test_an_exception_of_the_denoiser_is_raised():
    path = softdiff.Path.variance_exploding((4, 4, 1))
    with pytest.raises(ZeroDivisionError):
        softdiff.sample(lambda xt, t: 1 / 0, path, [0], steps=3, progress=False)
    with pytest.raises(ValueError, match=r"the denoiser's answer has the shape \[2\]"):
        softdiff.sample(lambda xt, t: np.zeros(2), path, [0], steps=3, progress=False)


def test_the_gil_is_released(model):
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = counted[0]
        model.sample([0, 1], steps=3, progress=False)
        assert counted[0] - before > 1000
    finally:
        done.set()
        thread.join()


def test_seeds_that_are_none():
    path = softdiff.Path.variance_exploding((4, 4, 1))
    for seeds in [[-1], ["a"], [1.5], []]:
        with pytest.raises(ValueError, match="seed"):
            softdiff.sample(lambda xt, t: xt, path, seeds, progress=False)
