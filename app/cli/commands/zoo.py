"""``zoo``: symbols for parameter files of gluon's model zoo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from app.cli.output import AsJson, say_error

__all__ = ["zoo"]


def zoo(
    params: Annotated[
        Path | None, typer.Argument(help="A .params file of gluon; without one, list the networks.")
    ] = None,
    network: Annotated[
        str | None, typer.Option(help="Name of the network; by default the one that fits.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Prefix of the files to write; by default the network's name."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write symbol and parameters of a network of gluon's model zoo from its .params alone.

    Networks that their authors wrote themselves need their own code; see the guide to your own
    model.
    """
    from app.cli.model_zoo import export_network, network_names
    from core.errors import MXNetError

    if params is None:
        names = network_names()
        typer.echo(json.dumps({"networks": names}) if as_json else "\n".join(names))
        return
    try:
        chosen = export_network(params, out, network)
    except (ValueError, MXNetError) as error:
        say_error(str(error))
        raise typer.Exit(1) from None
    written = [f"{out or chosen}-symbol.json", f"{out or chosen}-0000.params"]
    if as_json:
        typer.echo(json.dumps({"network": chosen, "files": written}))
    else:
        typer.echo(f"{chosen}: wrote {written[0]} and {written[1]}")
