"""The decoder processes of a server: started when they are first needed, replaced when they die.

One thread communicates with each, and waits without the interpreter's lock.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from app.api.decoding import Decoded, Work
from app.errors.tree import HostError, TooLarge, Unavailable
from app.sandbox.decoder_frames import Closed, receive, send
from app.sandbox.process_limits import environment

__all__ = ["DecoderPool"]

_log = logging.getLogger(__name__)

_MOST_WAITING = 32  # each with its body in memory
_SECONDS_TO_EXIT = 2.0  # from the end of its socket to that of the process
_SPARE_SECONDS = 5.0  # to start a process, and to transfer its results


class DecoderPool:
    """Decodes bodies in other processes, whose failures become error answers.

    Args:
        processes: maximum number.
        memory_bytes: maximum for each process, for one body.
        seconds: maximum for one body.
    """

    def __init__(self, processes: int, memory_bytes: int, seconds: int) -> None:
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="decoder")
        self._limits = (memory_bytes, seconds)
        self._own = threading.local()
        self._all: set[_Decoder] = set()
        self._waiting = 0
        self._is_closed = False

    async def decode(self, work: Work, body: bytes) -> Decoded:
        """Have a body decoded.

        Raises:
            HostError: what is wrong with the body.
            TooLarge: it takes more memory than a decoder may have.
            Unavailable: it takes too long, or too many wait.
        """
        if self._waiting >= _MOST_WAITING:
            raise Unavailable(f"{self._waiting} large bodies wait to be decoded; try again later")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._exchange, work, body)
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """End the processes."""
        self._is_closed = True
        for decoder in tuple(self._all):
            decoder.end()
        await asyncio.to_thread(self._threads.shutdown)

    def _exchange(self, work: Work, body: bytes) -> Decoded:
        memory_bytes, seconds = self._limits
        for is_last in (False, True):
            decoder = self._decoder()
            try:
                answer, data = decoder.ask(work, body)
            except (Closed, TimeoutError):
                status = decoder.status()
                self._drop(decoder)
                if status in (None, -signal.SIGALRM):
                    raise Unavailable(
                        f"the body was not decoded within {seconds} s; send less, or npz"
                    ) from None
                if status:
                    _log.warning("a decoder process ended with status %d", status)
                # Once more if it was killed, perhaps not for this body's memory, or ended between
                # two bodies because it had grown. Another end would repeat itself.
                if is_last or status not in (0, -signal.SIGKILL):
                    break
                continue
            if "error" in answer:
                raise HostError(*answer["error"])
            if "is_too_large" in answer:
                break
            return Decoded(answer["plain"], [data])
        setting = "MODSERVE_DECODER_MEMORY_BYTES"
        raise TooLarge("memory to decode the body", got=None, limit=memory_bytes, setting=setting)

    def _decoder(self) -> _Decoder:
        if self._is_closed:
            raise Unavailable("the server is ending")
        decoder: _Decoder | None = getattr(self._own, "decoder", None)
        if decoder is None or decoder.has_ended():
            if decoder is not None:
                self._drop(decoder)
            self._own.decoder = decoder = _Decoder(*self._limits)
            self._all.add(decoder)
        return decoder

    def _drop(self, decoder: _Decoder) -> None:
        self._own.decoder = None
        self._all.discard(decoder)
        decoder.end()


class _Decoder:
    """One process and the socket to it."""

    def __init__(self, memory_bytes: int, seconds: int) -> None:
        self._sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.settimeout(seconds + _SPARE_SECONDS)  # later than its own alarm
        with theirs:
            self._process = subprocess.Popen(
                [
                    # -P: not from the current folder, where files could have our modules' names.
                    *(sys.executable, "-P", "-m", "app.api.decoder_process"),
                    *("--fd", str(theirs.fileno())),
                    *("--memory-bytes", str(memory_bytes)),
                    *("--seconds", str(seconds)),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environment(),
            )

    def ask(self, work: Work, body: bytes) -> tuple[dict[str, Any], memoryview]:
        """Return the answer to one body; raise Closed or TimeoutError."""
        send(self._sock, work, body)
        return receive(self._sock)

    def has_ended(self) -> bool:
        """Return whether the process has ended."""
        return self._process.poll() is not None

    def status(self) -> int | None:
        """Return the exit status, negative for a signal; None if the process is running."""
        try:
            return self._process.wait(timeout=_SECONDS_TO_EXIT)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        # Last, because closing it would not wake a thread that waits for an answer; the process's
        # end does.
        self._sock.close()
