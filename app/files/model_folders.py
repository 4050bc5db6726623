"""The models folder: one subfolder for each model, filled by the operator.

    <models>/lenet/lenet-symbol.json     the graph
    <models>/lenet/lenet-0003.params     one file an epoch; the last one is served
    <models>/lenet/modserve.yaml         see ``ModelDeclaration``; optional
    <models>/lenet/synset.txt            labels, if the declaration names the file
    <models>/faces.mar                   or a whole model in an archive, see ``model_archives``
    <models>/birds.tar.gz                and ``sagemaker_archives``

See ``model_names`` for other names of symbols and parameters; other files are ignored. modserve
never writes here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from app.domain.archive import ArchiveFacts
from app.domain.codec import canonical_json, from_plain
from app.domain.declaration import ModelDeclaration
from app.domain.labels import parse_labels
from app.domain.model_names import (
    PARAMS_ALONE,
    archive_stem,
    is_symbol_name,
    params_among,
    parse_params_name,
    symbols_among,
    usual_params,
)
from app.domain.names import check_name
from app.domain.transforms import Transform, parse_transform
from app.domain.vocabularies import read_vocabulary
from app.errors.tree import Damaged, Invalid, Malformed
from app.files.file_kinds import not_a_symbol
from app.tensors.json_bodies import parse_json

__all__ = [
    "DECLARATION",
    "LARGEST_SYMBOL",
    "ModelFiles",
    "find_models",
    "misplaced_model",
    "read_model",
    "read_symbol",
    "sign_model",
]

DECLARATION = "modserve.yaml"

_LARGEST_DECLARATION = 1 << 20
LARGEST_SYMBOL = 1 << 23


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """The files of one model's folder.

    Attributes:
        symbol_path: path of the graph's file; ``symbol`` is its content as canonical JSON.
        symbol: and its content as canonical JSON.
        params: parameter files by epoch, at least one.
        declaration: the operator's settings.
        transforms: how raw data becomes inputs, by input.
        labels: class labels, by output.
        classes: class labels of an archive, which does not say for which output.
        archive: what an archive says about itself; None for a folder.
    """

    symbol_path: Path
    symbol: str
    params: Mapping[int, Path]
    declaration: ModelDeclaration
    transforms: Mapping[str, Transform]
    labels: Mapping[str, tuple[str, ...]]
    classes: tuple[str, ...] = ()
    archive: ArchiveFacts | None = None

    @property
    def epoch(self) -> int:
        """The epoch to serve."""
        return max(self.params)


def find_models(root: Path) -> dict[str, list[Path]]:
    """Return the folders and archives of models by model name, without hidden ones.

    Raises:
        OSError: the folder cannot be read at the moment.
    """
    found: dict[str, list[Path]] = {}
    for path in sorted(root.iterdir()):
        name = archive_stem(path.name) if path.is_file() else path.name
        if path.name[0] != "." and name is not None and (path.is_dir() or path.is_file()):
            found.setdefault(name, []).append(path)
    return found


def misplaced_model(root: Path) -> str | None:
    """Return the symbol file of a model that lies directly in the models folder; None without one.

    Raises:
        OSError: the folder cannot be read at the moment.
    """
    return next((one.name for one in sorted(root.iterdir()) if is_symbol_name(one.name)), None)


def sign_model(*paths: Path) -> str:
    """Return a text that changes when a file of a model is written, added or removed."""
    rows = []
    for path in paths:
        for one in path.iterdir() if path.is_dir() else [path]:
            if one.name[0] != "." and one.is_file():
                stat = one.stat()
                rows.append([one.name, stat.st_size, stat.st_mtime_ns, stat.st_ino])
    return hashlib.sha256(canonical_json(sorted(rows)).encode()).hexdigest()


def read_model(folder: Path) -> ModelFiles:
    """Read a model's folder, except for its parameters.

    Raises:
        Invalid: a required file is missing, there is more than one, or one has the wrong format.
        OSError: a file cannot be read.
    """
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    symbols = symbols_among(names)
    if len(symbols) != 1:
        got = ", ".join(symbols) or "no such file"
        has_params = any(map(parse_params_name, names))
        hint = PARAMS_ALONE if has_params and not symbols else ""
        raise Invalid("symbol", got, "one file like net-symbol.json", hint)
    params = {epoch: folder / name for epoch, name in params_among(names, symbols[0]).items()}
    if not params:
        others = ", ".join(name for name in names if parse_params_name(name))
        raise Invalid("params", others or "no file", f"a file like {usual_params(symbols[0])}")
    symbol = folder / symbols[0]
    declaration = _read_declaration(folder / DECLARATION)
    return ModelFiles(
        symbol_path=symbol,
        symbol=read_symbol(symbol, symbol.name),
        params=params,
        declaration=declaration,
        transforms={
            name: _read_transform(folder, one.transform, f"inputs.{name}.transform")
            for name, one in declaration.inputs.items()
            if one.transform is not None
        },
        labels={
            output: _read_labels(folder, one.labels, f"outputs.{output}.labels")
            for output, one in declaration.outputs.items()
        },
    )


def _read_transform(folder: Path, plain: dict[str, Any], field: str) -> Transform:
    """Return a transform, with the vocabulary read from its file if it names one."""
    vocabulary = plain.get("vocabulary")
    if isinstance(vocabulary, str):
        content = _read_beside(folder, vocabulary, f"{field}.vocabulary")
        named = {name: one for name, one in plain.items() if name != "vocabulary"}
        plain = read_vocabulary(content, f"{field}.vocabulary") | named
    return parse_transform(plain, field)


def _read_labels(folder: Path, name: str, field: str) -> tuple[str, ...]:
    return parse_labels(_read_beside(folder, name, field), field)


def _read_beside(folder: Path, name: str, field: str) -> bytes:
    path = folder / check_name(name, field)
    if not path.is_file():
        raise Invalid(field, name, "a file beside modserve.yaml")
    return _read(path, LARGEST_SYMBOL)


def read_symbol(path: Path, name: str) -> str:
    """Return the canonical JSON of a symbol file; raise Damaged for any other file."""
    expected = "a symbol: an object with nodes, arg_nodes and heads"
    content = _read(path, LARGEST_SYMBOL)
    try:
        symbol = parse_json(content)
    except Malformed as error:
        raise Damaged(name, *not_a_symbol(content, str(error))) from None
    if not isinstance(symbol, dict):
        raise Damaged(name, symbol, expected)
    return canonical_json(symbol)


def _read_declaration(path: Path) -> ModelDeclaration:
    if not path.exists():
        return ModelDeclaration()
    try:
        plain: Any = yaml.safe_load(_read(path, _LARGEST_DECLARATION))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Damaged(path.name, str(error), "YAML") from None
    if not isinstance(plain, dict | None):
        raise Damaged(path.name, plain, "fields with their values, as max_batch_size: 32")
    return from_plain(ModelDeclaration, plain or {})


def _read(path: Path, limit: int) -> bytes:
    with path.open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise Damaged(path.name, f"more than {limit:,} bytes", f"at most {limit:,}")
    return content
