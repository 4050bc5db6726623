"""A decoder process: ``python -m app.api.decoder_process --fd N ...``.

It decodes the bodies that arrive over the inherited socket, one at a time. The memory and time that
a hostile body can use are limited here, and do not affect the server.
"""

from __future__ import annotations

import argparse
import gc
import signal
import socket
from pathlib import Path

from app.api.decoding import Decoded, as_host_error, decode_body
from app.errors.tree import ServiceError
from app.sandbox.decoder_frames import Closed, receive, send
from app.sandbox.process_limits import limit_memory

__all__ = ["main"]

_LARGEST_RESIDENT = 512 * 2**20
"""A process that has grown beyond this ends, which returns all its memory."""


def main() -> None:
    """Answer until the socket closes."""
    options = _parse()
    limit_memory(options.memory_bytes)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of the terminal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    gc.disable()  # decoded values have no cycles, and the search for them takes as long as decoding
    with socket.socket(fileno=options.fd) as sock:
        sock.setblocking(True)
        try:
            while _peak_resident_bytes() < _LARGEST_RESIDENT:
                _answer(sock, options.seconds)
        except Closed:
            pass


def _answer(sock: socket.socket, seconds: int) -> None:
    work, body = receive(sock)
    signal.alarm(seconds)  # nothing catches it: it ends this process
    try:
        decoded = decode_body(work, bytes(body))
        answer = {"plain": decoded.plain}
    except ServiceError as error:
        decoded, answer = Decoded(), {"error": as_host_error(error).to_row()}
    except MemoryError:
        decoded, answer = Decoded(), {"is_too_large": True}
    signal.alarm(0)
    send(sock, answer, *decoded.pieces)


def _peak_resident_bytes() -> int:
    # getrusage() reports the peak of the parent process if that is larger.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="app.api.decoder_process", description=__doc__)
    parser.add_argument("--fd", type=int, required=True, help="the inherited socket")
    parser.add_argument("--memory-bytes", type=int, required=True, help="most memory")
    parser.add_argument("--seconds", type=int, required=True, help="most time for one body")
    return parser.parse_args()


if __name__ == "__main__":
    main()
