"""A checkpoint of a server as an ONNX model in a file here."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from app.commands.asking import fail

if TYPE_CHECKING:
    from app.client import Client

__all__ = ["write_onnx"]

_INSTALL = (
    "ONNX models are written by the package onnx; install it with: pip install 'modserve[onnx]'"
)


def write_onnx(client: Client, module: str, checkpoint: Mapping[str, Any], out: Path) -> Path:
    """Write the parameters of a checkpoint with its symbol, or else the module's; return the file.

    What the model does not have that the module has is told on stderr.
    """
    try:
        from core.onnx_export import ConversionError, export_onnx
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        fail(_INSTALL)
    record = client.module(module)
    if record["bind"] is None:
        fail(f"module {module!r} is not bound, so that the shapes of its inputs are not known")
    inputs = record["bind"]["data_shapes"]
    with tempfile.TemporaryDirectory() as folder:
        symbol, parameters = _load(client, module, checkpoint, Path(folder))
    try:
        made = export_onnx(
            symbol,
            parameters,
            {one["name"]: _shape(one, record["default_bucket_key"]) for one in inputs},
            dtypes={one["name"]: _dtype(one["dtype"]) for one in inputs},
            batch_axes={one["name"]: _batch_axis(one["layout"]) for one in inputs},
            more_inputs=record["state_names"],
        )
    except ConversionError as error:
        fail(f"module {module!r} cannot be an ONNX model: {error}")
    target = out / f"{module}-{checkpoint['tag']}.onnx"
    target.write_bytes(made.model.SerializeToString())
    if made.fixed_batch is not None:
        size = inputs[0]["shape"]
        typer.echo(f"the model takes inputs of {size} alone: {made.fixed_batch}", err=True)
    if made.left_out:
        typer.echo(f"left out, for they need a label: {', '.join(made.left_out)}", err=True)
    return target


def _shape(described: Mapping[str, Any], bucket: str | None) -> tuple[int, ...]:
    """Return the shape of an input; an axis that is as long as the bucket is the default one's."""
    if all(described["shape"]):
        return tuple(described["shape"])
    if bucket is None or not bucket.isdecimal():
        fail(f"input {described['name']!r} has no length for the bucket {bucket}; a number has one")
    return tuple(one or int(bucket) for one in described["shape"])


def _batch_axis(layout: str | None) -> int:
    return 0 if layout is None else layout.find("N")


def _dtype(name: str) -> Any:
    from core.types import to_dtype

    return to_dtype(name)


def _load(
    client: Client, module: str, checkpoint: Mapping[str, Any], folder: Path
) -> tuple[Any, dict[str, Any]]:
    """Return the symbol of a checkpoint, and its parameters by name."""
    import json

    from core.ndarray import load
    from core.symbol import load_json

    def fetched(name: str) -> Path:
        client.get_checkpoint_file(module, str(checkpoint["tag"]), name, folder / name)
        return folder / name

    files = list(checkpoint["files"])
    arrays = load(str(fetched(next(one for one in files if one.endswith(".params")))))
    assert isinstance(arrays, dict)
    symbol = next((one for one in files if one.endswith("-symbol.json")), None)
    text = json.dumps(client.symbol(module)) if symbol is None else fetched(symbol).read_text()
    return load_json(text), {name.partition(":")[2]: one.asnumpy() for name, one in arrays.items()}
