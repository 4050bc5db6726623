"""``modserve train``: a fit on a server, followed to its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.commands.asking import LOCAL, Key, Url, asking, parsed
from app.cli.commands.datasets import upload
from app.cli.commands.printing import print_json
from app.cli.commands.watching import watch_job
from app.cli.output import AsJson

if TYPE_CHECKING:
    from app.client.results import JobView

__all__ = ["train"]


def train(
    module: Annotated[str, typer.Argument(help="Name of the module.")],
    data: Annotated[str, typer.Argument(help="A dataset's name, or a file, which is uploaded.")],
    epochs: Annotated[int, typer.Option(help="Number of epochs; versions go on counting.")] = 1,
    batch_size: Annotated[int, typer.Option(help="Examples per step.")] = 32,
    validation: Annotated[
        str | None, typer.Option(help="Dataset, or file, scored after every epoch.")
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="INPUT=ARRAY",
            help="Array of the dataset that an input takes, or columns of a table as JSON: "
            '["a", "b"] or {"all_but": ["label"]}.',
        ),
    ] = None,
    optimizer: Annotated[
        str | None, typer.Option(help="sgd, adam …; by default the module's.")
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="NAME=VALUE", help="Options of the optimizer."),
    ] = None,
    metrics: Annotated[list[str] | None, typer.Option("--metric", help="Names of metrics.")] = None,
    initializer: Annotated[
        str | None, typer.Option(help="Initializer of missing parameters: xavier …")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of shuffling and random numbers.")] = 0,
    more: Annotated[
        Path | None,
        typer.Option("--params", help="JSON file with further fields of a fit.", exists=True),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Print the job's id and exit.")] = False,
    url: Url = LOCAL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Train a module; the exit status is 0 if the job succeeded."""
    fields: dict[str, Any] = json.loads(more.read_text()) if more else {}
    fields |= {"epochs": epochs, "batch_size": batch_size, "seed": seed}
    chosen = parsed(options, "--option")
    if chosen and optimizer is None:
        raise typer.BadParameter("give it with --optimizer", param_hint="--option")
    if optimizer is not None:
        fields["optimizer"] = {"name": optimizer, "options": chosen}
    if initializer is not None:
        fields["initializer"] = {"initializer": initializer, "seed": seed}
    if metrics:
        fields["metrics"] = metrics
    arrays = parsed(inputs, "--input")
    with asking(url, key) as client:

        def source(given: str) -> dict[str, Any]:
            path = Path(given)
            name = upload(client, path) if path.is_file() else given
            return {"dataset": name, "inputs": arrays} if arrays else {"dataset": name}

        fields |= source(data)
        if validation is not None:
            fields["validation"] = source(validation)
        job = client.fit(module, **fields)
        if detach:
            print_json(job) if as_json else typer.echo(job["id"])
            return
        if not as_json:
            typer.echo(f"job {job['id']}{_versions(job)}", err=True)
        raise typer.Exit(watch_job(client, job["id"], as_json))


def _versions(job: JobView) -> str:
    """Return which versions a fit writes, to go behind its number."""
    versions = job.get("versions")
    if versions is None:
        return ""
    first, last = versions["first"], versions["last"]
    return f", version {last}" if first == last else f", versions {first} to {last}"
