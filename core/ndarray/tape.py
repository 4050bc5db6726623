"""The autograd tape: the recorded computations, and reverse-mode differentiation along it.

The tape knows no operator. A ``Node`` can turn gradients of its outputs into gradients of its
inputs; how (by arithmetic on raw arrays, or by operators that are recorded in turn) is decided by
the ``step`` given to ``walk``.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from ..device import Context
from ..types import Array

__all__ = [
    "NOT_RECORDED",
    "Entry",
    "Gradient",
    "Mode",
    "Node",
    "Origin",
    "Step",
    "Variable",
    "live",
    "mode",
    "nodes_behind",
    "walk",
]

NOT_RECORDED = (
    "cannot differentiate an array that is not in a recorded computation: compute it inside "
    "`with autograd.record():` from arrays with attach_grad(). A backward pass forgets the "
    "computation it went through; to run a second one, pass retain_graph=True to the first"
)


class Mode(threading.local):
    """What this thread does with the operators it runs.

    Attributes:
        recording: operators are put on the tape.
        training: operators run as in a training pass.
    """

    def __init__(self) -> None:
        self.recording = False
        self.training = False


mode = Mode()


class Gradient(Protocol):
    """What the tape asks of a gradient, and of the buffer that one is put into."""

    def __add__(self, other: Any, /) -> Any:
        """Return the sum with another gradient of the same array."""

    def take_gradient(self, gradient: Any, *, add: bool) -> None:
        """Write a gradient into this buffer, or add it."""


G = TypeVar("G", bound=Gradient)


class Variable:
    """The origin of an array with a gradient buffer.

    Attributes:
        gradient: where the gradient goes.
        grad_req: ``"write"``, ``"add"`` or ``"null"``.
        is_fresh: True from a backward pass until someone (a Trainer) sets it to False.
    """

    __slots__ = ("grad_req", "gradient", "is_fresh")

    def __init__(self, gradient: Gradient, grad_req: str) -> None:
        self.gradient = gradient
        self.grad_req = grad_req
        self.is_fresh = False

    def receive(self, gradient: Gradient) -> None:
        """Write or add a gradient, as ``grad_req`` says."""
        if self.grad_req != "null":
            self.gradient.take_gradient(gradient, add=self.grad_req == "add")
            self.is_fresh = True


class Node(ABC):
    """One recorded computation.

    Attributes:
        context: where the inputs, and so their gradients, live.
        parents: the origin of each input, None if no gradient is wanted.
        output_count: number of outputs, hidden ones included.
        is_forgotten: True once a backward pass has freed the computation.
    """

    __slots__ = ("context", "is_forgotten", "output_count", "parents")

    def __init__(
        self, context: Context, parents: Sequence[Origin | None], output_count: int = 1
    ) -> None:
        self.context = context
        self.parents: tuple[Origin | None, ...] = tuple(parents)
        self.output_count = output_count
        self.is_forgotten = False

    @abstractmethod
    def backward(self, out_grads: Sequence[Array | None]) -> Sequence[Array | None]:
        """Return the gradient of each input, None if its parent is None or it has none.

        An entry of ``out_grads`` is None if nothing depends on that output. A gradient may be
        ``core.ops.rows.Rows`` if only few of its rows differ from zero.
        """

    def forget(self) -> None:
        """Free everything that only a backward pass needs."""
        self.parents = ()
        self.is_forgotten = True


class Entry(NamedTuple):
    """One output of one recorded computation."""

    node: Node
    output: int


Origin: TypeAlias = Variable | Entry

Step: TypeAlias = Callable[[Node, Sequence[G | None]], Sequence[G | None]]


def walk(heads: Iterable[tuple[Origin, G]], step: Step[G], *, retain: bool) -> dict[Variable, G]:
    """Propagate gradients from the heads back to all variables they depend on.

    Args:
        heads: origins of the arrays to differentiate, each with its gradient.
        step: calls one node's backward.
        retain: keep the tape for another walk.

    Returns:
        the gradient of each variable reached.
    """
    heads = list(heads)
    order = nodes_behind(origin for origin, _ in heads)
    at_nodes: dict[Node, list[G | None]] = {}
    at_variables: dict[Variable, G] = {}

    def arrive(origin: Origin, gradient: G) -> None:
        if isinstance(origin, Variable):
            known = at_variables.get(origin)
            at_variables[origin] = gradient if known is None else known + gradient
        else:
            slots = at_nodes.setdefault(origin.node, [None] * origin.node.output_count)
            known = slots[origin.output]
            slots[origin.output] = gradient if known is None else known + gradient

    for origin, gradient in heads:
        arrive(origin, gradient)
    for node in reversed(order):
        out_grads = at_nodes.pop(node, None)
        if out_grads is not None:
            for parent, in_grad in zip(node.parents, step(node, out_grads), strict=True):
                if parent is not None and in_grad is not None:
                    arrive(parent, in_grad)
        if not retain:
            node.forget()  # at once, so that memory shrinks while the pass proceeds
    return at_variables


def live(origin: Origin | None) -> Origin | None:
    """Return the origin, or None if a backward pass has forgotten it."""
    if isinstance(origin, Entry) and origin.node.is_forgotten:
        return None
    return origin


def nodes_behind(origins: Iterable[Origin]) -> list[Node]:
    """Return all nodes that the origins depend on, inputs first (a depth-first post-order)."""
    # Without recursion: a recorded loop may be deeper than Python's recursion limit.
    order: list[Node] = []
    seen: set[Node] = set()
    for origin in origins:
        if isinstance(origin, Variable) or origin.node in seen:
            continue
        head = origin.node
        seen.add(head)
        stack = [(head, iter(head.parents))]
        while stack:
            node, parents = stack[-1]
            for parent in parents:
                if isinstance(parent, Entry) and parent.node not in seen:
                    seen.add(parent.node)
                    stack.append((parent.node, iter(parent.node.parents)))
                    break
            else:
                order.append(node)
                stack.pop()
    return order
