"""A symbol as a function of arrays (``mx.nd.CachedOp``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..device import Context
from ..errors import MXNetError
from ..ops import Operator
from ..ops.attributes import attribute_fields
from . import contrib
from .array import NDArray, invoke

__all__ = ["CachedOp", "run_operator"]


class CachedOp:
    """A symbol that is called with the arrays of its inputs; ``autograd`` records the calls.

    Operators run one by one, so shapes are known from the inputs only, not from what follows.

    Args:
        sym: the symbol; calls give its ``list_inputs()``, in this order.
        flags: MXNet's hints about memory (``static_alloc`` ...), which change nothing here.
    """

    def __init__(self, sym: Any, flags: Iterable[tuple[str, Any]] = ()) -> None:
        # Typed Any, since core.symbol imports core.ndarray and not vice versa; only nodes are read.
        nodes = list(dict.fromkeys(node for node, _ in sym.get_internals().heads))
        self._inputs = [node for node in nodes if node.op is None]
        self._steps = [node for node in nodes if node.op is not None]
        self._heads = sym.heads

    def __call__(
        self,
        *args: NDArray,
        out: NDArray | Sequence[NDArray] | None = None,
        default_ctx: Context | None = None,
    ) -> NDArray | list[NDArray]:
        """Return the output, or the list of outputs.

        Args:
            *args: values of the inputs.
            out: where to copy the outputs to, which are returned then.
            default_ctx: device of operators without inputs, by default the current context.

        Raises:
            MXNetError: another number of inputs, or of arrays in ``out``.
        """
        if len(args) != len(self._inputs):
            raise MXNetError(
                f"CachedOp requires {len(self._inputs)} inputs but got {len(args)}; it takes "
                f"{', '.join(node.name for node in self._inputs) or 'none'}"
            )
        values: dict[Any, Sequence[NDArray]] = {
            node: [array] for node, array in zip(self._inputs, args, strict=True)
        }
        for node in self._steps:
            inputs = [values[source][output] for source, output in node.inputs]
            values[node] = run_operator(node.op, inputs, default_ctx)
        outputs = [values[node][output] for node, output in self._heads]
        if out is not None:
            outputs = _copied(outputs, [out] if isinstance(out, NDArray) else list(out))
        return outputs[0] if len(outputs) == 1 else outputs


def run_operator(
    op: Operator, inputs: Sequence[NDArray], context: Context | None = None
) -> list[NDArray]:
    """Return the visible outputs of a graph's operator; the shapes may depend on the values.

    Args:
        op: the operator.
        inputs: arrays in the operator's order, auxiliary states last.
        context: device of an operator without inputs, by default the current context.
    """
    if op.shaped_by_values is not None:
        function = getattr(contrib, op.shaped_by_values)
        found = function(
            *inputs, **{name: getattr(op, name) for name in attribute_fields(type(op))}
        )
    else:
        found = invoke(op, inputs, context=context)
    return [found] if isinstance(found, NDArray) else list(found)


def _copied(outputs: list[NDArray], targets: list[NDArray]) -> list[NDArray]:
    if len(outputs) != len(targets):
        raise MXNetError(f"CachedOp has {len(outputs)} outputs but got {len(targets)} in out")
    return [output.copyto(target) for output, target in zip(outputs, targets, strict=True)]
