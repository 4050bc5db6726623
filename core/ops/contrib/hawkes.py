"""The likelihood of Hawkes processes, in which events excite further events of their kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...types import Array, DType, Shape
from ..operator import Operator, Reads, Run
from ..registry import register

__all__ = ["HawkesLikelihood"]

_INT32, _INT64, _FLOAT64 = np.dtype("int32"), np.dtype("int64"), np.dtype("float64")


@register("_contrib_hawkesll")
class HawkesLikelihood(Operator):
    """Log likelihood of sequences of marked events, and their excitation at the end.

    Events of mark k occur at the rate ``lda_k + alpha_k * beta_k * s_k(t)``, where s_k decays as
    ``exp(-beta_k * t)``, grows by 1 at each event of mark k, and starts from ``state``. Sequence i
    has ``valid_length_i`` events; ``lags`` are the times between them. It is observed from time 0
    to ``max_time_i``.

    Shapes: lda and state (n, k), alpha and beta (k,), lags and marks (n, t), valid_length and
    max_time (n,); the outputs are (n,) and (n, k). As in MXNet, gradients of the likelihood go to
    lda, alpha and beta, and the second output has none.
    """

    def input_names(self) -> tuple[str, ...]:
        return ("lda", "alpha", "beta", "state", "lags", "marks", "valid_length", "max_time")

    def output_names(self) -> tuple[str, ...]:
        return ("output", "out_state")

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0, 1, 2)

    def backward_reads(self) -> Reads:
        return Reads(inputs=tuple(range(8)))

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        lags = self.expect("marks", inputs[5], inputs[4])
        rates = self.expect("state", inputs[3], self.expect("lda", inputs[0], outputs[1]))
        if rates is None:
            return inputs, outputs
        if len(rates) != 2:
            raise ShapeError(f"lda has shape {rates}; expected (sequences, marks)")
        rows, kinds = rates[:1], rates[1:]
        if lags is not None:
            if len(lags) != 2:
                raise ShapeError(f"lags has shape {lags}; expected (sequences, events)")
            lags = self.expect("lags", lags, (*rows, *lags[1:]))
        alpha = self.expect("alpha", inputs[1], kinds)
        beta = self.expect("beta", inputs[2], kinds)
        length = self.expect("valid_length", inputs[6], rows)
        end = self.expect("max_time", inputs[7], rows)
        found = [rates, alpha, beta, rates, lags, lags, length, end]
        return found, [self.expect("output", outputs[0], rows), rates]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        common = self.expect_dtype("output", outputs[0], outputs[1])
        for place, name in enumerate(self.input_names()):
            if name != "marks":
                common = self.expect_dtype(name, inputs[place], common)
        marks = self.expect_dtype("marks", inputs[5], _INT32)
        return [*[common] * 5, marks, common, common], [common, common]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        walk = _Walk(run.xp, inputs)
        walk.to_the_end(slopes=False)
        outputs[0][...] = walk.likelihood
        outputs[1][...] = walk.left

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        walk = _Walk(run.xp, inputs)
        walk.to_the_end(slopes=True)
        head = out_grads[0][:, None]
        lda, alpha, beta = in_grads[:3]
        if lda is not None:
            lda[...] = walk.by_lda * head
        if alpha is not None:
            alpha[...] = (walk.by_alpha * head).sum(axis=0)
        if beta is not None:
            beta[...] = (walk.by_beta * head).sum(axis=0)


class _Walk:
    """A walk through all sequences at once, event by event.

    The log likelihood is the sum of the logarithms of the rates at the events, minus the integral
    of all rates over time. The integral is taken in parts: for each mark, from one of its events to
    the next, and to the end.

    Attributes:
        likelihood: log likelihood so far of each sequence.
        left: the remaining excitation, for each sequence and mark.
        by_lda, by_alpha, by_beta: derivatives of the likelihood, for each sequence and mark.
    """

    def __init__(self, xp: Any, inputs: Sequence[Array]) -> None:
        lda, alpha, beta, state, lags, marks, length, end = inputs
        self.xp = xp
        self.lda, self.alpha, self.beta, self.lags, self.end = (
            array.astype(_FLOAT64) for array in (lda, alpha, beta, lags, end)
        )
        self.marks = xp.clip(marks, 0, lda.shape[1] - 1).astype(_INT64)
        self.length = length
        self.rows = xp.arange(lda.shape[0])
        self.time = xp.zeros(lda.shape[:1], _FLOAT64)
        self.likelihood = xp.zeros(lda.shape[:1], _FLOAT64)
        self.level = self.left = state.astype(_FLOAT64)
        self.last = xp.zeros(lda.shape, _FLOAT64)
        self.tilt = xp.zeros(lda.shape, _FLOAT64)
        """Derivative of the level by beta."""
        self.by_lda, self.by_alpha, self.by_beta = (xp.zeros(lda.shape, _FLOAT64) for _ in range(3))

    def to_the_end(self, *, slopes: bool) -> None:
        """Walk through all events and the time after the last one."""
        xp = self.xp
        for step in range(self.lags.shape[1]):
            self._event(step, slopes)
        wait = self.end[:, None] - self.last
        decay = xp.exp(-self.beta * wait)
        expected = self.lda * wait + self.alpha * self.level * (1 - decay)
        self.likelihood -= expected.sum(axis=1)
        self.left = self.level * decay
        if slopes:
            self.by_lda -= wait
            self.by_alpha -= self.level * (1 - decay)
            self.by_beta -= self.alpha * (self.tilt * (1 - decay) + self.level * wait * decay)

    def _event(self, step: int, slopes: bool) -> None:
        xp, mark, live = self.xp, self.marks[:, step], step < self.length
        at = (self.rows, mark)
        self.time += xp.where(live, self.lags[:, step], 0)
        wait, level, tilt = self.time - self.last[at], self.level[at], self.tilt[at]
        alpha, beta = self.alpha[mark], self.beta[mark]
        decay = xp.exp(-beta * wait)
        # The padding of a sequence may hold anything; 1 has the logarithm 0.
        rate = xp.where(live, self.lda[at] + alpha * beta * level * decay, 1)
        expected = self.lda[at] * wait + alpha * level * (1 - decay)
        self.likelihood += xp.where(live, xp.log(rate) - expected, 0)
        if slopes:
            self.by_lda[at] += xp.where(live, 1 / rate - wait, 0)
            by_alpha = beta * level * decay / rate - level * (1 - decay)
            self.by_alpha[at] += xp.where(live, by_alpha, 0)
            in_rate = decay * (level + beta * tilt - beta * level * wait) / rate
            in_expected = tilt * (1 - decay) + level * wait * decay
            self.by_beta[at] += xp.where(live, alpha * (in_rate - in_expected), 0)
            self.tilt[at] = xp.where(live, (tilt - level * wait) * decay, tilt)
        self.level[at] = xp.where(live, 1 + level * decay, level)
        self.last[at] = xp.where(live, self.time, self.last[at])
