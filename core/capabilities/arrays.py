"""Kinds of operators on arrays, whatever these stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..types import Shape
from .functions import Arithmetic, Pointwise, Reduction
from .kinds import Kind

__all__ = [
    "ADDITION",
    "ARITHMETIC",
    "BROADCAST",
    "CAST",
    "CONCATENATION",
    "CROSS_ENTROPY",
    "EXPAND_DIMS",
    "LEAKY_RELU",
    "LOG_SOFTMAX",
    "MATMUL",
    "POINTWISE",
    "REDUCTION",
    "RESHAPING",
    "SEQUENCE_LAST",
    "SEQUENCE_MASK",
    "SLICING",
    "SOFTMAX",
    "SOFTMAX_ACTIVATION",
    "SOFTMAX_OUTPUT",
    "SOFTMIN",
    "SPLIT",
    "STACK",
    "TOP_K",
    "TRANSPOSE",
    "AlongAxis",
    "Concatenation",
    "HasArithmetic",
    "HasFunction",
    "HasNewAxis",
    "LeakyRelu",
    "MatMul",
    "OfSequences",
    "Reducing",
    "Reshaping",
    "Slicing",
    "SoftmaxActivation",
    "SoftmaxOutput",
    "Split",
    "TopK",
    "Transpose",
]


# -- element by element ---------------------------------------------------------------------------


class HasFunction(Protocol):
    """An operator that applies one function to each element of its first input."""

    def pointwise(self) -> Pointwise | None:
        """The function; None for one that is not known."""


class LeakyRelu(HasFunction, Protocol):
    """``LeakyReLU``: one function for all elements, or a slope for each channel."""

    @property
    def has_slopes(self) -> bool:
        """Whether the second input holds the slopes below zero."""


class HasArithmetic(Protocol):
    """Arithmetic of two tensors, broadcast against each other."""

    def arithmetic(self) -> Arithmetic | None:
        """The function of two elements; None for one that is not known."""


# -- softmax --------------------------------------------------------------------------------------


class AlongAxis(Protocol):
    """``softmax`` and its relatives."""

    @property
    def axis(self) -> int:
        """The axis whose elements make up one distribution."""

    @property
    def temperature(self) -> float | None:
        """Divisor of the data; None for 1."""

    @property
    def use_length(self) -> bool | None:
        """Whether an input has the length of each row."""


class SoftmaxActivation(Protocol):
    """``SoftmaxActivation``."""

    @property
    def mode(self) -> str:
        """``"channel"`` or ``"instance"``."""


class SoftmaxOutput(Protocol):
    """``SoftmaxOutput``."""

    @property
    def grad_scale(self) -> float:
        """Factor of the gradient."""

    @property
    def ignore_label(self) -> float:
        """The label whose gradient is zero if ``use_ignore`` is set."""

    @property
    def multi_output(self) -> bool:
        """Whether classes lie along axis 1."""

    @property
    def normalization(self) -> str:
        """What the gradient is divided by: ``"null"`` (nothing), ``"batch"`` or ``"valid"``."""

    @property
    def out_grad(self) -> bool:
        """Whether the gradient is multiplied by that of the output."""

    @property
    def preserve_shape(self) -> bool:
        """Whether classes lie along the last axis."""

    @property
    def smooth_alpha(self) -> float:
        """Label smoothing: the probability that is taken from the label and shared by the other
        classes."""

    @property
    def use_ignore(self) -> bool:
        """Whether elements with ``ignore_label`` are ignored."""


# -- arrays ---------------------------------------------------------------------------------------


class MatMul(Protocol):
    """``dot`` and ``batch_dot``."""

    @property
    def is_batched(self) -> bool:
        """Whether all axes but the last two are a batch of products."""

    @property
    def transpose_a(self) -> bool:
        """Whether the left matrix is transposed."""

    @property
    def transpose_b(self) -> bool:
        """Whether the right matrix is transposed."""


class Reducing(Protocol):
    """A reduction over some axes."""

    def reduction(self) -> Reduction | None:
        """The function of all numbers; None for one that is not known."""

    def axes(self, rank: int) -> Shape:
        """Return the axes that are reduced, of data with this many axes."""


class Slicing(Protocol):
    """An operator that takes a part of its first input."""

    def region(self, data: Shape, output: Shape) -> Sequence[slice]:
        """Return the part, a slice for each axis."""


class TopK(Protocol):
    """``topk``: the largest or smallest elements along an axis, in order."""

    @property
    def axis(self) -> int | None:
        """The axis; None for all elements."""

    @property
    def k(self) -> int:
        """Number of elements; 0 for all."""

    @property
    def ret_typ(self) -> str:
        """What is returned: value, indices, both or mask."""

    @property
    def is_ascend(self) -> bool:
        """Whether the smallest are wanted."""


class Split(Protocol):
    """``SliceChannel`` and ``split_v2``: parts of the data along an axis."""

    @property
    def axis(self) -> int:
        """The axis."""

    @property
    def squeeze_axis(self) -> bool:
        """Whether the axis, of one element in each part, is dropped."""

    def bounds(self, size: int) -> Sequence[int]:
        """Return the positions at which the parts of an axis of this size begin, and its size."""


class Concatenation(Protocol):
    """``Concat``."""

    @property
    def dim(self) -> int:
        """The axis."""


class HasNewAxis(Protocol):
    """An operator whose output has one more axis than each input."""

    @property
    def axis(self) -> int:
        """Its position in the output; negative numbers count from the end."""


class OfSequences(Protocol):
    """An operator on sequences along an axis of its first input."""

    @property
    def axis(self) -> int:
        """The axis of time; the batch is along the other of the first two."""

    @property
    def use_sequence_length(self) -> bool:
        """Whether a second input (batch,) has the length of each sequence; else all are whole."""


class Reshaping(Protocol):
    """``Reshape``."""

    @property
    def shape(self) -> Shape:
        """The new shape, with MXNet's special codes."""


