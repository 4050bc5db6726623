"""Connectionist temporal classification: the loss of unaligned labels, after Graves et al., 2006.

The loss sums over all alignments of the labels with the longer data: each label lasts one step or
more, and blanks may lie before, between and after the labels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ..capabilities.alignment import CTC
from ..capabilities.kinds import implements
from ..errors import AttributeValueError, ShapeError
from ..types import Array, DType, Shape
from .attributes import attribute
from .lookup import check_range
from .operator import ALL, Operator, Reads, Run
from .precision import wide_backward, wide_forward
from .registry import register
from .softmax import write_softmax

__all__ = ["CTCLoss", "WarpCTC"]


@dataclasses.dataclass(frozen=True)
class Targets:
    """What a batch of data is aligned with.

    Attributes:
        labels: (batch, labels), int64; the blank past an example's length.
        label_lengths, data_lengths: (batch,), int64.
        is_possible: (batch,), whether the labels fit into the steps.
    """

    labels: Array
    label_lengths: Array
    data_lengths: Array
    is_possible: Array

    @classmethod
    def of(
        cls,
        xp: Any,
        labels: Array,
        label_lengths: Array,
        data_lengths: Array,
        *,
        blank: int,
        channels: int,
    ) -> Targets:
        """Check and complete labels; those past an example's length are not read."""
        count = labels.shape[1]
        used = xp.where(xp.arange(count) < label_lengths[:, None], labels, blank)
        check_range(used, 0, channels)
        # Equal neighbors need a blank, and so a step, between them.
        repeats = (used[:, 1:] == used[:, :-1]) & (xp.arange(1, count) < label_lengths[:, None])
        needed = label_lengths + repeats.sum(axis=1)
        is_possible = (needed <= data_lengths) & (data_lengths > 0)
        return cls(used, label_lengths, data_lengths, is_possible)


class _Lattice:
    """The alignments of a batch of labels with its data, as probabilities in float64.

    State ``2i + 1`` of an example is its label i; even states are blanks. Shorter examples end in
    an earlier state and step.

    Args:
        run: the operator's environment.
        data: (steps, batch, channels), before the softmax.
        targets: what it is aligned with.
        blank: the channel of the blank.
    """

    def __init__(self, run: Run, data: Array, targets: Targets, blank: int) -> None:
        xp, used = run.xp, targets.labels
        self._run, self._steps = run, data.shape[0]
        batch, count = used.shape
        self._rows = xp.arange(batch)
        self._label_lengths, self._data_lengths = targets.label_lengths, targets.data_lengths
        self._is_possible = targets.is_possible
        self._states = xp.full((batch, 2 * count + 1), blank, dtype="int64")
        self._states[:, 1::2] = used
        # A step may skip the blank between two labels, unless these are equal: the blank separates
        # them.
        skips = xp.zeros(self._states.shape, dtype="bool")
        skips[:, 3::2] = (used[:, 1:] != used[:, :-1]) & (used[:, 1:] != blank)
        self._skip_cost = xp.where(skips, 0.0, -xp.inf)
        self._log_softmax = _log_softmax(run, data)
        self._alphas = run.scratch((self._steps, *self._states.shape), "float64")
        self._sum_forward()

    def losses(self) -> Array:
        """Return ``-log P(labels | data)`` of each example; like MXNet, 0 if the labels do not
        fit."""
        return self._run.xp.where(self._is_possible, -self._likelihoods, 0.0)

    def gradient(self) -> Array:
        """Return the gradient of each example's loss by the data; zeros beyond its length."""
        xp, shares = self._run.xp, self._alphas
        self._multiply_backward()
        likelihoods = xp.where(self._is_possible, self._likelihoods, 0.0)
        # alpha · beta / P is the probability of passing through a state. Graves et al. also divide
        # by the state's emission, which both their factors include; here only alpha does.
        shares -= likelihoods[:, None]
        xp.exp(shares, out=shares)
        gradient = self._log_softmax
        xp.exp(gradient, out=gradient)
        steps = xp.arange(self._steps)[:, None]
        xp.negative(shares, out=shares)
        xp.add.at(gradient, (steps[:, :, None], self._rows[:, None], self._states), shares)
        is_used = (steps < self._data_lengths) & self._is_possible
        # Selected, not multiplied by 0: data beyond an example's end may be NaN.
        return xp.where(is_used[:, :, None], gradient, 0.0)

    def _emissions(self, step: int) -> Array:
        return self._log_softmax[step][self._rows[:, None], self._states]

    def _sum_forward(self) -> None:
        """Forward algorithm: sum the paths from the start to each state, including its own
        emission."""
        xp, alphas = self._run.xp, self._alphas
        alphas[0] = -xp.inf
        alphas[0][:, :2] = self._emissions(0)[:, :2]
        for step in range(1, self._steps):
            before, now = alphas[step - 1], alphas[step]
            now[:, :1] = before[:, :1]
            xp.logaddexp(before[:, 1:], before[:, :-1], out=now[:, 1:])
            skipped = before[:, :-2] + self._skip_cost[:, 2:]
            xp.logaddexp(now[:, 2:], skipped, out=now[:, 2:])
            now += self._emissions(step)
        last = alphas[xp.maximum(self._data_lengths - 1, 0), self._rows]
        ends = 2 * self._label_lengths
        # Paths end in the last label or the blank behind it; without labels only in the blank.
        label_end = last[self._rows, xp.maximum(ends - 1, 0)]
        label_end = xp.where(self._label_lengths > 0, label_end, -xp.inf)
        self._likelihoods = xp.logaddexp(last[self._rows, ends], label_end)

    def _multiply_backward(self) -> None:
        """Backward algorithm: multiply each state by the sum of the paths from it to the end."""
        xp, shape = self._run.xp, self._states.shape
        state, ends = xp.arange(shape[1]), 2 * self._label_lengths[:, None]
        is_end = (state == ends) | (state == ends - 1)
        end_cost = xp.where(is_end, 0.0, -xp.inf)
        beta = self._run.scratch(shape, "float64")
        beta[...] = -xp.inf
        for step in reversed(range(self._steps)):
            if step + 1 < self._steps:
                beta = self._one_step_back(beta + self._emissions(step + 1))
            is_last = self._data_lengths == step + 1
            # An example's recursion starts at its own last step; what later steps computed is
            # discarded.
            beta = xp.where(is_last[:, None], end_cost, beta)
            self._alphas[step] += beta

    def _one_step_back(self, after: Array) -> Array:
        xp = self._run.xp
        beta = after.copy()
        xp.logaddexp(after[:, :-1], after[:, 1:], out=beta[:, :-1])
        skipped = after[:, 2:] + self._skip_cost[:, 2:]
        xp.logaddexp(beta[:, :-2], skipped, out=beta[:, :-2])
        return beta


