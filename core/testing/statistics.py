"""Statistical tests of random number generators."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..types import Array

__all__ = [
    "chi_square_check",
    "gen_buckets_probs_with_ppf",
    "mean_check",
    "var_check",
    "verify_generator",
]

Generator = Callable[[int], Any]
"""Returns the requested number of independent samples."""


def gen_buckets_probs_with_ppf(
    ppf: Callable[[float], float], nbuckets: int
) -> tuple[list[tuple[float, float]], list[float]]:
    """Return equally likely ranges of a distribution, given by its quantile function, and their
    probability."""
    if nbuckets <= 0:
        raise AssertionError(f"nbuckets is {nbuckets}")
    ends = [ppf(i / nbuckets) for i in range(nbuckets + 1)]
    return list(itertools.pairwise(ends)), [1.0 / nbuckets] * nbuckets


def mean_check(generator: Generator, mu: float, sigma: float, nsamples: int = 1000000) -> bool:
    """Return whether the samples' mean is within three standard errors of ``mu``."""
    mean = np.array(generator(nsamples)).mean()
    return bool(abs(mean - mu) < 3 * sigma / math.sqrt(nsamples))


def var_check(generator: Generator, sigma: float, nsamples: int = 1000000) -> bool:
    """Return whether the variance of normal samples is within three standard errors of ``sigma **
    2``."""
    variance = np.array(generator(nsamples)).var(ddof=1)
    return bool(abs(variance - sigma**2) < 3 * math.sqrt(2 * sigma**4 / (nsamples - 1)))


def chi_square_check(
    generator: Generator, buckets: list[Any], probs: Sequence[float], nsamples: int = 1000000
) -> tuple[float, Array, Array]:
    """Test samples against a distribution by Pearson's chi-square test.

    Args:
        generator: draws the samples.
        buckets: (lower, upper) ranges in ascending order that do not overlap; or the values of a
            discrete distribution.
        probs: probability of each bucket.
        nsamples: number of samples.

    Returns:
        the p-value; the number of samples in each bucket; the expected numbers.
    """
    if len(probs) != len(buckets):
        raise AssertionError(f"{len(buckets)} buckets have {len(probs)} probabilities")
    samples = np.asarray(generator(nsamples)).ravel()
    if isinstance(buckets[0], (list, tuple)):
        ends = np.array(buckets, dtype=np.float32).ravel()
        if (np.diff(ends) < 0).any():
            raise AssertionError(f"buckets are not in ascending order or overlap: {buckets}")
        # As in MXNet a sample between two buckets counts for the one after it.
        places = np.searchsorted(ends, samples, side="right")
        numbers = np.arange(len(buckets))
        observed = ((places[:, None] // 2) == numbers).sum(axis=0)
    else:
        observed = np.array([(samples == value).sum() for value in buckets])
    expected = (nsamples * np.array(probs, dtype=np.float32)).astype(np.int32)
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return _chi_square_tail(statistic, len(buckets) - 1), observed, expected


def verify_generator(
    generator: Generator,
    buckets: list[Any],
    probs: Sequence[float],
    nsamples: int = 1000000,
    nrepeat: int = 5,
    success_rate: float = 0.2,
    alpha: float = 0.05,
) -> list[float]:
    """Assert that a fraction ``success_rate`` of repeated chi-square tests has a p-value above
    ``alpha``.

    Returns:
        the p-value of each test.
    """
    results = [chi_square_check(generator, buckets, probs, nsamples) for _ in range(nrepeat)]
    chances = [chance for chance, _, _ in results]
    if sum(chance > alpha for chance in chances) < nrepeat * success_rate:
        raise AssertionError(
            f"Generator test fails, chi-square p={chances}, "
            f"observed={[observed for _, observed, _ in results]}, expected={results[0][2]}, "
            f"buckets={buckets}, probs={probs}"
        )
    return chances


def _chi_square_tail(statistic: float, freedom: int) -> float:
    """Return the probability that a chi-square variable exceeds ``statistic``.

    It is computed by the recurrence Q(a + 1, x) = Q(a, x) + x^a e^-x / gamma(a + 1), starting from
    Q(1/2, x) = erfc(sqrt(x)) or Q(1, x) = e^-x (Abramowitz and Stegun, 26.4).
    """
    x = statistic / 2
    if freedom <= 0:
        return 1.0 if x == 0 else 0.0
    a, tail = (0.5, math.erfc(math.sqrt(x))) if freedom % 2 else (1.0, math.exp(-x))
    while a < freedom / 2:
        tail += math.exp(a * math.log(x) - x - math.lgamma(a + 1)) if x > 0 else 0.0
        a += 1
    return min(1.0, tail)
