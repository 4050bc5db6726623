"""Types of named tensors and their specifications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy.typing as npt

__all__ = ["TensorSpecs", "Tensors"]

Tensors: TypeAlias = Mapping[str, npt.NDArray[Any]]

TensorSpecs: TypeAlias = Mapping[str, tuple[tuple[int, ...], npt.DTypeLike]]
"""Shape and dtype by tensor name."""
