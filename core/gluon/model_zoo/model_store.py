"""Files of trained networks in MXNet's data directory (``mxnet.gluon.model_zoo.model_store``)."""

from __future__ import annotations

from pathlib import Path

from ...base import data_dir

__all__ = ["get_model_file", "purge"]


def get_model_file(name: str, root: str | None = None) -> str:
    """Return the path of a network's parameters.

    Args:
        name: name of the network; the file is ``<name>.params`` or ``<name>-<hash>.params``.
        root: the directory; None is ``models`` in MXNet's data directory.

    Raises:
        FileNotFoundError: there is no such file. Nothing is downloaded.
    """
    directory = _directory(root)
    found = [*directory.glob(f"{name}.params"), *sorted(directory.glob(f"{name}-*.params"))]
    if not found:
        raise FileNotFoundError(
            f"no {name}.params in {directory}, and nothing is downloaded: put the file there, name "
            "its directory as root, or load it with load_parameters"
        )
    return str(found[0])


def purge(root: str | None = None) -> None:
    """Remove all files of parameters from the directory."""
    for file in _directory(root).glob("*.params"):
        file.unlink()


def _directory(root: str | None) -> Path:
    return Path(root or Path(data_dir()) / "models").expanduser()
