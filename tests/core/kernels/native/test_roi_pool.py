"""Region-of-interest pooling kernels in C against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.kernel import KernelRequest, TensorSpec
from core.kernels.native import is_available
from core.kernels.native.rroi_align import rotated_regions

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)

REFERENCE = CompileOptions(table=None)
ROIS = [
    [1, 0, 0, 9, 7],
    [0, 4, 2, 15, 12],
    [1, 10, 9, 30, 25],
    [-1, 1, 1, 8, 8],
    [1, 7.3, 6.6, 7.4, 6.5],
    [0, -6, -3, 5.5, 4.5],
    [0, 40, 40, 50, 50],
]
"""Of both images and of none, small ones, and some beyond the border."""

Arrays = dict[str, Any]
Symbol = mx.sym.Symbol


def trained(symbol: Symbol, values: Arrays, options: CompileOptions | None, **requests: str) -> Any:
    """Return an executor after two training steps."""
    arguments = {name: mx.nd.array(value) for name, value in values.items()}
    wanted = {name: requests.get(name, "write") for name in values if name != "rois"}
    gradients = {name: mx.nd.ones(values[name].shape) for name in wanted}
    wanted["rois"] = "null"
    executor = bind(symbol, mx.cpu(), arguments, gradients, grad_req=wanted, options=options)
    for _ in range(2):
        (out,) = executor.forward(is_train=True)
        executor.backward([mx.nd.array(np.random.RandomState(4).randn(*out.shape))])
    return executor


def kernels(executor: Any) -> set[str]:
    return {
        step.kernel.name
        for plan in executor._plans.values()
        for step in plan.compiled.program.steps
        if step.kernel is not None
    }


def assert_equals_reference(symbol: Symbol, values: Arrays, name: str, **requests: str) -> None:
    found, wanted = (trained(symbol, values, one, **requests) for one in (None, REFERENCE))
    assert {f"native:{name}", f"native:{name}_backward"} <= kernels(found)
    pairs = {"output": (found.outputs[0], wanted.outputs[0])}
    pairs |= {
        key: (value, wanted.grad_dict[key])
        for key, value in found.grad_dict.items()
        if value is not None
    }
    for key, (got, expected) in pairs.items():
        scale = max(float(np.abs(expected.asnumpy()).max()), 1e-3)
        np.testing.assert_allclose(
            got.asnumpy() / scale, expected.asnumpy() / scale, atol=1e-5, err_msg=key
        )


def regions(channels: int) -> Arrays:
    random = np.random.RandomState(channels)
    return {"data": random.randn(2, channels, 8, 9), "rois": np.array(ROIS)}


@pytest.mark.parametrize("channels", [1, 16, 37])
@pytest.mark.parametrize("size", [(1, 1), (2, 3), (7, 7)], ids=str)
def test_max_pooling_of_regions_matches_the_reference(channels: int, size: tuple[int, int]) -> None:
    symbol = mx.sym.ROIPooling(
        *map(mx.sym.Variable, ("data", "rois")), pooled_size=size, spatial_scale=0.5
    )
    assert_equals_reference(symbol, regions(channels), "roi_pool")


def test_the_first_of_equal_maxima_gets_the_gradient_and_nan_gets_none() -> None:
    """As in MXNet, where NaN is never a maximum."""
    values = regions(3)
    values["data"] = np.floor(values["data"])
    values["data"][:, 0, :5] = np.nan
    symbol = mx.sym.ROIPooling(
        *map(mx.sym.Variable, ("data", "rois")), pooled_size=(2, 2), spatial_scale=0.5
    )
    executors = [trained(symbol, values, options) for options in (None, REFERENCE)]
    (out, grad), expected = (
        (one.outputs[0].asnumpy(), one.grad_dict["data"].asnumpy()) for one in executors
    )
    assert out.min() == np.finfo("float32").min
    np.testing.assert_array_equal(out, expected[0])
    np.testing.assert_allclose(grad, expected[1], atol=1e-6)
    assert not grad[:, 0, :5].any()


def test_gradients_are_added_with_grad_req_add() -> None:
    symbol = mx.sym.ROIPooling(
        *map(mx.sym.Variable, ("data", "rois")), pooled_size=(3, 2), spatial_scale=0.5
    )
    assert_equals_reference(symbol, regions(20), "roi_pool", data="add")


@pytest.mark.parametrize(("pooled", "groups"), [(2, 0), (3, 2), (2, 3), (7, 7)])
def test_position_sensitive_pooling_matches_the_reference(pooled: int, groups: int) -> None:
    symbol = mx.sym.contrib.PSROIPooling(
        *map(mx.sym.Variable, ("data", "rois")),
        output_dim=3,
        pooled_size=pooled,
        group_size=groups,
        spatial_scale=0.5,
    )
    assert_equals_reference(symbol, regions(3 * (groups or pooled) ** 2), "psroi_pool")


@pytest.mark.parametrize(
    ("classes", "parts", "samples"), [(0, 0, 1), (1, 0, 4), (2, 2, 3), (4, 3, 2)]
)
def test_deformable_pooling_matches_the_reference(classes: int, parts: int, samples: int) -> None:
    """Without offsets, and with offsets per class of channels and for another number of parts."""
    values = regions(4 * 9)
    names = ["data", "rois"]
    if classes:
        size = parts or 3
        values["trans"] = np.random.RandomState(2).randn(len(ROIS), 2 * classes, size, size)
        names.append("trans")
    symbol = mx.sym.contrib.DeformablePSROIPooling(
        *map(mx.sym.Variable, names),
        output_dim=4,
        group_size=3,
        pooled_size=3,
        part_size=parts,
        sample_per_part=samples,
        spatial_scale=0.5,
        trans_std=0.3,
        no_trans=not classes,
    )
    assert_equals_reference(symbol, values, "deformable_psroi")


def test_a_region_of_a_missing_image_is_refused() -> None:
    values = regions(2)
    values["rois"][2, 0] = 2
    symbol = mx.sym.ROIPooling(
        *map(mx.sym.Variable, ("data", "rois")), pooled_size=(2, 2), spatial_scale=0.5
    )
    with pytest.raises(mx.MXNetError, match="index 2 is outside an axis of size 2"):
        trained(symbol, values, None)


@pytest.mark.parametrize(("channels", "ratio"), [(3, 2), (16, 1), (37, -1)])
def test_rotated_means_match_the_reference(channels: int, ratio: int) -> None:
    random = np.random.RandomState(6)
    count = 40
    rois = np.empty((count, 6), "float32")
    rois[:, 0] = random.randint(-1, 2, count)
    rois[:, 1:3] = random.uniform(-10, 60, (count, 2))
    rois[:, 3:5] = random.uniform(0, 90, (count, 2))
    rois[:, 5] = random.uniform(-200, 200, count)
    data = random.randn(2, channels, 11, 14).astype("float32")
    symbol = mx.sym.contrib.RROIAlign(
        mx.sym.Variable("data"),
        mx.sym.Variable("rois"),
        pooled_size=(3, 4),
        spatial_scale=0.3,
        sampling_ratio=ratio,
    )
    outputs = []
    for options in (None, REFERENCE):
        arguments = {"data": mx.nd.array(data), "rois": mx.nd.array(rois)}
        executor = bind(symbol, mx.cpu(), arguments, None, grad_req="null", options=options)
        outputs.append(executor.forward(is_train=False)[0].asnumpy())
        assert kernels(executor) == (set() if options else {"native:rroi_align"})
    assert abs(outputs[1]).max() > 1
    assert (outputs[1][rois[:, 0] < 0] == 0).all()
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(("height", "has_kernel"), [(1 << 13, True), (1 << 14, False)])
def test_images_too_large_for_32_bits_are_left_to_the_reference(
    height: int, has_kernel: bool
) -> None:
    shapes = ((1, 1, height, 1 << 13), (1, 6)), ((1, 1, 2, 2),)
    inputs, outputs = (
        tuple(TensorSpec(shape, np.dtype("float32")) for shape in group) for group in shapes
    )
    operator: Any = None
    request = KernelRequest(operator, False, False, inputs, outputs)
    assert (rotated_regions(request) is not None) is has_kernel
