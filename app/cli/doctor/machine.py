"""The examination of a machine: what modserve would run on, and what would prevent it."""

from __future__ import annotations

import platform
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

import core as mx
from app.cli.doctor.examine import Finding, Verdict
from app.executor.modules.memory_limits import total_bytes
from core.backends import backend_of, has_bfloat16
from core.config import config
from core.device import Context
from core.errors import MXNetError
from core.kernels import native, onednn

__all__ = ["Machine", "examine_machine"]

_PACKAGES = ("numpy", "fastapi", "uvicorn", "pydantic", "SQLAlchemy")
_LEAST_FREE_BYTES = 1 << 30
_MOST_GPUS = 64
_TOLERANCE = 1e-4
_IN_USE = {False: "if MODSERVE_MATH asks for it", True: "as MODSERVE_MATH asks for it"}


@dataclass(frozen=True, slots=True)
class Machine:
    """The intended use of the machine.

    Attributes:
        data_dir: folder for everything durable.
        host, port: where a server would listen.
    """

    data_dir: Path
    host: str
    port: int


def examine_machine(machine: Machine) -> Iterator[Finding]:
    """Yield the findings, with a remedy if something is wrong."""
    yield _versions()
    yield _libraries()
    for context in _devices():
        yield _kernel(context)
    yield _disk(machine.data_dir)
    yield _port(machine.host, machine.port)


def _versions() -> Finding:
    found = {"python": platform.python_version(), "modserve": version("modserve")}
    found |= {name.lower(): version(name) for name in _PACKAGES}
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    text = ", ".join(f"{name} {one}" for name, one in found.items())
    return Finding("versions", Verdict.GOOD, f"{text}; {system}", {**found, "system": system})


def _libraries() -> Finding:
    library = onednn.library()
    there = {
        "onednn": None if library is None else library.version,
        "native": native.is_available(),
        "bfloat16": has_bfloat16(),
        "cupy": _version_of("cupy-cuda13x") or _version_of("cupy-cuda12x"),
    }
    if library is None and (platform.system(), platform.machine()) == ("Linux", "x86_64"):
        text = "oneDNN cannot be loaded, so NumPy computes, slowly; apt install libgomp1"
        return Finding("libraries", Verdict.WRONG, text, there)
    parts = ["NumPy alone" if library is None else f"oneDNN {library.version}"]
    parts += ["our own kernels"] if there["native"] else []
    parts += [f"bfloat16 {_IN_USE[config.in_bfloat16]}"] if there["bfloat16"] else []
    parts += [f"CuPy {there['cupy']}"] if there["cupy"] else []
    gpu = "" if there["cupy"] else "; for NVIDIA GPUs: pip install 'modserve[gpu]'"
    return Finding("libraries", Verdict.GOOD, f"{', '.join(parts)}{gpu}", there)


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices() -> Iterator[Context]:
    """Yield the CPU and every GPU of the machine."""
    yield Context("cpu", 0)
    for number in range(_MOST_GPUS):
        context = Context("gpu", number)
        try:
            backend_of(context)
        except MXNetError:
            return
        yield context


def _kernel(context: Context) -> Finding:
    """Compute a small convolution on a device and compare it with NumPy's."""
    step = str(context)
    random = np.random.RandomState(0)
    data, weight = random.rand(1, 2, 8, 8).astype("f"), random.rand(3, 2, 3, 3).astype("f")
    windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), axis=(2, 3))
    expected = np.einsum("ncijhw,ochw->noij", windows, weight)
    started = time.perf_counter()
    try:
        arrays = [mx.nd.array(one, ctx=context) for one in (data, weight)]
        got = mx.nd.Convolution(*arrays, kernel=(3, 3), num_filter=3, no_bias=True).asnumpy()
    except (MXNetError, RuntimeError, OSError) as error:
        remedy = "look at the driver with nvidia-smi" if context.device_type == "gpu" else ""
        text = f"cannot compute: {error}" + (f"; {remedy}" if remedy else "")
        return Finding(step, Verdict.WRONG, text)
    seconds, memory = time.perf_counter() - started, total_bytes(context)
    fault = float(np.abs(got - expected).max() / np.abs(expected).max())
    details = {"seconds": seconds, "memory_bytes": memory, "fault": fault}
    if not fault < _TOLERANCE:  # also if it is NaN
        text = f"computes wrong numbers: a convolution is off by {fault:.1e}; do not use it"
        return Finding(step, Verdict.WRONG, text, details)
    text = f"a convolution is right, in {seconds * 1e3:.1f} ms; {memory / 2**30:.1f} GiB of memory"
    return Finding(step, Verdict.GOOD, text, details)


def _disk(data_dir: Path) -> Finding:
    there = next(one for one in (data_dir.absolute(), *data_dir.absolute().parents) if one.exists())
    free = shutil.disk_usage(there).free
    details = {"data_dir": str(data_dir), "free_bytes": free}
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        text = f"{there} cannot be written to: {error.strerror}; choose another by --data-dir"
        return Finding("disk", Verdict.WRONG, text, details)
    text = f"{free / 2**30:.1f} GiB free for {data_dir}"
    if free < _LEAST_FREE_BYTES:
        return Finding("disk", Verdict.WRONG, f"only {text}; choose another by --data-dir", details)
    return Finding("disk", Verdict.GOOD, text, details)


def _port(host: str, port: int) -> Finding:
    details = {"host": host, "port": port}
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as listener:
            # As the server does, which can reuse the address of one that has just ended.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
    except OSError as error:
        reason = error.strerror or str(error)
        text = f"{host}:{port}: {reason}; choose another by --port, or stop what listens there"
        return Finding("port", Verdict.WRONG, text, details)
    return Finding("port", Verdict.GOOD, f"{host}:{port} is free", details)
