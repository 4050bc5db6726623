"""Deconvolutions computed phase by phase match the reference, and run where they are faster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.kernel import Version
from core.kernels.native import is_available

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)

SHAPE = (2, 24, 5, 6)
KERNEL = "native:deconvolution"


def executor_of(attributes: dict[str, Any], options: CompileOptions | None = None) -> Any:
    """Return an executor whose parameters have versions, like a module's."""
    data = mx.sym.Convolution(mx.sym.Variable("data"), name="first", num_filter=32, kernel=(1, 1))
    symbol = mx.sym.Deconvolution(data, name="up", **{"num_filter": 3, **attributes})
    random = np.random.RandomState(3)
    shapes, _, _ = symbol.infer_shape(data=SHAPE)
    arguments = {
        name: mx.nd.array(random.uniform(-1, 1, shape))
        for name, shape in zip(symbol.list_arguments(), shapes, strict=True)
    }
    for one in arguments.values():
        one.version = Version()
    return bind(symbol, mx.cpu(), arguments, options=options)


def kernels(executor: Any, *, is_train: bool = False) -> set[str]:
    programs = [plan.compiled.program for plan in executor._plans.values()]
    (program,) = (one for one in programs if one.is_train == is_train)
    return {step.kernel.name for step in program.steps if step.kernel is not None}


def assert_equal(executor: Any, reference: Any) -> None:
    (got,), (wanted,) = (one.forward(is_train=False) for one in (executor, reference))
    largest = float(np.abs(wanted.asnumpy()).max())
    np.testing.assert_allclose(got.asnumpy(), wanted.asnumpy(), rtol=0, atol=1e-5 * largest)


@pytest.mark.parametrize("no_bias", [True, False], ids=["no_bias", "bias"])
@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel": (4, 4), "stride": (2, 2), "pad": (1, 1)},
        {"kernel": (5, 3), "stride": (2, 2), "pad": (1, 0)},
        {"kernel": (9, 9), "stride": (4, 4), "pad": (3, 3), "adj": (1, 1)},
        {"kernel": (7, 6), "stride": (4, 2), "target_shape": (20, 12)},
        {"kernel": (2, 3), "stride": (2, 3)},
        {"kernel": (16, 16), "stride": (8, 8), "pad": (4, 4), "num_filter": 21},
        {"kernel": (8, 8), "stride": (8, 8), "pad": (9, 11)},
    ],
    ids=str,
)
def test_it_equals_the_reference(attributes: dict[str, Any], no_bias: bool) -> None:
    """Windows that strides divide and ones they do not; outputs cropped by a phase and more."""
    attributes = {"no_bias": no_bias, **attributes}
    executor = executor_of(attributes)
    assert_equal(executor, executor_of(attributes, CompileOptions(table=None)))
    assert KERNEL in kernels(executor)


def test_changed_weights_are_rearranged_again() -> None:
    attributes = {"kernel": (4, 4), "stride": (2, 2), "pad": (1, 1)}
    executor, reference = (
        executor_of(attributes, one) for one in (None, CompileOptions(table=None))
    )
    assert_equal(executor, reference)
    for one in (executor, reference):
        one.arg_dict["up_weight"][:] *= 2
    assert_equal(executor, reference)


@pytest.mark.parametrize(
    "attributes",
    [
        {"num_filter": 64},
        {"num_filter": 32, "num_group": 2},
        {"dilate": (2, 2)},
        {"stride": (1, 1)},
    ],
    ids=str,
)
def test_other_deconvolutions_are_left_to_onednn(attributes: dict[str, Any]) -> None:
    executor = executor_of({"kernel": (4, 4), "stride": (2, 2), "pad": (1, 1), **attributes})
    executor.forward(is_train=False)
    assert KERNEL not in kernels(executor)


def test_training_is_left_to_onednn() -> None:
    executor = executor_of({"kernel": (4, 4), "stride": (2, 2), "pad": (1, 1)})
    executor.forward(is_train=True)
    assert KERNEL not in kernels(executor, is_train=True)
