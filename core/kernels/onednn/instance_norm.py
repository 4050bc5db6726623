"""Instance and group normalization.

Plain data is viewed as rows, each with a mean and a variance: layer normalization without scale and
shift, which are applied afterwards. Images in the layout of convolutions stay in it: an instance
normalization is a batch normalization of each sample separately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...capabilities.layers import SampleNorm
from ...types import Array, Shape
from ..kernel import Kernel, KernelArrays, KernelLayouts, KernelRequest, KernelResources, TensorSpec
from .constants import Algorithm, Argument, Normalization, Propagation
from .kernel import are_float32, present
from .memory import MemoryDesc, desc_of, plain, sample_of
from .primitive import Launch, Primitive, launch, scratchpad_bytes

__all__ = ["group_norm", "instance_norm", "sample_norm_backward"]

_FLOAT32 = np.dtype("float32")
_BYTES = np.dtype("uint8")
_SCALED = Normalization.USE_SCALE | Normalization.USE_SHIFT


class _Rows(Kernel):
    """Normalizes rows, then scales and shifts each by the numbers of its channel or group.

    Args:
        view: samples, channels or groups, and the elements of each.
    """

    inplace = ()
    uses_scratch = False

    def __init__(self, request: KernelRequest[SampleNorm], view: Shape) -> None:
        self.name = "onednn:sample_norm"
        self._view, self._eps = view, np.float32(request.operator.eps)
        self._normalize = _layer_norm(view, request.operator.eps)
        self._scale = _scaling(view, shifts=True)
        self.scratchpad_bytes = scratchpad_bytes(self._normalize, self._scale)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that normalizes."""
        data, gamma, beta = map(present, arrays.inputs)
        out, mean, deviation = map(present, arrays.outputs)
        tensors = {
            Argument.SRC: data,
            Argument.DST: out,
            Argument.MEAN: mean,
            Argument.VARIANCE: deviation,
        }
        normalize = launch(self._normalize, tensors, resources)
        shift = Argument.of_post_operation(0)
        tensors = {Argument.SRC: out, Argument.SRC_1: gamma, shift: beta, Argument.DST: out}
        scale, eps = launch(self._scale, tensors, resources), self._eps

        def call() -> Any:
            normalize()
            np.add(deviation, eps, out=deviation)
            np.sqrt(deviation, out=deviation)
            return scale.call()

        return call


class _RowsBackward(Kernel):
    """The gradients of ``_Rows``. The memory of the data's gradient temporarily holds the terms of
    the sums for the other gradients."""

    name = "onednn:sample_norm_backward"
    inplace = ()
    backward_inputs = (0, 1)
    backward_outputs = (1, 2)
    uses_scratch = False

    def __init__(self, request: KernelRequest[SampleNorm], view: Shape) -> None:
        eps = request.operator.eps
        self._view, self._eps = view, np.float32(eps)
        self._scale = _scaling(view, shifts=False)
        rows, statistics = _row_descs(view)
        hint = _layer_norm(view, eps)
        self._differentiate = Primitive.of(
            "layer_normalization_backward",
            Propagation.BACKWARD_DATA,
            *(rows, rows, rows, statistics),
            eps,
            Normalization.NONE,
            hint,
        )
        self.scratchpad_bytes = scratchpad_bytes(self._scale, self._differentiate)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes the requested gradients."""
        data, gamma = present(arrays.inputs[0]), present(arrays.inputs[1])
        mean, deviation = present(arrays.outputs[1]), present(arrays.outputs[2])
        grad, data_grad = present(arrays.out_grads[0]), present(arrays.in_grads[0])
        variance = resources.allocate(deviation.shape, _FLOAT32)
        tensors = {Argument.SRC: grad, Argument.SRC_1: gamma, Argument.DST: data_grad}
        scale = launch(self._scale, tensors, resources)
        tensors = {
            Argument.SRC: data,
            Argument.MEAN: mean,
            Argument.VARIANCE: variance,
            Argument.DIFF_DST: data_grad,
            Argument.DIFF_SRC: data_grad,
        }
        differentiate, eps = launch(self._differentiate, tensors, resources), self._eps
        add_up = self._sums(arrays, resources)

        def call() -> Any:
            add_up()  # first: its terms lie where the scaled gradient is written next
            # Gamma is the same along a row, so the gradient is multiplied by it beforehand, and the
            # primitive has no scale.
            scale()
            np.multiply(deviation, deviation, out=variance)
            np.subtract(variance, eps, out=variance)
            return differentiate.call()

        return call

    def _sums(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that writes the gradients of gamma and beta."""
        samples, channels, size = self._view
        count = samples * channels
        data, mean, deviation, grad, centered = (
            present(array).reshape(count, -1)
            for array in (
                arrays.inputs[0],
                *arrays.outputs[1:],
                arrays.out_grads[0],
                arrays.in_grads[0],
            )
        )
        gamma_grad, beta_grad = arrays.in_grads[1:]
        # Products with ones, and of rows with columns: BLAS adds up faster than NumPy's sum.
        ones = resources.allocate((size,), _FLOAT32)
        ones.fill(1)
        sums = resources.allocate((count,), _FLOAT32)
        products, columns = sums.reshape(count, 1, 1), centered.reshape(count, size, 1)
        of_samples, deviations = sums.reshape(samples, channels), deviation.reshape(-1)
        rows = grad.reshape(count, 1, size)

        def add_up() -> None:
            if beta_grad is not None:
                np.dot(grad, ones, out=sums)
                np.sum(of_samples, axis=0, out=beta_grad)
            if gamma_grad is not None:
                np.subtract(data, mean, out=centered)
                np.matmul(rows, columns, out=products)
                np.divide(sums, deviations, out=sums)
                np.sum(of_samples, axis=0, out=gamma_grad)

        return add_up


