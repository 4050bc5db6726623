"""Models on the local disk: their files, and what a server finds in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from app.cli.commands.printing import dimensions
from app.files.model_places import find_model, is_archive

if TYPE_CHECKING:
    from app.client import Client

__all__ = ["bind_if_possible", "files_of_model", "read_shapes", "say_findings", "send_model"]

_MOST_NAMES = 6


def files_of_model(paths: Sequence[Path]) -> list[Path]:
    """Return the named files, or those of a prefix or a folder.

    Raises:
        typer.BadParameter: there are none.
    """
    (first, *others) = paths
    if others or first.is_file():
        for path in paths:
            if not path.is_file():
                raise typer.BadParameter(f"{path} is not a file", param_hint="files")
        return list(paths)
    try:
        place = find_model(str(first))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="files") from None
    if place.params is None:
        raise typer.BadParameter(
            f"there are no parameters like {place.usual_params}; to send the symbol alone, name it",
            param_hint="files",
        )
    found = (place.symbol, place.params, place.states)
    return [path for path in found if path is not None]


def read_shapes(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return shapes given as ``data=1,3,224,224``; raise typer.BadParameter."""
    found = []
    for text in texts:
        name, _, sizes = text.partition("=")
        try:
            found.append({"name": name, "shape": [int(size) for size in sizes.split(",")]})
        except ValueError:
            raise typer.BadParameter(
                f"{text!r}; give data=1,3,224,224", param_hint="--shape"
            ) from None
    return found


def send_model(client: Client, name: str, files: Sequence[Path], fields: Mapping[str, Any]) -> Any:
    """Create a module from files, or from an archive; return it."""
    if len(files) == 1 and is_archive(files[0]):
        return client.create_from_archive(files[0], name=name, **fields)
    return client.create_from_files(name, files, **fields)


def bind_if_possible(client: Client, made: Any, shapes: Sequence[Mapping[str, Any]]) -> Any:
    """Bind a module that has parameters, if its shapes are given or can be inferred."""
    found = made.get("found")
    is_open = found is None or set(found["open"]) - {one["name"] for one in shapes}
    if made["bind"] is not None or made["params"] is None or is_open:
        return made
    bound = client.bind(made["name"], shapes, for_training=False)
    return {**bound, "found": found}


def say_findings(made: Any) -> None:
    """Report on stderr what was found in a model, warnings, and what must still be given."""
    found = made.get("found")
    if found is None:
        return
    for role, says in (("data", "data"), ("label", "labels"), ("state", "first states")):
        inputs = [one for one in found["inputs"] if one["role"] == role]
        names = [_shown(one) for one in inputs[:_MOST_NAMES]]
        rest = [f"and {len(inputs) - _MOST_NAMES} more"] if len(inputs) > _MOST_NAMES else []
        if names:
            typer.echo(f"{says}: {', '.join([*names, *rest])}", err=True)
    for warning in found["warnings"]:
        typer.echo(f"note: {warning}", err=True)
    if made["bind"] is None and found["open"]:
        options = " ".join(f"--shape {one}=1,…" for one in found["open"])
        typer.echo(
            f"missing shapes; give them: modserve modules bind {made['name']} {options}", err=True
        )


def _shown(found: Mapping[str, Any]) -> str:
    return f"{found['name']} {dimensions(found['shape'])}" if found["shape"] else found["name"]
