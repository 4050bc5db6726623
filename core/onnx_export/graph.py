"""An ONNX graph under construction: nodes, constants, and descriptions of tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from ..types import DType, Shape

__all__ = ["BOOL", "INT64", "OPSET", "Graph", "Step", "Tensor", "onnx_type"]

OPSET = 17
"""The first opset with LayerNormalization; ONNX Runtime supports it since version 1.12."""

_IR_VERSION = 8
"""That of ONNX 1.12, which defines this opset."""

BOOL = int(TensorProto.BOOL)
INT64 = np.dtype("int64")

_MOST_SHARED = 16
"""Elements of the largest constant that is shared: shapes and numbers, which recur, are smaller."""


Step: TypeAlias = Callable[[str, str], str]


@dataclasses.dataclass(frozen=True)
class Tensor:
    """The description of a tensor.

    Attributes:
        name: name in the ONNX graph; empty if the tensor does not exist yet.
        shape: shape for the batch size of the export.
        dynamic: for each axis, whether its length is proportional to the batch size, which is known
            only when the model runs.
        dtype: dtype of the elements.
        values: the values of a constant.
    """

    name: str
    shape: Shape
    dynamic: tuple[bool, ...]
    dtype: DType
    values: np.ndarray[Any, Any] | None = None

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """True if no length depends on the batch size."""
        return not any(self.dynamic)


@dataclasses.dataclass
class _Node:
    kind: str
    inputs: Sequence[str]
    outputs: list[str]
    attributes: Mapping[str, Any]
    body: _Body | None = None

    def all_inputs(self) -> Iterator[str]:
        """Yield the names that the node and its body read."""
        yield from self.inputs
        for node in () if self.body is None else self.body.nodes:
            yield from node.all_inputs()


@dataclasses.dataclass
class _Body:
    """The graph of a node, which may read all tensors made before the node.

    Attributes:
        inputs, outputs: with ONNX's number of the dtype, and the shape if it matters.
    """

    inputs: Sequence[tuple[str, int, Shape | None]]
    outputs: Sequence[tuple[str, int, Shape | None]]
    nodes: list[_Node]


class Graph:
    """Collects nodes in execution order.

    Args:
        batch: the batch size for which the shapes of tensors are given.
        batch_source: an input and its axis whose length is the batch size; None if it is fixed.
        names: the names of inputs and parameters, which are taken.
    """

    def __init__(
        self, batch: int, batch_source: tuple[str, int] | None, names: Iterable[str]
    ) -> None:
        self._batch = batch
        self._source = batch_source
        self._batch_size: str | None = None
        self._nodes: list[_Node] = []
        self._constants: dict[str, np.ndarray[Any, Any]] = {}
        self._small: dict[tuple[str, Shape, bytes], str] = {}
        self._names = set(names)
        self._made: set[str] = set()
        self._renamed: dict[str, str] = {}

    def emit(
        self, kind: str, *inputs: str, hint: str, outputs: int = 1, **attributes: Any
    ) -> list[str]:
        """Add a node; return the names of its outputs."""
        names = [self._fresh(f"{hint}_{kind.lower()}") for _ in range(outputs)]
        self._made.update(names)
        self._nodes.append(_Node(kind, inputs, names, attributes))
        return names

    def repeat(self, count: int, value: str, dtype: int, step: Step, hint: str) -> str:
        """Add a loop; return the name of what it makes of a tensor.

        Args:
            count: number of repetitions.
            value: the tensor at the beginning.
            dtype: ONNX's number of its dtype.
            step: adds the nodes of one repetition; called with the names of the repetition's
                number, a scalar of int64, and of the tensor before it; returns that after it.
        """
        number, go_on, before = (
            self._fresh(f"{hint}_{one}") for one in ("number", "go_on", "before")
        )
        outer, self._nodes = self._nodes, []
        after = step(number, before)
        (still,) = self.emit("Identity", go_on, hint=hint)
        given = [(number, int(TensorProto.INT64), ()), (go_on, BOOL, ()), (before, dtype, None)]
        body = _Body(given, [(still, BOOL, ()), (after, dtype, None)], self._nodes)
        self._nodes = outer
        (name,) = self.emit("Loop", self.constant(count, INT64, hint), "", value, hint=hint)
        self._nodes[-1].body = body
        return name

    def constant(self, values: Any, dtype: Any, hint: str) -> str:
        """Return the name of a constant; small constants with equal values are shared."""
        # Reshaped, because ascontiguousarray gives a scalar an axis.
        array = np.ascontiguousarray(np.asarray(values, dtype)).reshape(np.shape(values))
        is_small = array.size <= _MOST_SHARED
        key = (array.dtype.str, array.shape, array.tobytes() if is_small else b"")
        if is_small and key in self._small:
            return self._small[key]
        name = self._fresh(f"{hint}_constant")
        self._constants[name] = array
        if is_small:
            self._small[key] = name
        return name

    def parameter(self, name: str, values: np.ndarray[Any, Any]) -> None:
        """Set the values of a parameter; it becomes part of the model if a node reads it."""
        self._constants[name] = values

    def as_output(self, name: str, wanted: str) -> str:
        """Return the name of a tensor as an output of the model: the wanted one, if possible.

        A tensor that is not the output of a node, or is an output of the model already, is copied.
        """
        if name in self._renamed or name not in self._made:
            (name,) = self.emit("Identity", name, hint=wanted)
        self._renamed[name] = wanted if wanted not in self._names else self._fresh(wanted)
        self._names.add(wanted)
        return name

    def shape_vector(self, tensor: Tensor, hint: str) -> str:
        """Return the name of the tensor's shape, as a vector of int64."""
        if tensor.is_static:
            return self.constant(list(tensor.shape), INT64, hint)
        parts = []
        for length, dynamic in zip(tensor.shape, tensor.dynamic, strict=True):
            factor = self.constant([length // self._batch if dynamic else length], INT64, hint)
            if dynamic:
                (factor,) = self.emit("Mul", self._size_of_batch(hint), factor, hint=hint)
            parts.append(factor)
        return self.emit("Concat", *parts, hint=hint, axis=0)[0]

    def _size_of_batch(self, hint: str) -> str:
        assert self._source is not None
        if self._batch_size is None:
            name, axis = self._source
            (self._batch_size,) = self.emit("Shape", name, hint=hint, start=axis, end=axis + 1)
        return self._batch_size

    def _fresh(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._names:
            number += 1
            name = f"{wanted}_{number}"
        self._names.add(name)
        return name

    def to_model(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], producer: tuple[str, str]
    ) -> ModelProto:
        """Return the model; ``producer`` is a name and a version."""

        def final(name: str) -> str:
            return self._renamed.get(name, name)

        nodes = [_to_node(node, final) for node in self._nodes]
        read = {name for node in self._nodes for name in node.all_inputs()}
        initializers = [
            numpy_helper.from_array(values, name)
            for name, values in self._constants.items()
            if name in read
        ]
        graph = helper.make_graph(
            nodes,
            "modserve",
            [self._value_info(one) for one in inputs],
            [self._value_info(one) for one in outputs],
            initializer=initializers,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = _IR_VERSION
        model.producer_name, model.producer_version = producer
        return model

    def _value_info(self, tensor: Tensor) -> ValueInfoProto:
        lengths: list[int | str] = [
            self._symbolic(length) if dynamic else length
            for length, dynamic in zip(tensor.shape, tensor.dynamic, strict=True)
        ]
        return helper.make_tensor_value_info(
            self._renamed.get(tensor.name, tensor.name), onnx_type(tensor.dtype), lengths
        )

    def _symbolic(self, length: int) -> str:
        factor = length // self._batch
        return "batch" if factor == 1 else f"{factor}*batch"


def _to_node(node: _Node, final: Callable[[str], str]) -> NodeProto:
    attributes = dict(node.attributes)
    if node.body is not None:
        attributes["body"] = helper.make_graph(
            [_to_node(one, final) for one in node.body.nodes],
            f"{node.outputs[0]}_body",
            [helper.make_tensor_value_info(*one) for one in node.body.inputs],
            [helper.make_tensor_value_info(*one) for one in node.body.outputs],
        )
    return helper.make_node(
        node.kind,
        [final(one) for one in node.inputs],
        [final(one) for one in node.outputs],
        name=final(node.outputs[0]),
        **attributes,
    )


def onnx_type(dtype: DType) -> int:
    """Return ONNX's number of a dtype."""
    if dtype.name == "bfloat16":
        return int(TensorProto.BFLOAT16)
    return int(helper.np_dtype_to_tensor_dtype(dtype))
