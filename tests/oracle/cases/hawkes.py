"""Likelihoods of self-exciting events. The second output passes no gradient on."""

from __future__ import annotations

from oracle.case import Case, integers, positive, uniform, values

_PARAMETERS = {
    "lda": uniform(3, 2, low=0.5, high=1.5),
    "alpha": uniform(2, low=0.1, high=0.9),
    "beta": uniform(2, low=0.3, high=2.0),
    "state": uniform(3, 2),
}

CASES = (
    Case(
        "lengths",
        "_contrib_hawkesll",
        {},
        {
            **_PARAMETERS,
            "lags": positive(3, 5),
            "marks": integers(3, 5, high=2, dtype="int32"),
            "valid_length": values([5, 2, 0]),
            "max_time": values([30.0, 20.0, 1.0]),
        },
        grads=("lda", "alpha", "beta"),
        numeric=False,
    ),
    Case(
        "one_kind",
        "_contrib_hawkesll",
        {},
        {
            "lda": positive(1, 1),
            "alpha": values([0.5]),
            "beta": values([1.5]),
            "state": values([[0.0]]),
            "lags": values([[0.5, 0.0, 2.0]]),
            "marks": values([[0, 0, 0]], "int32"),
            "valid_length": values([3]),
            "max_time": values([2.5]),
        },
        grads=("lda", "alpha", "beta"),
        numeric=False,
    ),
)
