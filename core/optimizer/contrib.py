"""Optimizers beyond the usual ones (``mx.optimizer.contrib``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backends import backend_of
from ..checkpoint import register_pickled
from ..ndarray import NDArray, zeros
from ..ops.update_rules import Step, group_adagrad, prepare
from ..types import Array
from .base import Optimizer, register
from .rule import limit
from .sparse_rows import update_sparse

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(Optimizer):
    """AdaGrad with one step size for each row, for embeddings (MXNet ``group_adagrad_update``).

        g = clip(rescale_grad * grad)
        history += mean(g^2, axis=1)
        weight -= lr * g / sqrt(history + eps)

    Weights are matrices (rows, columns), the history is (rows, 1). There is no weight decay. Of a
    ``row_sparse`` gradient only the rows that it has are read and written.
    """

    def __init__(self, eps: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return a history of shape (rows, 1); raise ValueError where the weight is not a
        matrix."""
        if len(weight.shape) != 2:
            raise ValueError(
                f"GroupAdaGrad updates matrices; {self.idx2name.get(index, index)!r} has shape "
                f"{weight.shape}; give it another optimizer or fix it with fixed_param_names"
            )
        return zeros((weight.shape[0], 1), ctx=weight.context, dtype=weight.dtype)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update one weight; raise ValueError where it has weight decay."""
        self._update_count(index)
        if self._get_wd(index):
            raise ValueError(
                f"GroupAdaGrad has no weight decay; {self.idx2name.get(index, index)!r} has "
                f"{self._get_wd(index)}; set wd to 0"
            )
        xp, width = backend_of(weight.context).xp, weight.shape[1]
        lr = self._get_lr(index)
        update_sparse(weight, grad, [state], True, lambda flat: self._step(xp, flat, width, lr))

    def _step(self, xp: Any, flat: Sequence[Array], width: int, lr: float) -> None:
        """Update some rows of a width: weight, gradient and history, all flat."""
        weight, grad = (array.reshape(-1, width) for array in flat[:2])
        step = Step(xp, weight, xp.empty_like(weight), xp.empty_like(weight), weight)
        prepare(step, grad, self.rescale_grad, limit(self.clip_gradient) or None, 0.0)
        history = flat[2].reshape(-1, 1)
        group_adagrad(step, [history], lr=lr, epsilon=self.float_stable_eps)


register_pickled(GroupAdaGrad, "mxnet.optimizer.contrib")
