"""Parameters of trained networks, from local files."""

from __future__ import annotations

from ....device import Context, cpu
from ...base_block import Block
from ..model_store import get_model_file

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
    net.load_parameters(get_model_file(name, root), ctx=ctx or cpu())
