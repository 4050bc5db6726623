"""Rows along one axis, which a thread, a warp or a block computes."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...types import Shape, shape_size
from ..kernel import TensorSpec
from .kernel import element_macros
from .launch import Call, call, divisor, function

__all__ = ["Rows"]

_MAX_OF_WARP = 1024
"""Most elements of a row that a warp computes by itself."""

_ROWS_OF_BLOCK = {"ROW=BY_THREAD": 256, "ROW=BY_WARP": 8, "ROW=BY_BLOCK": 1}


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """Data as (outer, classes, inner), with a row at each place of outer and inner."""

    outer: int
    classes: int
    inner: int
    macros: tuple[str, ...]

    @classmethod
    def along(cls, kind: str, spec: TensorSpec, axis: int) -> Rows:
        """Return the rows along an axis."""
        shape, axis = spec.shape, axis % len(spec.shape)
        outer, inner = shape_size(shape[:axis]), shape_size(shape[axis + 1 :])
        return cls.of(kind, spec, (outer, shape[axis], inner))

    @classmethod
    def of(cls, kind: str, spec: TensorSpec, view: Shape) -> Rows:
        """Return the rows of a view of three axes, along the second."""
        outer, classes, inner = view
        by = "THREAD" if inner > 1 else "WARP" if classes <= _MAX_OF_WARP else "BLOCK"
        return cls(outer, classes, inner, (*element_macros(kind, spec), f"ROW=BY_{by}"))

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.outer * self.inner

    def call(self, source: str, name: str, *arguments: Any, macros: tuple[str, ...] = ()) -> Call:
        """Return a call of a function that computes rows."""
        each = _ROWS_OF_BLOCK[self.macros[-1]]
        compute = function(source, name, *self.macros, *macros)
        inner = divisor(self.inner)
        return call(compute, -(-self.count // each), self.count, self.classes, inner, *arguments)
