"""``fit``, ``score``, ``predict``, ``iter_predict`` over an iterator with a partial last batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from oracle import networks

__all__ = ["CASES", "record", "run_case"]

ROWS, FEATURES, CLASSES, BATCH_SIZE = 20, 12, 4, 6

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "two_devices": {"devices": 2},
    "uneven_devices": {"devices": 2, "work_load_list": [1, 2]},
    "fixed": {"fixed_param_names": ["fc0_weight", "fc0_bias"]},
    "adam": {"optimizer": "adam", "optimizer_params": {"learning_rate": 0.02}},
    "scheduled": {
        "optimizer": "nag",
        "optimizer_params": {"learning_rate": 0.2, "momentum": 0.8, "wd": 0.01},
        "schedule": {"step": 3, "factor": 0.5},
    },
    # What Nadam and LARS share among all parameters depends on this order.
    "nadam": {"optimizer": "nadam", "optimizer_params": {"learning_rate": 0.02, "wd": 0.01}},
    "lars": {
        "optimizer": "lars",
        "optimizer_params": {"learning_rate": 2.0, "momentum": 0.8, "wd": 0.01, "eta": 0.1},
        "schedule": {"step": 3, "factor": 0.5},
    },
    "lars_two_devices": {
        "optimizer": "lars",
        "optimizer_params": {"learning_rate": 2.0, "momentum": 0.8, "wd": 0.01, "eta": 0.1},
        "schedule": {"step": 3, "factor": 0.5},
        "devices": 2,
    },
    "lamb": {"optimizer": "lamb", "optimizer_params": {"learning_rate": 0.02, "wd": 0.01}},
    "discard": {"last_batch_handle": "discard"},
    "roll_over": {"last_batch_handle": "roll_over"},
}


def run_case(mx: Any, case_id: str) -> dict[str, np.ndarray]:
    """Return metric values after every batch, final parameters, scores and predictions."""
    options = dict(CASES[case_id])
    iterator = _make_iterator(mx, options.pop("last_batch_handle", "pad"))
    optimizer_params = dict(options.pop("optimizer_params", {"learning_rate": 0.1}))
    if "schedule" in options:
        optimizer_params["lr_scheduler"] = mx.lr_scheduler.FactorScheduler(
            **options.pop("schedule"), base_lr=optimizer_params["learning_rate"]
        )
    optimizer = options.pop("optimizer", "sgd")
    context = [mx.cpu(i) for i in range(options.pop("devices", 1))]
    module = mx.mod.Module(networks.mlp(mx), context=context, **options)
    seen: list[list[float]] = []
    module.fit(
        iterator,
        eval_metric=["acc", "ce"],
        optimizer=optimizer,
        optimizer_params=optimizer_params,
        arg_params={name: mx.nd.array(x) for name, x in _start().items()},
        num_epoch=3,
        batch_end_callback=lambda param: seen.append(
            [value for _, value in param.eval_metric.get_name_value()]
        ),
    )
    results = {"metrics": np.array(seen, dtype="float64")}
    arguments, _ = module.get_params()
    results.update({name: array.asnumpy() for name, array in arguments.items()})
    score = module.score(_make_iterator(mx, "pad"), ["acc", "ce"])
    results["score"] = np.array([value for _, value in score], dtype="float64")
    results["prediction"] = module.predict(_make_iterator(mx, "pad")).asnumpy()
    parts = [
        outputs[0].asnumpy().copy()
        for outputs, _, _ in module.iter_predict(_make_iterator(mx, "pad"), num_batch=2)
    ]
    results["iter_prediction"] = np.concatenate(parts)
    return results


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return the results of all cases."""
    return {
        f"{case_id}/{key}": value
        for case_id in CASES
        for key, value in run_case(mx, case_id).items()
    }


def _start() -> dict[str, np.ndarray]:
    return networks.make_parameters(
        {
            "fc0_weight": (16, FEATURES),
            "fc0_bias": (16,),
            "fc1_weight": (8, 16),
            "fc1_bias": (8,),
            "fc2_weight": (CLASSES, 8),
            "fc2_bias": (CLASSES,),
        }
    )


def _make_iterator(mx: Any, last_batch_handle: str) -> Any:
    random = np.random.RandomState(41)
    return mx.io.NDArrayIter(
        random.normal(size=(ROWS, FEATURES)).astype("float32"),
        random.randint(0, CLASSES, ROWS).astype("float32"),
        BATCH_SIZE,
        last_batch_handle=last_batch_handle,
    )
