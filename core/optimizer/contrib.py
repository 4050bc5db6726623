"""Optimizers beyond the usual ones (``mx.optimizer.contrib``)."""

from __future__ import annotations

from typing import Any

from core.checkpoint import register_pickled
from core.ndarray import NDArray, zeros
from core.optimizer.base import Optimizer, register

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(Optimizer):
    """AdaGrad with one step size for each row, for embeddings (MXNet ``group_adagrad_update``).

        g = clip(rescale_grad * grad)
        history += mean(g^2, axis=1)
        weight -= lr * g / sqrt(history + eps)

    Weights are matrices (rows, columns), the history is (rows, 1). There is no weight decay.
    """

    def __init__(self, eps: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return a history of shape (rows, 1); raise ValueError where the weight is no matrix."""
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
        gradient = grad * self.rescale_grad
        if self.clip_gradient:
            gradient = gradient.clip(-self.clip_gradient, self.clip_gradient)
        state[:] += (gradient * gradient).mean(axis=1, keepdims=True)
        step = gradient / (state + self.float_stable_eps).sqrt()
        weight[:] -= step * self._get_lr(index)


register_pickled(GroupAdaGrad, "mxnet.optimizer.contrib")