def _log_softmax(run: Run, data: Array) -> Array:
    xp = run.xp
    logs = run.scratch(data.shape, "float64")
    xp.copyto(logs, data)
    logs -= logs.max(axis=2, keepdims=True)
    logs -= xp.log(xp.exp(logs).sum(axis=2, keepdims=True))
    return logs


@implements(CTC)
@register("CTCLoss", "ctc_loss", "_contrib_CTCLoss", "_contrib_ctc_loss")
class CTCLoss(Operator):
    """The CTC loss of each example, (batch,).

    ``data`` is (steps, batch, channels), before the softmax; ``label`` is (batch, labels). The
    blank is the first or the last channel. Without ``label_lengths``, labels end at the first
    padding: 0 if the blank is first, else -1. The loss of labels that do not fit into the steps is
    0, as in MXNet.
    """

    all_inputs = ("data", "label", "data_lengths", "label_lengths")

    use_data_lengths: bool = attribute(
        False, doc="whether data_lengths (batch,) is an input; otherwise all steps are read"
    )
    use_label_lengths: bool = attribute(
        False,
        doc="whether label_lengths (batch,) is an input; otherwise labels end at the first padding",
    )
    blank_label: str = attribute(
        "first", choices=("first", "last"), doc="whether the blank is the first or the last class"
    )

    def input_names(self) -> tuple[str, ...]:
        lengths = (
            *(("data_lengths",) if self.use_data_lengths else ()),
            *(("label_lengths",) if self.use_label_lengths else ()),
        )
        return ("data", "label", *lengths)

    def output_names(self) -> tuple[str, ...]:
        return ("output0",)

    def stored_outputs(self) -> int:
        """MXNet keeps the gradient as a hidden output."""
        return 2

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,)

    def backward_reads(self) -> Reads:
        return Reads(inputs=(ALL,))

    # -- inference --------------------------------------------------------------------------

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], (0, 0, 0))
        label = self.expect("label", inputs[1], (0, 0))
        output = self.expect("output", outputs[0], (data[1],))
        label = self.expect("label", label, (output[0], 0))
        if data[0] and label[1] > data[0]:
            raise ShapeError(f"label has {label[1]} labels per example, data only {data[0]} steps")
        data = self.expect("data", data, (0, label[0], 0))
        names = self.input_names()[2:]
        lengths = [
            self.expect(name, shape, (data[1],))
            for name, shape in zip(names, inputs[2:], strict=True)
        ]
        return [data, label, *lengths], [(data[1],)]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        data = self.expect_dtype("data", inputs[0], outputs[0])
        return [data, *(dtype or data for dtype in inputs[1:])], [data]

    # -- arithmetic -------------------------------------------------------------------------

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        outputs[0][...] = self._lattice(run, inputs).losses()

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        gradient = self._lattice(run, inputs).gradient()
        run.xp.multiply(gradient, out_grads[0][:, None], out=gradient)
        run.xp.copyto(in_grads[0], gradient, casting="same_kind")

    def _lattice(self, run: Run, inputs: Sequence[Array]) -> _Lattice:
        blank = self.blank(inputs[0].shape[2])
        return _Lattice(run, inputs[0], self.targets(run.xp, inputs), blank)

    def blank(self, channels: int) -> int:
        """Return the channel of the blank."""
        return 0 if self.blank_label == "first" else channels - 1

    def targets(self, xp: Any, inputs: Sequence[Array]) -> Targets:
        """Return what the data are aligned with."""
        data, labels = inputs[0], inputs[1].astype("int64")
        steps, batch, channels = data.shape
        given = dict(zip(self.input_names(), inputs, strict=True))
        if self.use_data_lengths:
            data_lengths = given["data_lengths"].astype("int64").clip(0, steps)
        else:
            data_lengths = xp.full((batch,), steps, dtype="int64")
        if self.use_label_lengths:
            label_lengths = given["label_lengths"].astype("int64").clip(0, labels.shape[1])
        else:
            padding = 0 if self.blank_label == "first" else -1
            label_lengths = xp.cumprod((labels != padding).astype("int64"), axis=1).sum(axis=1)
        return Targets.of(
            xp,
            labels,
            label_lengths,
            data_lengths,
            blank=self.blank(channels),
            channels=channels,
        )


