"""SageMaker's ``model.tar.gz``: what is taken, and what is refused."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from app.errors.tree import Damaged, Invalid, TooLarge
from app.files.sagemaker_archives import is_tar, open_sagemaker_archive
from served.archives import files_of_model

LIMIT = 1 << 20
SHAPES = json.dumps([{"name": "data", "shape": [1, 5]}]).encode()


def files_of_sagemaker() -> dict[str, bytes]:
    model = files_of_model()
    return {
        "model-symbol.json": model["net-symbol.json"],
        "model-0000.params": model["net-0003.params"],
        "model-shapes.json": SHAPES,
        "code/inference.py": b"raise SystemExit('a handler is never run')",
    }


def write_tar(path: Path, files: Mapping[str, bytes], *more: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in more:
            archive.addfile(info)
    return path


def test_the_files_of_a_model_are_taken(tmp_path: Path) -> None:
    files = {f"./{name}": one for name, one in files_of_sagemaker().items()}
    path = write_tar(tmp_path / "model.tar.gz", files | {"./._model-symbol.json": b"\0"})
    assert is_tar(path)
    with open_sagemaker_archive(path, LIMIT) as archive:
        assert archive.facts.taken == {
            "symbol": "model-symbol.json",
            "params": "model-0000.params",
            "inputs": "model-shapes.json",
        }
        assert archive.facts.handler == "code/inference.py"
        assert archive.facts.passed_over == ("code/inference.py",)
        assert archive.signature == {"inputs": [{"data_name": "data", "data_shape": [1, 5]}]}
        for part, name in (("symbol", "./model-symbol.json"), ("params", "./model-0000.params")):
            content = bytearray()
            archive.copy(part, content.extend)
            assert content == files[name]


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (("algo-symbol.json", "algo-0010.params"), 10),
        (("symbol.json", "params"), 0),
        (("export/net.json", "export/net.params"), 0),
    ],
)
def test_other_names_are_taken(tmp_path: Path, names: tuple[str, str], taken: int) -> None:
    path = write_tar(tmp_path / "a.tgz", dict.fromkeys(names, b"{}"))
    with open_sagemaker_archive(path, LIMIT) as archive:
        assert tuple(archive.facts.taken.values()) == names
        assert (archive.epoch, archive.signature) == (taken, None)


def without(name: str) -> dict[str, bytes]:
    return {key: one for key, one in files_of_sagemaker().items() if key != name}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (without("model-symbol.json"), "got none, expected one symbol, as net-symbol.json; param"),
        (without("model-0000.params"), "expected parameters that go with model-symbol.json"),
        (files_of_sagemaker() | {"b-symbol.json": b"{}"}, "b-symbol.json, model-symbol.json"),
        (files_of_sagemaker() | {"model-shapes.json": b"{"}, "model-shapes.json: the body is no"),
        (files_of_sagemaker() | {"model-shapes.json": b"{}"}, "a list of names and shapes"),
        (files_of_sagemaker() | {"model-shapes.json": b" " * (1 << 20) + b"[]"}, "over 1,048,576"),
        (files_of_sagemaker() | {"../evil": b"x"}, "entry ../evil"),
        (files_of_sagemaker() | {"/etc/passwd": b"x"}, "entry /etc/passwd"),
        ({}, "one symbol"),
    ],
)
def test_incomplete_archives_are_refused(
    tmp_path: Path, files: dict[str, bytes], said: str
) -> None:
    path = write_tar(tmp_path / "a.tar.gz", files)
    with pytest.raises(Invalid) as caught, open_sagemaker_archive(path, 2 * LIMIT):
        pass
    assert said in str(caught.value)


def link(path: Path) -> None:
    info = tarfile.TarInfo("link")
    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    write_tar(path, files_of_sagemaker(), info)


def twice(path: Path) -> None:
    write_tar(path, files_of_sagemaker(), tarfile.TarInfo("./model-symbol.json"))


def many(path: Path) -> None:
    write_tar(path, files_of_sagemaker(), *(tarfile.TarInfo(f"x{i}") for i in range(10_001)))


def truncated(path: Path) -> None:
    path.write_bytes(write_tar(path, files_of_sagemaker()).read_bytes()[:-300])


def no_tar(path: Path) -> None:
    path.write_bytes(gzip.compress(b"text " * 1000))


def spoiled(path: Path) -> None:
    whole = bytearray(write_tar(path, files_of_sagemaker()).read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    path.write_bytes(whole)


@pytest.mark.parametrize("make", [link, twice, many, truncated, no_tar, spoiled])
def test_malformed_archives_are_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(path := tmp_path / "a.tar.gz")
    with pytest.raises(Damaged, match="archive: got"), open_sagemaker_archive(path, 1 << 25) as one:
        one.copy("params", lambda block: None)


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar.gz", files_of_sagemaker() | {"zeros": bytes(LIMIT)})
    assert path.stat().st_size < LIMIT // 10
    with pytest.raises(TooLarge, match="unpacked"), open_sagemaker_archive(path, LIMIT):
        pass
