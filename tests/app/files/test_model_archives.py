"""Reading archives of mxnet-model-server, and refusing malformed ones."""

from __future__ import annotations

import json
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.errors.tree import Damaged, Invalid
from app.files.model_archives import open_archive
from app.files.signatures import read_signature
from served.archives import ARCHIVES, MANIFEST, files_of_model, write_archive

OLD = {
    "Model-Archive-Version": 0.1,
    "Model": {
        "Symbol": "net-symbol.json",
        "Parameters": "net-0003.params",
        "Signature": "signature.json",
        "Service": "service.py",
        "Model-Name": "digits",
        "Model-Format": "MXNet-Symbolic",
    },
}


def content(path: Path, part: str) -> bytes:
    found = bytearray()
    with open_archive(path) as archive:
        archive.copy(part, found.extend)
    return bytes(found)


@pytest.mark.parametrize(
    ("file", "version", "handler"),
    [
        ("tiny-1.0.mar", "1.0", "tiny_service:handle"),
        ("tiny-0.2.model", "0.2", "mxnet_vision_service.py"),
        ("tiny-0.1.model", "0.1", "mxnet_vision_service.py"),
    ],
)
def test_archives_of_the_original_tools_are_read(file: str, version: str, handler: str) -> None:
    with open_archive(ARCHIVES / file) as archive:
        facts = archive.facts
        assert archive.epoch == 0
        assert archive.labels is not None
        assert archive.labels.startswith(b"n02123045 tabby\n")
        signature = read_signature(archive.signature)
    assert (facts.model, facts.version, facts.handler) == ("tiny", version, handler)
    assert facts.passed_over == (f"{handler.partition(':')[0].removesuffix('.py')}.py",)
    assert facts.taken == {
        "symbol": "tiny-symbol.json",
        "params": "tiny-0000.params",
        "inputs": "signature.json",
        "labels": "synset.txt",
    }
    assert signature.inputs["data"].shape == (1, 3, 4, 5)
    assert signature.transforms["data"].type == "image"
    assert json.loads(content(ARCHIVES / file, "symbol"))["heads"] == [[5, 0, 0]]
    assert len(content(ARCHIVES / file, "params")) == 876


def test_an_old_archive_may_have_a_top_level_folder(tmp_path: Path) -> None:
    files = {f"digits/{name}": one for name, one in files_of_model().items()}
    path = write_archive(tmp_path / "a.model", files, OLD, "digits/")
    with open_archive(path) as archive:
        assert archive.facts.taken["symbol"] == "digits/net-symbol.json"
        assert archive.epoch == 3


def test_the_manifest_names_the_files_of_an_old_archive(tmp_path: Path) -> None:
    files = files_of_model() | {"other-symbol.json": b"{}", "other-0001.params": b""}
    with open_archive(write_archive(tmp_path / "a.model", files, OLD, "")) as archive:
        assert archive.facts.taken["symbol"] == "net-symbol.json"
        assert archive.facts.passed_over == (
            "service.py",
            "other-symbol.json",
            "other-0001.params",
        )
    migrated = json.loads(json.dumps(MANIFEST))
    migrated["model"]["extensions"] = {
        "symbolFile": "net-symbol.json",
        "parametersFile": "net-0003.params",
    }
    with open_archive(write_archive(tmp_path / "b.mar", files, migrated)) as archive:
        assert archive.facts.taken["params"] == "net-0003.params"


def test_signature_and_labels_may_be_missing(tmp_path: Path) -> None:
    files = files_of_model()
    del files["signature.json"], files["synset.txt"]
    files["__MACOSX/._net-symbol.json"] = b"\0"
    with open_archive(write_archive(tmp_path / "a.mar", files)) as archive:
        assert archive.signature is archive.labels is None
        assert archive.facts.passed_over == ("service.py",)


def without(name: str) -> dict[str, bytes]:
    return {one: content for one, content in files_of_model().items() if one != name}


