"""``modserve modules``: list modules, make them of MXNet's files, delete them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from app.commands.asking import LOCAL, AsJson, Key, Url, asking, parsed
from app.commands.printing import Column, age, dimensions, print_rows, print_value

__all__ = ["modules"]

modules = typer.Typer(help="Modules of a server: list, add, remove.", no_args_is_help=True)


def _inputs(module: Any) -> str | None:
    if module["bind"] is None:
        return None
    return " ".join(
        f"{one['name']}:{dimensions(one['shape'])}" for one in module["bind"]["data_shapes"]
    )


_COLUMNS: tuple[Column, ...] = (
    ("MODULE", lambda module: module["name"]),
    ("STAGE", lambda module: module["stage"]),
    ("STATE", lambda module: module["state"]),
    ("INPUTS", _inputs),
    ("CHECKPOINT", lambda module: module["checkpoint"]),
    ("DURABLE", lambda module: "yes" if module["durable"] else "no"),
    ("EXECUTOR", lambda module: module["executor"]),
    ("AGE", lambda module: age(module["created_at"])),
)


@modules.command("ls")
def list_modules(
    prefix: Annotated[str | None, typer.Option(help="Only whose names begin so.")] = None,
    url: Url = LOCAL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List modules."""
    with asking(url, key) as client:
        print_rows(client.modules(prefix=prefix), _COLUMNS, as_json)


@modules.command("show")
def show_module(
    name: Annotated[str, typer.Argument(help="Of the module.")], url: Url = LOCAL, key: Key = None
) -> None:
    """Print all that is known of a module, as JSON."""
    with asking(url, key) as client:
        print_value(client.module(name))


@modules.command("add")
def add_module(
    name: Annotated[str, typer.Argument(help="Of the new module.")],
    files: Annotated[
        list[Path],
        typer.Argument(
            help="PREFIX-symbol.json, PREFIX-0001.params and, if there are some, its .states.",
            exists=True,
            dir_okay=False,
        ),
    ],
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", "-o", metavar="NAME=VALUE", help="A field of the form: epoch=3, executor=…"
        ),
    ] = None,
    url: Url = LOCAL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Make a module of MXNet's files as they are."""
    with asking(url, key) as client:
        made = client.create_from_files(name, files, **parsed(option, "--option"))
        print_rows([made], _COLUMNS, False) if not as_json else print_value(made)


@modules.command("rm")
def remove_module(
    names: Annotated[list[str], typer.Argument(help="Of the modules.")],
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Delete modules with their checkpoints."""
    with asking(url, key) as client:
        for name in names:
            client.delete_module(name)
