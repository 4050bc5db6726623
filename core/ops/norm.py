"""Normalization by mean and standard deviation: batch, layer, instance and group."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from ..capabilities import layers as kinds
from ..capabilities.kinds import implements
from ..capabilities.quantized import QuantizedForm
from ..errors import ShapeError
from ..types import Array, DType, Shape, normalize_axis, shape_size
from .attributes import attribute
from .operator import Operator, Reads, Run
from .precision import wide_backward, wide_forward
from .registry import register
from .standardize import (
    center,
    copy_standardized,
    sums_for_backward,
    three_axes,
    write_data_gradient,
)

__all__ = [
    "BatchNorm",
    "BatchNormV1",
    "BatchNormWithReLU",
    "GroupNorm",
    "InstanceNorm",
    "LayerNorm",
    "SyncBatchNorm",
]

_FLOAT32 = np.dtype("float32")


@register("BatchNorm", "_npx_batch_norm")
@implements(kinds.BATCH_NORM)
class BatchNorm(Operator):
    """Normalize every channel over the batch, then scale and shift (Ioffe and Szegedy, 2015).

    Training uses the statistics of the batch; inference, or ``use_global_stats``, uses the moving
    averages. As in MXNet, these are updated by ``backward`` of a training pass, not by ``forward``:
    ``moving = momentum · moving + (1 - momentum) · batch``, with the population variance.

    gamma, beta and the statistics have shape (channels,); they are float32 if data is float16. With
    ``fix_gamma``, gamma is taken as 1 and its gradient is 0. MXNet's operator overwrites gamma with
    1; here the executor does so before a training pass, because operators do not change their
    inputs. ``output_mean_var`` also returns the statistics used, the mean and 1 / sqrt(variance +
    eps), which pass on no gradient.
    """

    quantized_form: ClassVar[QuantizedForm | None] = QuantizedForm(
        "_contrib_quantized_batch_norm", numbers=frozenset({1, 2, 3, 4})
    )
    names_outputs: ClassVar[bool] = True

    is_costly: ClassVar[bool] = True

    updates_backwards: ClassVar[bool] = True
    backward_reads_mode: ClassVar[bool] = True

    ignored_attributes: ClassVar[frozenset[str]] = frozenset(
        {"cudnn_off", "max_calib_range", "min_calib_range", "mkldnn_off"}
    )

    eps: float = attribute(1e-3, doc="added to the variance")
    momentum: float = attribute(0.9, doc="weight of the old moving averages in an update")
    fix_gamma: bool = attribute(True, doc="whether gamma is 1 and not trained")
    use_global_stats: bool = attribute(
        False, doc="whether training passes use the moving averages, too"
    )
    output_mean_var: bool = attribute(
        False, doc="whether the mean and the inverse standard deviation are outputs, too"
    )
    axis: int = attribute(1, doc="the axis of channels")

    def input_names(self) -> tuple[str, ...]:
        return ("data", "gamma", "beta", "moving_mean", "moving_var")

    def keeps_features(self) -> bool:
        return True

    def auxiliary_names(self) -> tuple[str, ...]:
        return ("moving_mean", "moving_var")

    def variable_initializers(self) -> Mapping[str, str]:
        return {"moving_mean": '["zero", {}]', "moving_var": '["one", {}]'}

    def set_to_one(self) -> tuple[int, ...]:
        return (1,) if self.fix_gamma else ()

    def output_names(self) -> tuple[str, ...]:
        return ("output", "mean", "var")

    def visible_outputs(self) -> int:
        return 3 if self.output_mean_var else 1

    # -- inference --------------------------------------------------------------------------

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], outputs[0])
        if data is None:
            return inputs, outputs
        channels = (data[normalize_axis(self.axis, len(data))],)
        vectors = [
            self.expect(name, shape, channels)
            for name, shape in zip(self.input_names()[1:], inputs[1:], strict=True)
        ]
        return [data, *vectors], [data, channels, channels]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        data = self.expect_dtype("data", inputs[0], outputs[0])
        if data is None:
            return inputs, outputs
        # As in MXNet: in half precision, a moving average would lose its small steps.
        vector = _FLOAT32 if data.itemsize < _FLOAT32.itemsize else data
        vectors = [
            self.expect_dtype(name, dtype, vector)
            for name, dtype in zip(self.input_names()[1:], inputs[1:], strict=True)
        ]
        return [data, *vectors], [data, vector, vector]

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0, 1, 3, 4), outputs=(1, 2))

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    # -- arithmetic: data as (outer, channels, inner), vectors as (1, channels, 1) -------------

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp = run.xp
        data, out = self._view(inputs[0]), self._view(outputs[0])
        mean, inverse = _column(outputs[1]), _column(outputs[2])
        if self._uses_batch(run):
            center(run, data, (0, 2), self.eps, out, mean, inverse)
        else:
            xp.copyto(mean, _column(inputs[3]))
            xp.add(_column(inputs[4]), self.eps, out=inverse)
            xp.sqrt(inverse, out=inverse)
            xp.reciprocal(inverse, out=inverse)
            xp.subtract(data, mean, out=out)
        out *= self._scale(run, inputs[1], inverse)
        out += _column(inputs[2])

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp = run.xp
        data_grad, gamma_grad, beta_grad = in_grads[:3]
        grad, mean, inverse = self._view(out_grads[0]), _column(outputs[1]), _column(outputs[2])
        if self._uses_batch(run):
            self._move(run, inputs[3], outputs[1])
            self._move(run, inputs[4], self._variance(run, outputs[2]))
        else:
            # The forward pass may have been a training pass, whose outputs are the statistics of
            # the batch.
            mean = _column(inputs[3])
            inverse = self._inverse(run, inputs[4])
        standardized = copy_standardized(run, self._view(inputs[0]), mean, inverse)
        sums = sums_for_backward(run, grad, standardized, (0, 2))
        if beta_grad is not None:
            xp.copyto(_column(beta_grad), sums[0])
        if gamma_grad is not None:
            xp.copyto(_column(gamma_grad), 0 if self.fix_gamma else sums[1])
        if data_grad is None:
            return
        scale = self._scale(run, inputs[1], inverse)
        if self._uses_batch(run):
            write_data_gradient(run, grad, standardized, sums, scale, self._view(data_grad))
        else:
            xp.multiply(grad, scale, out=self._view(data_grad))

    def _uses_batch(self, run: Run) -> bool:
        return run.is_train and not self.use_global_stats

    def _view(self, data: Array) -> Array:
        return data.reshape(three_axes(data.shape, self.axis % data.ndim))

    def _scale(self, run: Run, gamma: Array, inverse: Array) -> Array:
        """Return the factor for centered data."""
        if self.fix_gamma:
            return inverse
        scale = run.scratch(inverse.shape, inverse.dtype)
        run.xp.multiply(inverse, _column(gamma), out=scale)
        return scale

    def _variance(self, run: Run, inverse: Array) -> Array:
        """Return the variance from ``1 / sqrt(variance + eps)``; MXNet, too, keeps only that."""
        variance = run.scratch(inverse.shape, inverse.dtype)
        run.xp.multiply(inverse, inverse, out=variance)
        run.xp.reciprocal(variance, out=variance)
        variance -= self.eps
        return variance

    def _inverse(self, run: Run, variance: Array) -> Array:
        inverse = run.scratch(variance.shape, variance.dtype)
        run.xp.add(variance, self.eps, out=inverse)
        run.xp.sqrt(inverse, out=inverse)
        run.xp.reciprocal(inverse, out=inverse)
        return _column(inverse)

    def _move(self, run: Run, moving: Array, batch: Array) -> None:
        share = run.scratch(batch.shape, batch.dtype)
        run.xp.multiply(batch, 1 - self.momentum, out=share)
        moving *= self.momentum
        moving += share


@register("BatchNorm_v1")
class BatchNormV1(BatchNorm):
    """``BatchNorm`` under its name in old files; MXNet distinguishes the two names."""

    quantized_form = None


@register("_contrib_BatchNormWithReLU")
class BatchNormWithReLU(BatchNorm):
    """``BatchNorm`` followed by ReLU, with the same inputs, outputs and dtypes."""

    quantized_form = None

    kind = None

    def stored_outputs(self) -> int:
        """MXNet has oneDNN's workspace, the mask of ReLU, as a hidden output."""
        return 4

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0, 1, 3, 4), outputs=(0, 1, 2))

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ()

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        super().forward(run, inputs, outputs)
        run.xp.maximum(outputs[0], 0, out=outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        grad = run.scratch(out_grads[0].shape, out_grads[0].dtype)
        run.xp.multiply(out_grads[0], outputs[0] > 0, out=grad)
        super().backward(run, (grad, *out_grads[1:]), inputs, outputs, in_grads)


@register("_contrib_SyncBatchNorm")
class SyncBatchNorm(BatchNorm):
    """``BatchNorm`` for networks trained on several devices; here each device normalizes its own
    batch.

    MXNet's version combines the statistics of ``ndev`` devices. The third output is the variance
    itself.
    """

    quantized_form = None

    kind = None

    ndev: int = attribute(1, minimum=1, doc="number of devices trained together")
    key: str = attribute(doc="identifies the layer across devices")

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        super().forward(run, inputs, outputs)
        run.xp.copyto(outputs[2], self._variance(run, outputs[2]))

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        inverse = run.scratch(outputs[2].shape, outputs[2].dtype)
        run.xp.add(outputs[2], self.eps, out=inverse)
        run.xp.sqrt(inverse, out=inverse)
        run.xp.reciprocal(inverse, out=inverse)
        super().backward(run, out_grads, inputs, (*outputs[:2], inverse), in_grads)


class _SampleNorm(Operator, abc.ABC):
    """Normalize within every sample, then scale and shift.

    Outputs are the data, the mean and a second statistic. A subclass defines the view and the axes,
    and how the second statistic follows from ``1 / sqrt(variance + eps)``.
    """

    eps: float

    statistic_axes: ClassVar[tuple[int, ...]] = (2,)
    """The axes, of the view of three axes, over which statistics are computed."""

    def input_names(self) -> tuple[str, ...]:
        return ("data", "gamma", "beta")

    def output_names(self) -> tuple[str, ...]:
        return ("output", "mean", "std")

    @abc.abstractmethod
    def view_shape(self, data: Shape) -> Shape:
        """Return the shape of the view of three axes; gamma and beta apply along the second."""

    @abc.abstractmethod
    def statistic_shape(self, data: Shape) -> Shape:
        """Return the shape of the mean for this shape of data."""

    @abc.abstractmethod
    def vector_length(self, data: Shape) -> int:
        """Return the length of gamma and beta, 0 for unknown."""

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], outputs[0])
        if data is None:
            return inputs, outputs
        length = (self.vector_length(data),)
        gamma = self.expect("gamma", inputs[1], length)
        beta = self.expect("beta", inputs[2], length)
        statistic = self.statistic_shape(data)
        return [data, gamma, beta], [data, statistic, statistic]

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0, 1), outputs=(1, 2))

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, out = (x.reshape(self.view_shape(x.shape)) for x in (inputs[0], outputs[0]))
        mean, deviation = (self._statistic(x, data.shape) for x in outputs[1:])
        center(run, data, self.statistic_axes, self.eps, out, mean, deviation)
        out *= deviation
        out *= _column(inputs[1])
        out += _column(inputs[2])
        run.xp.reciprocal(deviation, out=deviation)

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp = run.xp
        data_grad, gamma_grad, beta_grad = in_grads
        data, grad = (x.reshape(self.view_shape(x.shape)) for x in (inputs[0], out_grads[0]))
        mean, deviation = (self._statistic(x, data.shape) for x in outputs[1:])
        inverse = run.scratch(deviation.shape, deviation.dtype)
        xp.reciprocal(deviation, out=inverse)
        standardized = copy_standardized(run, data, mean, inverse)
        if gamma_grad is not None or beta_grad is not None:
            sums = sums_for_backward(run, grad, standardized, (0, 2))
            for target, total in zip((beta_grad, gamma_grad), sums, strict=True):
                if target is not None:
                    xp.copyto(_column(target), total)
        if data_grad is not None:
            scaled = run.scratch(grad.shape, grad.dtype)
            xp.multiply(grad, _column(inputs[1]), out=scaled)
            sums = sums_for_backward(run, scaled, standardized, self.statistic_axes)
            target = data_grad.reshape(data.shape)
            write_data_gradient(run, scaled, standardized, sums, inverse, target)

    def _statistic(self, array: Array, view: Shape) -> Array:
        kept = (1 if axis in self.statistic_axes else n for axis, n in enumerate(view))
        return array.reshape(tuple(kept))