@pytest.mark.parametrize(
    ("files", "manifest", "said"),
    [
        (without("net-symbol.json"), MANIFEST, "got none, expected one file with a symbol"),
        (without("net-0003.params"), MANIFEST, "got none, expected one file with parameters"),
        (without("signature.json"), OLD, "got none, expected the file signature.json"),
        (
            files_of_model() | {"b-symbol.json": b"{}"},
            MANIFEST,
            "got net-symbol.json, b-symbol.json, expected one file with a symbol",
        ),
        (files_of_model() | {"net-0004.params": b""}, MANIFEST, "net-0003.params, net-0004.params"),
        (files_of_model() | {"x/net-symbol.json": b""}, OLD, "x/net-symbol.json"),
        (files_of_model(), None, "one manifest"),
        (files_of_model(), [], "an object as MAR-INF/MANIFEST.json"),
        (files_of_model(), {"model": "digits"}, "MAR-INF/MANIFEST.json: model"),
        (files_of_model(), {"Model": None}, "MAR-INF/MANIFEST.json: Model"),
        (files_of_model() | {"signature.json": b"{"}, MANIFEST, "signature.json: the body is no"),
        (files_of_model() | {"signature.json": b"[" * 999}, MANIFEST, "signature.json"),
        (
            files_of_model() | {"signature.json": b" " * (1 << 18) + b"{}"},
            MANIFEST,
            "over 262,144 bytes in signature.json",
        ),
        (files_of_model() | {"../evil": b"x"}, MANIFEST, "entry ../evil"),
        (files_of_model() | {"a/../../evil": b"x"}, MANIFEST, "paths inside the archive"),
        (files_of_model() | {"/etc/passwd": b"x"}, MANIFEST, "entry /etc/passwd"),
        (files_of_model() | {"..\\evil": b"x"}, MANIFEST, "paths inside the archive"),
        (files_of_model() | {"C:\\evil": b"x"}, MANIFEST, "paths inside the archive"),
    ],
)
def test_incomplete_archives_are_refused(
    tmp_path: Path, files: dict[str, bytes], manifest: Any, said: str
) -> None:
    path = write_archive(tmp_path / "a.mar", files, manifest)
    with pytest.raises(Invalid) as caught, open_archive(path):
        pass
    assert "archive: got " in str(caught.value)
    assert said in str(caught.value)
    assert [one.name for one in tmp_path.iterdir()] == ["a.mar"]


def link(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")


def twice(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("net-symbol.json", "{}")


def encrypted(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    at = whole.find(b"PK\x01\x02")
    whole[at + 8] |= 1
    path.write_bytes(whole)


def other_compression(path: Path) -> None:
    with zipfile.ZipFile(path, "a", zipfile.ZIP_LZMA) as archive:
        archive.writestr("large", "x" * 100)


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def no_zip(path: Path) -> None:
    path.write_bytes(b"PK\x03\x04 and so on")


def shifted(path: Path) -> None:
    """Make the directory claim to begin before the file."""
    whole = bytearray(path.read_bytes())
    end = whole.find(b"PK\x05\x06")
    struct.pack_into("<I", whole, end + 16, 0xFFFFFFF0)
    path.write_bytes(whole)


@pytest.mark.parametrize(
    "spoil", [link, twice, encrypted, other_compression, truncated, no_zip, shifted]
)
def test_malformed_zip_files_are_refused(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    path = write_archive(tmp_path / "a.mar", files_of_model())
    spoil(path)
    with pytest.raises(Damaged, match="archive: got"), open_archive(path):
        pass


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "an empty file"),
        (b"version https://git-lfs.github.com/spec/v1", "a Git LFS pointer; 'git lfs pull'"),
        (b"<html>404</html>", "an HTML or XML page"),
    ],
)
def test_files_of_other_kinds_are_called_what_they_are(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "a.mar"
    path.write_bytes(content)
    with pytest.raises(Damaged, match=said), open_archive(path):
        pass


def test_content_that_differs_from_the_directory_is_refused(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "a.mar", files_of_model())
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("net-0003.params")
    whole = bytearray(path.read_bytes())
    begin = info.header_offset + 30 + len(info.filename)
    whole[begin + info.compress_size // 2] ^= 0xFF
    path.write_bytes(whole)
    with pytest.raises(Damaged, match="archive: got"):
        content(path, "params")


@pytest.mark.parametrize(
    ("parsed", "said"),
    [
        ([], "signature.inputs"),
        ({"inputs": {}}, "signature.inputs"),
        ({"inputs": [3]}, "signature.inputs[0]"),
        ({"inputs": [{"data_name": "a"}]}, "signature.inputs[0].data_shape"),
        ({"inputs": [{"data_name": "a", "data_shape": [0, -1]}]}, "data_shape"),
        ({"inputs": [{"data_name": "a", "data_shape": [True]}]}, "data_shape"),
        ({"inputs": [{"data_name": "a", "data_shape": [1 << 40]}]}, "data_shape"),
        ({"inputs": [{"data_name": "a", "data_shape": []}]}, "data_shape"),
        ({"inputs": [{"data_name": "a", "data_shape": [1]}] * 2}, "each input once"),
        (
            {
                "inputs": [{"data_name": "a", "data_shape": [0, 3, 9000, 9000]}],
                "input_type": "image/jpeg",
            },
            "data_shape",
        ),
    ],
)
def test_invalid_signatures_are_refused(parsed: Any, said: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_signature(parsed)
    assert said in str(caught.value)


def test_signatures_are_read() -> None:
    rows = [
        {"data_name": "a", "data_shape": [0, 3]},
        {"data_name": "b", "shape": [2, 5, 6]},
        {"data_name": "c", "data_shape": [0, 0, 4]},
    ]
    found = read_signature({"inputs": rows, "input_type": "image/jpeg"})
    assert {name: one.shape for name, one in found.inputs.items()} == {"a": (1, 3), "b": (2, 5, 6)}
    assert not found.transforms
    (warning,) = found.warnings
    assert "axis 1 of input 'c' open" in warning