class _Samples(Kernel):
    """Normalizes the channels of each sample in turn."""

    inplace = ((0, 0),)
    uses_scratch = False

    def __init__(self, request: KernelRequest[SampleNorm], data: TensorSpec) -> None:
        self.name = "onednn:sample_norm"
        self._eps = np.float32(request.operator.eps)
        self._count = data.shape[0]
        self.sample = sample_of(desc_of(data))
        self.primitive = _batch_norm(self.sample, request.operator.eps)
        self.scratchpad_bytes = scratchpad_bytes(self.primitive)
        none = (None, None)
        self.layouts = KernelLayouts((data.layout, *none), (data.layout, *none))

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that normalizes."""
        data, gamma, beta = map(present, arrays.inputs)
        out, mean, deviation = map(present, arrays.outputs)
        parts = zip(
            *(_parts(one, self._count) for one in (data, out, mean, deviation)), strict=True
        )
        launches = [
            launch(
                self.primitive,
                {
                    Argument.SRC: source,
                    Argument.DST: target,
                    Argument.MEAN: means,
                    Argument.VARIANCE: variances,
                    Argument.SCALE: gamma,
                    Argument.SHIFT: beta,
                },
                resources,
            )
            for source, target, means, variances in parts
        ]
        eps = self._eps

        def call() -> None:
            for normalize in launches:
                normalize()
            np.add(deviation, eps, out=deviation)
            np.sqrt(deviation, out=deviation)

        return call


class _SamplesBackward(Kernel):
    """The gradients of ``_Samples``; those of gamma and beta are summed at the end."""

    name = "onednn:sample_norm_backward"
    inplace = ()
    backward_inputs = (0, 1)
    backward_outputs = (1, 2)
    uses_scratch = False

    def __init__(
        self, request: KernelRequest[SampleNorm], data: TensorSpec, forward: _Samples
    ) -> None:
        self._eps = np.float32(request.operator.eps)
        self._count = data.shape[0]
        sample = forward.sample
        self._primitive = Primitive.of(
            "batch_normalization_backward",
            Propagation.BACKWARD,
            *(sample, sample, sample),
            request.operator.eps,
            _SCALED,
            forward.primitive,
        )
        self.scratchpad_bytes = scratchpad_bytes(self._primitive)
        layout, none = data.layout, (None, None)
        self.layouts = KernelLayouts((layout, *none), (), (layout, *none), (layout, *none))

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that computes the requested gradients."""
        data, gamma = present(arrays.inputs[0]), present(arrays.inputs[1])
        mean, deviation = present(arrays.outputs[1]), present(arrays.outputs[2])
        grad, data_grad = present(arrays.out_grads[0]), present(arrays.in_grads[0])
        variance, gamma_grads, beta_grads = (
            resources.allocate(deviation.shape, _FLOAT32) for _ in range(3)
        )
        tensors = (data, mean, variance, grad, data_grad, gamma_grads, beta_grads)
        launches = [
            self._launch(gamma, parts, resources)
            for parts in zip(*(_parts(one, self._count) for one in tensors), strict=True)
        ]
        sums = [
            (grads, target)
            for grads, target in zip((gamma_grads, beta_grads), arrays.in_grads[1:], strict=True)
            if target is not None
        ]
        eps = self._eps

        def call() -> None:
            np.multiply(deviation, deviation, out=variance)
            np.subtract(variance, eps, out=variance)
            for differentiate in launches:
                differentiate()
            for grads, target in sums:
                np.sum(grads, axis=0, out=target)

        return call

    def _launch(self, gamma: Array, parts: Sequence[Array], resources: KernelResources) -> Launch:
        data, mean, variance, grad, data_grad, gamma_grad, beta_grad = parts
        tensors = {
            Argument.SRC: data,
            Argument.MEAN: mean,
            Argument.VARIANCE: variance,
            Argument.SCALE: gamma,
            Argument.DIFF_DST: grad,
            Argument.DIFF_SRC: data_grad,
            Argument.DIFF_SCALE: gamma_grad,
            Argument.DIFF_SHIFT: beta_grad,
        }
        return launch(self._primitive, tensors, resources)


