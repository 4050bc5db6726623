"""Packing image files into npz, including malicious archives."""

from __future__ import annotations

import gzip
import io
import stat
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from app.domain.dataset import DatasetKind
from app.domain.image_packing import Packing
from app.domain.transforms import ImageTransform
from app.errors.tree import Damaged, Invalid, TooLarge
from app.files import array_files
from app.files.dataset_formats import inspect_file, load_arrays
from app.sandbox.images.packing import pack_images
from served.many_images import tarred, zipped
from served.pictures import bomb, picture

FILES = {"cat/1.png": picture(9, 7, seed=1), "dog/1.jpg": picture(8, 6, "JPEG", seed=2)}
LIMIT = 1 << 20


def recorded(folder: Path, labels: Any, images: list[bytes]) -> bytes:
    path = folder / "made.rec"
    record = mx.recordio.MXRecordIO(str(path), "w")
    for index, (label, image) in enumerate(zip(labels, images, strict=True)):
        record.write(mx.recordio.pack(mx.recordio.IRHeader(0, label, index, 0), image))
    record.close()
    return path.read_bytes()


def pack(tmp_path: Path, content: bytes, size: int = 4, **fields: Any) -> dict[str, Any]:
    source, target = tmp_path / "images", tmp_path / "packed.npz"
    source.write_bytes(content)
    options: dict[str, Any] = {
        "transform": ImageTransform(size=(size, size), dtype="uint8"),
        "data_name": "data",
        "label_name": "label",
        "classes": None,
        "most_pixels": 1 << 20,
        "limit": LIMIT,
    }
    with target.open("wb") as file:
        pack_images(source, Packing(**options | fields), file)
    contents = inspect_file(target, DatasetKind.NPZ, LIMIT)
    names = [array.name for array in contents.arrays]
    return load_arrays(target, DatasetKind.NPZ, names, is_ours=True) | {"classes": contents.classes}


def expected(encoded: bytes, size: int = 4) -> np.ndarray:
    resized = mx.image.imresize(mx.image.imdecode(encoded), size, size, 1)
    return np.asarray(resized.asnumpy().transpose(2, 0, 1))


@pytest.mark.parametrize("form", ["zip", "tar", "tar.gz"])
def test_archives_of_folders(form: str, tmp_path: Path) -> None:
    more = {"__MACOSX/cat/._1.png": b"x", "cat/.DS_Store": b"x", "README.txt": b"x"}
    content = zipped(FILES | more) if form == "zip" else tarred(FILES | more)
    packed = pack(tmp_path, gzip.compress(content) if form == "tar.gz" else content)
    assert packed["classes"] == ("cat", "dog")
    np.testing.assert_array_equal(packed["label"], np.array([0, 1], np.float32))
    for row, encoded in zip(packed["data"], FILES.values(), strict=True):
        np.testing.assert_array_equal(row, expected(encoded))


def test_record_files_of_im2rec(tmp_path: Path) -> None:
    images = [*FILES.values()]
    packed = pack(tmp_path, recorded(tmp_path, [3.0, 1.0], images))
    np.testing.assert_array_equal(packed["label"], np.array([3, 1], np.float32))
    np.testing.assert_array_equal(packed["data"][1], expected(images[1]))
    packed = pack(tmp_path, recorded(tmp_path, [[1, 2], [3, 4]], images))
    np.testing.assert_array_equal(packed["label"], np.array([[1, 2], [3, 4]], np.float32))
    with pytest.raises(Invalid, match=r"record 1.*the same width"):
        pack(tmp_path, recorded(tmp_path, [[1, 2], [3, 4, 5]], images))


