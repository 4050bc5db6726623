"""Whether plans and cubins that were made where there is no device load and run on one.

``python -m hardware.first.prebuilt --make`` makes them in the folder ``.gpu-wheels/prebuilt``,
where there is cuDNN but perhaps no device; without an argument they are loaded and run.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[3] / ".gpu-wheels" / "prebuilt"
_SHAPES = {"image": (8, 64, 28, 28), "weight": (64, 64, 3, 3), "out": (8, 64, 28, 28)}
_TYPES = {"exact": ("FLOAT", "NCHW"), "bfloat16": ("BFLOAT16", "NHWC")}
_CODE = """
extern "C" __global__ void twice(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2.0f;
}
"""
_H100 = {
    "maxGridSize": [2147483647, 65535, 65535],
    "maxBlockSize": [1024, 1024, 64],
    "regsPerBlock": 65536,
    "multiProcessorCount": 132,
    "smCountOrigin": 0,
    "warpSize": 32,
    "maxSharedMemoryPerBlock": 49152,
    "maxSharedMemoryPerBlockOptin": 232448,
    "oversizedSharedMemoryPerBlock": 0,
    "reservedSharedMemoryPerBlock": 1024,
    "maxRegistersPerSM": 65536,
    "maxCtasPerSM": 32,
    "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048,
    "pciDeviceId": 0x2330,
    "isTccDriver": 0,
    "supportCoopLaunch": 1,
    "smClockRateKHz": 1980000,
    "memClockRateKHz": 2619000,
    "memoryBusWidth": 5120,
    "l2CacheSize": 52428800,
    "deviceName": "NVIDIA H100 80GB HBM3",
    "deviceVer": 900,
    "driverVer": 13000,
    "cudaDeviceId": 0,
    "totalGlobalMem": 85029158912,
}


def graph_of(cudnn: Any, name: str, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Return a graph of a convolution and its tensors, which have the uids 1, 2 and 3."""
    type_name, layout = _TYPES[name]
    kind, single = getattr(cudnn.data_type, type_name), cudnn.data_type.FLOAT
    graph = cudnn.pygraph(
        io_data_type=kind, intermediate_data_type=single, compute_data_type=single, **options
    )

    def strides(shape: tuple[int, ...]) -> list[int]:
        _, c, h, w = shape
        return [c * h * w, 1, w * c, c] if layout == "NHWC" else [c * h * w, h * w, w, 1]

    tensors = {
        one: graph.tensor(
            name=one, dim=list(_SHAPES[one]), stride=strides(_SHAPES[one]), data_type=kind, uid=uid
        )
        for uid, one in enumerate(("image", "weight"), start=1)
    }
    out = graph.conv_fprop(**tensors, padding=[1, 1], stride=[1, 1], dilation=[1, 1])
    out.set_output(True).set_data_type(kind).set_dim(list(_SHAPES["out"])).set_uid(3)
    tensors["out"] = out.set_stride(strides(_SHAPES["out"]))
    return graph, tensors


