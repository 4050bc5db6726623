"""Optimizer steps as operators. MXNet has them for arrays only; its symbols refuse them."""

from __future__ import annotations

from typing import Any

import numpy as np

from oracle.case import Case, normal, positive, values, zeros

__all__ = ["CASES", "STEPS", "compute", "modes", "record"]

STEPS = 2

_ALL = {"lr": 0.1, "wd": 0.03, "rescale_grad": 0.5, "clip_gradient": 0.2}
_MOM = (3, 4)
_SQUARE = positive(3, 4)
_HALF = normal(3, 4, dtype="float16")


def _case(case_id: str, op: str, attrs: dict[str, Any], **states: Any) -> Case:
    return Case(case_id, op, attrs, {"weight": (3, 4), "grad": (3, 4), **states})


def _half(case_id: str, op: str, attrs: dict[str, Any], **states: Any) -> Case:
    return Case(case_id, op, attrs, {"weight": _HALF, "grad": _HALF, **states})


def _many(case_id: str, op: str, attrs: dict[str, Any], *states: str, half: bool = False) -> Case:
    """Return a case of two weights of different shapes; learning rates may be the last inputs."""
    inputs: dict[str, Any] = {}
    for number, shape in enumerate(((3, 4), (5,))):
        kind = normal(*shape, dtype="float16" if half else "float32")
        inputs[f"weight_{number}"] = inputs[f"grad_{number}"] = kind
        spread = {state: positive(*shape) if state == "var" else shape for state in states}
        inputs.update({f"{state}_{number}": kind for state, kind in spread.items()})
    if "lamb" in op:
        attrs = {**attrs, "learning_rates": (0.1, 0.2), "wds": (0.03, 0.0), "step_count": (1, 3)}
        return Case(case_id, op, {**attrs, "num_tensors": 2}, inputs)
    if "adamw" in op:
        attrs, inputs["rescale_grad"] = {**attrs, "etas": (0.7, 1.0)}, values([0.5])
    if op.startswith("preloaded"):
        inputs |= {"lrs": values([0.1, 0.2]), "wds": values([0.03, 0.0])}
    else:
        attrs = {**attrs, "lrs": (0.1, 0.2), "wds": (0.03, 0.0)}
    return Case(case_id, op, {**attrs, "num_weights": 2}, inputs)


