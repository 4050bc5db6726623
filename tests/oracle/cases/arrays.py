"""Operators on many arrays, as used in training."""

from __future__ import annotations

from oracle.case import Case, normal, positive, values, zeros

_NUMBERS = {"a": (3, 4), "b": (5,)}
_NORMS = {"weights_sum_sq": values([1.0, 0.0, 2.0, 3.0]), "grads_sum_sq": values([2.0, 1, 0, 5])}

CASES = (
    Case(
        "squares",
        "multi_sum_sq",
        {"num_arrays": 2},
        _NUMBERS,
        grads=False,
        positional=True,
    ),
    Case(
        "squares_half",
        "multi_sum_sq",
        {"num_arrays": 1},
        {"a": normal(3, 4, dtype="float16")},
        grads=False,
        positional=True,
    ),
    Case("finite", "all_finite", {}, {"data": (3, 4)}, grads=False),
    Case("nan", "all_finite", {}, {"data": values([1.0, float("nan")])}, grads=False),
    Case("all", "multi_all_finite", {"num_arrays": 2}, _NUMBERS, grads=False, positional=True),
    Case(
        "one_infinite",
        "multi_all_finite",
        {"num_arrays": 2},
        {"a": zeros(2), "b": values([[1.0, float("inf")]])},
        grads=False,
        positional=True,
    ),
    Case(
        "lars",
        "multi_lars",
        {"eta": 0.5, "eps": 0.01, "rescale_grad": 0.3},
        {"lrs": positive(4), **_NORMS, "wds": positive(4)},
        grads=False,
    ),
)
