"""Helpers that users' training loops import from ``mxnet.model``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..kvstore import choose_kvstore, choose_sparse_kvstore
from ..ndarray import NDArray

__all__ = [
    "_create_kvstore",
    "_create_sparse_kvstore",
    "_initialize_kvstore",
    "_multiple_callbacks",
    "_update_params",
    "_update_params_on_kvstore",
]

Copies = Sequence[Sequence[NDArray]]
"""For every parameter, one array on each device."""


def _create_kvstore(
    kvstore: Any, num_device: int, arg_params: Mapping[str, NDArray]
) -> tuple[Any, bool]:
    """Return the store (or None) and whether it updates the parameters.

    Raises:
        TypeError: it is neither a store nor a name.
    """
    return choose_kvstore(kvstore, num_device, arg_params.values())


def _create_sparse_kvstore(kvstore: Any) -> tuple[Any, bool]:
    """Return the store of ``row_sparse`` parameters, and True: it always updates them."""
    return choose_sparse_kvstore(kvstore), True


def _initialize_kvstore(
    kvstore: Any,
    param_arrays: Copies,
    arg_params: Mapping[str, NDArray],
    param_names: Sequence[str],
    update_on_kvstore: bool,
) -> None:
    """Initialize a store with the parameters' values; pull those that the store will update."""
    for name, copies in zip(param_names, param_arrays, strict=True):
        if not update_on_kvstore or arg_params[name].stype != "default":
            kvstore.init(name, arg_params[name])
        else:
            kvstore.broadcast(name, arg_params[name], out=list(copies))


def _update_params_on_kvstore(
    param_arrays: Copies,
    grad_arrays: Sequence[Sequence[NDArray | None]],
    kvstore: Any,
    param_names: Sequence[str],
) -> None:
    """Update parameters on the store and pull them; skip those without gradient."""
    for index, (weights, grads) in enumerate(zip(param_arrays, grad_arrays, strict=True)):
        if grads[0] is not None:
            kvstore.pushpull(param_names[index], list(grads), out=list(weights), priority=-index)


def _update_params(
    param_arrays: Copies,
    grad_arrays: Sequence[Sequence[NDArray | None]],
    updater: Callable[..., None],
    num_device: int,
    kvstore: Any = None,
    param_names: Sequence[str] | None = None,
) -> None:
    """Update the parameters on every device; with a store, by the summed gradients.

    The updater knows parameter ``i`` on device ``k`` by the index ``i * num_device + k``.
    """
    updates: list[list[tuple[int, NDArray, NDArray]]] = [[] for _ in range(num_device)]
    for index, (weights, grads) in enumerate(zip(param_arrays, grad_arrays, strict=True)):
        if grads[0] is None:
            continue
        if kvstore is not None:
            name = param_names[index] if param_names is not None else index
            kvstore.pushpull(name, list(grads), out=list(grads), priority=-index)
        for device, (weight, grad) in enumerate(zip(weights, grads, strict=True)):
            assert grad is not None
            updates[device].append((index * num_device + device, grad, weight))
    for of_device in updates:
        if of_device:
            updater(*(list(part) for part in zip(*of_device, strict=True)))


def _multiple_callbacks(callbacks: Any, *args: Any, **kwargs: Any) -> None:
    """Call a callback, or all callbacks in a list; None calls nothing."""
    for callback in callbacks if isinstance(callbacks, list) else [callbacks] if callbacks else []:
        callback(*args, **kwargs)
