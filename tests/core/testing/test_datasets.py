"""Example datasets: found locally, or downloaded where an address is given."""

from __future__ import annotations

import bz2
import gzip
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

import core as mx
from core.errors import MXNetError

PIXELS = np.random.RandomState(0).randint(0, 256, (6, 28, 28)).astype("uint8")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the training digits packed and the test digits plain."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for prefix, suffix in (("train", ".gz"), ("t10k", "")):
        images = struct.pack(">4I", 2051, 6, 28, 28) + PIXELS.tobytes()
        labels = struct.pack(">2I", 2049, 6) + bytes(range(6))
        for name, content in (("images-idx3", images), ("labels-idx1", labels)):
            content = gzip.compress(content) if suffix else content
            (tmp_path / "data" / f"{prefix}-{name}-ubyte{suffix}").write_bytes(content)
    return tmp_path


def test_mnist_is_read_from_the_current_folder(here: Path) -> None:
    mx.test_utils.get_mnist_ubyte()
    digits = mx.test_utils.get_mnist()
    assert digits["train_data"].shape == (6, 1, 28, 28)
    np.testing.assert_allclose(digits["test_data"][:, 0], PIXELS / 255, rtol=1e-6)
    assert digits["test_label"].tolist() == [0, 1, 2, 3, 4, 5]
    train, test = mx.test_utils.get_mnist_iterator(2, (784,))
    assert train.next().data[0].shape == (2, 784)
    assert test.next().label[0].asnumpy().tolist() == [0, 1]


def test_missing_digits_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MXNetError, match="put it, plain or"):
        mx.test_utils.get_mnist()


def test_cifar_is_looked_for_where_scripts_read_it(here: Path) -> None:
    folder = here / "data" / "cifar"
    folder.mkdir()
    for name in ("train.rec", "test.rec", "train.lst"):
        (folder / name).touch()
    with pytest.raises(MXNetError, match=r"data/cifar lacks test\.lst; put CIFAR-10"):
        mx.test_utils.get_cifar10()
    (folder / "test.lst").touch()
    mx.test_utils.get_cifar10()


def test_a_file_is_downloaded_once(tmp_path: Path) -> None:
    source = tmp_path / "source.txt"
    source.write_text("first")
    folder = str(tmp_path / "new")
    path = mx.test_utils.download(source.as_uri(), dirname=folder)
    assert Path(path) == tmp_path / "new" / "source.txt"
    source.write_text("second")
    assert Path(mx.test_utils.download(source.as_uri(), dirname=folder)).read_text() == "first"
    mx.test_utils.download(source.as_uri(), dirname=folder, overwrite=True)
    assert Path(path).read_text() == "second"
    with pytest.raises(OSError, match="absent"):
        mx.test_utils.download((tmp_path / "absent").as_uri(), dirname=folder, retries=1)
    assert sorted(one.name for one in (tmp_path / "new").iterdir()) == ["source.txt"]
    with pytest.raises(AssertionError, match="retries is -1"):
        mx.test_utils.download("x", retries=-1)


def test_archives_are_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.writestr("inner.txt", "content")
    (tmp_path / "b.bz2").write_bytes(bz2.compress(b"1 0:1"))
    for _ in range(2):
        mx.test_utils.get_zip_data(str(tmp_path / "d"), (tmp_path / "a.zip").as_uri(), "a.zip")
        mx.test_utils.get_bz2_data(
            str(tmp_path / "d"), "b.txt", (tmp_path / "b.bz2").as_uri(), "b.bz2"
        )
    assert (tmp_path / "d" / "inner.txt").read_text() == "content"
    assert (tmp_path / "d" / "b.txt").read_text() == "1 0:1"
