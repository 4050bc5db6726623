"""Predictions of a module with or without buckets: choose a bucket, pad, run, crop."""

from __future__ import annotations

import dataclasses
import math
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import cache, cached_property, partial
from itertools import chain
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from app.domain.module import BucketShapes, InputDesc, quoted_buckets
from app.domain.ragged_axes import RaggedInput, ragged_inputs
from app.domain.serving import StateLink
from app.errors.tree import Invalid
from app.executor.modules.bind_checks import describe_inputs
from app.executor.predict.inputs import batch_shape, check_names
from app.executor.predict.padding import fits, lengths_to_add, pad, padded_shape
from app.executor.predict.prediction import Prediction
from app.executor.predict.predictor import Parameters, Predictor, SharedMemory
from app.executor.predict.single_examples import as_batch
from app.executor.predict.stateful import StatefulPredictor, stateful_predictor
from app.link.protocols import Arrays
from core.io import DataDesc
from core.symbol import Symbol
from core.types import Shape

__all__ = ["Inference", "pick_bucket"]


_NO_AXES: frozenset[int] = frozenset()
_SHAPES_KEPT = 8
"""Shapes with a predictor of their own, whose plans take memory: any client may send new ones."""


class RaggedAxis(NamedTuple):
    """An axis of an output that has the length of an axis of an input in every bucket."""

    output: str
    axis: int
    input: str
    input_axis: int


