"""Steps of AdamW and LAMB: functions that put the arrays in the operators' order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from . import _internal
from .array import NDArray
from .creation import array

__all__ = [
    "adamw_update",
    "mp_adamw_update",
    "multi_adamw_update",
    "multi_lamb_update",
    "multi_mp_adamw_update",
    "multi_mp_lamb_update",
]

Arrays = Sequence[NDArray]


def adamw_update(
    weight: NDArray,
    grad: NDArray,
    mean: NDArray,
    var: NDArray,
    rescale_grad: NDArray | float,
    lr: float,
    eta: float,
    **kwargs: Any,
) -> NDArray:
    """Take a step of AdamW (operator ``_adamw_update``); the factor may be a plain number.

    Args:
        weight: of any shape; pass ``out=weight`` to write the new one over it.
        grad: of the weight's shape.
        mean: running mean of the gradients, updated in place.
        var: running mean of the squared gradients, updated in place.
        rescale_grad: factor of the gradient; nothing changes if it is 0, infinite or NaN, as after
            an overflow of scaled gradients in half precision.
        lr: learning rate.
        eta: factor of the whole step.
        kwargs: the operator's other attributes, and ``out``.
    """
    factor = _factor(rescale_grad, weight)
    arrays = (weight, grad, mean, var, factor)
    return cast(NDArray, _internal._adamw_update(*arrays, lr=lr, eta=eta, **kwargs))


def mp_adamw_update(
    weight: NDArray,
    grad: NDArray,
    mean: NDArray,
    var: NDArray,
    weight32: NDArray,
    rescale_grad: NDArray | float,
    lr: float,
    eta: float,
    **kwargs: Any,
) -> NDArray:
    """Take a step of AdamW on a float32 copy of a half precision weight; see ``adamw_update``."""
    factor = _factor(rescale_grad, weight)
    arrays = (weight, grad, mean, var, weight32, factor)
    return cast(NDArray, _internal._mp_adamw_update(*arrays, lr=lr, eta=eta, **kwargs))


def multi_adamw_update(
    weights: Arrays,
    grads: Arrays,
    mean: Arrays,
    var: Arrays,
    rescale_grad: NDArray | float,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: Any = None,
    name: str | None = None,
    size: int = 0,
    **kwargs: Any,
) -> Any:
    """Take a step of AdamW for each of several weights; see ``adamw_update``.

    Args:
        weights, grads, mean, var: a list of arrays each.
        rescale_grad: factor of all gradients.
        lrs, wds, etas: learning rate, decay and factor of the step of each weight.
        out: arrays that the new weights are written to.
        name: ignored.
        size: how many weights there are; 0 for the length of the list.
        kwargs: the operator's other attributes.
    """
    arrays = (*_grouped(weights, grads, mean, var), _factor(rescale_grad, weights[0]))
    kwargs |= {"lrs": lrs, "wds": wds, "etas": etas, "num_weights": size or len(weights)}
    return _internal._multi_adamw_update(*arrays, out=out, **kwargs)


def multi_mp_adamw_update(
    weights: Arrays,
    grads: Arrays,
    mean: Arrays,
    var: Arrays,
    weights32: Arrays,
    rescale_grad: NDArray | float,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: Any = None,
    name: str | None = None,
    size: int = 0,
    **kwargs: Any,
) -> Any:
    """Do ``multi_adamw_update`` on float32 copies of weights of half precision."""
    factor = _factor(rescale_grad, weights[0])
    arrays = (*_grouped(weights, grads, mean, var, weights32), factor)
    kwargs |= {"lrs": lrs, "wds": wds, "etas": etas, "num_weights": size or len(weights)}
    return _internal._multi_mp_adamw_update(*arrays, out=out, **kwargs)


def multi_lamb_update(
    weights: Arrays,
    grads: Arrays,
    mean: Arrays,
    var: Arrays,
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any = None,
    num_tensors: int = 0,
    **kwargs: Any,
) -> Any:
    """Take a step of LAMB for each of several weights.

    Args:
        weights, grads: a list of arrays each.
        mean, var: running means of the gradients and of their squares, updated in place.
        step_count: number of each weight's step, from 1.
        lrs, wds: learning rate and decay of each weight.
        out: arrays that the new weights are written to.
        num_tensors: how many weights there are; 0 for the length of the list.
        kwargs: the operator's other attributes.
    """
    kwargs |= {"learning_rates": lrs, "wds": wds, "step_count": step_count}
    kwargs["num_tensors"] = num_tensors or len(weights)
    return _internal._multi_lamb_update(*_grouped(weights, grads, mean, var), out=out, **kwargs)


def multi_mp_lamb_update(
    weights: Arrays,
    grads: Arrays,
    mean: Arrays,
    var: Arrays,
    weights32: Arrays,
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any = None,
    num_tensors: int = 0,
    **kwargs: Any,
) -> Any:
    """Do ``multi_lamb_update`` on float32 copies of weights of half precision."""
    kwargs |= {"learning_rates": lrs, "wds": wds, "step_count": step_count}
    kwargs["num_tensors"] = num_tensors or len(weights)
    arrays = _grouped(weights, grads, mean, var, weights32)
    return _internal._multi_mp_lamb_update(*arrays, out=out, **kwargs)


def _grouped(*lists: Arrays) -> list[NDArray]:
    return [one for group in zip(*lists, strict=True) for one in group]


def _factor(rescale_grad: NDArray | float, weight: NDArray) -> NDArray:
    if isinstance(rescale_grad, NDArray):
        return rescale_grad.as_in_context(weight.context)
    return array([rescale_grad], ctx=weight.context, dtype=np.float32)
