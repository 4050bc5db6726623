"""The files of ``Block.save``: the structure of a network, compiled graphs, and parameters.

``prefix-model.json`` describes a block by its name, its graph if it has been compiled, and its
children, each under its class and its number in depth-first order; ``prefix-model.params`` is what
``save_parameters`` writes. Both have MXNet 1.9.1's format.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from typing import Any

from ..errors import FormatError, MXNetError
from ..ndarray.files import atomic_write

__all__ = ["description_file", "parameters_file", "read_description", "write_description"]


def description_file(prefix: str | os.PathLike[str]) -> str:
    """Return the path of the description."""
    return f"{os.fspath(prefix)}-model.json"


def parameters_file(prefix: str | os.PathLike[str]) -> str:
    """Return the path of the parameters."""
    return f"{os.fspath(prefix)}-model.params"


def write_description(path: str, block: Any) -> None:
    """Write the description of a block and its children to a file.

    Raises:
        MXNetError: the file cannot be written.
    """
    described: dict[str, Any] = {}
    _describe(block, itertools.count(), described)
    try:
        with atomic_write(path) as stream:
            stream.write(json.dumps(described).encode())
    except OSError as error:
        raise MXNetError(f"{path} cannot be written: {error.strerror or error}") from error


def read_description(path: str, block: Any) -> None:
    """Restore the names of a block, its children and their parameters, and the compiled graphs,
    from a file.

    Raises:
        MXNetError: the file cannot be read. FormatError: it describes other blocks.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            described = json.load(stream)
    except OSError as error:
        raise MXNetError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise FormatError(f"{path} is not JSON: {error}") from None
    _restore(block, itertools.count(), described, path)


def _describe(block: Any, numbers: Iterator[int], within: dict[str, Any]) -> None:
    children: dict[str, str] = {}
    record = {"orig_name": block.name, **block._describe_graph(), "children": children}
    within[_key(block, numbers)] = record
    for name, child in block._children.items():
        children[child.name] = name
        _describe(child, numbers, record)


def _restore(block: Any, numbers: Iterator[int], within: Any, path: str) -> None:
    key = _key(block, numbers)
    try:
        record = within[key]
        name, children = record["orig_name"], record["children"]
        block._rename(name)
        for child in block._children.values():
            _restore(child, numbers, record, path)
        renamed = {children[child.name]: child for child in block._children.values()}
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"{path} has nothing about {error} at block {key!r}; load into blocks that are made as "
            "those were that were saved, in the same order"
        ) from None
    block._children = renamed
    block._restore_graph(record)


def _key(block: Any, numbers: Iterator[int]) -> str:
    return f"{type(block).__name__.lower()}{next(numbers)}"