_MANY = {"rescale_grad": 0.5, "clip_gradient": 0.2}
_FAST = {**_MANY, "momentum": 0.9}
_LAMB = {"wd": 0.03, "rescale_grad": 0.5, "t": 2}
_ADAMW = {"lr": 0.1, "wd": 0.03, "eta": 0.7}
_NORMS = {"r1": positive(1), "r2": positive(1)}

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
    _many("multi_sgd", "multi_sgd_update", _MANY),
    _many("multi_mom", "multi_sgd_mom_update", _FAST, "mom"),
    _many("multi_mp_sgd", "multi_mp_sgd_update", _MANY, "weight32", half=True),
    _many("multi_mp_mom", "multi_mp_sgd_mom_update", _FAST, "mom", "weight32", half=True),
    _many("loaded_sgd", "preloaded_multi_sgd_update", _MANY),
    _many("loaded_mom", "preloaded_multi_sgd_mom_update", _FAST, "mom"),
    _many("loaded_mp_sgd", "preloaded_multi_mp_sgd_update", _MANY, "weight32", half=True),
    _many(
        "loaded_mp_mom", "preloaded_multi_mp_sgd_mom_update", _FAST, "mom", "weight32", half=True
    ),
    _case("lamb1", "lamb_update_phase1", _LAMB, mean=_MOM, var=_SQUARE),
    _case(
        "lamb1_all",
        "lamb_update_phase1",
        {**_LAMB, "bias_correction": False, "clip_gradient": 0.2, "beta1": 0.7, "epsilon": 0.1},
        mean=_MOM,
        var=_SQUARE,
    ),
    Case(
        "mp_lamb1",
        "mp_lamb_update_phase1",
        _LAMB,
        {"half": _HALF, "grad": _HALF, "mean": _MOM, "var": _SQUARE, "weight32": (3, 4)},
    ),
    Case("lamb2", "lamb_update_phase2", {"lr": 0.1}, {"weight": _MOM, "g": _MOM, **_NORMS}),
    Case(
        "lamb2_bounds",
        "lamb_update_phase2",
        {"lr": 0.1, "lower_bound": 3.0, "upper_bound": 4.0},
        {"weight": _MOM, "g": _MOM, **_NORMS},
    ),
    Case(
        "lamb2_zero",
        "lamb_update_phase2",
        {"lr": 0.1},
        {"weight": _MOM, "g": _MOM, "r1": positive(1), "r2": zeros(1)},
    ),
    Case(
        "mp_lamb2",
        "mp_lamb_update_phase2",
        {"lr": 0.1, "lower_bound": 0.1},
        {"weight": _HALF, "g": _MOM, **_NORMS, "weight32": _MOM},
    ),
    _case("adamw", "_adamw_update", _ADAMW, mean=_MOM, var=_SQUARE, rescale_grad=values([0.5])),
    _case(
        "adamw_clip",
        "_adamw_update",
        {**_ADAMW, "clip_gradient": 0.2, "beta1": 0.7, "beta2": 0.9, "epsilon": 0.01},
        mean=_MOM,
        var=_SQUARE,
        rescale_grad=values([2.0]),
    ),
    _half(
        "mp_adamw",
        "_mp_adamw_update",
        _ADAMW,
        mean=_MOM,
        var=_SQUARE,
        weight32=(3, 4),
        rescale_grad=values([0.5]),
    ),
    _case(
        "adamw_overflow",
        "_adamw_update",
        _ADAMW,
        mean=_MOM,
        var=_SQUARE,
        rescale_grad=values([float("inf")]),
    ),
    _many("multi_adamw", "_multi_adamw_update", {"clip_gradient": 0.2}, "mean", "var"),
    _many("multi_mp_adamw", "_multi_mp_adamw_update", {}, "mean", "var", "weight32", half=True),
    _many("multi_lamb", "_multi_lamb_update", {"rescale_grad": 0.5}, "mean", "var"),
    _many(
        "multi_lamb_all",
        "_multi_lamb_update",
        {"lower_bound": 3.0, "upper_bound": 4.0, "bias_correction": False, "clip_gradient": 0.2},
        "mean",
        "var",
    ),
    _many("multi_mp_lamb", "_multi_mp_lamb_update", {}, "mean", "var", "weight32", half=True),
    Case("reset", "reset_arrays", {"num_arrays": 2}, {"a": (3, 4), "b": (5,)}),
)


def written(case: Case) -> list[str]:
    """Return the names of the weights that outputs overwrite."""
    return [name for name in case.inputs if name.startswith("weight") and "32" not in name]


def modes(case: Case) -> tuple[bool, ...]:
    """Return the values of ``apart``.

    MXNet's steps of many weights must be written over them, and one that is left out writes
    nothing. Its AdamW scales the gradient itself, so that a second step starts from another one.
    """
    if "multi" in case.op or case.id in ("reset", "adamw_overflow"):
        return (False,)
    return (True,) if "adamw" in case.op else (False, True)


def compute(mx: Any, case: Case, *, apart: bool) -> dict[str, np.ndarray]:
    """Return all arrays after some steps, by name.

    With ``apart`` there is one step, and the new weights are arrays of their own.
    """
    arrays = {name: mx.nd.array(x, dtype=x.dtype) for name, x in case.make_inputs().items()}
    weights = written(case)
    function = getattr(mx.nd._internal if case.op.startswith("_") else mx.nd, case.op)
    if apart:
        found = function(*arrays.values(), **case.attrs)
        fresh = found if isinstance(found, list) else [found]
        arrays |= {f"new_{number}": array for number, array in enumerate(fresh)}
    else:
        targets = [arrays[name] for name in weights]
        for _ in range(STEPS):
            function(*arrays.values(), out=targets or None, **case.attrs)
    return {
        name: array.asnumpy()
        for name, array in arrays.items()
        if not (name.startswith("grad") and "adamw" in case.op)
    }


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return every case's arrays."""
    return {
        f"{case.id}/{'apart' if apart else 'over'}/{name}": array
        for case in CASES
        for apart in modes(case)
        for name, array in compute(mx, case, apart=apart).items()
    }