@register("WarpCTC")
class WarpCTC(Operator):
    """Softmax with the gradient of the CTC loss: the operator of MXNet's plugin warp-ctc.

    ``data`` is (input_length · batch, channels), ordered by step, then example; ``label`` is
    (label_length · batch,), ordered by example. Channel and label 0 are the blank, which is removed
    from the labels wherever it occurs. The head gradient is ignored.
    """

    label_length: int = attribute(0, doc="number of labels in an example")
    input_length: int = attribute(0, doc="number of steps in the data")

    def __post_init__(self) -> None:
        for name, value in (
            ("label_length", self.label_length),
            ("input_length", self.input_length),
        ):
            if value < 1:
                raise AttributeValueError(f"{name} is {value}; expected at least 1")

    def input_names(self) -> tuple[str, ...]:
        return ("data", "label")

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,)

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False, inputs=(0, 1))

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], outputs[0])
        data = self.expect("data", data, (0, 0))
        if data[0] % self.input_length:
            raise ShapeError(
                f"data has {data[0]} rows; expected a multiple of input_length {self.input_length}"
            )
        labels = self.label_length * (data[0] // self.input_length)
        return [data, self.expect("label", inputs[1], (labels,))], [data]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        data = self.expect_dtype("data", inputs[0], outputs[0])
        return [data, inputs[1] or data], [data]

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        write_softmax(run, inputs[0], 1, outputs[0])

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp, data = run.xp, inputs[0]
        batch = data.shape[0] // self.input_length
        labels = inputs[1].astype("int64").reshape(batch, self.label_length)
        # A stable sort moves labels to the front in order, and blanks behind them.
        place = xp.arange(self.label_length) + self.label_length * (labels == 0)
        labels = labels[xp.arange(batch)[:, None], xp.argsort(place, axis=1)]
        targets = Targets.of(
            xp,
            labels,
            (labels != 0).sum(axis=1),
            xp.full((batch,), self.input_length, dtype="int64"),
            blank=0,
            channels=data.shape[1],
        )
        steps = data.reshape(self.input_length, batch, data.shape[1])
        lattice = _Lattice(run, steps, targets, blank=0)
        xp.copyto(in_grads[0], lattice.gradient().reshape(data.shape), casting="same_kind")
