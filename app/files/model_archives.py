"""Model archives of mxnet-model-server: ``.mar`` files, and the older ``.model`` files.

Both are zip files with a manifest, in MAR-INF or, in older ones, at the top or one folder down.
They contain a symbol, parameters, usually a signature and labels, and Python code, which is
ignored.
"""

from __future__ import annotations

import errno
import gzip
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from app.domain.archive import ArchiveFacts
from app.errors.tree import Damaged, Invalid, Malformed
from app.files.archive_entries import checked_path, shortened
from app.files.file_kinds import MOST_LOOKED_AT, kind_of_file
from app.tensors.json_bodies import parse_json
from app.tensors.zip_archives import open_zip

__all__ = ["ModelArchive", "open_archive", "translate_errors"]

_FIELD = "archive"
_MANIFEST = "MANIFEST.json"
_SIGNATURE, _LABELS = "signature.json", "synset.txt"
_SYMBOL = re.compile(r"(.+)-symbol\.json")
_PARAMS = re.compile(r"(.+)\.params")
_EPOCH = re.compile(r".*-([0-9]{4,9})\.params")
_LARGEST_JSON, _LARGEST_LABELS = 1 << 18, 1 << 23
_MOST_TOLD = 50
_BLOCK = 1 << 20
_ZIP_MAGIC = b"PK"
_ENCRYPTED = 0x1

_WANTED = "a .mar of model-archiver or a model.tar.gz of SageMaker, and all of it"
_FAULTS = (
    *(zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error),
    *(EOFError, ValueError, RuntimeError, struct.error),
)

