"""Request bodies from tensors, images and texts, and arrays from responses."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import numpy as np
import numpy.typing as npt

from app.client.bodies import Body, Content, File, Form, Json
from app.tensors.codec import JSON, NPY, NPZ, decode, encode

__all__ = ["Arrays", "decoded", "prediction_body", "tensor_body"]

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]


def tensor_body(
    tensors: Mapping[str, npt.ArrayLike], fields: Mapping[str, Any] | None = None
) -> Body:
    """Return tensors as a body, which is JSON if it has other fields too."""
    arrays = {name: np.asarray(value) for name, value in tensors.items()}
    kind = JSON if fields else NPZ  # npz has no place for other fields
    return Content(encode(kind, arrays, "inputs", fields), kind)


def prediction_body(lone: Any, inputs: Mapping[str, Any]) -> Body:
    """Return the body of a prediction request.

    Args:
        lone: the only input of the module; None if the inputs are named.
        inputs: by name.
    """
    if lone is not None:
        if inputs:
            raise TypeError(
                f"an input without a name, together with {', '.join(inputs)}: name it too"
            )
        return _lone_body(lone)
    if inputs and all(map(_is_files, inputs.values())):
        return Form({}, [(name, one) for name, value in inputs.items() for one in _listed(value)])
    arrays = {name: _array(value) for name, value in inputs.items() if not _is_raw(value)}
    even = {name: one for name, one in arrays.items() if one is not None}
    if len(even) == len(inputs):
        return tensor_body(even)
    return Json({"inputs": {name: _plain(value) for name, value in inputs.items()}})


def _lone_body(value: Any) -> Body:
    if isinstance(value, Path):
        return File(value)
    if isinstance(value, bytes):
        return Content(value)
    if _is_texts(value):
        return Json({"text": value})
    if _is_files(value):
        raise TypeError(
            "several files without an input name: pass them as input=[...], by the input's name"
        )
    array = _array(value)
    if array is None:
        return Json({"data": _plain(value)})
    return Content(encode(NPY, {"data": array}, "inputs"), NPY)


def decoded(response: httpx.Response) -> Arrays:
    """Return the tensors of a response by name; a single unnamed one is ``data``.

    An output whose examples differ in length is an array of arrays, one for each example.
    """
    kind = response.headers["content-type"]
    if kind == JSON:
        return {name: _answered(one) for name, one in response.json()["outputs"].items()}
    # Practically without a limit, because the server is trusted.
    found, _ = decode(
        kind, response.content, names=["data"], limit=2**40, setting="the server's response"
    )
    return found


def _answered(tensor: Mapping[str, Any]) -> npt.NDArray[Any]:
    # NumPy itself has no bfloat16; float32 has all its values.
    dtype = "float32" if tensor["dtype"] == "bfloat16" else tensor["dtype"]
    if "lengths" not in tensor:
        return np.array(tensor["data"], dtype)
    examples = np.empty(len(tensor["data"]), object)
    for place, one in enumerate(tensor["data"]):
        examples[place] = np.array(one, dtype)
    return examples


def _array(value: Any) -> npt.NDArray[Any] | None:
    """Return a value as an array; None if its examples differ in length."""
    try:
        array = np.asarray(value)
    except ValueError:  # how NumPy refuses lists of differing lengths
        return None
    return None if array.dtype == object else array  # an array of arrays was given


def _is_raw(value: Any) -> bool:
    return _is_files(value) or _is_texts(value)


def _is_files(value: Any) -> bool:
    listed = _listed(value)
    return bool(listed) and all(isinstance(one, Path | bytes) for one in listed)


def _is_texts(value: Any) -> bool:
    listed = _listed(value)
    return bool(listed) and all(isinstance(one, str) for one in listed)


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _plain(value: Any) -> Any:
    """Return an input as JSON has it."""
    if isinstance(value, Path | bytes):
        content = value.read_bytes() if isinstance(value, Path) else value
        return {"b64": base64.b64encode(content).decode()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
