"""One request to a predictor, computed at once or in pieces."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from app.executor.modules.symbol_specs import Spec
from app.executor.predict.predictor import Predictor
from app.link.answer_sizes import answer_bytes
from app.link.protocols import Arrays
from core.errors import ShapeError
from core.types import Shape

__all__ = ["Prediction"]

Fit = Callable[[Arrays], Arrays]
Cut = Callable[[str, Shape], tuple[slice, ...]]


class Prediction:
    """A request whose inputs have been checked.

    Attributes:
        bucket: key of its bucket.
        predictor: computes it.
        rows: number of examples.
        result: the parts of the answer other than the outputs.
    """

    __slots__ = (
        *("_added", "_cut", "_fit", "_is_repeatable", "_tensors"),
        *("bucket", "predictor", "result", "rows"),
    )

    def __init__(
        self,
        bucket: str,
        predictor: Predictor,
        tensors: Arrays,
        rows: int,
        fit: Fit | None,
        cut: Cut | None,
        is_repeatable: bool,
        added: Arrays,
    ) -> None:
        """Prepare.

        Args:
            bucket: key of the bucket.
            predictor: runs it.
            tensors: the inputs as they were sent, and the added ones.
            rows: number of examples.
            fit: pads inputs to the bucket's size; None if they have it.
            cut: returns the part of an output (by name and shape) that belongs to the inputs; None
                if that is all of it.
            is_repeatable: choose the sizes of the runs so that the outputs have the same bits each
                time, even if runs take long; otherwise the runs are kept short.
            added: names of inputs that were derived from the shapes of those sent.
        """
        self.bucket = bucket
        self.result: dict[str, Any] = {"bucket": bucket}
        if predictor.odd_axes:
            self.result["batch_axes"] = predictor.odd_axes
        self.rows = rows
        self.predictor = predictor
        self._tensors = tensors
        self._added = added
        self._fit = fit
        self._cut = cut
        self._is_repeatable = is_repeatable

    def of(self, tensors: Arrays) -> Prediction:
        """Return a copy with other inputs of the same names, dtypes and shapes."""
        if self._added:
            tensors = {**tensors, **self._added}
        return Prediction(
            *(self.bucket, self.predictor, tensors, self.rows),
            *(self._fit, self._cut, self._is_repeatable, self._added),
        )

    @property
    def quick_rows(self) -> int:
        """The number of examples in a run that is short enough for others to wait for."""
        return self._most_rows()

    @property
    def is_large(self) -> bool:
        """True if the predictor takes the examples in several runs."""
        return self.rows > self._most_rows()

    def run(self) -> Arrays:
        """Return the outputs of a request that is not large; they may be valid only until the
        predictor's next run."""
        return self._run(self._tensors, self.rows)

    def answer_bytes(self) -> int:
        """Return the bytes of the outputs; 0 if only computing them tells."""
        try:
            specs = self.specs() if self.predictor.has_rows else self._whole_specs()
        except ShapeError:
            return 0
        return answer_bytes(specs)

    def _whole_specs(self) -> dict[str, Spec]:
        return self.predictor.output_specs(self.rows)

    def specs(self) -> dict[str, Spec]:
        """Return shapes and dtypes of a large request's outputs."""
        found = self.predictor.joined_specs(self.rows)
        return {
            name: (self._cut_shape(name, shape), dtype) for name, (shape, dtype) in found.items()
        }

    def steps(self, outputs: Arrays) -> Generator[None, None, None]:
        """Compute the outputs into arrays of these ``specs``; yield between runs."""
        pieces = self.predictor.pieces(self._tensors, self.rows, self._most_rows)
        for start, count, piece in pieces:
            if start:
                yield
            self.predictor.put(self._run(piece, count), outputs, start, count)

    def inputs(self) -> Arrays:
        """Return the inputs padded to the bucket's size."""
        return self._tensors if self._fit is None else self._fit(self._tensors)

    def own_part(self, outputs: Arrays) -> Arrays:
        """Crop the outputs of its rows to the inputs as they were sent."""
        cut = self._cut
        if cut is None:
            return outputs
        return {name: output[cut(name, output.shape)] for name, output in outputs.items()}

    def _most_rows(self) -> int:
        predictor = self.predictor
        return predictor.most_rows if self._is_repeatable else predictor.quick_rows

    def _run(self, tensors: Arrays, rows: int) -> Arrays:
        fitted = tensors if self._fit is None else self._fit(tensors)
        return self.own_part(self.predictor.run(fitted, rows))

    def _cut_shape(self, name: str, shape: Shape) -> Shape:
        if self._cut is None:
            return shape
        parts = zip(self._cut(name, shape), shape, strict=True)
        return tuple(len(range(length)[part]) for part, length in parts)
