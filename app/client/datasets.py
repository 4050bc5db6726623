"""Datasets: uploaded, described, fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.client.connection import Connection

__all__ = ["DatasetCalls"]


class DatasetCalls(Connection):
    """Calls on datasets."""

    def put_dataset(self, name: str, file: Path, kind: str = "npz") -> dict[str, Any]:
        """Upload a file as a dataset."""
        return self._upload(f"/v1/datasets/{name}", file, params={"kind": kind})

    def add_dataset(self, name: str, path: str, kind: str = "npz") -> dict[str, Any]:
        """Make a file of the server's a dataset where it lies; its operator allows the folder."""
        body = {"name": name, "path": path, "kind": kind}
        return self._json("POST", "/v1/datasets", json=body)

    def datasets(self, **filters: Any) -> list[dict[str, Any]]:
        """Return the descriptions of all datasets, or of some.

        Args:
            filters: ``kind`` (one, or a list of several), ``prefix`` of the name,
                ``created_after``, ``created_before``.
        """
        return self._items("/v1/datasets", **filters)

    def dataset(self, name: str) -> dict[str, Any]:
        """Return a dataset's description: its kind, arrays and size."""
        return self._json("GET", f"/v1/datasets/{name}")

    def preview_dataset(self, name: str, rows: int = 10) -> dict[str, Any]:
        """Return the first rows of every array, or lines of a text."""
        return self._json("GET", f"/v1/datasets/{name}/preview", params={"rows": rows})

    def get_dataset_file(self, name: str, target: Path) -> None:
        """Fetch a dataset as it was uploaded, and write it to a path."""
        self._download(f"/v1/datasets/{name}/file", target)

    def delete_dataset(self, name: str) -> None:
        """Delete a dataset."""
        self.request("DELETE", f"/v1/datasets/{name}")
