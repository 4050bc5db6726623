"""Reports that the engine refuses a setting in the environment.

The engine does so on import, before the executor process has opened its channel.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import sys
from collections.abc import Iterator

from app.link.channel import SocketChannel
from app.link.slab_port import SlabLimits

__all__ = ["tell_of_refused_settings"]


@contextlib.contextmanager
def tell_of_refused_settings() -> Iterator[None]:
    """Exit if the import in the block raises ValueError, and tell the server why."""
    try:
        yield
    except ValueError as error:
        parser = argparse.ArgumentParser(add_help=False)
        parser.add_argument("--fd", type=int, required=True)
        options, _ = parser.parse_known_args()
        channel = SocketChannel(socket.socket(fileno=options.fd), SlabLimits(0, 0))
        channel.fail(str(error))
        sys.exit(1)