class Inference:
    """All predictors of a bound module. Rebinding the module makes a new one."""

    def __init__(
        self,
        symbols: Mapping[str, Symbol],
        buckets: Mapping[str, BucketShapes],
        parameters: Parameters,
        *,
        any_shape: bool = False,
    ) -> None:
        """Prepare.

        Args:
            symbols: by bucket key.
            buckets: shapes by bucket key.
            parameters: the arrays to compute with.
            any_shape: examples may have other shapes than bound; each shape gets a predictor.
        """
        self._any_shape = any_shape
        self._by_shape: OrderedDict[BucketShapes, Predictor] = OrderedDict()
        self._symbols = symbols
        self._buckets = buckets
        self._parameters = parameters
        self._predictors: dict[str, Predictor] = {}
        self._memory = SharedMemory()
        self._stateful: WeakKeyDictionary[
            Predictor, dict[tuple[StateLink, ...], StatefulPredictor]
        ] = WeakKeyDictionary()

    def predictor(self, key: str) -> Predictor:
        """Return the predictor of a bucket, made on first use."""
        if key not in self._predictors:
            self._predictors[key] = self._make(key, self._buckets[key])
        return self._predictors[key]

    def prepare(
        self, tensors: Arrays, bucket: str | None, *, is_repeatable: bool = False
    ) -> Prediction:
        """Return a prediction for some examples, without computing it.

        Examples smaller than the bucket's are padded along the axes in which buckets differ;
        outputs are cropped along the axes that follow the inputs' lengths.

        Args:
            tensors: the inputs.
            bucket: the requested key as canonical JSON text, or None.
            is_repeatable: see ``Prediction``.

        Raises:
            Invalid: no bucket fits, or a tensor does not fit the bucket.
        """
        key = pick_bucket(self._buckets, tensors, bucket, self._ragged_inputs)
        descs = self._buckets[key].data_shapes
        added = lengths_to_add(descs, tensors, self._ragged_axes)
        tensors = {**tensors, **added}
        check_names(tensors, [one.name for one in descs], may_miss=False)
        if self._any_shape:
            predictor = self._predictor_of(key, tensors)
            rows = predictor.check(tensors)
            return Prediction(key, predictor, tensors, rows, None, None, is_repeatable, added)
        predictor = self.predictor(key)
        rows = predictor.check({one.name: self._outline(tensors, one) for one in descs})
        if len(self._buckets) == 1:
            return Prediction(key, predictor, tensors, rows, None, None, is_repeatable, added)
        lengths = {name: tensor.shape for name, tensor in tensors.items()}
        fit, cut = partial(self._fit, key), cache(partial(self._cut, lengths))
        return Prediction(key, predictor, tensors, rows, fit, cut, is_repeatable, added)

    def is_planned(self, tensors: Arrays, bucket: str | None, joins: bool) -> bool:
        """Return whether some examples can be computed without planning; see ``plan``."""
        key = pick_bucket(self._buckets, tensors, bucket, self._ragged_inputs)
        if not self._any_shape and key not in self._predictors:
            return False
        if self._any_shape and self._shapes_of(key, tensors) not in self._by_shape:
            return False
        found = self.prepare(tensors, bucket)
        return found.predictor.is_planned(found.rows, joins)

    def plan(self, tensors: Arrays, bucket: str | None, joins: bool) -> None:
        """Make all plans that are needed to compute some examples.

        Args:
            tensors: the inputs, of which only the shapes are used.
            bucket: see ``prepare``.
            joins: they may share a batch with others.

        Raises:
            Invalid: as ``prepare`` does.
        """
        found = self.prepare(tensors, bucket)
        found.predictor.plan(found.rows, joins)
        _ = self.ragged_axes  # kept from now on; it infers the shapes of all buckets' outputs

    def as_batch(self, tensors: Arrays) -> Arrays:
        """Return the inputs of a single example without a batch axis as a batch of one.

        All others are returned unchanged.
        """
        return as_batch(next(iter(self._buckets.values())).data_shapes, tensors)

    def with_buckets(self, buckets: Mapping[str, BucketShapes]) -> Inference:
        """Return a copy with other buckets; unchanged buckets keep their plans."""
        changed = Inference(self._symbols, buckets, self._parameters, any_shape=self._any_shape)
        changed._memory = self._memory
        changed._predictors = {
            key: predictor
            for key, predictor in self._predictors.items()
            if buckets.get(key) == self._buckets[key]
        }
        return changed

    def warm_up(self, keys: Iterable[str] | None, most_rows: int | None) -> Generator[None]:
        """Make the plans that predictions need; yield after each.

        Args:
            keys: keys of the buckets; None for all.
            most_rows: see ``Predictor.warm_up``.
        """
        for key in self._buckets if keys is None else keys:
            descs = self._buckets[key].data_shapes
            bound = {one.name: np.broadcast_to(np.zeros(()), one.shape) for one in descs}
            is_fixed = not self._any_shape
            predictor = self.predictor(key) if is_fixed else self._predictor_of(key, bound)
            yield from predictor.warm_up(most_rows)

    def stateful(
        self, tensors: Arrays, bucket: str | None, links: tuple[StateLink, ...]
    ) -> tuple[Prediction, StatefulPredictor]:
        """Return a prediction for some examples that still lacks the initial states.

        Nothing is padded, because padding would advance the states: inputs must have the exact
        shapes of a bucket.

        Raises:
            Invalid: no bucket fits, or a tensor or state does not.
        """
        key = pick_bucket(self._buckets, tensors, bucket, {})
        descs = self._buckets[key].data_shapes
        added = lengths_to_add(descs, tensors, self._ragged_axes)
        tensors = {**tensors, **added}
        check_names(tensors, [one.name for one in descs], may_miss=False)
        plain = self.predictor(key)
        rows = plain.check(tensors)
        made = self._stateful.setdefault(plain, {})
        if links not in made:
            made[links] = stateful_predictor(
                self._symbols[key], plain, self._parameters, self._memory, links
            )
        predictor = made[links].predictor
        prediction = Prediction(key, predictor, tensors, rows, None, None, False, added)
        return prediction, made[links]

    def _fit(self, key: str, tensors: Arrays) -> Arrays:
        return {
            one.name: pad(tensors[one.name], one, self._ragged(one))
            for one in self._buckets[key].data_shapes
        }

    def _outline(self, tensors: Arrays, desc: InputDesc) -> np.ndarray:
        """Return an array with the shape and dtype of ``_fit``'s result, but without memory for its
        elements."""
        tensor = tensors[desc.name]
        shape = padded_shape(tensor, desc, self._ragged(desc))
        return np.broadcast_to(np.zeros((), tensor.dtype), shape)

    def _ragged(self, desc: InputDesc) -> frozenset[int]:
        return self._ragged_inputs.get(desc.name, _NO_AXES)

    def _predictor_of(self, key: str, tensors: Arrays) -> Predictor:
        """Return the predictor for examples of a shape, whatever their number."""
        shapes = self._shapes_of(key, tensors)
        predictor = self._by_shape.get(shapes)
        if predictor is None:
            predictor = self._make(key, shapes)
            self._by_shape[shapes] = predictor
            if len(self._by_shape) > _SHAPES_KEPT:
                self._by_shape.popitem(last=False)
        self._by_shape.move_to_end(shapes)
        return predictor

    def _shapes_of(self, key: str, tensors: Arrays) -> BucketShapes:
        """Return the shapes of a bucket for examples of the given shape."""
        bound = self._buckets[key]
        check_names(tensors, [one.name for one in bound.data_shapes], may_miss=False)
        descs = tuple(_reshaped(one, tensors[one.name]) for one in bound.data_shapes)
        return BucketShapes(data_shapes=descs, label_shapes=bound.label_shapes)

    def _make(self, key: str, shapes: BucketShapes) -> Predictor:
        inputs = describe_inputs(shapes.data_shapes)
        labels = describe_inputs(shapes.label_shapes)
        return Predictor(self._symbols[key], self._parameters, inputs, self._memory, labels)

    def nbytes(self) -> int:
        """Return the bytes that all predictors use."""
        return self._memory.nbytes() + sum(one.input_bytes() for one in self._all())

    def plans(self) -> int:
        """Return the number of plans (bound batch sizes) of all predictors."""
        return sum(one.plans() for one in self._all())

    def _all(self) -> Iterator[Predictor]:
        stateful = (one.predictor for made in self._stateful.values() for one in made.values())
        return chain(self._predictors.values(), self._by_shape.values(), stateful)

    @cached_property
    def ragged_axes(self) -> list[RaggedAxis]:
        """Axes along which outputs are cropped; none with a single bucket, which offers no
        comparison."""
        if len(self._buckets) < 2:
            return []
        shapes = {key: self._output_shapes(key) for key in self._buckets}
        first = next(iter(shapes.values()))
        return [
            RaggedAxis(name, axis, one, input_axis)
            for one, input_axis, lengths in self._ragged_axes
            for name, shape in first.items()
            for axis in range(len(shape))
            if all(_dim(shapes[key], name, axis) == lengths[key] for key in self._buckets)
        ]

    @cached_property
    def _ragged_axes(self) -> list[RaggedInput]:
        return ragged_inputs(self._buckets)

    @cached_property
    def _ragged_inputs(self) -> dict[str, frozenset[int]]:
        """By input, the axes along which examples may be smaller than their bucket."""
        axes: dict[str, frozenset[int]] = {}
        for name, axis, _ in self._ragged_axes:
            axes[name] = axes.get(name, _NO_AXES) | {axis}
        return axes

    def _cut(self, lengths: Mapping[str, Shape], name: str, shape: Shape) -> tuple[slice, ...]:
        """Return the part of an output that belongs to inputs of these lengths."""
        # Where several inputs could be meant, the last one counts.
        index = [slice(None)] * len(shape)
        for ragged in self.ragged_axes:
            if ragged.output == name:
                index[ragged.axis] = slice(lengths[ragged.input][ragged.input_axis])
        return tuple(index)

    def _output_shapes(self, key: str) -> dict[str, Shape]:
        predictor = self.predictor(key)
        specs = predictor.output_specs(predictor.bound_size)
        return {name: shape for name, (shape, _) in specs.items()}