class Transpose(Protocol):
    """An operator that changes the order of axes."""

    def permutation(self, rank: int) -> Shape:
        """Return, for each axis of the output, the axis of the data that it is."""


POINTWISE = Kind[HasFunction]("pointwise function")
LEAKY_RELU = Kind[LeakyRelu]("LeakyReLU")
ARITHMETIC = Kind[HasArithmetic]("arithmetic")
ADDITION = Kind[object]("sum of several arrays")
SOFTMAX = Kind[AlongAxis]("softmax")
SOFTMIN = Kind[AlongAxis]("softmin")
LOG_SOFTMAX = Kind[AlongAxis]("log softmax")
SOFTMAX_ACTIVATION = Kind[SoftmaxActivation]("softmax activation")
SOFTMAX_OUTPUT = Kind[SoftmaxOutput]("softmax output")
CROSS_ENTROPY = Kind[object]("softmax cross entropy")
MATMUL = Kind[MatMul]("product of matrices")
REDUCTION = Kind[Reducing]("reduction")
SLICING = Kind[Slicing]("slicing")
SPLIT = Kind[Split]("parting")
TOP_K = Kind[TopK]("leading elements")
CONCATENATION = Kind[Concatenation]("concatenation")
STACK = Kind[HasNewAxis]("stack: the inputs along a new axis")
EXPAND_DIMS = Kind[HasNewAxis]("data with a new axis of length 1")
SEQUENCE_LAST = Kind[OfSequences]("last element of each sequence")
SEQUENCE_MASK = Kind[OfSequences]("sequences with a constant after their ends")
TRANSPOSE = Kind[Transpose]("permutation of axes")
RESHAPING = Kind[Reshaping]("data in another shape")
CAST = Kind[object]("cast")
BROADCAST = Kind[object]("repetition along axes")
