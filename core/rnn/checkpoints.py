"""Checkpoints with recurrent weights gate by gate, which fused and plain cells share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..checkpoint import load_checkpoint, save_checkpoint
from ..ndarray import NDArray
from ..symbol import Symbol
from .base import BaseRNNCell, Weights

__all__ = ["do_rnn_checkpoint", "load_rnn_checkpoint", "save_rnn_checkpoint"]

Cells = BaseRNNCell | Sequence[BaseRNNCell]


def save_rnn_checkpoint(
    cells: Cells,
    prefix: str,
    epoch: int,
    symbol: Symbol | None,
    arg_params: Weights,
    aux_params: Weights,
) -> None:
    """Write ``prefix-symbol.json`` and ``prefix-%04d.params`` with the cells' weights unpacked."""
    for cell in _listed(cells):
        arg_params = cell.unpack_weights(arg_params)
    save_checkpoint(prefix, epoch, symbol, arg_params, aux_params)


def load_rnn_checkpoint(
    cells: Cells, prefix: str, epoch: int
) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """Return (symbol, parameters, auxiliary states) with the cells' weights packed."""
    symbol, arguments, auxiliary = load_checkpoint(prefix, epoch)
    for cell in _listed(cells):
        arguments = cell.pack_weights(arguments)
    return symbol, arguments, auxiliary


def do_rnn_checkpoint(cells: Cells, prefix: str, period: int = 1) -> Callable[..., None]:
    """Return an epoch-end callback that calls ``save_rnn_checkpoint`` every ``period`` epochs."""
    period = max(1, int(period))

    def callback(epoch: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (epoch + 1) % period == 0:
            save_rnn_checkpoint(cells, prefix, epoch + 1, sym, arg, aux)

    return callback


def _listed(cells: Cells) -> Sequence[BaseRNNCell]:
    return [cells] if isinstance(cells, BaseRNNCell) else cells
