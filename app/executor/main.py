"""The executor process: ``python -m app.executor --fd N --device cpu(0) ...``.

Started by a ``ProcessClient`` with its end of a socket pair as an inherited descriptor. Thread
counts are passed in the environment, because numeric libraries read them when they are loaded.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import importlib
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from app.errors.tree import ServiceError
from app.executor.host import ModuleHost
from app.executor.loop import Activity, DeviceLoop
from app.executor.modules.memory_limits import default_answers
from app.executor.modules.process_memory import resident_bytes, retain_little_memory
from app.link.channel import SocketChannel
from app.link.file_limits import allow_most_files
from app.link.memory_pressure import be_ended_first
from app.link.protocols import Channel, ChannelClosed, Emit, Host
from app.link.slab_port import SlabLimits
from app.link.work_page import WorkPage
from app.logs import send_log
from core.errors import MXNetError

__all__ = ["main", "make_loop"]

_PR_SET_PDEATHSIG = 1

_OOM_SCORE = 400
"""A server that used less than this share of memory, in thousandths, outlives its executors."""

_SWITCH_SECONDS = 0.0005
"""Python's switch interval: how long the device thread may have to wait for the GIL while another
thread reads or writes files."""

MakeHost: TypeAlias = Callable[[str, Emit, Callable[[], None]], Host]


def main(arguments: list[str] | None = None) -> int:
    """Serve one socket until it closes; return the exit status."""
    options = _parse(arguments)
    _prepare_process(options)
    sock = socket.socket(fileno=options.fd)
    sock.setblocking(True)
    channel = SocketChannel(sock, _slab_limits(options))
    activity = Activity(WorkPage(options.work_fd))
    # Before the host is made, which may take long: the other side may be gone by then.
    threading.Thread(
        target=_beat_until_hangup,
        args=(sock, channel, activity, options.beat_seconds),
        name="heartbeat",
        daemon=True,
    ).start()
    try:
        host = _make_host(options, channel, activity)
    except (ServiceError, MXNetError) as error:
        channel.fail(str(error))
        return 1
    try:
        channel.hello({"pid": os.getpid(), "device": options.device})
        DeviceLoop(host, channel, activity).run()
    except ChannelClosed:
        pass
    return 0


def make_loop(device: str, channel: Channel, *, budget_bytes: int | None = None) -> DeviceLoop:
    """Return the loop that serves a channel for a device of this process."""
    host = ModuleHost(device, channel.emit, channel.wake, budget_bytes=budget_bytes)
    return DeviceLoop(host, channel)


def _slab_limits(options: argparse.Namespace) -> SlabLimits:
    """Return the limits on the memory of answers."""
    limit = min(options.limit_bytes, default_answers(options.executors))
    limit = options.answers_bytes or limit
    return SlabLimits(limit, min(options.idle_bytes, limit // 4))


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="app.executor", description=__doc__)
    parser.add_argument("--fd", type=int, required=True, help="the inherited socket")
    parser.add_argument("--work-fd", type=int, required=True, help="the inherited WorkPage")
    parser.add_argument("--device", required=True, help="for example cpu(0)")
    parser.add_argument("--host", help="module:class that answers calls instead of ModuleHost")
    parser.add_argument(
        "--limit-bytes", type=int, required=True, help="limit on shared memory in bytes"
    )
    parser.add_argument(
        "--idle-bytes", type=int, required=True, help="how many of these bytes may be kept unused"
    )
    parser.add_argument("--beat-seconds", type=float, required=True, help="between heartbeats")
    parser.add_argument("--log-level", default="INFO")
    parser.add_argument("--log-format", default="text", help="text or json")
    parser.add_argument("--memory-budget", type=int, help="bytes of memory that modules may use")
    parser.add_argument(
        "--sharers", type=int, default=1, help="number of devices that share the memory"
    )
    parser.add_argument("--answers-bytes", type=int, help="bytes of memory that answers may use")
    parser.add_argument(
        "--executors", type=int, default=1, help="number of executors on this machine"
    )
    return parser.parse_args(arguments)


def _prepare_process(options: argparse.Namespace) -> None:
    """Tie this process's life to its parent, which alone decides when it ends.

    Ctrl-C and a service manager signal the whole group; the parent then wants its jobs
    checkpointed before it closes the socket.
    """
    allow_most_files()
    be_ended_first(_OOM_SCORE)
    retain_little_memory()
    # SIGKILL, because the others are ignored below. A parent that died before this line is noticed
    # by its end of the socket.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    faulthandler.enable()
    sys.setswitchinterval(_SWITCH_SECONDS)
    send_log(options.log_level, options.log_format, options.device)


def _make_host(options: argparse.Namespace, channel: SocketChannel, activity: Activity) -> Host:
    make_host: Any = ModuleHost if options.host is None else _load(options.host)
    device, emit, wake = options.device, channel.emit, channel.wake
    if not (isinstance(make_host, type) and issubclass(make_host, ModuleHost)):
        other: Host = make_host(device, emit, wake)
        return other
    return make_host(
        device,
        emit,
        wake,
        budget_bytes=options.memory_budget,
        sharers=options.sharers,
        turn_of_job=activity.turn_of_job,
    )


def _load(path: str) -> MakeHost:
    module, _, name = path.partition(":")
    make_host: MakeHost = getattr(importlib.import_module(module), name)
    return make_host


def _beat_until_hangup(
    sock: socket.socket, channel: SocketChannel, activity: Activity, seconds: float
) -> None:
    """Send heartbeats; exit at once when the other side is gone.

    Nobody would receive the result of a batch that the device thread may still be computing.
    """
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    try:
        while not poll.poll(seconds * 1000):
            channel.beat(activity.report() | {"rss_bytes": resident_bytes()})
    except ChannelClosed:
        pass
    os._exit(0)
