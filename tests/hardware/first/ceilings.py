"""How fast memory, products, launches, graphs and copies are: the floors of everything else."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

_CODE = """
extern "C" __global__ void add(const float* x, float* y, long long n) {
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step)
        y[i] = x[i] + 1.0f;
}
"""


def on_device(call: Callable[[], Any], repeats: int = 20) -> float:
    """Return the median milliseconds that the device spends on a call."""
    stream, times = cupy.cuda.get_current_stream(), []
    for _ in range(3):
        call()
    for _ in range(repeats):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record(stream)
        call()
        end.record(stream)
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end))
    return statistics.median(times)


def on_host(call: Callable[[], Any], count: int = 2000) -> float:
    """Return the microseconds that the host spends on a call, without waiting for the device."""
    for _ in range(10):
        call()
    cupy.cuda.runtime.deviceSynchronize()
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(count // 5):
            call()
        times.append((time.perf_counter() - begin) / (count // 5) * 1e6)
        cupy.cuda.runtime.deviceSynchronize()
    return statistics.median(times)


def say(**found: Any) -> None:
    """Print a finding."""
    print(json.dumps(found), flush=True)


def memory(kernel: Any) -> None:
    """Print bandwidths."""
    x, y = (cupy.ones(1 << 28, "f") for _ in range(2))
    say(what="copy", TB_per_s=2 * x.nbytes / on_device(lambda: cupy.copyto(y, x)) / 1e9)
    step = on_device(lambda: kernel((132 * 8,), (512,), (x, y, np.int64(x.size))))
    say(what="kernel x + 1", TB_per_s=2 * x.nbytes / step / 1e9)
    pinned = cupy.cuda.alloc_pinned_memory(1 << 26)
    host = np.frombuffer(pinned, "u1", 1 << 26)
    target = cupy.empty(1 << 26, "u1")
    say(what="pinned to device", GB_per_s=host.nbytes / on_device(lambda: target.set(host)) / 1e6)
    pageable = np.ones(1 << 26, "u1")
    say(
        what="pageable to device",
        GB_per_s=host.nbytes / on_device(lambda: target.set(pageable), 5) / 1e6,
    )
    small = np.ones(64 * 784, "f")
    on = cupy.empty(64 * 784, "f")
    say(what="set of 200 kB, pageable", us=on_host(lambda: on.set(small), 500))
    say(what="get of 4 kB", us=on_host(lambda: on[:1000].get(), 500))


def launches(kernel: Any) -> None:
    """Print what launches cost the host and the device."""
    x, y = (cupy.ones(1024, "f") for _ in range(2))
    arguments = (x, y, np.int64(1024))
    say(what="launch of a RawKernel", us=on_host(lambda: kernel((1,), (1024,), arguments)))
    pointers = (np.uint64(x.data.ptr), np.uint64(y.data.ptr), np.int64(1024))
    say(what="launch of a RawKernel, pointers", us=on_host(lambda: kernel((1,), (1024,), pointers)))
    say(what="cupy.add", us=on_host(lambda: cupy.add(x, 1, out=y)))
    say(what="device.use and back", us=on_host(_enter))
    say(what="event record", us=on_host(_recorder()))
    stream = cupy.cuda.Stream(non_blocking=True)
    for count in (1, 10, 100, 1000):
        with stream:
            begin = time.perf_counter()
            stream.begin_capture()
            for _ in range(count):
                kernel((1,), (1024,), arguments)
            graph = stream.end_capture()
            captured = time.perf_counter() - begin
            begin = time.perf_counter()
            graph.upload(stream)
            stream.synchronize()
            uploaded = time.perf_counter() - begin
            device = on_device(lambda: graph.launch(stream))  # noqa: B023 - called at once
            host = on_host(lambda: graph.launch(stream), 100)  # noqa: B023
        say(
            what=f"graph of {count}",
            ms_to_capture=captured * 1e3,
            ms_to_upload=uploaded * 1e3,
            us_of_device=device * 1e3,
            us_of_host=host,
        )


def _enter() -> None:
    with cupy.cuda.Device(0):
        pass


def _recorder() -> Callable[[], None]:
    event = cupy.cuda.Event(disable_timing=True)
    return lambda: event.record()


def products() -> None:
    """Print rates of products by CuPy's own cuBLAS."""
    n = 8192
    for dtype in ("float16", "float32"):
        a, b = (cupy.random.standard_normal((n, n), dtype="f").astype(dtype) for _ in range(2))
        out = cupy.empty((n, n), dtype)
        milliseconds = on_device(lambda: cupy.matmul(a, b, out=out), 5)  # noqa: B023
        say(what=f"product {n} {dtype}", TFLOP_per_s=2 * n**3 / milliseconds / 1e9)


def capture_of_allocations() -> None:
    """Print what happens to CuPy's pool during a capture."""
    stream = cupy.cuda.Stream(non_blocking=True)
    for name, before in (("pool has memory", True), ("pool has none", False)):
        cupy.get_default_memory_pool().free_all_blocks()
        with stream:
            x = cupy.ones(1 << 20, "f")
            if before:
                del_me = cupy.empty(1 << 20, "f")
                del del_me
            stream.synchronize()
            stream.begin_capture()
            try:
                y = cupy.empty(1 << 20, "f")
                cupy.add(x, 1, out=y)
                said = "runs"
            except Exception as error:
                said = f"{type(error).__name__}: {error}"[:200]
            try:
                stream.end_capture()
            except Exception as error:
                said += f" / {type(error).__name__}: {error}"[:200]
        say(what=f"allocation in a capture, {name}", found=said)


def main() -> None:
    """Print all of it."""
    kernel = cupy.RawKernel(_CODE, "add")
    begin = time.perf_counter()
    kernel.compile()
    say(what="compile a kernel", ms=(time.perf_counter() - begin) * 1e3)
    launches(kernel)
    capture_of_allocations()
    memory(kernel)
    products()


if __name__ == "__main__":
    main()
