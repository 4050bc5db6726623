"""``FeedForward`` over arrays and iterators: training, scoring, prediction."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from oracle import networks

__all__ = ["CASES", "make_model", "record", "run_case"]

ROWS, FEATURES, CLASSES, BATCH_SIZE = 20, 12, 4, 6

CASES: dict[str, dict[str, Any]] = {
    "arrays": {},
    "iterator": {"iterator": True, "eval": True},
    "epoch_size": {"iterator": True, "epoch_size": 3},
    "many_rounds": {"iterator": True, "epoch_size": 6},
    "two_devices": {"devices": 2, "eval": True, "iterator": True},
    "momentum": {"learning_rate": 0.2, "momentum": 0.9, "wd": 0.01},
    "adam": {"optimizer": "adam", "learning_rate": 0.02},
}


def make_model(mx: Any, options: dict[str, Any], **more: Any) -> Any:
    """Return a model with fixed initial parameters."""
    devices = options.pop("devices", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return mx.model.FeedForward(
            networks.mlp(mx),
            ctx=[mx.cpu(i) for i in range(devices)],
            num_epoch=3,
            numpy_batch_size=BATCH_SIZE,
            arg_params={name: mx.nd.array(x) for name, x in _start().items()},
            **{"learning_rate": 0.1, **options},
            **more,
        )


def run_case(mx: Any, case_id: str) -> dict[str, np.ndarray]:
    """Return what callbacks saw, final parameters, scores and predictions."""
    options = dict(CASES[case_id])
    use_iterator, use_eval = options.pop("iterator", False), options.pop("eval", False)
    data, labels = _data(41, ROWS)
    extra = _data(42, 9)
    model = make_model(mx, options)
    seen: list[list[float]] = []

    def watch(param: Any) -> None:
        values = [value for _, value in param.eval_metric.get_name_value()]
        seen.append([param.epoch, param.nbatch, *values])

    inputs = (mx.io.NDArrayIter(data, labels, BATCH_SIZE),) if use_iterator else (data, labels)
    np.random.seed(7)
    model.fit(
        *inputs,
        eval_data=mx.io.NDArrayIter(*extra, BATCH_SIZE) if use_eval else None,
        eval_metric=["acc", "ce"],
        batch_end_callback=watch,
        eval_batch_end_callback=watch,
        eval_end_callback=watch,
    )
    results = {name: array.asnumpy() for name, array in model.arg_params.items()}
    results["seen"] = np.array(seen, dtype="float64")
    scoring = mx.io.NDArrayIter(data, labels, BATCH_SIZE)
    results["score"] = np.array(model.score(scoring, "ce"), dtype="float64")
    results["prediction"] = model.predict(data)
    outputs, inputs_seen, labels_seen = model.predict(scoring, num_batch=2, return_data=True)
    results.update(outputs=outputs, inputs_seen=inputs_seen, labels_seen=labels_seen)
    return results


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return the results of all cases."""
    return {
        f"{case_id}/{key}": value
        for case_id in CASES
        for key, value in run_case(mx, case_id).items()
    }


def _data(seed: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(seed)
    data = random.normal(size=(rows, FEATURES)).astype("float32")
    return data, random.randint(0, CLASSES, rows).astype("float32")


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
