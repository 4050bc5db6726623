"""``modserve modules``: list modules, create them from MXNet's files, delete them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.commands.asking import LOCAL, Key, Url, asking, parsed
from app.cli.commands.listing import add_listing, add_removal
from app.cli.commands.own_models import (
    bind_if_possible,
    files_of_model,
    read_shapes,
    say_findings,
    send_model,
)
from app.cli.commands.printing import Column, age, dimensions, print_facts, print_row
from app.cli.output import AsJson

__all__ = ["modules"]

modules = typer.Typer(help="Modules of a server: list, add, bind, remove.", no_args_is_help=True)


def _inputs(module: Any) -> str | None:
    if module["bind"] is None:
        return None
    return " ".join(
        f"{one['name']}:{dimensions(one['shape'])}" for one in module["bind"]["data_shapes"]
    )


Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME=SIZES", help="Shape of an input: data=1,3,224,224."),
]

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


add_listing(modules, "modules", _COLUMNS, lambda client, prefix: client.modules(prefix=prefix))


@modules.command("show")
def show_module(
    name: Annotated[str, typer.Argument(help="Name of the module.")],
    url: Url = LOCAL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Print all details of a module."""
    with asking(url, key) as client:
        print_facts(client.module(name), as_json)


@modules.command("add")
def add_module(
    name: Annotated[str, typer.Argument(help="Name of the new module.")],
    files: Annotated[
        list[Path],
        typer.Argument(
            help="PREFIX-symbol.json (or one per bucket, such as "
            "PREFIX-10-symbol.json), PREFIX-0001.params and, optionally, "
            "its .states; or PREFIX alone, their folder, a .mar or a .tar.gz."
        ),
    ],
    shape: Shapes = None,
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
    """Create a module from MXNet's files; it is bound if its shapes can be inferred."""
    sent, shapes = files_of_model(files), read_shapes(shape or ())
    with asking(url, key) as client:
        made = send_model(client, name, sent, parsed(option, "--option"))
        say_findings(made)
        print_row(bind_if_possible(client, made, shapes), _COLUMNS, as_json)


@modules.command("bind")
def bind_module(
    name: Annotated[str, typer.Argument(help="Name of the module.")],
    shape: Shapes = None,
    url: Url = LOCAL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Bind a module, so that it can answer: to the given shapes, or else to inferred ones."""
    shapes = read_shapes(shape or ())
    with asking(url, key) as client:
        print_row(client.bind(name, shapes, for_training=False), _COLUMNS, as_json)


add_removal(
    modules, "modules with their checkpoints", lambda client, name: client.delete_module(name)
)
