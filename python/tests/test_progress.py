import io
import sys
import time
import types

import pytest

import softdiff
from softdiff import _progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def stderr(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(_progress, "sys", types.SimpleNamespace(stderr=terminal))
    monkeypatch.setattr(_progress, "SILENCE", 0.0)
    return terminal


def test_without_tqdm_a_line_rewrites_itself_and_is_gone_at_the_end(stderr, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    bar = _progress.Bar()
    bar.update("sampling", "images", 0, 8)
    time.sleep(0.15)
    bar.update("sampling", "images", 2, 8, "loss 0.5")
    assert "\rsampling: 2 of 8 images, 25 %" in stderr.getvalue() and "loss 0.5" in stderr.getvalue()
    bar.close()
    assert stderr.getvalue().endswith(" \r")
    written = stderr.getvalue()
    bar.close()
    assert stderr.getvalue() == written


def test_a_short_task_shows_nothing(stderr, monkeypatch):
    monkeypatch.setattr(_progress, "SILENCE", 5.0)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    bar = _progress.Bar()
    for done in range(9):
        bar.update("sampling", "images", done, 8)
    bar.close()
    assert stderr.getvalue() == ""


def test_work_is_shown_and_can_be_kept_quiet(stderr, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    path = softdiff.Path.variance_exploding((2, 2, 1))

    def slow(xt, t):
        time.sleep(0.15)
        return xt

    softdiff.sample(slow, path, [0, 1, 2], steps=2, batch=1, progress=False)
    assert stderr.getvalue() == ""
    softdiff.sample(slow, path, [0, 1, 2], steps=2, batch=1)
    assert "sampling: 1 of 3 images" in stderr.getvalue()


def test_with_tqdm_it_is_a_bar(stderr, capsys):
    pytest.importorskip("tqdm")
    bar = _progress.Bar()
    bar.update("training", "steps", 1, 4, "loss 0.5")
    time.sleep(0.15)
    bar.update("training", "steps", 3, 4)
    bar.close()
    shown = capsys.readouterr().err
    assert "training" in shown and "3/4" in shown and "loss 0.5" in shown