def pick_bucket(
    buckets: Mapping[str, BucketShapes],
    tensors: Arrays,
    bucket: str | None,
    ragged: Mapping[str, frozenset[int]],
) -> str:
    """Return the key of the requested bucket, or else of the smallest one that fits the tensors.

    Args:
        buckets: shapes by key.
        tensors: the inputs.
        bucket: the key wanted, as canonical JSON text, or None.
        ragged: by input, the axes along which examples may be smaller than the bucket's.

    Raises:
        Invalid: the requested bucket does not exist, or none fits.
    """
    if bucket is not None:
        if bucket not in buckets:
            raise Invalid("bucket", bucket, quoted_buckets(buckets))
        return bucket
    if len(buckets) == 1:
        return next(iter(buckets))
    for key in sorted(buckets, key=lambda key: _size(buckets[key])):
        descs = [one for one in buckets[key].data_shapes if one.name in tensors]
        if all(fits(one, tensors[one.name].shape, ragged.get(one.name, _NO_AXES)) for one in descs):
            return key
    raise _fits_none(buckets, tensors, ragged)


def _size(shapes: BucketShapes) -> int:
    return sum(math.prod(one.shape) for one in shapes.data_shapes)


def _fits_none(
    buckets: Mapping[str, BucketShapes], tensors: Arrays, ragged: Mapping[str, frozenset[int]]
) -> Invalid:
    """Return the error that names the first tensor that fits no bucket, and the shapes that would
    fit."""
    fitting: dict[str, bool] = {}
    shapes: dict[str, list[str]] = {}
    for key in sorted(buckets, key=lambda key: _size(buckets[key])):
        for one in buckets[key].data_shapes:
            if one.name in tensors:
                got = tensors[one.name].shape
                is_fitting = fits(one, got, ragged.get(one.name, _NO_AXES))
                fitting[one.name] = is_fitting or fitting.get(one.name, False)
                shape = batch_shape(one.shape, DataDesc.get_batch_axis(one.layout))
                shapes.setdefault(one.name, []).append(f"bucket {key}: {shape}")
    name = min(fitting, key=lambda name: fitting[name])
    expected = f"what a bucket holds ({', '.join(shapes[name])})"
    return Invalid(name, f"shape {tensors[name].shape}", expected)


def _reshaped(desc: InputDesc, tensor: np.ndarray) -> InputDesc:
    """Return the description of an input with another shape but its bound batch size."""
    if tensor.ndim != len(desc.shape):
        raise Invalid(desc.name, f"shape {tensor.shape}", f"{len(desc.shape)} dimensions")
    axis = DataDesc.get_batch_axis(desc.layout)
    dims = [
        bound if position == axis else have
        for position, (have, bound) in enumerate(zip(tensor.shape, desc.shape, strict=True))
    ]
    return dataclasses.replace(desc, shape=tuple(dims))


def _dim(shapes: Mapping[str, Shape], name: str, axis: int) -> int | None:
    shape = shapes.get(name, ())
    return shape[axis] if axis < len(shape) else None