def instance_norm(request: KernelRequest[SampleNorm]) -> Kernel | None:
    """Prepare the forward pass, in the layout of the data."""
    data, view = request.inputs[0], _view(request)
    if data is None or view is None:
        return None
    return _Rows(request, view) if data.layout is None else _Samples(request, data)


def group_norm(request: KernelRequest[SampleNorm]) -> Kernel | None:
    """Prepare the forward pass on plain data, because groups of channels do not match the blocks of
    layouts."""
    view = _view(request)
    return None if view is None else _Rows(request, view)


def sample_norm_backward(request: KernelRequest[SampleNorm]) -> Kernel | None:
    """Prepare the backward pass of either if the gradient of the data is requested."""
    data, view, forward = request.inputs[0], _view(request), request.forward
    if data is None or view is None or request.in_grads[0] is None:
        return None
    if isinstance(forward, _Samples):
        return _SamplesBackward(request, data, forward)
    return _RowsBackward(request, view) if isinstance(forward, _Rows) else None


def _view(request: KernelRequest[SampleNorm]) -> Shape | None:
    """Return the operator's view of three axes; None if each row is a single number."""
    data = request.inputs[0]
    if not are_float32(request) or data is None:
        return None
    view: Shape = request.operator.view_shape(data.shape)
    return view if view[-1] > 1 else None


def _row_descs(view: Shape) -> tuple[MemoryDesc, MemoryDesc]:
    """Return the descriptors of the rows and of their statistics."""
    samples, channels, size = view
    return plain((samples * channels, size)), plain((samples * channels,))


def _layer_norm(view: Shape, eps: float) -> Primitive:
    rows, statistics = _row_descs(view)
    kind = Propagation.FORWARD_TRAINING
    return Primitive.of(
        "layer_normalization_forward", kind, rows, rows, statistics, eps, Normalization.NONE
    )


def _scaling(view: Shape, *, shifts: bool) -> Primitive:
    """Return the primitive that scales each row by a number of its channel, and adds another."""
    samples, channels, size = view
    rows, numbers = plain((samples, channels, size, 1)), plain((1, channels, 1, 1))
    post = (("binary", Algorithm.BINARY_ADD, numbers),) if shifts else ()
    return Primitive.of("binary", Algorithm.BINARY_MULTIPLY, rows, numbers, rows, post=post)


def _batch_norm(sample: MemoryDesc, eps: float) -> Primitive:
    kind = Propagation.FORWARD_TRAINING
    return Primitive.of("batch_normalization_forward", kind, sample, sample, eps, _SCALED)


def _parts(array: Array, count: int) -> Sequence[Array]:
    """Return the memory of each sample."""
    samples: Sequence[Array] = array.reshape(-1).view(_BYTES).reshape(count, -1)
    return samples