@register("LayerNorm", "_npx_layer_norm")
@implements(kinds.LAYER_NORM)
class LayerNorm(_SampleNorm):
    """Normalize along one axis, then scale and shift (Ba et al., 2016).

    gamma and beta have the length of the axis. ``output_mean_var`` also returns the mean and
    sqrt(variance + eps), with length 1 along the axis, which pass on no gradient.
    """

    names_outputs: ClassVar[bool] = True

    axis: int = attribute(-1, doc="the axis to normalize along")
    eps: float = attribute(1e-5, doc="added to the variance")
    output_mean_var: bool = attribute(
        False, doc="whether the mean and the standard deviation are outputs, too"
    )

    statistic_axes: ClassVar[tuple[int, ...]] = (1,)

    def visible_outputs(self) -> int:
        return 3 if self.output_mean_var else 1

    def view_shape(self, data: Shape) -> Shape:
        return three_axes(data, self.axis % len(data))

    def statistic_shape(self, data: Shape) -> Shape:
        axis = self.axis % len(data)
        return (*data[:axis], 1, *data[axis + 1 :])

    def vector_length(self, data: Shape) -> int:
        return data[normalize_axis(self.axis, len(data))]


@register("InstanceNorm")
@implements(kinds.INSTANCE_NORM)
class InstanceNorm(_SampleNorm):
    """Normalize every channel of every sample, then scale and shift (Ulyanov et al., 2016).

    gamma and beta have shape (channels,).
    """

    names_outputs: ClassVar[bool] = True

    eps: float = attribute(1e-3, doc="added to the variance")

    def visible_outputs(self) -> int:
        return 1

    def view_shape(self, data: Shape) -> Shape:
        return three_axes(data, 1)

    def statistic_shape(self, data: Shape) -> Shape:
        return data[:2]

    def vector_length(self, data: Shape) -> int:
        if len(data) < 2:
            raise ShapeError(f"data has shape {data}; expected (batch, channels, ...)")
        return data[1]


