"""``modserve datasets``: upload, list, look at and delete datasets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.commands.asking import LOCAL, Key, Url, asking
from app.cli.commands.listing import add_listing, add_removal
from app.cli.commands.printing import Column, age, dimensions, print_facts, print_row, size
from app.cli.output import AsJson

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
    ("CLASSES", lambda dataset: len(dataset["classes"]) or None),
    ("AGE", lambda dataset: age(dataset["created_at"])),
)


def upload(client: Client, file: Path, name: str | None = None, kind: str | None = None) -> str:
    """Upload a file as a dataset, whose kind follows from the file's ending; return its name."""
    made = client.put_dataset(name or file.stem, file, kind or file.suffix.lstrip(".") or "npz")
    return str(made["name"])


add_listing(datasets, "datasets", _COLUMNS, lambda client, prefix: client.datasets(prefix=prefix))


@datasets.command("add")
def add_dataset(
    file: Annotated[Path, typer.Argument(help="File to upload.", exists=True, dir_okay=False)],
    name: Annotated[
        str | None, typer.Option(help="Name of the dataset; by default the file's.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="Format; by default by the file's suffix: npz.")
    ] = None,
    url: Url = LOCAL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Upload a file as a dataset."""
    with asking(url, key) as client:
        print_row(client.dataset(upload(client, file, name, kind)), _COLUMNS, as_json)


@datasets.command("create")
def create_dataset(
    name: Annotated[str, typer.Argument(help="Name of the dataset.")],
    images: Annotated[
        Path, typer.Option(help="Folder of images, or a zip, tar or .rec file.", exists=True)
    ],
    size: Annotated[str | None, typer.Option(help="224, or HEIGHT,WIDTH.")] = None,
    resize: Annotated[
        int | None, typer.Option(help="First resize the shorter side to this.")
    ] = None,
    crop: Annotated[str | None, typer.Option(help="Crop the center: 224, or HEIGHT,WIDTH.")] = None,
    color: Annotated[str | None, typer.Option(help="rgb, bgr or gray.")] = None,
    mean: Annotated[
        str | None, typer.Option(help="Mean to subtract: one number, or R,G,B.")
    ] = None,
    std: Annotated[
        str | None, typer.Option(help="Standard deviation to divide by: one number, or R,G,B.")
    ] = None,
    layout: Annotated[str | None, typer.Option(help="NCHW or NHWC.")] = None,
    module: Annotated[
        str | None,
        typer.Option(help="Module whose image transform is used instead of all these options."),
    ] = None,
    classes_of: Annotated[
        str | None, typer.Option(help="Dataset whose classes are used for this one, too.")
    ] = None,
    url: Url = LOCAL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Upload a folder of images as a dataset; the folders in it are its classes."""
    options: dict[str, Any] = {
        "size": size,
        "resize": resize,
        "crop": crop,
        "color": color,
        "mean": mean,
        "std": std,
        "layout": layout,
        "module": module,
        "classes_of": classes_of,
    }
    with asking(url, key) as client:
        print_row(client.put_images(name, images, **options), _COLUMNS, as_json)


@datasets.command("preview")
def preview_dataset(
    name: Annotated[str, typer.Argument(help="Name of the dataset.")],
    rows: Annotated[int, typer.Option(help="Number of rows of each array.")] = 3,
    url: Url = LOCAL,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Print the first rows of every array."""
    with asking(url, key) as client:
        print_facts(client.preview_dataset(name, rows), as_json)


add_removal(datasets, "datasets", lambda client, name: client.delete_dataset(name))
