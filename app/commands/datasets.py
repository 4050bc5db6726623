"""``modserve datasets``: upload, list, look at and delete datasets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.command_output import AsJson
from app.commands.asking import LOCAL, Key, Url, asking
from app.commands.listing import add_listing, add_removal
from app.commands.printing import Column, age, dimensions, print_facts, print_row, size

if TYPE_CHECKING:
    from app.client import Client

__all__ = ["datasets", "upload"]

datasets = typer.Typer(help="Datasets of a server: upload, list, remove.", no_args_is_help=True)


def _arrays(dataset: Any) -> str:
    return " ".join(f"{one['name']}:{dimensions(one['shape'])}" for one in dataset["arrays"])


_COLUMNS: tuple[Column, ...] = (
    ("DATASET", lambda dataset: dataset["name"]),
    ("KIND", lambda dataset: dataset["kind"]),
    ("EXAMPLES", lambda dataset: dataset["examples"]),
    ("SIZE", lambda dataset: size(dataset["size"])),
    ("ARRAYS", _arrays),
    ("AGE", lambda dataset: age(dataset["created_at"])),
)


def upload(client: Client, file: Path, name: str | None = None, kind: str | None = None) -> str:
    """Upload a file as a dataset, of the kind that its ending tells; return its name."""
    made = client.put_dataset(name or file.stem, file, kind or file.suffix.lstrip(".") or "npz")
    return str(made["name"])


add_listing(datasets, "datasets", _COLUMNS, lambda client, prefix: client.datasets(prefix=prefix))


@datasets.command("add")
def add_dataset(
    file: Annotated[Path, typer.Argument(help="To upload.", exists=True, dir_okay=False)],
    name: Annotated[str | None, typer.Option(help="Else that of the file.")] = None,
    kind: Annotated[str | None, typer.Option(help="Else as the file's name ends: npz.")] = None,
    url: Url = LOCAL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Upload a file as a dataset."""
    with asking(url, key) as client:
        print_row(client.dataset(upload(client, file, name, kind)), _COLUMNS, as_json)


@datasets.command("preview")
def preview_dataset(
    name: Annotated[str, typer.Argument(help="Of the dataset.")],
    rows: Annotated[int, typer.Option(help="How many of each array.")] = 3,
    url: Url = LOCAL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Print the first rows of every array."""
    with asking(url, key) as client:
        print_facts(client.preview_dataset(name, rows), as_json)


add_removal(datasets, "datasets", lambda client, name: client.delete_dataset(name))
