"""Running ONNX models with ONNX Runtime, for comparison with exports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["run_onnx"]


def run_onnx(model: Any, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of a model; arrays that are not inputs are ignored."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    given = {one.name: arrays[one.name] for one in session.get_inputs()}
    found: list[np.ndarray] = session.run(None, given)
    return found
