"""``modserve datasets``: upload, list, look at and delete datasets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands.asking import LOCAL, AsJson, Key, Url, asking
from app.commands.printing import Column, age, dimensions, print_rows, print_value, size

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


@datasets.command("ls")
def list_datasets(
    prefix: Annotated[str | None, typer.Option(help="Only whose names begin so.")] = None,
    url: Url = LOCAL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List datasets."""
    with asking(url, key) as client:
        print_rows(client.datasets(prefix=prefix), _COLUMNS, as_json)


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
        made = client.dataset(upload(client, file, name, kind))
        print_rows([made], _COLUMNS, False) if not as_json else print_value(made)


@datasets.command("preview")
def preview_dataset(
    name: Annotated[str, typer.Argument(help="Of the dataset.")],
    rows: Annotated[int, typer.Option(help="How many of each array.")] = 3,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Print the first rows of every array, as JSON."""
    with asking(url, key) as client:
        print_value(client.preview_dataset(name, rows))


@datasets.command("rm")
def remove_dataset(
    names: Annotated[list[str], typer.Argument(help="Of the datasets.")],
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Delete datasets."""
    with asking(url, key) as client:
        for name in names:
            client.delete_dataset(name)
