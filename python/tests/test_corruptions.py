import numpy as np
import pytest

import softdiff


def test_every_corruption_begins_with_the_image():
    rng = np.random.default_rng(0)
    image = rng.random((8, 8, 3))
    for name in ["Blur", "Heat", "Masking", "Pixelation", "Fading", "Decolourisation", "Motion"]:
        corruption = getattr(softdiff, name)()
        assert isinstance(corruption, softdiff.Corruption)
        clean, full = corruption.levels(image.shape)
        assert np.allclose(softdiff.corrupt(image, corruption, level=clean), image), name
        assert not np.allclose(softdiff.corrupt(image, corruption, level=full), image), name
        assert np.allclose(softdiff.corrupt(image, name.lower()), softdiff.corrupt(image, corruption, level=full))


def test_parameters_are_those_of_the_registry():
    image = np.zeros((9, 9, 1))
    image[4, 4] = 1
    down = softdiff.corrupt(image, softdiff.Motion(5, direction="vertical"), level=5)
    assert down[:, 4].sum() == pytest.approx(1) and down[4].sum() < 0.5
    with pytest.raises(ValueError, match="direction is 'up'; give one of horizontal, vertical"):
        softdiff.Motion(5, direction="up")
    with pytest.raises(ValueError, match="largest is -1; give a number of pixels above 0"):
        softdiff.Blur(-1)
    with pytest.raises(TypeError, match="'fading' has no parameter largest"):
        softdiff.Corruption("fading", largest=3)


def test_names_and_levels_that_do_not_exist_have_hints():
    image = np.zeros((8, 8))
    with pytest.raises(softdiff.Error, match="there is no corruption 'blurr'") as error:
        softdiff.corrupt(image, "blurr")
    assert "did you mean blur?" in error.value.hint
    with pytest.raises(softdiff.Error) as error:
        softdiff.corrupt(image, softdiff.Blur(3), level=7)
    assert error.value.hint == "give a level from 0 to 3"
    with pytest.raises(TypeError, match="corruption is int"):
        softdiff.corrupt(image, 3)


def test_a_matrix_a_kernel_and_a_function_are_the_same_map():
    rng = np.random.default_rng(1)
    image = rng.random((6, 5, 2))[..., :1]
    kernel = rng.random((3, 3))
    kernel /= kernel.sum()

    def correlate(x):
        padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
        return sum(kernel[a, b] * padded[a : a + 6, b : b + 5] for a in range(3) for b in range(3))

    columns = [correlate(unit.reshape(6, 5, 1)).ravel() for unit in np.eye(30)]
    expected = correlate(image)
    for custom in [
        softdiff.Custom(kernel=kernel),
        softdiff.Custom(np.array(columns).T),
        softdiff.Custom(function=correlate),
    ]:
        assert np.allclose(softdiff.corrupt(image, custom, level=1), expected)
        assert np.allclose(softdiff.corrupt(image, custom, level=0.25), 0.75 * image + 0.25 * expected)


def test_maps_that_are_none_are_refused():
    image = np.zeros((4, 4))
    with pytest.raises(softdiff.Error, match="not linear"):
        softdiff.corrupt(image, softdiff.Custom(function=lambda x: x**2))
    with pytest.raises(ValueError, match=r"makes an array of shape \[2\]"):
        softdiff.corrupt(image, softdiff.Custom(function=lambda x: np.zeros(2)))
    with pytest.raises(softdiff.Error) as error:
        softdiff.corrupt(image, softdiff.Custom(np.eye(3)))
    assert error.value.hint == "it must be 16x16"
    with pytest.raises(TypeError, match="give one of"):
        softdiff.Custom()


def test_compositions_run_each_in_its_part_of_the_way():
    image = np.random.default_rng(2).random((8, 8, 1))
    both = softdiff.Composed((softdiff.Blur(2), 0, 0.5), (softdiff.Fading(), 0.5, 1))
    blurred = softdiff.corrupt(image, softdiff.Blur(2), level=2)
    assert np.allclose(softdiff.corrupt(image, both, level=0.5), blurred)
    assert np.allclose(softdiff.corrupt(image, both, level=1), 0)
    with pytest.raises(softdiff.Error, match="runs from 0.5 until 0.2"):
        softdiff.Composed((softdiff.Blur(2), 0.5, 0.2))


def test_a_path_is_the_equation_of_the_paper():
    shape = (8, 8, 1)
    path = softdiff.Path(shape, softdiff.Blur(2), knots=[0, 1, 2])
    image, noise = np.random.default_rng(3).random((2, 8, 8, 1))
    assert path.shape == shape
    # Noise grows up to t = 0.18, the blur runs through its knots from there.
    assert path.level(0.18) == 0 and path.level(0.59) == pytest.approx(1) and path.level(1) == 2
    assert path.sigma(0) == pytest.approx(0.01) and path.sigma(0.18) == pytest.approx(0.1) == path.sigma(1)
    expected = softdiff.corrupt(image, softdiff.Blur(2), level=path.level(0.7))
    assert np.allclose(path.corrupt(image, 0.7), expected)
    assert np.allclose(path.diffuse(image, 0.7, noise=noise), expected + path.sigma(0.7) * noise)
    assert np.array_equal(path.diffuse(image, 0.7, seed=1), path.diffuse(image, 0.7, seed=1))
    assert not np.array_equal(path.diffuse(image, 0.7, seed=1), path.diffuse(image, 0.7, seed=2))
    with pytest.raises(softdiff.Error, match="time 1.5 is outside") as error:
        path.sigma(1.5)
    assert "from 0 (clean) to 1" in error.value.hint
    with pytest.raises(ValueError, match="images are of 4x4x1, the path is for 8x8x1"):
        path.corrupt(np.zeros((4, 4)), 0.5)
    vp = softdiff.Path.variance_preserving(shape, alpha="cosine")
    assert vp.sigma(1) == pytest.approx(0.5, abs=1e-3)


def test_a_schedule_is_measured_on_images(fashion, tmp_path):
    schedule = softdiff.schedule(fashion, softdiff.Blur(4), knots=8, candidates=32, progress=False)
    knots = schedule.knots
    assert len(knots) == 8 and np.all(np.diff(knots) > 0) and knots[-1] == 4
    assert schedule.path_cost == pytest.approx(schedule.hops.sum())
    assert set(knots) <= set(schedule.candidates)
    file = tmp_path / "schedule.json"
    schedule.save(file)
    assert softdiff.Schedule.read(file).to_json() == schedule.to_json()
    path = softdiff.Path((28, 28, 1), softdiff.Blur(4), knots=schedule)
    assert path.level(1) == 4
    with pytest.raises(softdiff.Error) as error:
        softdiff.schedule(fashion, knots=64, candidates=32, progress=False)
    assert error.value.hint
