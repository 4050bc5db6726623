"""``modserve predict``: the outputs of a module for files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.commands.asking import LOCAL, Key, Url, asking, fail
from app.cli.commands.printing import dimensions, print_json
from app.cli.output import AsJson

if TYPE_CHECKING:
    import numpy as np

__all__ = ["predict"]

_ARRAYS = (".npy", ".npz")


def predict(
    module: Annotated[str, typer.Argument(help="Name of the module.")],
    files: Annotated[
        list[Path],
        typer.Argument(
            help="One npz with all inputs, an npy, or images.", exists=True, dir_okay=False
        ),
    ],
    name: Annotated[
        str | None, typer.Option("--input", help="Input that the files are for.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(help="Print this many of the best classes of each row.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the outputs to this npz.")] = None,
    version: Annotated[
        str | None, typer.Option(help="A version; by default the promoted one.")
    ] = None,
    url: Url = LOCAL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Print the outputs of a module for files, or their shapes if they are large."""
    with asking(url, key) as client:
        record = client.module(module)
        first = name or record["data_names"][0]
        are_arrays = all(file.suffix in _ARRAYS for file in files)
        inputs: dict[str, Any] = _read(files, first) if are_arrays else {first: files}
        if top_k is not None:
            _print_ranked(client.predict_top_k(module, top_k, version, **inputs), as_json)
        elif version is not None:
            _show(client.predict_with_version(module, version, **inputs), out, as_json)
        else:
            _show(client.predict(module, **inputs), out, as_json)


def _read(files: list[Path], name: str) -> dict[str, np.ndarray]:
    import numpy as np

    if len(files) != 1:
        fail(f"{len(files)} files of arrays; give one npz with all inputs")
    (file,) = files
    try:
        if file.suffix == ".npy":
            return {name: np.load(file, allow_pickle=False)}
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except ValueError as error:
        fail(f"{file}: {error}")


def _show(outputs: dict[str, np.ndarray], out: Path | None, as_json: bool) -> None:
    import numpy as np

    if out is not None:
        np.savez(out, **outputs)  # type: ignore[arg-type]
    elif as_json:
        print_json({name: one.tolist() for name, one in outputs.items()})
        return
    for name, one in outputs.items():
        typer.echo(f"{name} {one.dtype} {dimensions(one.shape)}")
        if out is None:
            typer.echo(np.array2string(one, precision=4, suppress_small=True, threshold=200))


def _print_ranked(outputs: dict[str, list[Any]], as_json: bool) -> None:
    if as_json:
        print_json(outputs)
        return
    for name, rows in outputs.items():
        for number, row in enumerate(rows):
            typer.echo(f"{name}[{number}]")
            for one in row:
                label = one["label"] if one["label"] is not None else one["index"]
                score = "nan" if one["score"] is None else f"{one['score']:.4f}"
                typer.echo(f"  {score}  {label}")
