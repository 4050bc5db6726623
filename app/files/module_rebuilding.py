"""Rebuilding a lost module record from the module's checkpoints."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

from app.domain.checkpoint import CheckpointManifest
from app.domain.codec import canonical_json
from app.domain.module import SINGLE, ModuleKind, ModuleRecord, ParamsSource
from app.errors.tree import Damaged, NotFound
from app.files.checkpoint_files import list_tags, read_manifest, verify_checkpoint

__all__ = ["rebuild_module"]

_LARGEST_SYMBOL = 1 << 26


def rebuild_module(name: str, directory: Path, executor: str) -> ModuleRecord:
    """Return a record with the symbols and parameters of a module's newest sound checkpoint.

    Args:
        name: of the module.
        directory: of the module.
        executor: the executor to assign it to.

    Raises:
        NotFound: no checkpoint has both parameters and a symbol.
        Damaged: the symbols of all checkpoints that do are unreadable.
    """
    root = directory / "checkpoints"
    for manifest in _newest_first(root):
        found = root / str(manifest.tag)
        try:
            verify_checkpoint(found)
        except Damaged:
            continue
        if not any(one.endswith(".params") for one in manifest.files):
            continue
        symbols = _symbols(manifest, found)
        if symbols:
            return _record(name, executor, manifest, found, symbols)
    raise NotFound("sound checkpoint with symbol and parameters of module", name)


def _newest_first(root: Path) -> list[CheckpointManifest]:
    found = []
    for tag in list_tags(root):
        try:
            found.append(read_manifest(root / str(tag)))
        except (Damaged, NotFound):
            continue
    return sorted(found, key=lambda manifest: (manifest.created_at, manifest.tag), reverse=True)


def _symbols(manifest: CheckpointManifest, directory: Path) -> dict[str, str]:
    pattern = re.compile(re.escape(manifest.prefix) + r"(?:-(.+))?-symbol\.json", re.DOTALL)
    found = {}
    for file, digest in manifest.files.items():
        if (word := pattern.fullmatch(file)) and digest.size <= _LARGEST_SYMBOL:
            found[_bucket_key(word[1])] = (directory / file).read_text(encoding="utf-8")
    return found


def _bucket_key(word: str | None) -> str:
    """Return the bucket key that is encoded in the name of a bucket's symbol file."""
    if word is None:
        return SINGLE
    parts = word.split("-")
    if all(part.isdecimal() for part in parts):
        return canonical_json(int(word) if len(parts) == 1 else [int(part) for part in parts])
    return canonical_json(word)


def _record(
    name: str,
    executor: str,
    manifest: CheckpointManifest,
    directory: Path,
    symbols: dict[str, str],
) -> ModuleRecord:
    # MXNet's default bucket is the longest.
    default = max(symbols, key=lambda key: _as_length(json.loads(key)))
    params = next(one for one in manifest.files if one.endswith(".params"))
    inputs = _inputs(symbols[default], (directory / params).read_bytes(), manifest)
    labels = tuple(one for one in inputs if one.endswith("label"))
    return ModuleRecord(
        name=name,
        kind=ModuleKind.MODULE if set(symbols) == {SINGLE} else ModuleKind.BUCKETING,
        symbols=symbols,
        default_bucket_key=default,
        data_names=tuple(one for one in inputs if one not in labels),
        label_names=labels,
        executor=executor,
        contexts=(executor,),
        params=ParamsSource.CHECKPOINT,
        checkpoint=manifest.tag,
        created_at=manifest.created_at,
        updated_at=manifest.created_at,
    )


def _as_length(key: Any) -> list[int]:
    numbers = key if isinstance(key, list) else [key]
    return [one if isinstance(one, int) else 0 for one in numbers]


def _inputs(symbol: str, params: bytes, manifest: CheckpointManifest) -> list[str]:
    """Return the variables of a graph that are not saved as parameters."""
    try:
        nodes = json.loads(symbol)["nodes"]
        variables = [node["name"] for node in nodes if node["op"] == "null"]
    except (ValueError, TypeError, KeyError) as error:
        where = f"checkpoint {manifest.tag}: symbol"
        raise Damaged(where, f"not a graph ({error})", "a symbol in MXNet's JSON") from None
    return [one for one in variables if not _is_saved(one, params)]


def _is_saved(variable: str, params: bytes) -> bool:
    """Return whether a ``.params`` file has a parameter: each name there follows its length."""
    for kind in ("arg:", "aux:", ""):
        text = (kind + variable).encode()
        if struct.pack("<Q", len(text)) + text in params:
            return True
    return False
