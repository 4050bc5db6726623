"""SageMaker's ``model.tar.gz``: symbol and parameters, and the shapes of the inputs.

``model-shapes.json`` is what SageMaker's MXNet container writes beside a model, and reads to bind
it: ``[{"name": "data", "shape": [1, 3, 224, 224]}]``. Python code in the archive is ignored.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from app.domain.archive import ArchiveFacts
from app.domain.model_names import PARAMS_ALONE, params_among, parse_params_name, symbols_among
from app.errors.tree import Damaged, Invalid, Malformed, TooLarge
from app.files.archive_entries import is_system_file, shortened
from app.files.cautious_tar import GZIP_MAGIC, open_tar, tar_entries
from app.files.model_archives import ModelArchive, translate_errors
from app.tensors.json_bodies import parse_json

__all__ = ["is_tar", "open_sagemaker_archive"]

_FIELD = "archive"
_WANTED = "a model.tar.gz of SageMaker"
_SETTING = "MODSERVE_MAX_CHECKPOINT_BYTES"
_SHAPES, _LABELS = "-shapes.json", "synset.txt"
_MOST_ENTRIES = 10_000
_MOST_TOLD = 50
_LARGEST_TEXT = 1 << 20
_TAR_MAGIC, _MAGIC_AT = b"ustar", 257

_Entries = dict[str, tarfile.TarInfo]


def is_tar(path: Path) -> bool:
    """Return whether a file is compressed by gzip, or a tar file."""
    with path.open("rb") as file:
        head = file.read(_MAGIC_AT + len(_TAR_MAGIC))
    return head.startswith(GZIP_MAGIC) or head.endswith(_TAR_MAGIC)


@contextmanager
def open_sagemaker_archive(path: Path, limit: int) -> Iterator[ModelArchive]:
    """Open an untrusted archive for the block.

    Args:
        path: of the file.
        limit: most bytes that it may unpack to.

    Raises:
        Invalid: the symbol or the parameters are missing, or there are several symbols.
        Damaged: it is not such an archive, or has entries that no tool would write.
        TooLarge: it would unpack to more than the limit.
    """

    def too_large() -> TooLarge:
        return TooLarge("the archive unpacked, in bytes", got=None, limit=limit, setting=_SETTING)

    with ExitStack() as stack:
        with translate_errors():
            file = stack.enter_context(path.open("rb"))
            opened = open_tar(file, _FIELD, _WANTED, limit, too_large)
            archive = stack.enter_context(opened)
            found = _found(archive, _entries(archive))
        yield found


def _entries(archive: tarfile.TarFile) -> _Entries:
    found: _Entries = {}
    for path, info in tar_entries(archive, _FIELD, _MOST_ENTRIES):
        name = str(PurePosixPath(path))
        if name in found:
            raise Damaged(_FIELD, f"entry {shortened(name)} twice", "entries of distinct names")
        if not is_system_file(name):
            found[name] = info
    return found


def _found(archive: tarfile.TarFile, entries: _Entries) -> ModelArchive:
    symbol = _symbol(entries)
    folder = PurePosixPath(symbol).parent
    beside = {one.name: str(one) for one in map(PurePosixPath, entries) if one.parent == folder}
    params = params_among(beside, PurePosixPath(symbol).name)
    if not params:
        others = [path for path in entries if path.endswith(".params")]
        got = ", ".join(map(shortened, others[:_MOST_TOLD])) or "none"
        raise Invalid(_FIELD, got, f"parameters that go with {shortened(symbol)}")
    epoch = max(params)
    shapes = next((path for name, path in beside.items() if name.endswith(_SHAPES)), None)
    taken = {
        "symbol": symbol,
        "params": beside[params[epoch]],
        "inputs": shapes,
        "labels": beside.get(_LABELS),
    }

    def open_entry(path: str) -> IO[bytes]:
        file = archive.extractfile(entries[path])
        assert file is not None
        return file

    def text_of(path: str) -> bytes:
        if entries[path].size > _LARGEST_TEXT:
            got = f"over {_LARGEST_TEXT:,} bytes in {shortened(path)}"
            raise Damaged(_FIELD, got, f"at most {_LARGEST_TEXT:,}")
        with open_entry(path) as file:
            return file.read()

    labels = taken["labels"]
    return ModelArchive(
        facts=ArchiveFacts(
            model="",
            version="SageMaker",
            handler=next((path for path in entries if path.endswith(".py")), None),
            taken={part: path for part, path in taken.items() if path is not None},
            passed_over=tuple(shortened(path) for path in entries if path not in taken.values())[
                :_MOST_TOLD
            ],
        ),
        epoch=epoch,
        signature=None if shapes is None else _signature(text_of(shapes), shapes),
        labels=None if labels is None else text_of(labels),
        open_entry=open_entry,
    )


def _symbol(entries: _Entries) -> str:
    """Return the path of the only symbol, among those nearest to the top."""
    folders: dict[PurePosixPath, list[str]] = {}
    for path in map(PurePosixPath, entries):
        folders.setdefault(path.parent, []).append(path.name)
    found = [folder / one for folder, names in folders.items() for one in symbols_among(names)]
    depth = min((len(path.parts) for path in found), default=0)
    nearest = [str(path) for path in found if len(path.parts) == depth]
    if len(nearest) == 1:
        return nearest[0]
    has_params = any(parse_params_name(PurePosixPath(path).name) for path in entries)
    got = ", ".join(map(shortened, nearest[:_MOST_TOLD])) or "none"
    hint = PARAMS_ALONE if has_params and not nearest else ""
    raise Invalid(_FIELD, got, "one symbol, as net-symbol.json", hint)


def _signature(content: bytes, path: str) -> dict[str, Any]:
    """Return the shapes in the form of a signature of mxnet-model-server."""
    try:
        rows = parse_json(content)
    except Malformed as error:
        raise Damaged(_FIELD, f"{shortened(path)}: {error}", "JSON") from None
    if not isinstance(rows, list) or not all(isinstance(one, dict) for one in rows):
        raise Damaged(_FIELD, f"{shortened(path)}: {rows!r:.80}", "a list of names and shapes")
    return {
        "inputs": [{"data_name": one.get("name"), "data_shape": one.get("shape")} for one in rows]
    }
