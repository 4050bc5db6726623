"""Consistency of a block's compiled and uncompiled computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .. import autograd
from ..gluon import HybridBlock
from ..initializer import Initializer
from ..ndarray import NDArray
from ..types import Array
from .comparison import assert_almost_equal

__all__ = ["check_gluon_hybridize_consistency"]


class _Given(Initializer):
    """Initializes parameters with the values of another block's parameters, by name."""

    def __init__(self, values: Mapping[str, Array]) -> None:
        super().__init__()
        self._values = values

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = self._values[name]


def check_gluon_hybridize_consistency(
    net_builder: Callable[..., HybridBlock],
    data_l: Sequence[NDArray],
    numpy_func: Callable[..., Array] | None = None,
    test_grad: bool = True,
    rtol: float = 1e-4,
    atol: float = 1e-4,
) -> None:
    """Assert that a block computes the same outputs and gradients whether or not it is compiled.

    Args:
        net_builder: creates the block from a ``prefix``; the block must be deterministic.
        data_l: the inputs.
        numpy_func: computes the expected output from NumPy arrays.
        test_grad: whether to compare the gradients of the inputs, too.
        rtol, atol: tolerances.
    """
    expected: tuple[Array, list[Array]] | None = None
    values: Mapping[str, Array] = {}
    for compiled in (False, True):
        net = net_builder(prefix="net_")
        if expected is None:
            net.initialize()
        else:
            net.initialize(_Given(values))
        net.hybridize(compiled)
        plain = net(*data_l).asnumpy()
        output, gradients = _run_recorded(net, data_l) if test_grad else (plain, [])
        if expected is None:
            values = {name: one.data().asnumpy() for name, one in net.collect_params().items()}
            expected = plain, gradients
        for one in (plain, output):
            assert_almost_equal(one, expected[0], rtol=rtol, atol=atol)
        for one, other in zip(gradients, expected[1], strict=True):
            assert_almost_equal(one, other, rtol=rtol, atol=atol)
    if numpy_func is not None:
        wanted = numpy_func(*[one.asnumpy() for one in data_l])
        assert_almost_equal(plain, wanted, rtol=rtol, atol=atol)


def _run_recorded(net: HybridBlock, inputs: Sequence[NDArray]) -> tuple[Array, list[Array]]:
    copies = [one.copy() for one in inputs]
    for one in copies:
        one.attach_grad()
    with autograd.record():
        output = net(*copies)
    output.backward(output)
    return output.asnumpy(), [one.grad.asnumpy() for one in copies if one.grad is not None]
