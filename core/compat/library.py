"""Libraries of operators, passes and partitioners compiled for MXNet (``mx.library``)."""

from __future__ import annotations

import os

from ..errors import MXNetError

__all__ = ["load"]


def load(path: str, verbose: bool = True) -> None:
    """Refuse a library: it is compiled against MXNet's own headers and memory.

    Raises:
        MXNetError: always; as in MXNet the message is another one if there is no such file.
    """
    if not os.path.exists(path):
        raise MXNetError(f"load path {path} does NOT exist")
    raise MXNetError(
        f"{path} is compiled for MXNet's C++ library, which modserve does not contain; write its "
        "operators in Python instead, with mx.operator.CustomOp, and its passes on the symbol"
    )