@register("GroupNorm")
@implements(kinds.GROUP_NORM)
class GroupNorm(_SampleNorm):
    """Normalize groups of channels of every sample, then scale and shift (Wu and He, 2018).

    gamma and beta have shape (num_groups,), as in MXNet 1.9. ``output_mean_var`` also returns the
    mean and sqrt(variance + eps), each (batch, num_groups), which pass on no gradient.
    """

    names_outputs: ClassVar[bool] = True

    num_groups: int = attribute(
        1, minimum=1, doc="number of groups of channels that are normalized separately"
    )
    eps: float = attribute(1e-5, doc="added to the variance")
    output_mean_var: bool = attribute(
        False, doc="whether the mean and the standard deviation are outputs, too"
    )

    def visible_outputs(self) -> int:
        return 3 if self.output_mean_var else 1

    def view_shape(self, data: Shape) -> Shape:
        return (data[0], self.num_groups, shape_size(data[1:]) // self.num_groups)

    def statistic_shape(self, data: Shape) -> Shape:
        return (data[0], self.num_groups)

    def vector_length(self, data: Shape) -> int:
        if len(data) < 3:
            raise ShapeError(
                f"data has shape {data}; expected (batch, channels, ...), 3 axes or more"
            )
        if data[1] % self.num_groups:
            raise ShapeError(
                f"data has {data[1]} channels, which num_groups {self.num_groups} does not divide"
            )
        return self.num_groups


def _column(vector: Array) -> Array:
    return vector.reshape(1, -1, 1)
