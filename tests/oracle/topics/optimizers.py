"""Optimizers over several steps through the updater, with and without each common option."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["CASES", "PARAMETERS", "OptimizerCase", "record", "run_case"]

STEPS = 5
PARAMETERS = {"fc_weight": (4, 3), "fc_bias": (4,), "bn_gamma": (3,)}
"""Weight decay applies to names in _weight and _gamma only, unless set by a multiplier."""


@dataclasses.dataclass(frozen=True)
class OptimizerCase:
    """One optimizer with its options.

    Attributes:
        id: unique name.
        name: what ``mx.optimizer.create`` is given.
        options: keyword arguments.
        lr_mult: learning rate multipliers by parameter name.
        wd_mult: weight decay multipliers by parameter name.
        scheduler: class name and arguments of a learning rate schedule.
        dtype: of weights and gradients.
        parameters: which are updated.
        together: the updater is called once a step, with lists.
    """

    id: str
    name: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    lr_mult: Mapping[str, float] = dataclasses.field(default_factory=dict)
    wd_mult: Mapping[str, float] = dataclasses.field(default_factory=dict)
    scheduler: tuple[str, Mapping[str, Any]] | None = None
    dtype: str = "float32"
    parameters: tuple[str, ...] = tuple(PARAMETERS)
    together: bool = False


_COMMON = {"wd": 0.05, "clip_gradient": 0.4, "rescale_grad": 0.5}

_VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("sgd", {"learning_rate": 0.1}),
    "sgd_momentum": ("sgd", {"learning_rate": 0.1, "momentum": 0.9}),
    "ccsgd_momentum": ("ccsgd", {"learning_rate": 0.1, "momentum": 0.5}),
    "nag": ("nag", {"learning_rate": 0.1, "momentum": 0.9}),
    "nag_no_momentum": ("nag", {"learning_rate": 0.1}),
    "adam": ("adam", {}),
    "adam_options": (
        "adam",
        {"learning_rate": 0.05, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-4},
    ),
    "rmsprop": ("rmsprop", {"learning_rate": 0.02}),
    "rmsprop_centered": ("rmsprop", {"learning_rate": 0.02, "centered": True}),
    "rmsprop_clip_weights": ("rmsprop", {"learning_rate": 0.02, "clip_weights": 0.7}),
    "rmsprop_options": ("rmsprop", {"gamma1": 0.7, "gamma2": 0.6, "epsilon": 1e-3}),
    "adagrad": ("adagrad", {"learning_rate": 0.1}),
    "adagrad_eps": ("adagrad", {"learning_rate": 0.1, "eps": 1e-2}),
    "adadelta": ("adadelta", {}),
    "adadelta_options": ("adadelta", {"rho": 0.8, "epsilon": 1e-3}),
    "adamax": ("adamax", {"learning_rate": 0.02}),
    "nadam": ("nadam", {"learning_rate": 0.02}),
    "ftrl": ("ftrl", {"learning_rate": 0.2}),
    "ftrl_options": ("ftrl", {"learning_rate": 0.2, "lamda1": 0.2, "beta": 0.5}),
    "ftml": ("ftml", {"learning_rate": 0.02}),
    "signum": ("signum", {"learning_rate": 0.02}),
    "signum_no_momentum": ("signum", {"learning_rate": 0.02, "momentum": 0.0}),
    "signum_wd_lh": ("signum", {"learning_rate": 0.02, "wd_lh": 0.01}),
    "dcasgd": ("dcasgd", {"learning_rate": 0.1}),
    "lars": ("lars", {"learning_rate": 0.5, "eta": 0.1}),
    "lars_momentum": ("lars", {"learning_rate": 0.5, "eta": 0.1, "momentum": 0.9}),
    "lbsgd": ("lbsgd", {"learning_rate": 0.1, "momentum": 0.9}),
    "lbsgd_lars": (
        "lbsgd",
        {"learning_rate": 0.1, "momentum": 0.9, "warmup_strategy": "lars", "batch_scale": 2},
    ),
    "lbsgd_power2": (
        "lbsgd",
        {"learning_rate": 0.1, "warmup_strategy": "power2", "batch_scale": 2, "warmup_epochs": 1},
    ),
    "lbsgd_sqrt": (
        "lbsgd",
        {
            "learning_rate": 0.1,
            "momentum": 0.9,
            "warmup_strategy": "sqrt",
            "batch_scale": 2,
            "warmup_epochs": 2,
            "updates_per_epoch": 2,
            "begin_epoch": 1,
        },
    ),
    "lbsgd_no_warmup": ("lbsgd", {"learning_rate": 0.1, "batch_scale": 2, "warmup_epochs": 0}),
    "lamb": ("lamb", {"learning_rate": 0.02}),
    "lamb_bounds": ("lamb", {"learning_rate": 0.02, "lower_bound": 0.5, "upper_bound": 1.5}),
    "lamb_uncorrected": (
        "lamb",
        {"learning_rate": 0.02, "bias_correction": False, "beta1": 0.8, "epsilon": 1e-3},
    ),
    "adamax_options": ("adamax", {"learning_rate": 0.02, "beta1": 0.8, "beta2": 0.9}),
    "nadam_options": (
        "nadam",
        {"beta1": 0.8, "beta2": 0.95, "epsilon": 1e-4, "schedule_decay": 0.1},
    ),
    "ftml_options": (
        "ftml",
        {"learning_rate": 0.02, "beta1": 0.8, "beta2": 0.9, "epsilon": 1e-4},
    ),
    "dcasgd_lamda": ("dcasgd", {"learning_rate": 0.1, "lamda": 0.5}),
    "lars_eps": ("lars", {"learning_rate": 0.5, "eta": 0.1, "eps": 0.2}),
    "test": ("test", {}),
}


def _cases() -> list[OptimizerCase]:
    cases = []
    for case_id, (name, options) in _VARIANTS.items():
        cases.append(OptimizerCase(case_id, name, options))
        cases.append(OptimizerCase(f"{case_id}_common", name, {**options, **_COMMON}))
    multipliers = {
        "lr_mult": {"fc_weight": 0.5, "fc_bias": 2.0},
        "wd_mult": {"fc_bias": 3.0, "bn_gamma": 0.0},
    }
    schedule = ("FactorScheduler", {"step": 2, "factor": 0.5})
    for name in (
        *("sgd", "nag", "adam", "rmsprop", "adagrad", "adadelta", "adamax", "nadam", "ftrl"),
        *("ftml", "signum", "dcasgd", "lars", "lbsgd", "lamb"),
    ):
        options = {"learning_rate": 0.1, "wd": 0.05}
        cases.append(OptimizerCase(f"{name}_multipliers", name, options, **multipliers))
        cases.append(OptimizerCase(f"{name}_schedule", name, options, scheduler=schedule))
    for case_id in (
        *("sgd", "sgd_momentum", "nag", "nag_no_momentum", "adam", "rmsprop_centered", "adagrad"),
        *("adadelta", "adamax", "nadam", "ftrl", "ftml", "signum", "signum_no_momentum", "dcasgd"),
        *("lars", "lars_momentum", "lbsgd", "lbsgd_lars", "lamb", "test"),
    ):
        name, options = _VARIANTS[case_id]
        master = {**options, "wd": 0.05, "rescale_grad": 0.5, "multi_precision": True}
        cases.append(OptimizerCase(f"{case_id}_float16", name, master, dtype="float16"))
    # When the rate changes, momentum is corrected for parameters updated together.
    momentum = {"learning_rate": 0.5, "eta": 0.1, "momentum": 0.9}
    for correction in (True, False):
        options = {**momentum, "momentum_correction": correction}
        for together in (True, False):
            case_id = f"lars_schedule_{correction}_{together}".lower()
            case = OptimizerCase(case_id, "lars", options, scheduler=schedule, together=together)
            cases.append(case)
    for name in ("sgd", "lamb"):
        cases.append(OptimizerCase(f"{name}_together", name, {"wd": 0.05}, together=True))
    matrices = ("fc_weight",)
    for case_id, options in {
        "groupadagrad": {"learning_rate": 0.1},
        "groupadagrad_eps": {"eps": 0.1, "clip_gradient": 0.4, "rescale_grad": 0.5},
    }.items():
        cases.append(OptimizerCase(case_id, "groupadagrad", options, parameters=matrices))
    return cases


CASES = _cases()


def run_case(mx: Any, case: OptimizerCase) -> dict[str, np.ndarray]:
    """Return all weights, one row per step, and all final states in one row."""
    updater = mx.optimizer.get_updater(make_optimizer(mx, case))
    random = np.random.RandomState(11)
    shapes = [PARAMETERS[name] for name in case.parameters]
    weights = [_array(mx, random.normal(size=shape), case.dtype) for shape in shapes]
    steps = []
    for _ in range(STEPS):
        grads = [_array(mx, random.normal(size=shape), case.dtype) for shape in shapes]
        if case.together:
            updater(list(range(len(weights))), grads, weights)
        else:
            for i, weight in enumerate(weights):
                updater(i, grads[i], weight)
        steps.append(_join(weights))
    states = [array for i in range(len(weights)) for array in _flatten(updater.states[i])]
    return {"weights": np.stack(steps), "states": _join(states)}


def make_optimizer(mx: Any, case: OptimizerCase) -> Any:
    """Return the optimizer of a case."""
    options = dict(case.options)
    if case.scheduler is not None:
        kind, arguments = case.scheduler
        options["lr_scheduler"] = getattr(mx.lr_scheduler, kind)(**arguments)
    names = dict(enumerate(case.parameters))
    optimizer = mx.optimizer.create(case.name, param_idx2name=names, **options)
    if case.lr_mult:
        optimizer.set_lr_mult(dict(case.lr_mult))
    if case.wd_mult:
        optimizer.set_wd_mult(dict(case.wd_mult))
    return optimizer


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return the results of all cases."""
    return {
        f"{case.id}/{key}": value for case in CASES for key, value in run_case(mx, case).items()
    }


def _array(mx: Any, values: np.ndarray, dtype: str) -> Any:
    return mx.nd.array(values.astype(dtype), dtype=dtype)


def _join(arrays: list[Any]) -> np.ndarray:
    flat = [array.asnumpy().ravel() for array in arrays]
    return np.concatenate(flat).astype("float32") if flat else np.zeros(0, "float32")


def _flatten(state: Any) -> list[Any]:
    if state is None:
        return []
    if isinstance(state, (list, tuple)):
        return [array for item in state for array in _flatten(item)]
    return [state]
