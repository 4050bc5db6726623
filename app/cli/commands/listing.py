"""``ls`` and ``rm``: commands common to all kinds of named resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.commands.asking import LOCAL, Key, Url, asking
from app.cli.commands.printing import Column, print_json, print_rows
from app.cli.output import AsJson

if TYPE_CHECKING:
    from app.client import Client

__all__ = ["add_listing", "add_removal"]


def add_listing(
    group: typer.Typer,
    things: str,
    columns: Sequence[Column],
    listed: Callable[[Client, str | None], Sequence[Mapping[str, Any]]],
) -> None:
    """Add ``ls`` to a group of commands.

    Args:
        group: to which it is added.
        things: the plural of the resource, for messages.
        columns: to print for each.
        listed: requests those whose names have a prefix from a server.
    """

    @group.command("ls", help=f"List {things}.")
    def list_things(
        prefix: Annotated[str | None, typer.Option(help="Only names with this prefix.")] = None,
        url: Url = LOCAL,
        key: Key = None,
        as_json: AsJson = False,
    ) -> None:
        with asking(url, key) as client:
            print_rows(listed(client, prefix), columns, as_json)


def add_removal(group: typer.Typer, things: str, delete: Callable[[Client, str], None]) -> None:
    """Add ``rm`` to a group of commands; ``delete`` requests the deletion of a name from a
    server.
    """

    @group.command("rm", help=f"Delete {things}.")
    def remove_things(
        names: Annotated[list[str], typer.Argument(help="Their names.")],
        url: Url = LOCAL,
        key: Key = None,
        as_json: AsJson = False,
    ) -> None:
        with asking(url, key) as client:
            for name in names:
                delete(client, name)
        if as_json:
            print_json({"deleted": names})
