"""Probability densities."""

from __future__ import annotations

from typing import Any

from oracle.case import Case, Spec, integers, uniform, values

_PARAMETERS = {
    "uniform": {"low": uniform(2, low=-2.0, high=0.0), "high": uniform(2, low=3.0, high=4.0)},
    "normal": {"mu": uniform(2, low=-1.0), "sigma": uniform(2, low=0.5, high=2.0)},
    "gamma": {"alpha": uniform(2, low=0.5, high=4.0), "beta": uniform(2, low=0.5, high=2.0)},
    "exponential": {"lam": uniform(2, low=0.5, high=2.0)},
    "poisson": {"lam": uniform(2, low=0.5, high=4.0)},
    "negative_binomial": {"k": integers(2, low=1, high=5), "p": uniform(2, low=0.2, high=0.8)},
    "generalized_negative_binomial": {
        "mu": uniform(2, low=0.5, high=3.0),
        "alpha": uniform(2, low=0.2, high=0.8),
    },
}
_COUNTS = ("poisson", "negative_binomial", "generalized_negative_binomial")


def _case(name: str, is_log: bool) -> Case:
    sample: Spec = integers(2, 3, high=6) if name in _COUNTS else uniform(2, 3, low=0.5, high=2.5)
    attrs: dict[str, Any] = {"is_log": True} if is_log else {}
    return Case(
        f"{name}_log" if is_log else name,
        f"_random_pdf_{name}",
        attrs,
        {"sample": sample, **_PARAMETERS[name]},
        # The gradient for a count is 0, although the formula has a derivative.
        numeric=name not in _COUNTS,
    )


CASES = (
    *(_case(name, is_log) for name in _PARAMETERS for is_log in (False, True)),
    Case(
        "one_each",
        "_random_pdf_normal",
        {},
        {"sample": (2, 3), "mu": (2, 3), "sigma": uniform(2, 3, low=0.5, high=2.0)},
    ),
    Case(
        "dirichlet",
        "_random_pdf_dirichlet",
        {},
        {
            "sample": values([[[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]]),
            "alpha": values([[1.5, 2.0, 0.7]]),
        },
    ),
    Case(
        "dirichlet_log",
        "_random_pdf_dirichlet",
        {"is_log": True},
        {
            "sample": values([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]),
            "alpha": values([[1.5, 2.0, 0.7], [3.0, 1.0, 1.0]]),
        },
    ),
)
