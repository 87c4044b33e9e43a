import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import softdiff

from conftest import TINY


def test_training_in_memory_gives_a_model(run):
    assert run.step == 4 and run.from_step == 0 and run.out is None
    model = run.model
    assert model.shape == (28, 28, 1) and model.step == 4
    assert model.schedule.knots[-1] == 4
    assert model.sample([0, 1], steps=2, progress=False).shape == (2, 28, 28, 1)


def test_the_same_training_gives_the_same_model(run, fashion):
    again = softdiff.train(images=fashion, corruption=softdiff.Blur(4), steps=4, batch=8, set=TINY, progress=False)
    samples = [one.model.sample([5], steps=2, dtype=float, progress=False) for one in (run, again)]
    assert np.array_equal(*samples)


def test_floats_train_as_their_bytes(run, fashion):
    floats = softdiff.train(
        images=fashion / 255, corruption=softdiff.Blur(4), steps=4, batch=8, set=TINY, progress=False
    )
    samples = [one.model.sample([5], steps=2, progress=False) for one in (run, floats)]
    assert np.array_equal(*samples)


@pytest.mark.parametrize(
    "corruption",
    [
        softdiff.Masking("rows"),
        softdiff.Custom(kernel=np.full((3, 3), 1 / 9)),
        softdiff.Custom(function=lambda image: 0.5 * image[::-1]),
        softdiff.Composed((softdiff.Blur(2), 0, 0.7), (softdiff.Masking(), 0.3, 1)),
    ],
    ids=["masking", "kernel", "function", "composed"],
)
def test_any_corruption_can_be_trained(fashion, corruption):
    images = fashion[:64, 6:22:2, 6:22:2]
    run = softdiff.train(images=images, corruption=corruption, steps=2, batch=4, set=TINY, progress=False)
    assert run.model.sample([0], steps=2, progress=False).shape == (1, 8, 8, 1)


def test_a_path_can_be_trained(fashion):
    path = softdiff.Path.variance_exploding((28, 28, 1), largest=20)
    settings = {"network.channels": 8}
    run = softdiff.train(images=fashion[:16], path=path, steps=2, batch=4, set=settings, progress=False)
    assert run.model.path.sigma(1) == pytest.approx(20)


def test_a_recipe_trains_in_a_folder_and_continues(tmp_path, fashion):
    out, settings = tmp_path / "run", {**TINY, "train.batch": 8, "train.log_every": 2, "preview": None}
    events = []
    first = softdiff.train(
        "quickstart", out=out, steps=4, set=settings, images=fashion, callback=events.append, progress=False
    )
    assert first.out == out and first.step == 4
    steps = [event for event in events if event["event"] == "step"]
    assert [event["step"] for event in steps] == [2, 4]
    assert all(np.isfinite(event["loss"]) for event in steps)
    assert {"note", "started", "checkpoint"} <= {event["event"] for event in events}
    opened = softdiff.load(out, device="cpu")
    assert np.array_equal(
        opened.sample([1], steps=2, progress=False), first.model.sample([1], steps=2, progress=False)
    )
    assert softdiff.load(out, checkpoint="last").step == softdiff.load(out, checkpoint=4).step == 4


def test_a_model_can_be_exported(tmp_path, run):
    run.model.export(tmp_path / "model")
    opened = softdiff.load(tmp_path / "model", device="cpu")
    assert np.array_equal(opened.sample([1], steps=2, progress=False), run.model.sample([1], steps=2, progress=False))


def test_an_exception_of_the_callback_ends_the_training_and_is_raised(tmp_path, fashion):
    def callback(event):
        if event["event"] == "step":
            raise LookupError("enough")

    settings = {**TINY, "train.log_every": 1, "preview": None}
    with pytest.raises(LookupError, match="enough"):
        softdiff.train(
            "quickstart", out=tmp_path / "run", images=fashion, steps=500, set=settings, callback=callback, progress=False
        )
    assert softdiff.load(tmp_path / "run").step < 10


INTERRUPTED = """
import sys, softdiff
images = softdiff.read_images("embedded:fashion-mnist", limit=64, progress=False)
def callback(event):
    if event["event"] == "step":
        print("training", flush=True)
try:
    softdiff.train(images=images, corruption=softdiff.Blur(4), out=sys.argv[1], steps=100_000, batch=4, callback=callback,
                   set={"network.channels": 8, "schedule.knots": 8, "schedule.candidates": 16, "train.log_every": 1})
except KeyboardInterrupt as interrupt:
    print("interrupted:", interrupt, flush=True)
"""


def started(program, argument):
    """A Python process that heeds Ctrl-C, also where the tests run in the background of a shell, which ignores it."""
    heed = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    command = [sys.executable, "-c", program, argument]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heed)


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_ctrl_c_saves_a_checkpoint_and_the_same_call_continues(tmp_path):
    out = tmp_path / "run"
    process = started(INTERRUPTED, out)
    assert process.stdout.readline() == "training\n"
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    said = said.splitlines()[-1]
    assert process.returncode == 0
    assert said.startswith("interrupted: stopped by Ctrl-C at step ") and said.endswith("the same call continues")
    step = int(said.split("at step ")[1].split(";")[0])
    assert softdiff.load(out).step == step > 0


SAMPLING = """
import softdiff, sys
model = softdiff.load(sys.argv[1], device="cpu")
print("sampling", flush=True)
try:
    model.sample(range(64), steps=1000, progress=False)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_ctrl_c_ends_sampling_soon(tmp_path, run):
    run.model.export(tmp_path / "model")
    process = started(SAMPLING, tmp_path / "model")
    assert process.stdout.readline() == "sampling\n"
    time.sleep(0.5)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert said == "interrupted\n"
    assert time.monotonic() - begun < 20


def test_what_does_not_go_together_is_said(fashion):
    path = softdiff.Path.variance_exploding((28, 28, 1))
    for arguments, message in [
        (dict(), "give a recipe"),
        (dict(recipe="quickstart", corruption="blur"), "a recipe has its own path"),
        (dict(images=fashion, corruption="blur", path=path), "corruption or path, not both"),
        (dict(recipe="quickstart", set=["train.steps=2"]), "set is no dict"),
    ]:
        with pytest.raises(TypeError, match=message):
            softdiff.train(**arguments)


def test_mistakes_in_a_recipe_are_errors_with_their_place():
    with pytest.raises(softdiff.Error, match="train.stepz"):
        softdiff.train("quickstart", set={"train.stepz": 3}, progress=False)
    with pytest.raises(softdiff.Error, match="quickstat"):
        softdiff.train("quickstat", progress=False)
    with pytest.raises(softdiff.Error) as error:
        softdiff.load("no-such-model")
    assert error.value.hint == "give a run's folder, one of its checkpoints, or an exported model"
    with pytest.raises(softdiff.Error):
        softdiff.load("no-such-model", device="tpu")