_Entries = Mapping[str, zipfile.ZipInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelArchive:
    """An open archive whose symbol and parameters were found.

    Attributes:
        facts: what the manifest says, and which files were chosen.
        epoch: of the parameters, from the file's name; 0 if the name has none.
        signature: the parsed description of the inputs; None if there is none.
        labels: content of the file of class labels, None if there is none.
        open_entry: opens a file of the archive by its path.
    """

    facts: ArchiveFacts
    epoch: int
    signature: Any
    labels: bytes | None
    open_entry: Callable[[str], IO[bytes]]

    def copy(self, part: str, write: Callable[[bytes], None]) -> None:
        """Write the symbol or the parameters, block by block.

        Args:
            part: ``symbol`` or ``params``.
            write: takes each block, and may raise if they become too many.

        Raises:
            Damaged: the file does not match the archive's directory.
        """
        with translate_errors(), self.open_entry(self.facts.taken[part]) as file:
            while block := file.read(_BLOCK):
                write(block)


@contextmanager
def open_archive(path: Path) -> Iterator[ModelArchive]:
    """Open an untrusted archive for the block.

    Raises:
        Invalid: a required file is missing, or there is more than one.
        Damaged: it is not such an archive, or has entries that none of its tools would write.
    """
    with path.open("rb") as stream:
        head = stream.read(MOST_LOOKED_AT)
        if not head.startswith(_ZIP_MAGIC):
            raise Damaged(_FIELD, kind_of_file(head), _WANTED)
        with translate_errors():
            archive = open_zip(stream, _FIELD)
        with archive:
            yield _found(archive, _checked(archive.infolist()))


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise Damaged for what the libraries raise for files that are not archives."""
    try:
        yield
    except _FAULTS as error:
        raise Damaged(_FIELD, str(error) or "a truncated file", _WANTED) from None
    except OSError as error:
        # EINVAL: a position before the start of the file. None: an error of gzip.
        if error.errno not in (errno.EINVAL, None):
            raise
        raise Damaged(_FIELD, str(error), _WANTED) from None


def _checked(infos: list[zipfile.ZipInfo]) -> _Entries:
    """Return the files of an archive by path; refuse links, and paths out of the archive."""
    found = {}
    for info in infos:
        path = checked_path(info.filename, info.external_attr >> 16, _FIELD)
        if info.flag_bits & _ENCRYPTED:
            raise Damaged(_FIELD, f"entry {shortened(path)}, encrypted", "files that can be read")
        if not info.is_dir() and "__MACOSX" not in PurePosixPath(path).parts:
            found[path] = info
    return found


def _found(archive: zipfile.ZipFile, entries: _Entries) -> ModelArchive:
    manifest_path = _manifest_path(entries)
    manifest = _object(_parsed(archive, entries, manifest_path), manifest_path)
    is_old = "Model" in manifest
    member = "Model" if is_old else "model"
    model = _object(manifest.get(member), f"{manifest_path}: {member}")
    named = model if is_old else _object(model.get("extensions") or {}, "extensions")
    symbol = _one(entries, _SYMBOL, named.get("Symbol" if is_old else "symbolFile"), "a symbol")
    params = _one(
        entries, _PARAMS, named.get("Parameters" if is_old else "parametersFile"), "parameters"
    )
    signature = _optional(entries, model.get("Signature") if is_old else None, _SIGNATURE)
    labels = _optional(entries, None, _LABELS)
    handler = model.get("Service" if is_old else "handler")
    version = manifest.get("Model-Archive-Version" if is_old else "specificationVersion")
    taken = {"symbol": symbol, "params": params, "inputs": signature, "labels": labels}
    epoch = _EPOCH.fullmatch(params)
    used = {manifest_path, *taken.values()}
    facts = ArchiveFacts(
        model=shortened(model.get("Model-Name" if is_old else "modelName")),
        version=shortened(version),
        handler=None if handler is None else shortened(handler),
        taken={part: path for part, path in taken.items() if path is not None},
        passed_over=tuple(shortened(path) for path in entries if path not in used)[:_MOST_TOLD],
    )
    return ModelArchive(
        facts=facts,
        epoch=0 if epoch is None else int(epoch[1]),
        signature=None if signature is None else _parsed(archive, entries, signature),
        labels=None if labels is None else _read(archive, entries[labels], _LARGEST_LABELS),
        open_entry=lambda path: archive.open(entries[path]),
    )


def _manifest_path(entries: _Entries) -> str:
    for path in (f"MAR-INF/{_MANIFEST}", _MANIFEST):
        if path in entries:
            return path
    nested = [path for path in entries if path.count("/") == 1 and path.endswith(f"/{_MANIFEST}")]
    if len(nested) == 1:
        return nested[0]
    got = ", ".join(map(shortened, nested)) or "none"
    raise Invalid(_FIELD, got, f"one manifest, MAR-INF/{_MANIFEST} or {_MANIFEST}")


def _one(entries: _Entries, pattern: re.Pattern[str], named: Any, what: str) -> str:
    """Return the only file that the manifest names or, if it names none, that fits the pattern."""
    found = [
        path
        for path in entries
        if (_file_name(path) == _file_name(str(named)) if named else pattern.fullmatch(path))
    ]
    if len(found) == 1:
        return found[0]
    got = ", ".join(map(shortened, found[:_MOST_TOLD])) or "none"
    usual = "net-symbol.json" if pattern is _SYMBOL else "net-0000.params"
    hint = "a network that exists only as Python code cannot be served; export it as a symbol"
    wanted = shortened(named) if named else usual
    raise Invalid(_FIELD, got, f"one file with {what}, as {wanted}", "" if found else hint)


def _optional(entries: _Entries, named: Any, usual: str) -> str | None:
    wanted = _file_name(str(named or usual))
    found = sorted((path for path in entries if _file_name(path) == wanted), key=len)
    if named and not found:
        raise Invalid(_FIELD, "none", f"the file {shortened(named)}, which the manifest names")
    return found[0] if found else None


def _file_name(path: str) -> str:
    return PurePosixPath(path).name


def _parsed(archive: zipfile.ZipFile, entries: _Entries, path: str) -> Any:
    try:
        return parse_json(
            _read(archive, entries[path], _LARGEST_JSON).removeprefix(b"\xef\xbb\xbf")
        )
    except Malformed as error:
        raise Damaged(_FIELD, f"{shortened(path)}: {error}", "JSON") from None


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int) -> bytes:
    with translate_errors(), archive.open(info) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        got = f"over {limit:,} bytes in {shortened(info.filename)}"
        raise Damaged(_FIELD, got, f"at most {limit:,}")
    return content


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Damaged(_FIELD, value, f"an object as {shortened(what)}")
    return value
