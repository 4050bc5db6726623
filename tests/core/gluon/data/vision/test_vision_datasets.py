"""Image datasets: reading their files, and errors where files are missing."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

import core as mx
from core.errors import FormatError, MXNetError, ShapeError, UsageError
from core.gluon.data import vision
from oracle.topics import gluon_data
from oracle.topics.images import png

RECORD = 3 * 32 * 32


def cifar(count: int, labels: int, seed: int) -> np.ndarray:
    return np.random.RandomState(seed).randint(0, 256, (count, labels + RECORD)).astype("uint8")


def write_archive(path: Path, folder: str, parts: dict[str, np.ndarray]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, rows in parts.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = rows.nbytes
            archive.addfile(member, io.BytesIO(rows.tobytes()))


def check_rows(dataset: vision.CIFAR10, rows: np.ndarray, labels: int, which: int) -> None:
    assert len(dataset) == len(rows)
    for place, row in enumerate(rows):
        image, label = dataset[place]
        assert image.dtype == np.uint8
        expected = row[labels:].reshape(3, 32, 32).transpose(1, 2, 0)
        np.testing.assert_array_equal(image.asnumpy(), expected)
        assert label == row[which]
        assert label.dtype == np.int32


def test_cifar10_is_read_from_files_folder_or_archive(tmp_path: Path) -> None:
    parts = {f"data_batch_{k}.bin": cifar(2, 1, k) for k in range(1, 6)}
    rows = np.concatenate(list(parts.values()))
    write_archive(tmp_path / "cifar-10-binary.tar.gz", "cifar-10-batches-bin", parts)
    check_rows(vision.CIFAR10(str(tmp_path)), rows, 1, 0)
    with pytest.raises(FormatError, match=r"tar\.gz has no test_batch\.bin"):
        vision.CIFAR10(str(tmp_path), train=False)
    (tmp_path / "cifar-10-batches-bin").mkdir()
    test = cifar(1, 1, 9)
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(test.tobytes())
    check_rows(vision.CIFAR10(str(tmp_path), train=False), test, 1, 0)
    (tmp_path / "test_batch.bin").write_bytes(test.tobytes()[:-1])
    with pytest.raises(FormatError, match=r"test_batch\.bin has 3072 bytes; .* multiple of 3073"):
        vision.CIFAR10(str(tmp_path), train=False)


def test_cifar100_has_coarse_and_fine_labels(tmp_path: Path) -> None:
    rows = cifar(3, 2, 0)
    (tmp_path / "train.bin").write_bytes(rows.tobytes())
    check_rows(vision.CIFAR100(str(tmp_path)), rows, 2, 0)
    check_rows(vision.CIFAR100(str(tmp_path), fine_label=True), rows, 2, 1)


def test_missing_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gluon_data.write_mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    assert len(vision.MNIST(str(tmp_path))) == 3
    with pytest.raises(MXNetError) as caught:
        vision.MNIST(str(tmp_path), train=False)
    assert str(caught.value) == (
        f"{tmp_path} lacks t10k-labels-idx1-ubyte.gz. Nothing is downloaded: put these files "
        "there, or give their folder as root=."
    )
    monkeypatch.setenv("MXNET_HOME", str(tmp_path / "home"))
    with pytest.raises(MXNetError, match="home/datasets/fashion-mnist lacks train-images-idx3"):
        vision.FashionMNIST()
    with pytest.raises(MXNetError, match=r"or the archive cifar-100-binary\.tar\.gz with them"):
        vision.CIFAR100()


def test_unpacked_and_damaged_digits(tmp_path: Path) -> None:
    gluon_data.write_mnist(tmp_path)
    packed = tmp_path / "train-images-idx3-ubyte.gz"
    (tmp_path / "train-images-idx3-ubyte").write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    digits = vision.MNIST(str(tmp_path), transform=lambda image, label: (image.shape, label))
    assert [shape for shape, _ in digits] == [(28, 28, 1)] * 3  # type: ignore[attr-defined]
    gluon_data.write_mnist(tmp_path, count=2)
    (tmp_path / "train-images-idx3-ubyte.gz").unlink()
    with pytest.raises(ShapeError, match=r"has 3 images, .* has 2 labels"):
        vision.MNIST(str(tmp_path))


def test_image_folders_warn_about_skipped_files(tmp_path: Path) -> None:
    gluon_data.write_folder(tmp_path)
    with pytest.warns(UserWarning, match="Ignoring") as caught:
        dataset = vision.ImageFolderDataset(str(tmp_path), transform=lambda image, label: label)
    assert sorted(str(one.message).partition(str(tmp_path))[2] for one in caught) == [
        "/ant/read.me of type .me. Only support .jpg, .jpeg, .png",
        "/labels.txt, which is not a directory.",
    ]
    assert dataset.synsets == ["ant", "cat"]
    assert [dataset[place] for place in range(3)] == [0, 1, 1]
    with pytest.raises(MXNetError, match="nowhere cannot be read"):
        vision.ImageFolderDataset(str(tmp_path / "nowhere"))


def test_image_list_dataset_reads_files_and_labels(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"{number}.png").write_bytes(png(gluon_data.image(number)))
    (tmp_path / "all.lst").write_text("7\t3\t0.png\n9\t4\t5\t1.png\n")
    listed = vision.ImageListDataset(str(tmp_path), "all.lst")
    image, label = listed[1]
    np.testing.assert_array_equal(image.asnumpy(), gluon_data.image(1))
    assert label.asnumpy().tolist() == [4, 5]
    entries = [[3, "0.png"], [4, 5, "1.png"], [[6, 7], "1.png"]]
    given = vision.ImageListDataset(str(tmp_path), entries, flag=0)
    assert [one[1].asnumpy().tolist() for one in (given[0], given[1], given[2])] == [
        [3],
        [4, 5],
        [6, 7],
    ]
    assert given[0][0].shape == (12, 15, 1)
    assert (len(listed), len(given)) == (2, 3)


@pytest.mark.parametrize("line", ["1\t2", "1\tx\t0.png", "0.png"])
def test_malformed_image_lists_are_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "all.lst").write_text(f"7\t3\t0.png\n{line}\n")
    with pytest.raises(FormatError, match=r"all\.lst, line 2 is .*; expected one or more numbers"):
        vision.ImageListDataset(str(tmp_path), "all.lst")
    with pytest.raises(FormatError, match=r"entry 0 is \[1, 2\]; expected"):
        vision.ImageListDataset(str(tmp_path), [[1, 2]])
    with pytest.raises(UsageError, match="imglist is None"):
        vision.ImageListDataset(str(tmp_path))
    with pytest.raises(MXNetError, match=r"none\.lst cannot be read"):
        vision.ImageListDataset(str(tmp_path), "none.lst")


def test_image_record_dataset_applies_its_transform(tmp_path: Path) -> None:
    _, records = gluon_data.write_records(mx, tmp_path)
    dataset = vision.ImageRecordDataset(records, flag=0, transform=lambda *both: both[::-1])
    label, image = dataset[2]
    assert label == 2
    assert image.shape[2] == 1
