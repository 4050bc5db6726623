"""Cuts symbols off at an internal output, and attaches a new last layer."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import core.symbol as sym
from app.domain.origin import Head
from app.errors.tree import Invalid
from core.symbol import Symbol

__all__ = ["cut"]

_LOSS = "softmax"
_MOST_NAMED = 5


def cut(symbol: Symbol, output: str, head: Head | None) -> Symbol:
    """Return the part of a symbol that computes an internal output, with a head on request.

    Args:
        symbol: the symbol to cut.
        output: name of the output of an operator in it (``flatten0_output``), or of the operator.
        head: the new last layer.

    Raises:
        Invalid: there is no such output (the error names similar ones), or the head's names are
            taken.
    """
    internals = symbol.get_internals()
    taken = internals.list_outputs()
    inputs = {*symbol.list_arguments(), *symbol.list_auxiliary_states()}
    outputs = [name for name in taken if name not in inputs]
    chosen = output if output in outputs else f"{output}_output"
    if chosen not in outputs:
        raise Invalid("output", output, f"an internal output, as {_nearest(output, outputs)}")
    net: Symbol = internals[chosen]
    if head is None:
        return net
    names = {*net.get_internals().list_outputs()}
    for name in (*head.params, f"{head.name}_output"):
        if name in names:
            raise Invalid("head.name", head.name, f"a name that is free; there is {name!r} already")
    for name in (f"{_LOSS}_label", f"{_LOSS}_output"):
        if name in names:
            raise Invalid("output", output, f"one that is computed without {name!r}")
    net = sym.FullyConnected(net, num_hidden=head.num_hidden, no_bias=head.no_bias, name=head.name)
    loss: Symbol = sym.SoftmaxOutput(net, name=_LOSS)
    return loss


def _nearest(output: str, outputs: Sequence[str]) -> str:
    near = difflib.get_close_matches(output, outputs, n=_MOST_NAMED, cutoff=0.5)
    return ", ".join(near or outputs[-_MOST_NAMED:])
