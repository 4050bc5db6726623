"""Requests and answers of the Open Inference Protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx
import numpy as np

__all__ = ["Binary", "binary", "data_of", "numbers"]

DATATYPES = {"f": "FP32", "d": "FP64", "e": "FP16", "i": "INT32", "B": "UINT8"}


class Binary(NamedTuple):
    """A body in which binary tensors follow the JSON, and the length of that JSON."""

    body: bytes
    length: str

    @property
    def headers(self) -> dict[str, str]:
        return {"inference-header-content-length": self.length}


def numbers(x: np.ndarray, name: str = "data", **members: Any) -> dict[str, Any]:
    """Return the JSON of a request with one tensor, its values written as numbers."""
    tensor = {"name": name, "shape": list(x.shape), "datatype": DATATYPES[x.dtype.char]}
    return {"inputs": [tensor | {"data": x.ravel().tolist()}], **members}


def binary(tensors: Mapping[str, np.ndarray], **members: Any) -> Binary:
    """Return a request in which binary tensors follow the JSON."""
    inputs = [
        {
            "name": name,
            "shape": list(x.shape),
            "datatype": DATATYPES[x.dtype.char],
            "parameters": {"binary_data_size": x.nbytes},
        }
        for name, x in tensors.items()
    ]
    text = json.dumps({"inputs": inputs, **members}).encode()
    return Binary(text + b"".join(x.tobytes() for x in tensors.values()), str(len(text)))


def data_of(answer: httpx.Response) -> np.ndarray:
    """Return the only output of an answer whose values are all FP32."""
    length = answer.headers.get("inference-header-content-length")
    size = len(answer.content) if length is None else int(length)
    (output,) = json.loads(answer.content[:size])["outputs"]
    assert output["datatype"] == "FP32"
    if length is None:
        return np.array(output["data"], "f").reshape(output["shape"])
    assert output["parameters"]["binary_data_size"] == len(answer.content) - size
    return np.frombuffer(answer.content[size:], "f").reshape(output["shape"])
