"""One request on its way through a predictor, at once or piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Generator

from app.executor.modules.symbol_specs import Spec
from app.executor.predict.predictor import Predictor
from app.link.protocols import Arrays
from core.types import Shape

__all__ = ["Prediction"]

Fit = Callable[[Arrays], Arrays]
Cut = Callable[[str, Shape], tuple[slice, ...]]


class Prediction:
    """The outputs of some examples, which were checked.

    Attributes:
        bucket: key of the bucket used.
        rows: number of examples.
    """

    def __init__(
        self,
        bucket: str,
        predictor: Predictor,
        tensors: Arrays,
        rows: int,
        fit: Fit,
        cut: Cut,
        is_repeatable: bool,
    ) -> None:
        """Prepare.

        Args:
            bucket: key of the bucket.
            predictor: runs it.
            tensors: the inputs, as they were given.
            rows: number of examples.
            fit: brings inputs into the bucket's size.
            cut: returns what of an output of a name and shape belongs to the inputs.
            is_repeatable: the runs are such that the outputs have the same bits each time, however
                long they take; else none takes long.
        """
        self.bucket = bucket
        self.rows = rows
        self._predictor = predictor
        self._tensors = tensors
        self._fit = fit
        self._cut = cut
        self._is_repeatable = is_repeatable

    @property
    def is_large(self) -> bool:
        """True where the predictor takes the examples in several runs."""
        return self.rows > self._most_rows()

    def run(self) -> Arrays:
        """Return the outputs of few examples; they may be valid until the predictor's next run."""
        return self._run(self._tensors, self.rows)

    def specs(self) -> dict[str, Spec]:
        """Return shapes and dtypes of the outputs, where it is large."""
        found = self._predictor.joined_specs(self.rows)
        return {
            name: (self._cut_shape(name, shape), dtype) for name, (shape, dtype) in found.items()
        }

    def steps(self, outputs: Arrays) -> Generator[None, None, None]:
        """Compute the outputs into arrays of these ``specs``; yield between two runs."""
        pieces = self._predictor.pieces(self._tensors, self.rows, self._most_rows)
        for start, count, piece in pieces:
            if start:
                yield
            self._predictor.put(self._run(piece, count), outputs, start, count)

    def _most_rows(self) -> int:
        predictor = self._predictor
        return predictor.most_rows if self._is_repeatable else predictor.quick_rows

    def _run(self, tensors: Arrays, rows: int) -> Arrays:
        outputs = self._predictor.run(self._fit(tensors), rows)
        return {name: output[self._cut(name, output.shape)] for name, output in outputs.items()}

    def _cut_shape(self, name: str, shape: Shape) -> Shape:
        parts = zip(self._cut(name, shape), shape, strict=True)
        return tuple(len(range(length)[part]) for part, length in parts)
