"""``modserve checkpoints``: list, import and export checkpoints."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.commands.asking import LOCAL, Key, Url, asking, fail
from app.cli.commands.printing import Column, age, number, print_json, print_row, print_rows, size
from app.cli.output import AsJson

if TYPE_CHECKING:
    from app.client import Client
    from app.client.module_results import CheckpointView

__all__ = ["checkpoints"]

checkpoints = typer.Typer(
    help="Checkpoints of a module: list, import, export.", no_args_is_help=True
)


ModuleName = Annotated[str, typer.Argument(metavar="MODULE", help="The module.")]


class Form(StrEnum):
    """Format of an exported checkpoint."""

    MXNET = "mxnet"
    SAFETENSORS = "safetensors"
    NPZ = "npz"
    ONNX = "onnx"


def _metrics(checkpoint: Mapping[str, Any]) -> str:
    metrics = checkpoint.get("metrics") or {}
    return " ".join(
        f"{part}.{name}={number(value)}"
        for part, found in metrics.items()
        for name, value in (found or {}).items()
    )


_COLUMNS: tuple[Column, ...] = (
    ("TAG", lambda one: one["tag"]),
    ("EPOCH", lambda one: one["epoch"]),
    ("JOB", lambda one: one["job_id"]),
    ("SIZE", lambda one: size(one["size"])),
    ("METRICS", _metrics),
    ("AGE", lambda one: age(one["created_at"])),
)


@checkpoints.command("ls")
def list_checkpoints(
    module: ModuleName, url: Url = LOCAL, key: Key = None, as_json: AsJson = False
) -> None:
    """List the checkpoints of a module, the newest first."""
    with asking(url, key) as client:
        print_rows(client.checkpoints(module), _COLUMNS, as_json)


@checkpoints.command("import")
def import_checkpoint(
    module: ModuleName,
    files: Annotated[
        list[Path],
        typer.Argument(help="PREFIX-0001.params and, optionally, its .states and symbol."),
    ],
    load: Annotated[bool, typer.Option("--load", help="Load it into the module.")] = False,
    url: Url = LOCAL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Add a checkpoint that MXNet wrote to a module."""
    with asking(url, key) as client:
        made = client.add_checkpoint(module, files)
        if load:
            client.load(module, made["tag"])
        print_row(made, _COLUMNS, as_json)


@checkpoints.command("export")
def export_checkpoint(
    module: ModuleName,
    tag: Annotated[str, typer.Argument(help="Tag of the checkpoint: 12, or newest.")] = "newest",
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path(),
    form: Annotated[
        Form,
        typer.Option("--format", help="MXNet's files, only the parameters, or an ONNX model."),
    ] = Form.MXNET,
    url: Url = LOCAL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Write the files of a checkpoint to a local folder; print their paths."""
    with asking(url, key) as client:
        found = client.checkpoint(module, _tag(client, module, tag))
        out.mkdir(parents=True, exist_ok=True)
        written = _written(client, module, found, out, form)
    if as_json:
        print_json({"tag": found["tag"], "files": [str(one) for one in written]})
    else:
        for one in written:
            typer.echo(one)


def _written(
    client: Client, module: str, found: CheckpointView, out: Path, form: Form
) -> list[Path]:
    if form is Form.ONNX:
        target = out / f"{module}-{found['tag']}.onnx"
        for note in client.get_onnx(module, found["tag"], target):
            typer.echo(note, err=True)
        return [target]
    if form is not Form.MXNET:
        return [_convert(client, module, found, out, form)]
    for name in found["files"]:
        client.get_checkpoint_file(module, found["tag"], name, out / name)
    return [out / name for name in found["files"]]


def _tag(client: Client, module: str, tag: str) -> str:
    if tag != "newest":
        return tag
    found = client.checkpoints(module)
    if not found:
        fail(f"module {module!r} has no checkpoint yet")
    return str(max(found, key=lambda one: one["created_at"])["tag"])


def _convert(client: Client, module: str, found: CheckpointView, out: Path, form: Form) -> Path:
    """Write the parameters of a checkpoint, including auxiliary states, in another format."""
    from app.tensors.codec import NPZ, SAFETENSORS, encode
    from core.checkpoint import load_params_by_name

    name = next(one for one in found["files"] if one.endswith(".params"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        client.get_checkpoint_file(module, found["tag"], name, path)
        arrays = load_params_by_name(str(path))
    named = {key: one.asnumpy() for key, one in arrays.items()}
    target = out / f"{Path(name).stem}.{form.value}"
    target.write_bytes(encode(NPZ if form is Form.NPZ else SAFETENSORS, named, "params"))
    return target
