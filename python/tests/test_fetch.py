import pytest

import softdiff


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """An empty data folder, and a server that does not answer."""
    monkeypatch.setenv("SOFTDIFF_DATA", str(tmp_path))
    monkeypatch.setenv("SOFTDIFF_MIRROR", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "*")


def test_without_a_network_the_hint_says_which_files_to_put_where(tmp_path):
    with pytest.raises(softdiff.Error, match="cannot fetch http://127.0.0.1:1/mnist/") as error:
        softdiff.fetch("mnist", progress=False)
    assert str(tmp_path / "mnist" / "train-images-idx3-ubyte.gz") in error.value.hint
    with pytest.raises(softdiff.Error) as error:
        softdiff.fetch("cifar")
    assert error.value.hint.startswith("did you mean cifar10?")


def test_data_that_is_not_here_names_the_call_that_fetches_it(tmp_path):
    with pytest.raises(softdiff.Error) as error:
        softdiff.read_images("cifar10", progress=False)
    assert error.value.hint == 'softdiff.fetch("cifar10")'
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for name in ["test_batch"] + [f"data_batch_{number}" for number in range(1, 6)]:
        (folder / f"{name}.bin").write_bytes(bytes(3073))
    assert softdiff.read_images("cifar10", progress=False).shape == (6, 32, 32, 3)
