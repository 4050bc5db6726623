"""Parameters of trained networks, from local files."""

from __future__ import annotations

from pathlib import Path

from ....base import data_dir
from ....device import Context, cpu
from ...base_block import Block

__all__ = ["load_pretrained"]


def load_pretrained(
    net: Block, name: str, ctx: Context | list[Context] | None = None, root: str | None = None
) -> None:
    """Load the parameters of a network from a directory with MXNet's downloads.

    Args:
        net: the network.
        name: name of the network; the file is ``<name>.params`` or ``<name>-<hash>.params``.
        ctx: devices of the parameters.
        root: the directory; None is ``models`` in MXNet's data directory.

    Raises:
        FileNotFoundError: there is no such file. Nothing is downloaded.
    """
    directory = Path(root or Path(data_dir()) / "models").expanduser()
    found = [*directory.glob(f"{name}.params"), *sorted(directory.glob(f"{name}-*.params"))]
    if not found:
        raise FileNotFoundError(
            f"no {name}.params in {directory}, and nothing is downloaded: put the file there, name "
            "its directory as root, or load it with load_parameters"
        )
    net.load_parameters(str(found[0]), ctx=ctx or cpu())
