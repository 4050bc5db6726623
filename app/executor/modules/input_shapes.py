"""Shapes for the inputs of a model whose files do not state them.

Neither the symbol nor the parameters of an MXNet model hold the shape of its data. The first layer
that reads an input tells its channels or features, a ``Reshape`` all of it, the parameters of a
recurrent layer its features; sizes of images are tried, the usual ones first, until shape inference
finds no contradiction with the parameters.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from app.executor.modules.declared_shapes import declared_shapes, fixed_batches
from app.executor.modules.input_paths import BATCH, InputPath, find_paths
from core.capabilities.arrays import RESHAPING
from core.capabilities.kinds import is_of
from core.capabilities.layers import EMBEDDING, RNN, Rnn
from core.errors import MXNetError
from core.graph.nodes import Node
from core.symbol import Symbol
from core.types import Shape

__all__ = ["ShapeGuess", "guess_shapes", "output_shapes"]

# All in the order in which they are tried, the most usual first.
_IMAGE_SIZES = (224, 28, 32, 112, 64, 96, 128, 48, 24, 12, 256, 299, 300, 320, 512)
_MULTIPLES = 32
"""Networks halve their images some five times."""
_OTHER_SIZES = tuple(
    sorted(
        {*range(4, 257), *range(_MULTIPLES, 1025, _MULTIPLES)} - {*_IMAGE_SIZES},
        key=lambda size: (-math.gcd(size, _MULTIPLES), size),
    )
)
_SIDES = (32, 64, 48, 96, 80, 28, 24, 100, 112, 120, 128, 160, 192, 200, 224, 256, 280, 320, 480)
_SEQUENCE_LENGTH = 10
_LENGTHS = range(2, 257)
_LABEL_LENGTH = 4
_MOST_TRIALS = 600
"""Shape inferences per kind of sizes: more than any one input has candidates, and a few seconds for
a large graph."""

Sizes = Callable[[int], Iterator[tuple[int, ...]]]
"""Yields the lengths of so many axes of an image."""


def _usual(rank: int) -> Iterator[tuple[int, ...]]:
    return ((size,) * rank for size in _IMAGE_SIZES)


def _others(rank: int) -> Iterator[tuple[int, ...]]:
    return ((size,) * rank for size in _OTHER_SIZES)


def _rectangles(rank: int) -> Iterator[tuple[int, ...]]:
    return itertools.permutations(_SIDES, 2) if rank == 2 else iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeGuess:
    """What was found out about the inputs' shapes, with the given batch size, or else 1.

    Attributes:
        shapes: by input, those that were given included; empty if none fit.
        layouts: of those whose batch is not the first axis.
        dtypes: of data whose dtype follows from the graph, as that of a net cast to float16.
        usual: labels whose shapes do not follow from the data; these are the usual ones.
        free: inputs for which other sizes fit the parameters as well.
        ranges: of inputs for which only near sizes do, the smallest and the largest side.
        open: inputs whose shapes must be specified.
    """

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    layouts: Mapping[str, str] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    usual: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    open: tuple[str, ...] = ()


class _Candidate(NamedTuple):
    """A shape of an input; an empty one leaves it to inference.

    Attributes:
        axes: of the image, if it is a square of a size that was tried.
    """

    shape: Shape
    layout: str = ""
    axes: tuple[int, ...] = ()

    def of_side(self, size: int) -> _Candidate:
        """Return the same with an image of another size."""
        dims = (size if axis in self.axes else dim for axis, dim in enumerate(self.shape))
        return self._replace(shape=tuple(dims))

    def of_batch(self, size: int) -> _Candidate:
        """Return the same of so many examples."""
        axis = self.layout.find("N") if self.layout else 0
        shape = (*self.shape[:axis], size, *self.shape[axis + 1 :]) if self.shape else ()
        return self._replace(shape=shape)


def guess_shapes(
    symbol: Symbol,
    params: Mapping[str, Shape],
    given: Mapping[str, Shape],
    data: Sequence[str],
    labels: Sequence[str],
) -> ShapeGuess:
    """Return shapes of all inputs, or which of them cannot be determined.

    Labels are left to inference; where that fails (one read through a ``Reshape``, or by a CTC
    loss), the usual shapes are tried. States are left to inference as well.

    Args:
        symbol: the graph.
        params: shapes of the parameters and auxiliary states by name.
        given: shapes that are known already.
        data, labels: names of the inputs.
    """
    arguments = symbol.list_arguments()
    known = {**{name: params[name] for name in arguments if name in params}, **given}
    unknown = [name for name in data if name not in given]
    searched = _Search(symbol, known, data, unknown, [name for name in labels if name not in given])
    paths = find_paths(symbol)
    declared = declared_shapes(symbol, unknown)
    batch = next((given[name][0] for name in data if given.get(name)), None)
    each: dict[str, list[_Candidate]] = {}
    ways = itertools.product((_likeliest, _all), (_usual, _others, _rectangles))
    batches = [1, *fixed_batches(symbol, declared)] if batch is None else [batch]
    for size, (combined, sizes) in itertools.product(batches, tuple(ways)):
        each = {
            name: [
                one.of_batch(size)
                for one in (
                    *_of_declared(declared.get(name)),
                    *_candidates(paths.get(name), params, sizes),
                )
            ]
            for name in unknown
        }
        for chosen in itertools.islice(combined(each), _MOST_TRIALS):
            found = searched.try_shapes(dict(zip(unknown, chosen, strict=True)))
            if found is not None:
                return _completed(searched, found, given)
    told = [name for name in unknown if any(one.shape for one in each[name])]
    return ShapeGuess(
        shapes=given, open=tuple(name for name in unknown if name not in told) or tuple(unknown)
    )


def _of_declared(shape: Shape | None) -> Iterator[_Candidate]:
    """Yield the shape that the file itself gives an input, if it does."""
    if shape is not None:
        yield _Candidate((1, *shape[1:]))


def _likeliest(each: Mapping[str, Sequence[_Candidate]]) -> Iterator[tuple[_Candidate, ...]]:
    """Yield all candidates of the input that has most, an image as a rule, with the first of the
    others.

    All combinations of several inputs are too many to reach every size of an image.
    """
    longest = max(each, key=lambda name: len(each[name]), default=None)
    return itertools.product(
        *(found if name == longest else found[:1] for name, found in each.items())
    )


def _all(each: Mapping[str, Sequence[_Candidate]]) -> Iterator[tuple[_Candidate, ...]]:
    return itertools.product(*each.values()) if len(each) > 1 else iter(())


def output_shapes(symbol: Symbol, known: Mapping[str, Shape]) -> dict[str, list[int]]:
    """Return the shape of every output by name, empty if it does not follow from others.

    Args:
        known: shapes of arguments by name; others are skipped.
    """
    arguments = symbol.list_arguments()
    inferred = _infer(symbol, {name: known[name] for name in arguments if name in known}) or {}
    return {name: list(inferred.get(name, ())) for name in symbol.list_outputs()}


class _Found(NamedTuple):
    chosen: Mapping[str, _Candidate]
    inferred: Mapping[str, Shape]
    usual: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Search:
    """Tries shapes of inputs against what is known of all other variables."""

    symbol: Symbol
    known: Mapping[str, Shape]
    data: Sequence[str]
    unknown: Sequence[str]
    labels: Sequence[str]

    def try_shapes(self, chosen: Mapping[str, _Candidate]) -> _Found | None:
        """Return what follows from shapes of the unknown inputs; None for a contradiction."""
        fixed = {**self.known, **{key: one.shape for key, one in chosen.items() if one.shape}}
        inferred = _infer(self.symbol, fixed)
        if inferred is None:
            return None
        usual = [name for name in self.labels if not _is_known(inferred[name])]
        examples = [inferred[name] for name in self.data]
        for label in _label_shapes(examples) if usual else [()]:
            inferred = _infer(self.symbol, {**fixed, **dict.fromkeys(usual, label)})
            if inferred is not None and all(map(_is_known, inferred.values())):
                return _Found(chosen, inferred, usual)
        return None


def _completed(searched: _Search, found: _Found, given: Mapping[str, Shape]) -> ShapeGuess:
    names = (*searched.unknown, *searched.labels)
    images = {name: one for name, one in found.chosen.items() if one.axes}

    def fits(name: str, size: int) -> bool:
        chosen = {**found.chosen, name: images[name].of_side(size)}
        return searched.try_shapes(chosen) is not None

    sides = {name: one.shape[one.axes[0]] for name, one in images.items()}
    # Where twice the size fits as well, as before global pooling, the size is any client's choice.
    free = [name for name, side in sides.items() if fits(name, 2 * side)]
    around = {
        name: _range_around(side, partial(fits, name))
        for name, side in sides.items()
        if name not in free
    }
    return ShapeGuess(
        shapes={**given, **{name: found.inferred[name] for name in names}},
        layouts={name: one.layout for name, one in found.chosen.items() if one.layout},
        dtypes=_dtypes(searched.symbol, searched.unknown),
        usual=tuple(found.usual),
        free=tuple(free),
        ranges={name: (low, high) for name, (low, high) in around.items() if low < high},
    )


def _range_around(size: int, fits: Callable[[int], bool]) -> tuple[int, int]:
    """Return the smallest and the largest of the sizes around one that fit, twice it at most."""
    low = _furthest(size, 0, fits) if fits(size - 1) else size
    high = _furthest(size, 2 * size, fits) if fits(size + 1) else size
    return low, high


def _furthest(size: int, misfit: int, fits: Callable[[int], bool]) -> int:
    """Return the last size that fits between one that does and one that does not."""
    while abs(misfit - size) > 1:
        middle = (size + misfit) // 2
        if fits(middle):
            size = middle
        else:
            misfit = middle
    return size


def _dtypes(symbol: Symbol, names: Sequence[str]) -> dict[str, str]:
    """Return the dtypes that the graph itself determines for some of its arguments."""
    try:
        found, _, _ = symbol.infer_type_partial()
    except MXNetError:
        return {}
    arguments = dict(zip(symbol.list_arguments(), found or (), strict=True))
    return {name: np.dtype(one).name for name in names if (one := arguments.get(name))}


def _label_shapes(examples: Sequence[Shape]) -> Iterator[Shape]:
    """Yield shapes that labels of such examples usually have."""
    # A class per step, a class, a text (for CTC), and objects of (class, x1, y1, x2, y2).
    for shape in sorted(filter(_is_known, examples), key=len, reverse=True)[:1]:
        yield from (shape[:2], shape[:1], (shape[0], _LABEL_LENGTH), (shape[0], _LABEL_LENGTH, 5))


def _candidates(
    path: InputPath | None, params: Mapping[str, Shape], sizes: Sizes
) -> Iterator[_Candidate]:
    """Yield shapes of one example; at last the empty one, which leaves it to inference."""
    operator = None if path is None else path.reader.op
    if path is not None and operator is not None:
        shapes = (
            _of_sequences(path.reader, operator, params, sizes)
            if is_of(operator, RNN)
            else _of_layer(path.reader, params, sizes)
        )
        for shape in shapes:
            found = path.back(shape)
            if found is not None and (one := _described(found, shape)) is not None:
                yield one
    yield _Candidate(())


def _described(shape: Shape, told: Shape) -> _Candidate | None:
    """Return the candidate of an input's shape; None if its examples are along an axis of which no
    layout tells.

    Args:
        shape: of the input.
        told: of the data of the operator that tells it; images have their size last.
    """
    axis = shape.index(BATCH)
    filled = tuple(1 if dim == BATCH else dim for dim in shape)
    if axis != 0:
        return _Candidate(filled, "TNC") if (axis, len(shape)) == (1, 3) else None
    is_square = len(told) > 3 and len(set(told[2:])) == 1
    axes = tuple(axis for axis, dim in enumerate(shape) if is_square and dim == told[-1])
    return _Candidate(filled, axes=axes if len(axes) == len(told) - 2 else ())


def _of_layer(node: Node, params: Mapping[str, Shape], sizes: Sizes) -> Iterator[Shape]:
    operator = node.op
    assert operator is not None
    weight = _weight_of(node, params)
    data = None if weight is None else operator.data_from_weight(weight)
    if data is not None and data.spatial_axes:
        for dims in sizes(data.spatial_axes):
            yield (BATCH, data.features, *dims)
    elif data is not None:
        yield (BATCH, data.features)
        side = math.isqrt(data.features)  # the layer flattens images: 784 features are 28 x 28
        if side * side == data.features:
            yield (BATCH, 1, side, side)
    elif is_of(operator, EMBEDDING):
        yield from ((BATCH, _SEQUENCE_LENGTH), (BATCH, 1), (BATCH,))
        if sizes is _others:
            yield from ((BATCH, length) for length in _LENGTHS)
    elif is_of(operator, RESHAPING):
        target = operator.shape
        if len(target) > 1 and min(target[1:]) > 0:
            yield (BATCH, *target[1:])
            yield (BATCH, math.prod(target[1:]))


def _of_sequences(
    node: Node, operator: Rnn, params: Mapping[str, Shape], sizes: Sizes
) -> Iterator[Shape]:
    """Yield shapes of sequences, whose features follow from a recurrent layer's parameters."""
    count = _count_of(node.inputs[1].node, params)
    if count is None:
        return
    # The number of parameters is linear in the number of features.
    constant = operator.parameter_size(0)
    features, rest = divmod(count - constant, operator.parameter_size(1) - constant)
    if rest or features < 1:
        return
    if sizes is _usual:
        yield from ((steps, BATCH, features) for steps in (_SEQUENCE_LENGTH, *_IMAGE_SIZES))
    elif sizes is _others:
        yield from ((steps, BATCH, features) for steps in _LENGTHS)


def _count_of(node: Node, params: Mapping[str, Shape]) -> int | None:
    """Return the number of a recurrent layer's parameters, which gluon joins from several."""
    if node.is_variable:
        shape = params.get(node.name)
        return None if shape is None else math.prod(shape)
    counts = [_count_of(entry.node, params) for entry in node.inputs]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _weight_of(node: Node, params: Mapping[str, Shape]) -> Shape | None:
    return params.get(node.inputs[1].node.name) if len(node.inputs) > 1 else None


def _infer(symbol: Symbol, shapes: Mapping[str, Shape]) -> dict[str, Shape] | None:
    """Return the shapes of all arguments and outputs as far as they are known.

    None if they contradict each other.
    """
    try:
        arguments, outputs, _ = symbol.infer_shape_partial(**shapes)
    except MXNetError:
        return None
    found = [tuple(shape) for shape in (*(arguments or ()), *(outputs or ()))]
    return dict(zip((*symbol.list_arguments(), *symbol.list_outputs()), found, strict=True))


def _is_known(shape: Shape) -> bool:
    return bool(shape) and 0 not in shape