def test_the_transform_is_the_one_for_predictions(tmp_path: Path) -> None:
    transform = ImageTransform(size=(4, 6), color="gray", mean=(128,), std=(64,), layout="NHWC")
    packed = pack(tmp_path, zipped({"1.png": FILES["cat/1.png"]}), transform=transform)
    assert (packed["data"].shape, packed["data"].dtype) == ((1, 4, 6, 1), np.float32)
    grey = mx.image.imresize(mx.image.imdecode(FILES["cat/1.png"], 0), 6, 4, 1).asnumpy()
    np.testing.assert_allclose(packed["data"][0], (grey.astype(np.float32) - 128) / 64)
    assert packed["classes"] == ()
    assert "label" not in packed


def test_large_arrays_are_memory_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For every dtype: an array that is not aligned for its dtype would be copied."""
    monkeypatch.setattr(array_files, "_LARGE_BYTES", 1)
    transform = ImageTransform(size=(4, 4))
    packed = pack(tmp_path, zipped(FILES), transform=transform)
    assert isinstance(packed["data"], np.memmap)
    np.testing.assert_array_equal(packed["data"][1], expected(FILES["dog/1.jpg"]))


def test_all_broken_images_are_named(tmp_path: Path) -> None:
    broken = {
        "cat/2.png": b"no image",
        "dog/2.jpg": FILES["dog/1.jpg"][:90],
        "owl/1.png": bomb(9000),
    }
    with pytest.raises(Damaged) as refused:
        pack(tmp_path, zipped(FILES | broken))
    assert [one.field for one in refused.value.field_errors()] == [*broken]
    many = {f"cat/{index:03}.png": b"no image" for index in range(60)}
    with pytest.raises(Damaged) as refused:
        pack(tmp_path, zipped(many))
    assert len(refused.value.field_errors()) == 51
    assert refused.value.field_errors()[-1].got == "10 more damaged ones"


def a_link() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        entry = zipfile.ZipInfo("cat/1.png")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")
    return stream.getvalue()


def a_long_head() -> bytes:
    """A tar file that claims a file name of one gigabyte."""
    entry = tarfile.TarInfo("././@LongLink")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    return entry.tobuf()


def doubled() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for _ in range(2):
            archive.addfile(tarfile.TarInfo("cat/1.png"), io.BytesIO())
    return stream.getvalue()


HOSTILE = {
    "a path above": (zipped({"../cat/1.png": b"x"}), Damaged, "paths inside the archive"),
    "a path from the root": (tarred({"/cat/1.png": b"x"}), Damaged, "paths inside the archive"),
    "a link in a zip": (a_link(), Damaged, "link"),
    "a link in a tar": (
        tarred({"cat/1.png": b""}, type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        *(Damaged, "link"),
    ),
    "a device": (tarred({"cat/1.png": b""}, type=tarfile.CHRTYPE), Damaged, "device"),
    "a zip bomb": (zipped({"cat/1.png": bytes(LIMIT + 1)}), TooLarge, "images unpacked"),
    "a tar bomb": (gzip.compress(tarred({"a": bytes(LIMIT), "b": b""})), TooLarge, "unpacked"),
    "a long head": (a_long_head(), Damaged, "head"),
    "a cut zip": (zipped(FILES)[:-30], Damaged, "zip, tar or tar.gz"),
    "a cut gzip": (gzip.compress(tarred(FILES))[:300], Damaged, "zip, tar or tar.gz"),
    "a cut record": (struct.pack("<II", 0xCED7230A, 400), Damaged, "whole record"),
    "text": (b"hello", Damaged, "zip, tar or tar.gz"),
    "nothing": (b"", Damaged, "zip, tar or tar.gz"),
    "no images": (zipped({"a.txt": b"x"}), Invalid, "files of images"),
    "the same path twice": (doubled(), Damaged, "twice"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_malicious_archives_are_refused(case: str, tmp_path: Path) -> None:
    content, kind, match = HOSTILE[case]
    with pytest.raises(kind, match=match):
        pack(tmp_path, content)


def test_oversized_results_are_refused_before_decoding(tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match="arrays of the dataset"):
        pack(tmp_path, zipped({"cat/1.png": b"no image", "dog/1.png": b""}), size=1024)
