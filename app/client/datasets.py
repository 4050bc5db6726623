"""Calls on datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.client.bodies import File, FilePath, Json, Progress
from app.client.follow import Download
from app.client.image_folders import Images
from app.client.methods import method
from app.client.request import AsJson, Pages, Request, at, nothing
from app.client.results import DatasetView

__all__ = ["DatasetCalls"]


def _joined(options: dict[str, Any]) -> dict[str, Any]:
    """Return options as query parameters: several numbers are joined by commas."""
    return {
        name: ",".join(map(str, one)) if isinstance(one, list | tuple) else one
        for name, one in options.items()
    }


class DatasetCalls:
    """Calls on datasets."""

    @method
    def put_dataset(
        self, name: str, file: FilePath, kind: str = "npz", *, progress: Progress | None = None
    ) -> Request[DatasetView]:
        """Upload a file as a dataset.

        Args:
            name: of the dataset.
            file: the file to upload.
            kind: its format.
            progress: called with the bytes sent so far, and the total.
        """
        path, kinds = at("datasets", name), {"kind": kind}
        return Request(
            "PUT", path, AsJson(DatasetView), body=File(Path(file)), query=kinds, progress=progress
        )

    @method
    def put_images(
        self, name: str, images: FilePath, /, *, progress: Progress | None = None, **options: Any
    ) -> Request[DatasetView]:
        """Upload images as a dataset, labelled by the folders that contain them.

        Args:
            name: of the dataset.
            images: a folder; or a zip, tar, tar.gz or RecordIO file.
            progress: called with the bytes sent so far, and the total.
            options: ``size`` or ``crop`` (a number, or height and width), ``resize``,
                ``interpolation``, ``color``, ``mean``, ``std``, ``layout``; or ``module``, whose
                image transform is used; ``classes_of`` another dataset; ``data_name``,
                ``label_name``.
        """
        path, wanted = at("datasets", name, "images"), _joined(options)
        body = Images(Path(images))
        return Request("PUT", path, AsJson(DatasetView), body=body, query=wanted, progress=progress)

    @method
    def add_dataset(self, name: str, path: str, kind: str = "npz") -> Request[DatasetView]:
        """Add a file on the server as a dataset, in place; the operator must allow its folder."""
        body = Json({"name": name, "path": path, "kind": kind})
        return Request("POST", at("datasets"), AsJson(DatasetView), body=body)

    @method
    def datasets(self, /, **filters: Any) -> Pages[DatasetView]:
        """Return the descriptions of all datasets, or of those that match the filters.

        Args:
            filters: ``kind`` (one or a list), ``prefix`` of the name, ``created_after``,
                ``created_before``.
        """
        return Pages(at("datasets"), DatasetView, filters)

    @method
    def dataset(self, name: str) -> Request[DatasetView]:
        """Return a dataset's description: its kind, arrays and size."""
        return Request("GET", at("datasets", name), AsJson(DatasetView))

    @method
    def preview_dataset(self, name: str, rows: int = 10) -> Request[dict[str, list[Any]]]:
        """Return the first rows of every array, or the first lines of a text."""
        path, where = at("datasets", name, "preview"), {"rows": rows}
        return Request("GET", path, AsJson(dict[str, list[Any]]), query=where)

    @method
    def get_dataset_file(
        self, name: str, target: FilePath, *, progress: Progress | None = None
    ) -> Download:
        """Download a dataset's file to a path.

        Args:
            name: of the dataset.
            target: the path.
            progress: called with the bytes received so far, and the total.
        """
        return Download(at("datasets", name, "file"), Path(target), progress)

    @method
    def delete_dataset(self, name: str) -> Request[None]:
        """Delete a dataset."""
        return Request("DELETE", at("datasets", name), nothing)
