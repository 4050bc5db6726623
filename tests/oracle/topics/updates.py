"""Steps of optimizers as operators. MXNet has them for arrays only: its symbols refuse them."""

from __future__ import annotations

from typing import Any

import numpy as np

from oracle.case import Case, normal, positive

__all__ = ["CASES", "STEPS", "compute", "record"]

STEPS = 2

_ALL = {"lr": 0.1, "wd": 0.03, "rescale_grad": 0.5, "clip_gradient": 0.2}
_MOM = (3, 4)
_SQUARE = positive(3, 4)
_HALF = normal(3, 4, dtype="float16")


def _case(case_id: str, op: str, attrs: dict[str, Any], **states: Any) -> Case:
    return Case(case_id, op, attrs, {"weight": (3, 4), "grad": (3, 4), **states})


def _half(case_id: str, op: str, attrs: dict[str, Any], **states: Any) -> Case:
    return Case(case_id, op, attrs, {"weight": _HALF, "grad": _HALF, **states})


CASES = (
    _case("sgd", "sgd_update", {"lr": 0.1}),
    _case("sgd_all", "sgd_update", {**_ALL, "lazy_update": False}),
    _half("sgd_half", "sgd_update", _ALL),
    _case("mom", "sgd_mom_update", {"lr": 0.1, "momentum": 0.9}, mom=_MOM),
    _case("mom_all", "sgd_mom_update", {**_ALL, "momentum": 0.9}, mom=_MOM),
    _case("nag", "nag_mom_update", {"lr": 0.1, "momentum": 0.9}, mom=_MOM),
    _case("nag_all", "nag_mom_update", {**_ALL, "momentum": 0.9}, mom=_MOM),
    _case("signsgd", "signsgd_update", _ALL),
    _case("signum", "signum_update", {"lr": 0.1, "momentum": 0.9}, mom=_MOM),
    _case("signum_all", "signum_update", {**_ALL, "momentum": 0.9, "wd_lh": 0.2}, mom=_MOM),
    _case("adam", "adam_update", {"lr": 0.1}, mean=_MOM, var=_SQUARE),
    _case(
        "adam_all",
        "adam_update",
        {**_ALL, "beta1": 0.7, "beta2": 0.9, "epsilon": 0.01},
        mean=_MOM,
        var=_SQUARE,
    ),
    _case("rmsprop", "rmsprop_update", {"lr": 0.1}, n=_SQUARE),
    _case(
        "rmsprop_all",
        "rmsprop_update",
        {**_ALL, "gamma1": 0.8, "epsilon": 0.01, "clip_weights": 0.7},
        n=_SQUARE,
    ),
    _case(
        "alex", "rmspropalex_update", {"lr": 0.1}, n=_SQUARE, g=normal(3, 4, scale=0.1), delta=_MOM
    ),
    _case(
        "alex_all",
        "rmspropalex_update",
        {**_ALL, "gamma1": 0.8, "gamma2": 0.6, "epsilon": 0.01, "clip_weights": 0.7},
        n=_SQUARE,
        g=normal(3, 4, scale=0.1),
        delta=_MOM,
    ),
    _case("ftrl", "ftrl_update", {"lr": 0.1}, z=_MOM, n=_SQUARE),
    _case("ftrl_all", "ftrl_update", {**_ALL, "lamda1": 0.5, "beta": 2.0}, z=_MOM, n=_SQUARE),
    _case("ftml", "ftml_update", {"lr": 0.1, "t": 1}, d=_SQUARE, v=_SQUARE, z=_MOM),
    _case(
        "ftml_all",
        "ftml_update",
        {
            "lr": 0.1,
            "t": 3,
            "beta1": 0.7,
            "beta2": 0.9,
            "epsilon": 0.01,
            "wd": 0.03,
            "rescale_grad": 0.5,
            "clip_grad": 0.2,
        },
        d=_SQUARE,
        v=_SQUARE,
        z=_MOM,
    ),
    _half("mp_sgd", "mp_sgd_update", _ALL, weight32=(3, 4)),
    _half("mp_mom", "mp_sgd_mom_update", {**_ALL, "momentum": 0.9}, mom=_MOM, weight32=(3, 4)),
    _half("mp_nag", "mp_nag_mom_update", {**_ALL, "momentum": 0.9}, mom=_MOM, weight32=(3, 4)),
)


def written(case: Case) -> list[str]:
    """Return the names of the weights that outputs are written over."""
    return [name for name in case.inputs if name.startswith("weight") and "32" not in name]


def compute(mx: Any, case: Case, *, apart: bool) -> dict[str, np.ndarray]:
    """Return all arrays after some steps, by name.

    With ``apart`` there is one step, and the new weights are arrays of their own.
    """
    arrays = {name: mx.nd.array(x, dtype=x.dtype) for name, x in case.make_inputs().items()}
    weights = written(case)
    function = getattr(mx.nd, case.op)
    if apart:
        found = function(*arrays.values(), **case.attrs)
        fresh = found if isinstance(found, list) else [found]
        arrays.update({f"new_{name}": x for name, x in zip(weights, fresh, strict=True)})
    else:
        targets = [arrays[name] for name in weights]
        for _ in range(STEPS):
            out = targets if len(targets) > 1 else targets[0]
            function(*arrays.values(), out=out, **case.attrs)
    return {name: array.asnumpy() for name, array in arrays.items()}


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return every case's arrays."""
    return {
        f"{case.id}/{'apart' if apart else 'over'}/{name}": array
        for case in CASES
        for apart in (False, True)
        for name, array in compute(mx, case, apart=apart).items()
    }
