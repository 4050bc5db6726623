"""Operator cases: one row says all that MXNet and our engine need to run the same thing.

Imports neither ``mxnet`` nor ``core``. Inputs are made from a seed that follows from the case's
name, with the frozen ``numpy.random.RandomState``, so that they are equal under every NumPy version
and need not be stored.
"""

from __future__ import annotations

import dataclasses
import importlib
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

__all__ = [
    "Case",
    "Spec",
    "cases_of",
    "families",
    "integers",
    "normal",
    "ones",
    "permutation",
    "positive",
    "uniform",
    "values",
    "zeros",
]


@dataclasses.dataclass(frozen=True)
class Spec:
    """How one array is made: a generator, its shape, parameters and dtype."""

    kind: str
    shape: tuple[int, ...]
    parameters: tuple[Any, ...] = ()
    dtype: str = "float32"

    def make(self, seed_text: str) -> np.ndarray:
        """Return the array that belongs to a seed text."""
        random = np.random.RandomState(zlib.crc32(seed_text.encode()))
        return np.asarray(_MAKERS[self.kind](random, self)).astype(self.dtype)


def _permutation(random: np.random.RandomState, spec: Spec) -> np.ndarray:
    size = int(np.prod(spec.shape))
    step = spec.parameters[0]
    return ((random.permutation(size) - size // 2) * step + step / 4).reshape(spec.shape)


_MAKERS = {
    "normal": lambda random, spec: random.normal(*spec.parameters, size=spec.shape),
    "uniform": lambda random, spec: random.uniform(*spec.parameters, size=spec.shape),
    "integers": lambda random, spec: random.randint(*spec.parameters, size=spec.shape),
    "permutation": _permutation,
    "constant": lambda random, spec: np.full(spec.shape, spec.parameters[0]),
    "values": lambda random, spec: np.array(spec.parameters[0], dtype="float64").reshape(
        spec.shape
    ),
}


def normal(*shape: int, loc: float = 0.0, scale: float = 1.0, dtype: str = "float32") -> Spec:
    """Return normally distributed values (what a bare shape tuple means)."""
    return Spec("normal", shape, (loc, scale), dtype)


def uniform(*shape: int, low: float = 0.0, high: float = 1.0, dtype: str = "float32") -> Spec:
    """Return uniform values from [low, high)."""
    return Spec("uniform", shape, (low, high), dtype)


def positive(*shape: int, dtype: str = "float32") -> Spec:
    """Return uniform values from [0.5, 2)."""
    return uniform(*shape, low=0.5, high=2.0, dtype=dtype)


def integers(*shape: int, low: int = 0, high: int, dtype: str = "float32") -> Spec:
    """Return integers from [low, high)."""
    return Spec("integers", shape, (low, high), dtype)


def permutation(*shape: int, step: float = 0.25, dtype: str = "float32") -> Spec:
    """Return distinct values around zero, ``step`` apart: no ties in max, sort, top-k, and no 0."""
    return Spec("permutation", shape, (step,), dtype)


def zeros(*shape: int, dtype: str = "float32") -> Spec:
    """Return zeros."""
    return Spec("constant", shape, (0.0,), dtype)


def ones(*shape: int, dtype: str = "float32") -> Spec:
    """Return ones."""
    return Spec("constant", shape, (1.0,), dtype)


def values(items: Any, dtype: str = "float32") -> Spec:
    """Return the given values (nested lists)."""
    return Spec("values", np.shape(items), (items,), dtype)


@dataclasses.dataclass(frozen=True)
class Case:
    """One operator with one set of attributes and inputs.

    Attributes:
        id: unique within its family; with the family it seeds the inputs, so rename with care.
        op: the operator's name as in a symbol JSON (``_contrib_X``, ``_plus_scalar``).
        attrs: attributes as a script would pass them; left out are MXNet's defaults.
        inputs: by MXNet's input name, in order; a bare tuple is a shape of normal numbers.
        aux: auxiliary states, likewise.
        train: whether forward runs as in training.
        grads: True for the gradients of all inputs, a tuple of names for those only, False for
            no backward pass.
        numeric: whether the gradient is the derivative of the outputs; False for loss layers, which
            ignore the head gradient, and for gradients that MXNet defines otherwise.
        tolerance: largest difference allowed, in units of the element and its channel; by
            default 1e-5 (float16: 2e-3). Say why at the row where it is given.
        positional: inputs are passed by position (operators with any number of inputs).
    """

    id: str
    op: str
    attrs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    inputs: Mapping[str, Spec | tuple[int, ...]] = dataclasses.field(default_factory=dict)
    aux: Mapping[str, Spec | tuple[int, ...]] = dataclasses.field(default_factory=dict)
    train: bool = True
    grads: bool | tuple[str, ...] = True
    numeric: bool = True
    tolerance: float | None = None
    positional: bool = False

    @property
    def has_backward(self) -> bool:
        """Whether the backward pass is part of the case."""
        return self.train and bool(self.grads)

    def gradient_names(self) -> tuple[str, ...]:
        """Names of the inputs whose gradient is compared."""
        if not self.has_backward:
            return ()
        return tuple(self.inputs) if self.grads is True else tuple(self.grads or ())

    def make_inputs(self) -> dict[str, np.ndarray]:
        """Return fresh inputs."""
        return {name: self._make(name, spec) for name, spec in self.inputs.items()}

    def make_aux(self) -> dict[str, np.ndarray]:
        """Return fresh auxiliary states, as before the pass."""
        return {name: self._make(name, spec) for name, spec in self.aux.items()}

    def make_head(self, index: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return the head gradient of one output."""
        return normal(*shape, dtype=np.dtype(dtype).name).make(f"{self.op}/{self.id}/head{index}")

    def _make(self, name: str, spec: Spec | tuple[int, ...]) -> np.ndarray:
        spec = spec if isinstance(spec, Spec) else normal(*spec)
        return spec.make(f"{self.op}/{self.id}/{name}")


def families() -> list[str]:
    """Return the names of all case modules."""
    folder = Path(__file__).parent / "cases"
    return sorted(path.stem for path in folder.glob("*.py"))


def cases_of(family: str) -> tuple[Case, ...]:
    """Return the rows of one case module; a repeated id is an error."""
    cases: tuple[Case, ...] = importlib.import_module(f"oracle.cases.{family}").CASES
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise ValueError(f"cases/{family}.py: id {case.id!r} is used twice")
        seen.add(case.id)
    return cases


def all_cases() -> Iterator[tuple[str, Case]]:
    """Yield (family, case) for every row."""
    for family in families():
        for case in cases_of(family):
            yield family, case
