"""Calls that predict, and the transforms and labels that predictions use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from app.client.bodies import File, FilePath, Form, Json
from app.client.methods import method
from app.client.module_results import ModuleView
from app.client.request import AsJson, Request, at, nothing
from app.client.tensor_calls import NPZ, PredictionInputs, arrays, rankings

if TYPE_CHECKING:
    import numpy.typing as npt

    from app.client.tensors import Arrays

    Input: TypeAlias = npt.ArrayLike | Sequence[npt.ArrayLike] | Path | bytes | Sequence[Path]
    Rankings: TypeAlias = dict[str, list[Any]]

__all__ = ["PredictionCalls"]


class PredictionCalls:
    """Calls that predict.

    An input is an array or nested lists, whose examples may differ in length. An input with a
    transform takes an image (a path, or the bytes of its file), a text, or a list of several.
    """

    @method
    def predict(self, name: str, lone: Input | None = None, /, **inputs: Input) -> Request[Arrays]:
        """Return the outputs by name for a batch of inputs.

        An output whose examples differ in length is an array of arrays, one for each example.

        Args:
            name: of the module.
            lone: the input of a module that has only one, without its name.
            **inputs: by name.
        """
        return _asked(at("modules", name, "predict"), PredictionInputs(inputs, lone))

    @method
    def predict_with_version(
        self, name: str, version: int | str, /, **inputs: Input
    ) -> Request[Arrays]:
        """Return the outputs of one version: an epoch, ``live``, ``latest`` or a label."""
        return _asked(at("modules", name, "versions", version, "predict"), PredictionInputs(inputs))

    @method
    def predict_part(
        self,
        name: str,
        sequence_id: int | str,
        /,
        *,
        start: bool = False,
        end: bool = False,
        **inputs: Input,
    ) -> Request[Arrays]:
        """Return the outputs by name for one part of a sequence, whose states the server keeps.

        Args:
            name: of the module.
            sequence_id: id of the sequence.
            start, end: whether it is the first part, or the last.
            **inputs: the part, by name.
        """
        path, body = at("modules", name, "predict"), PredictionInputs(inputs)
        where = {"sequence_id": sequence_id, "sequence_start": start, "sequence_end": end}
        return Request("POST", path, arrays, body=body, query=where, accept=NPZ)

    @method
    def predict_top_k(
        self, name: str, top_k: int, version: int | str | None = None, /, **inputs: Input
    ) -> Request[Rankings]:
        """Return the best classes of each row of the outputs, with their labels and scores.

        Args:
            name: of the module.
            top_k: number of classes.
            version: as for ``predict_with_version``; None for the promoted one.
            **inputs: by name.
        """
        return _ranked(name, top_k, PredictionInputs(inputs), version)

    @method
    def predict_images(self, name: str, input: str, *files: Path) -> Request[Arrays]:
        """Return the outputs for image files, for an input with an image transform."""
        return _asked(at("modules", name, "predict"), PredictionInputs({input: files}))

    @method
    def rank_images(self, name: str, input: str, top_k: int, *files: Path) -> Request[Rankings]:
        """Return the best classes for image files, as ``predict_top_k`` does."""
        return _ranked(name, top_k, PredictionInputs({input: files}))

    @method
    def predict_texts(self, name: str, input: str, *texts: str) -> Request[Arrays]:
        """Return the outputs for texts, for an input with a text transform."""
        return _asked(at("modules", name, "predict"), PredictionInputs({input: texts}))

    @method
    def predict_file(self, /, name: str, file: FilePath, **query: Any) -> Request[dict[str, Any]]:
        """Return the raw response for a file: an image, npy, npz or safetensors.

        Args:
            name: of the module.
            file: its format is recognized by its first bytes.
            **query: ``top_k`` and ``version``.
        """
        path, body = at("modules", name, "predict"), File(Path(file))
        return Request("PUT", path, AsJson(dict[str, Any]), body=body, query=query)

    @method
    def set_transform(
        self,
        /,
        name: str,
        input: str,
        *,
        vocabulary: Path | Sequence[str] | None = None,
        **fields: Any,
    ) -> Request[ModuleView]:
        """Set how an image or a text is transformed into an input.

        Args:
            name: of the module.
            input: name of the input.
            vocabulary: the tokens of texts, or a file with them.
            **fields: for an image ``resize``, ``crop``, ``mean`` and others; for a text ``type``,
                which is ``text``, ``unknown``, ``padding`` and others.
        """
        path = at("modules", name, "transforms", input)
        body: Json | Form
        if isinstance(vocabulary, Path):
            body = Form({"transform": json.dumps(fields)}, [("vocabulary", vocabulary)])
        else:
            tokens = {} if vocabulary is None else {"vocabulary": list(vocabulary)}
            body = Json(fields | tokens)
        return Request("PUT", path, AsJson(ModuleView), body=body)

    @method
    def transform(self, name: str, input: str) -> Request[dict[str, Any]]:
        """Return the transform of an input."""
        path = at("modules", name, "transforms", input)
        return Request("GET", path, AsJson(dict[str, Any]))

    @method
    def delete_transform(self, name: str, input: str) -> Request[None]:
        """Remove the transform of an input."""
        return Request("DELETE", at("modules", name, "transforms", input), nothing)

    @method
    def labels(self, name: str, output: str) -> Request[list[str]]:
        """Return the class labels of an output."""
        return Request("GET", at("modules", name, "labels", output), AsJson(list[str]))

    @method
    def set_labels(self, name: str, output: str, labels: Sequence[str]) -> Request[ModuleView]:
        """Set the class labels of an output."""
        path, body = at("modules", name, "labels", output), Json(list(labels))
        return Request("PUT", path, AsJson(ModuleView), body=body)

    @method
    def delete_labels(self, name: str, output: str) -> Request[None]:
        """Remove the class labels of an output."""
        return Request("DELETE", at("modules", name, "labels", output), nothing)


def _asked(path: str, body: PredictionInputs) -> Request[Arrays]:
    return Request("POST", path, arrays, body=body, accept=NPZ, is_safe=True)


def _ranked(
    name: str, top_k: int, body: PredictionInputs, version: int | str | None = None
) -> Request[Rankings]:
    path, where = at("modules", name, "predict"), {"top_k": top_k, "version": version}
    return Request("POST", path, rankings, body=body, query=where, is_safe=True)
