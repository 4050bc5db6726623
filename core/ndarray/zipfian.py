"""Candidates drawn from an approximately Zipfian distribution, for sampled losses."""

from __future__ import annotations

import math
from typing import Any, TypeVar

__all__ = ["sample_zipfian"]

A = TypeVar("A", bound=Any)


def sample_zipfian(
    exponents: A, true_classes: A, num_sampled: int, range_max: int
) -> tuple[A, A, A]:
    """Return sampled classes, and how often true and sampled ones are expected to be drawn.

    P(class) = log((class + 2) / (class + 1)) / log(range_max + 1), drawn by inverting the
    cumulative distribution log(class + 2) / log(range_max + 1).

    Args:
        exponents: float64 arrays or symbols, uniform over [0, log(range_max + 1)).
        true_classes: of the same kind, any dtype.
        num_sampled: how many exponents there are.
        range_max: how many classes there are.
    """
    # The remainder only matters if rounding makes exp(log(range_max + 1)) reach range_max + 1.
    sampled = (exponents.exp() - 1).astype("int64") % range_max

    def expected(classes: A) -> A:
        numbers = classes.astype("float64")
        log_ratio = ((numbers + 2.0) / (numbers + 1.0)).log()
        result: A = log_ratio / math.log(range_max + 1) * num_sampled
        return result

    return sampled, expected(true_classes), expected(sampled)