def built(cudnn: Any, name: str, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Return a graph with a plan, as the backend's own would be."""
    graph, tensors = graph_of(cudnn, name, **options)
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    note = cudnn.numerical_note
    graph.deselect_numeric_notes([note.NONDETERMINISTIC])
    if name == "exact":
        inexact = (note.TENSOR_CORE, note.DOWN_CONVERT_INPUTS, note.REDUCED_PRECISION_REDUCTION)
        graph.deselect_numeric_notes(list(inexact))
    graph.check_support()
    graph.build_plans()
    return graph, tensors


def make() -> None:
    """Write plans and a cubin for an H100."""
    import cudnn
    from cupy_backends.cuda.libs import nvrtc

    FOLDER.mkdir(parents=True, exist_ok=True)
    device = cudnn.create_device_properties(json.dumps(_H100))
    for name in _TYPES:
        graph, _ = built(cudnn, name, device_property=device, sm_version=900)
        described = {"workspace": graph.get_workspace_size(), "cudnn": cudnn.backend_version()}
        (FOLDER / f"{name}.plan").write_bytes(bytes(graph.serialize()))
        (FOLDER / f"{name}.json").write_text(json.dumps(described))
    program = nvrtc.createProgram(_CODE, "twice.cu", (), ())
    nvrtc.compileProgram(program, ["--gpu-architecture=sm_90"])
    (FOLDER / "twice.cubin").write_bytes(nvrtc.getCUBIN(program))


def _arrays(cupy: Any, name: str) -> tuple[dict[str, Any], Any]:
    """Return operands on the device, and the result in double precision."""
    random = np.random.default_rng(0)
    host = {one: random.standard_normal(_SHAPES[one]) for one in ("image", "weight")}
    exact = {one: cupy.asarray(value) for one, value in host.items()}
    padded = cupy.pad(exact["image"], ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = sum(
        cupy.einsum(
            "nchw,fc->nfhw", padded[:, :, i : i + 28, j : j + 28], exact["weight"][..., i, j]
        )
        for i in range(3)
        for j in range(3)
    )
    if name == "exact":
        return {one: value.astype("f") for one, value in exact.items()}, expected
    # The upper halves of float32, because CuPy has no bfloat16; in NHWC.
    halves = {
        one: cupy.ascontiguousarray(value.transpose(0, 2, 3, 1)).astype("f").view("u4")
        for one, value in exact.items()
    }
    return {one: (value >> 16).astype("u2") for one, value in halves.items()}, expected


def run(name: str) -> dict[str, Any]:
    """Load a plan and run it; then build the same plan here and run that."""
    import cudnn
    import cupy

    handle = cudnn.create_handle()
    described = json.loads((FOLDER / f"{name}.json").read_text())
    arrays, expected = _arrays(cupy, name)
    dtype = "f" if name == "exact" else "u2"
    shape = _SHAPES["out"] if name == "exact" else (8, 28, 28, 64)
    found: dict[str, Any] = {"plan": name, "made by": described["cudnn"]}

    def execute(graph: Any, workspace: int) -> tuple[Any, float]:
        out = cupy.zeros(shape, dtype)
        memory = cupy.empty(max(workspace, 256), "u1")
        pack = {1: arrays["image"].data.ptr, 2: arrays["weight"].data.ptr, 3: out.data.ptr}
        graph.execute(pack, memory.data.ptr, handle=handle)
        cupy.cuda.runtime.deviceSynchronize()
        if name != "exact":
            out = (out.astype("u4") << 16).view("f").transpose(0, 3, 1, 2)
        error = float(abs(out - expected).max() / cupy.sqrt((expected**2).mean()))
        return out, error

    begin = time.perf_counter()
    graph, _ = built(cudnn, name, handle=handle)
    found["seconds to build"] = time.perf_counter() - begin
    own, found["error of own"] = execute(graph, graph.get_workspace_size())
    data = bytes(graph.serialize())
    for which, content in (("own", data), ("carried", (FOLDER / f"{name}.plan").read_bytes())):
        begin = time.perf_counter()
        try:
            again = cudnn.pygraph(handle=handle)
            again.deserialize(handle, list(content))
            found[f"seconds to load {which}"] = time.perf_counter() - begin
            size = again.get_workspace_size()
            loaded, found[f"error of {which}"] = execute(again, size)
            found[f"same bytes as own, {which}"] = bool((loaded == own).all())
        except Exception as error:
            found[f"{which} refused"] = f"{type(error).__name__}: {error}"[:300]
    return found


def main() -> None:
    """Print what became of each."""
    import cupy

    module = cupy.RawModule(path=str(FOLDER / "twice.cubin"))
    x = cupy.arange(1000, dtype="f")
    module.get_function("twice")((4,), (256,), (x, np.int32(1000)))
    right = bool((x == cupy.arange(1000, dtype="f") * 2).all())
    print(json.dumps({"cubin": "runs", "right": right}))
    for name in _TYPES:
        try:
            print(json.dumps(run(name)))
        except Exception as error:
            print(json.dumps({"plan": name, "error": f"{type(error).__name__}: {error}"[:500]}))


if __name__ == "__main__":
    make() if sys.argv[1:] == ["--make"] else main()
