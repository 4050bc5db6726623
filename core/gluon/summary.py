"""A table of a block's layers, with their outputs and numbers of parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from ..errors import UsageError
from ..ndarray import NDArray
from .parameter_dict import ParameterDict

__all__ = ["summarize"]

_LINE = "{:>20}  {:>42} {:>15}"
_WIDTH = 80


class _Row(NamedTuple):
    """Numbers of a layer's parameters: all, trainable, and shared with a layer before it."""

    name: str
    shape: str
    parameters: int
    trainable: int
    shared: int


class Layer(Protocol):
    """The part of a block's interface that the table uses."""

    @property
    def name(self) -> str:
        """Name of the block."""

    @property
    def params(self) -> ParameterDict:
        """Parameters of the block itself, without those of its children."""

    @property
    def _is_chain(self) -> bool: ...

    def apply(self, fn: Callable[[Any], object]) -> object:
        """Call a function with the block and all its descendants."""

    def register_forward_hook(self, hook: Callable[[Any, Any, Any], object]) -> Any:
        """Register a function to call after each pass."""

    def __call__(self, *args: Any) -> Any:
        """Run the block."""


def summarize(block: Layer, inputs: Sequence[Any]) -> str:
    """Run a block once and return the table, as ``Block.summary`` prints it.

    Raises:
        UsageError: a block has been hybridized, so that its layers do not run separately.
    """
    rows = [_Row("Input", _shapes(inputs), 0, 0, 0)]
    seen: set[int] = set()
    handles: list[Any] = []

    def add_row(layer: Layer, _: Any, outputs: Any) -> None:
        rows.append(_row_of(layer, len(rows), outputs, seen))

    def watch(layer: Layer) -> None:
        if getattr(layer, "_active", False):
            raise UsageError(f'"{layer.name}" must not be hybridized to print summary.')
        if not layer._is_chain:
            handles.append(layer.register_forward_hook(add_row))

    try:
        block.apply(watch)
        block(*inputs)
    finally:
        for handle in handles:
            handle.detach()
    return "\n".join(_lines(rows))


def _row_of(layer: Layer, number: int, outputs: Any, seen: set[int]) -> _Row:
    parameters = trainable = shared = 0
    for param in layer.params.values():
        size = param.data().size
        parameters += size
        trainable += 0 if param.grad_req == "null" else size
        shared += size if id(param) in seen else 0
        seen.add(id(param))
    name = f"{type(layer).__name__}-{number}"
    return _Row(name, _shapes(outputs), parameters, trainable, shared)


def _lines(rows: Sequence[_Row]) -> Iterable[str]:
    total = sum(row.parameters for row in rows)
    trainable = sum(row.trainable for row in rows)
    shared = sum(row.shared for row in rows)
    yield "-" * _WIDTH
    yield _LINE.format("Layer (type)", "Output Shape", "Param #")
    yield "=" * _WIDTH
    for row in rows:
        yield _LINE.format(row.name, row.shape, row.parameters)
    yield "=" * _WIDTH
    yield "Parameters in forward computation graph, duplicate included"
    yield f"   Total params: {total}"
    yield f"   Trainable params: {trainable}"
    yield f"   Non-trainable params: {total - trainable}"
    yield f"Shared params in forward computation graph: {shared}"
    yield f"Unique parameters in model: {total - shared}"
    yield "-" * _WIDTH


def _shapes(values: Any) -> str:
    found = _shape_of(values)
    return str(found)[1:-1] if isinstance(found, list) else str(found)


def _shape_of(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_shape_of(one) for one in value]
    return value.shape if isinstance(value, NDArray) else value
