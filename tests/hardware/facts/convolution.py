"""Which convolutions have plans in cuDNN's graph interface, are correct, and can be captured."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

from hardware.device import Device
from hardware.facts.legacy import LIBRARY
from hardware.headers import Library

__all__ = ["FUNCTIONS", "LIBRARY", "Probe", "cases", "described"]

FUNCTIONS = ("cudnnGetVersion",)
_TYPES: dict[str, tuple[str, Any]] = {
    "float32": ("FLOAT", np.float32),
    "float16": ("HALF", np.float16),
    "bfloat16": ("BFLOAT16", ml_dtypes.bfloat16),
}
_FORMS: dict[str, dict[str, Any]] = {
    "3x3": {"image": (2, 16, 10, 10), "weight": (32, 16, 3, 3), "pad": 1},
    "1x1": {"image": (2, 16, 10, 10), "weight": (32, 16, 1, 1)},
    "stride": {"image": (2, 16, 10, 10), "weight": (32, 16, 3, 3), "pad": 1, "stride": 2},
    "dilated": {"image": (2, 16, 10, 10), "weight": (32, 16, 3, 3), "pad": 2, "dilate": 2},
    "grouped": {"image": (2, 32, 10, 10), "weight": (32, 8, 3, 3), "pad": 1},
    "depthwise": {"image": (2, 32, 10, 10), "weight": (32, 1, 3, 3), "pad": 1},
    "7x7 of 3 channels": {"image": (2, 3, 20, 20), "weight": (16, 3, 7, 7), "pad": 3, "stride": 2},
    "odd channels": {"image": (2, 5, 9, 9), "weight": (7, 5, 3, 3), "pad": 1},
}
_KINDS = ("forward", "data gradient", "weight gradient", "forward+bias+relu", "forward+statistics")


def cases() -> list[dict[str, Any]]:
    """Return the convolutions to try."""
    every = product(_KINDS, _TYPES, ("NHWC", "NCHW"), _FORMS)
    return [dict(zip(("kind", "type", "layout", "form"), one, strict=True)) for one in every]


def _strides(shape: tuple[int, ...], layout: str) -> list[int]:
    _, c, h, w = shape
    return [c * h * w, 1, w * c, c] if layout == "NHWC" else [c * h * w, h * w, w, 1]


def _out_shape(form: dict[str, Any]) -> tuple[int, ...]:
    (n, _, height, width), (out, _, kernel, _) = form["image"], form["weight"]
    pad, stride, dilate = form.get("pad", 0), form.get("stride", 1), form.get("dilate", 1)
    sizes = ((one + 2 * pad - dilate * (kernel - 1) - 1) // stride + 1 for one in (height, width))
    return (n, out, *sizes)


def described(cudnn: Any, case: dict[str, Any], handle: Any = None) -> tuple[Any, dict[str, Any]]:
    """Return the graph of a case, and its tensors: ``image``, ``weight``, ``out``, …"""
    form, kind = _FORMS[case["form"]], getattr(cudnn.data_type, _TYPES[case["type"]][0])
    single = cudnn.data_type.FLOAT
    graph = cudnn.pygraph(
        io_data_type=kind, intermediate_data_type=single, compute_data_type=single, handle=handle
    )
    shapes = {"image": form["image"], "weight": form["weight"], "out": _out_shape(form)}
    attributes = {
        name: [form.get(key, default)] * 2
        for name, key, default in (
            ("padding", "pad", 0),
            ("stride", "stride", 1),
            ("dilation", "dilate", 1),
        )
    }

    def tensor(name: str, shape: tuple[int, ...] | None = None) -> Any:
        shape = shape or shapes[name]
        return graph.tensor(
            name=name, dim=list(shape), stride=_strides(shape, case["layout"]), data_type=kind
        )

    def written(one: Any, name: str) -> Any:
        one.set_output(True).set_data_type(kind).set_dim(list(shapes[name]))
        return one.set_stride(_strides(shapes[name], case["layout"]))

    if case["kind"] == "data gradient":
        loss, weight = tensor("out"), tensor("weight")
        found = graph.conv_dgrad(loss=loss, filter=weight, **attributes)
        return graph, {"out": loss, "weight": weight, "image": written(found, "image")}
    if case["kind"] == "weight gradient":
        image, loss = tensor("image"), tensor("out")
        found = graph.conv_wgrad(image=image, loss=loss, **attributes)
        return graph, {"image": image, "out": loss, "weight": written(found, "weight")}
    image, weight = tensor("image"), tensor("weight")
    tensors = {"image": image, "weight": weight}
    out = graph.conv_fprop(image=image, weight=weight, **attributes)
    if "bias" in case["kind"]:
        tensors["bias"] = tensor("bias", (1, shapes["out"][1], 1, 1))
        out = graph.relu(graph.bias(input=out, bias=tensors["bias"]))
    tensors["out"] = written(out, "out")
    if "statistics" in case["kind"]:
        sums = graph.genstats(input=out)
        for name, one in zip(("sum", "squares"), sums, strict=True):
            tensors[name] = one.set_output(True).set_data_type(single)
    return graph, tensors


class Probe:
    """Builds plans and runs them."""

    def __init__(self, device: Device) -> None:
        self._library = Library(*LIBRARY)  # loaded first: the front end uses an existing one
        import cudnn

        self._cudnn, self._device = cudnn, device
        self._handle = cudnn.create_handle()
        cudnn.set_stream(handle=self._handle, stream=device.stream.value)

    def run(self, case: dict[str, Any]) -> dict[str, Any]:
        """Try one convolution; with gradients, by what each makes of a product of all three."""
        cudnn, device = self._cudnn, self._device
        graph, tensors = described(cudnn, case, self._handle)
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        graph.check_support()
        graph.build_plans()
        values = self._values(case)
        memory = {name: device.put(_laid(one, case["layout"])) for name, one in values.items()}
        target = {"data gradient": "image", "weight gradient": "weight"}.get(case["kind"], "out")
        form = _FORMS[case["form"]]
        shape = {"out": _out_shape(form)}.get(target) or form[target]
        like = _laid(np.empty(shape, _TYPES[case["type"]][1]), case["layout"])
        memory[target] = device.empty(like.nbytes)
        for name in {"sum", "squares"} & tensors.keys():
            memory[name] = device.empty(4 * shape[1])
        size = graph.get_workspace_size()
        workspace = device.empty(size)
        buffers = {one: memory[name].value for name, one in tensors.items()}

        def call() -> None:
            graph.execute(buffers, workspace.value, handle=self._handle)

        found = device.captured(call, memory[target], like)
        call()
        device.synchronize()
        got = device.get(memory[target], like).astype(np.float64)
        expected = _laid(_expected(case, values), case["layout"])
        error = float(np.abs(got - expected).max() / np.sqrt(np.mean(expected**2)))
        return {**found, "plans": graph.get_execution_plan_count(), "workspace": size} | {
            "error_of_rms": error
        }

    def _values(self, case: dict[str, Any]) -> dict[str, Any]:
        form, dtype = _FORMS[case["form"]], _TYPES[case["type"]][1]
        rng = np.random.default_rng(0)
        shapes = {"image": form["image"], "weight": form["weight"], "out": _out_shape(form)}
        shapes["bias"] = (1, form["weight"][0], 1, 1)
        return {name: rng.standard_normal(one).astype(dtype) for name, one in shapes.items()}


def _laid(values: Any, layout: str) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(values.transpose(0, 2, 3, 1) if layout == "NHWC" else values)


def _expected(case: dict[str, Any], values: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Return the result by loops over the kernel, in double precision."""
    form = _FORMS[case["form"]]
    image, weight, out = (values[name].astype(np.float64) for name in ("image", "weight", "out"))
    pad, stride, dilate = form.get("pad", 0), form.get("stride", 1), form.get("dilate", 1)
    padded = np.pad(image, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    groups = image.shape[1] // weight.shape[1]
    (n, filters, height, width), kernel = out.shape, weight.shape[2]
    split = weight.reshape(groups, filters // groups, *weight.shape[1:])
    heads = out.reshape(n, groups, filters // groups, height, width)
    results = {"out": np.zeros_like(heads), "image": np.zeros_like(padded), "weight": split * 0}
    for i, j in np.ndindex(kernel, kernel):
        rows = slice(i * dilate, i * dilate + (height - 1) * stride + 1, stride)
        columns = slice(j * dilate, j * dilate + (width - 1) * stride + 1, stride)
        part = padded[:, :, rows, columns].reshape(n, groups, -1, height, width)
        at = split[..., i, j]
        results["out"] += np.einsum("ngchw,gfc->ngfhw", part, at)
        results["weight"][..., i, j] += np.einsum("ngchw,ngfhw->gfc", part, heads)
        back = np.einsum("ngfhw,gfc->ngchw", heads, at)
        results["image"][:, :, rows, columns] += back.reshape(n, -1, height, width)
    if case["kind"] == "weight gradient":
        return results["weight"].reshape(weight.shape)
    if case["kind"] == "data gradient":
        end = (image.shape[2] + pad, image.shape[3] + pad)
        return results["image"][:, :, pad : end[0], pad : end[1]]
    found = results["out"].reshape(out.shape)
    if "bias" in case["kind"]:
        found = np.maximum(found + values["bias"].astype(np.float64), 0)
    return np.asarray(found)
