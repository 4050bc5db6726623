"""Predictions, and the training loop step by step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy.typing as npt

from app.client.connection import Arrays, Connection, decoded
from app.tensors.codec import NPZ

__all__ = ["StepCalls"]

_NO_TENSORS: Mapping[str, npt.ArrayLike] = {}


class StepCalls(Connection):
    """Calls that compute with a bound module.

    Their further fields are those of the REST surface: ``bucket``, ``generation``, ``sequence``,
    and for passes ``is_train``, ``with_outputs`` and ``monitor``.
    """

    def predict(self, name: str, **inputs: npt.ArrayLike) -> Arrays:
        """Return the outputs by name for a batch of inputs by name."""
        return self._exchange(f"/v1/modules/{name}/predict", inputs, {})

    def predict_part(
        self,
        name: str,
        sequence_id: int | str,
        *,
        start: bool = False,
        end: bool = False,
        **inputs: npt.ArrayLike,
    ) -> Arrays:
        """Return the outputs by name of one part of a sequence, whose states are kept.

        Args:
            name: of the module.
            sequence_id: of the sequence.
            start, end: it is the first part, the last part.
            **inputs: the part, by name.
        """
        where = {"sequence_id": sequence_id, "sequence_start": start, "sequence_end": end}
        return self._exchange(f"/v1/modules/{name}/predict", inputs, {}, params=where)

    def predict_top_k(self, name: str, top_k: int, **inputs: npt.ArrayLike) -> dict[str, list[Any]]:
        """Return the best classes of each row of the outputs, with their labels and scores."""
        path = f"/v1/modules/{name}/predict"
        answer = self._send_tensors("POST", path, inputs, params={"top_k": top_k}).json()
        outputs: dict[str, list[Any]] = answer["outputs"]
        return outputs

    def predict_images(self, name: str, input: str, *files: Path) -> Arrays:
        """Return the outputs for images, each as its file is, of an input with a transform."""
        with ExitStack() as stack:
            opened = [(input, (one.name, stack.enter_context(one.open("rb")))) for one in files]
            path, headers = f"/v1/modules/{name}/predict", {"Accept": NPZ}
            return decoded(self.request("POST", path, files=opened, headers=headers))

    def predict_texts(self, name: str, input: str, *texts: str) -> Arrays:
        """Return the outputs for texts, of an input with a transform."""
        path, headers = f"/v1/modules/{name}/predict", {"Accept": NPZ}
        body = {"inputs": {input: texts}}
        return decoded(self.request("POST", path, json=body, headers=headers))

    def predict_file(self, name: str, file: Path, **query: Any) -> dict[str, Any]:
        """Return the answer for a file: an image, npy, npz or safetensors.

        Args:
            name: of the module.
            file: known by its first bytes.
            **query: ``top_k`` and ``version``.
        """
        return self._upload(f"/v1/modules/{name}/predict", file, params=query)

    def rank_images(self, name: str, input: str, top_k: int, *files: Path) -> dict[str, list[Any]]:
        """Return the best classes for each of some images, as of ``predict_top_k``."""
        with ExitStack() as stack:
            opened = [(input, (one.name, stack.enter_context(one.open("rb")))) for one in files]
            path = f"/v1/modules/{name}/predict"
            answer = self.request("POST", path, files=opened, params={"top_k": top_k}).json()
        outputs: dict[str, list[Any]] = answer["outputs"]
        return outputs

    def set_transform(
        self,
        name: str,
        input: str,
        *,
        vocabulary: Path | Sequence[str] | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Say how an image or a text becomes an input.

        Args:
            name: of the module.
            input: of the input.
            vocabulary: the tokens of texts, or a file with them.
            **fields: of an image ``resize``, ``crop``, ``mean`` and others; of a text ``type``,
                which is ``text``, ``unknown``, ``padding`` and others.
        """
        path = f"/v1/modules/{name}/transforms/{input}"
        if not isinstance(vocabulary, Path):
            tokens = {} if vocabulary is None else {"vocabulary": list(vocabulary)}
            return self._json("PUT", path, json=fields | tokens)
        with vocabulary.open("rb") as file:
            files = {"vocabulary": (vocabulary.name, file)}
            return self._json("PUT", path, data={"transform": json.dumps(fields)}, files=files)

    def transform(self, name: str, input: str) -> dict[str, Any]:
        """Return how an image or a text becomes an input."""
        return self._json("GET", f"/v1/modules/{name}/transforms/{input}")

    def delete_transform(self, name: str, input: str) -> None:
        """Remove the transform of an input."""
        self.request("DELETE", f"/v1/modules/{name}/transforms/{input}")

    def labels(self, name: str, output: str) -> list[str]:
        """Return the labels of an output's classes."""
        found: list[str] = self.request("GET", f"/v1/modules/{name}/labels/{output}").json()
        return found

    def set_labels(self, name: str, output: str, labels: Sequence[str]) -> dict[str, Any]:
        """Set the labels of an output's classes."""
        return self._json("PUT", f"/v1/modules/{name}/labels/{output}", json=list(labels))

    def delete_labels(self, name: str, output: str) -> None:
        """Remove the labels of an output."""
        self.request("DELETE", f"/v1/modules/{name}/labels/{output}")

    def predict_with_version(
        self, name: str, version: int | str, **inputs: npt.ArrayLike
    ) -> Arrays:
        """Return the outputs of a version: an epoch, ``live``, ``latest`` or a label."""
        return self._exchange(f"/v1/modules/{name}/versions/{version}/predict", inputs, {})

    def forward(self, name: str, inputs: Mapping[str, npt.ArrayLike], **fields: Any) -> Arrays:
        """Compute and return the outputs of a batch, labels among its inputs."""
        return self._exchange(f"/v1/modules/{name}/forward", inputs, fields)

    def forward_backward(
        self, name: str, inputs: Mapping[str, npt.ArrayLike], **fields: Any
    ) -> Arrays:
        """Compute gradients of a batch, and return the outputs."""
        return self._exchange(f"/v1/modules/{name}/forward_backward", inputs, fields)

    def backward(
        self, name: str, out_grads: Mapping[str, npt.ArrayLike] = _NO_TENSORS, **fields: Any
    ) -> dict[str, Any]:
        """Compute the gradients of the last training pass.

        Args:
            name: of the module.
            out_grads: gradients by name of the output, where no loss gives them.
            **fields: ``generation`` and ``sequence``.
        """
        return self._step(f"/v1/modules/{name}/backward", out_grads, fields)

    def update(self, name: str, **fields: Any) -> dict[str, Any]:
        """Update the parameters from the gradients of the last backward pass."""
        return self._step(f"/v1/modules/{name}/update", _NO_TENSORS, fields)

    def outputs(self, name: str) -> Arrays:
        """Return the outputs of the last pass."""
        return self._tensors(f"/v1/modules/{name}/outputs")

    def input_grads(self, name: str) -> Arrays:
        """Return the gradients of the data inputs, of a module bound for them."""
        return self._tensors(f"/v1/modules/{name}/input_grads")

    def states(self, name: str) -> Arrays:
        """Return the arrays named in ``state_names``."""
        return self._tensors(f"/v1/modules/{name}/states")

    def set_states(
        self,
        name: str,
        states: Mapping[str, npt.ArrayLike] = _NO_TENSORS,
        value: float | None = None,
    ) -> None:
        """Set states by name, or all of them to one value."""
        fields = {} if value is None else {"value": value}
        self._send_tensors("PUT", f"/v1/modules/{name}/states", states, fields)

    def statistics(self, name: str, pattern: str = "*") -> list[dict[str, Any]]:
        """Return statistics of arrays whose names match, of those of a monitored pass as well."""
        path = f"/v1/modules/{name}/monitor"
        return self._items(path, pattern=pattern)

    def _step(
        self, path: str, tensors: Mapping[str, npt.ArrayLike], fields: Mapping[str, Any]
    ) -> dict[str, Any]:
        answer: dict[str, Any] = self._send_tensors("POST", path, tensors, fields).json()
        return answer
