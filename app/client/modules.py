"""Modules: created, bound, initialized, their parameters and optimizers exchanged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy.typing as npt

from app.client.connection import Arrays, Connection
from app.tensors.codec import NPY

__all__ = ["ModuleCalls"]


class ModuleCalls(Connection):
    """Calls on modules."""

    def create_module(self, name: str, symbol: Any, **options: Any) -> dict[str, Any]:
        """Create a module from its symbol (parsed JSON or text)."""
        body = {"name": name, "symbol": _parsed(symbol), **options}
        return self._json("POST", "/v1/modules", json=body)

    def create_bucketing_module(
        self, name: str, symbols: Mapping[int, Any], default_bucket_key: int, **options: Any
    ) -> dict[str, Any]:
        """Create a module from a symbol (parsed JSON or text) per bucket key."""
        body = {
            "name": name,
            "symbols": {str(key): _parsed(symbol) for key, symbol in symbols.items()},
            "default_bucket_key": str(default_bucket_key),
            **options,
        }
        return self._json("POST", "/v1/modules", json=body)

    def create_from_files(self, name: str, files: Sequence[Path], **fields: Any) -> dict[str, Any]:
        """Create a module from a checkpoint that MXNet wrote; its parameters are loaded.

        Args:
            name: of the module.
            files: the symbol, the parameters and, if there are some, the optimizer's states.
            **fields: ``epoch``, ``allow_extra``, ``data_names`` and other names, as of the form.
        """
        return self._send_files("/v1/modules", files, {"name": name, **fields})

    def create_from_archive(self, file: Path, **fields: Any) -> dict[str, Any]:
        """Create a module from an archive of mxnet-model-server, bound and loaded.

        Args:
            file: a ``.mar`` or ``.model`` file; its Python code is not run.
            **fields: ``name``, where it is not to be the archive's, and ``executor``.
        """
        with file.open("rb") as stream:
            files = {"archive": (file.name, stream)}
            return self._json("POST", "/v1/modules", data=fields, files=files)

    def create_from_module(
        self, name: str, source: str, epoch: int | str | None = None, **options: Any
    ) -> dict[str, Any]:
        """Create a module that begins with a checkpoint of another one.

        Args:
            name: of the new module.
            source: the other module.
            epoch: of its checkpoint; the newest where None.
            **options: ``output`` to cut the symbol at, ``head`` to put there, and others.
        """
        body = {"name": name, "from": {"module": source, "epoch": epoch}, **options}
        return self._json("POST", "/v1/modules", json=body)

    def modules(self, **filters: Any) -> list[dict[str, Any]]:
        """Return the descriptions of all modules, or of some.

        Args:
            filters: ``kind``, ``stage``, ``state``, ``executor`` (one, or a list of several) and
                ``prefix`` of the name.
        """
        return self._items("/v1/modules", **filters)

    def module(self, name: str) -> dict[str, Any]:
        """Return a module's description."""
        return self._json("GET", f"/v1/modules/{name}")

    def restore_module(self, name: str) -> dict[str, Any]:
        """Bring a module to its device now, also one that failed before."""
        return self._json("POST", f"/v1/modules/{name}/restore")

    def delete_module(self, name: str) -> None:
        """Delete a module with its checkpoints."""
        self.request("DELETE", f"/v1/modules/{name}")

    def symbol(self, name: str, key: str | int | None = None) -> dict[str, Any]:
        """Return a module's symbol as parsed JSON: the default bucket's, unless a key is given."""
        params = {} if key is None else {"key": str(key)}
        return self._json("GET", f"/v1/modules/{name}/symbol", params=params)

    def graph(self, name: str, bucket: str | None = None) -> dict[str, Any]:
        """Return nodes and outputs of a bucket's graph, with inferred shapes."""
        return self._json("GET", f"/v1/modules/{name}/graph", params=_given(bucket=bucket))

    def profile(self, name: str, **options: Any) -> dict[str, Any]:
        """Measure what each step takes; options are ``bucket``, ``batch`` and ``runs``."""
        return self._json("POST", f"/v1/modules/{name}/profile", json=options)

    def bind(
        self,
        name: str,
        data_shapes: Sequence[Mapping[str, Any]] = (),
        label_shapes: Sequence[Mapping[str, Any]] = (),
        **options: Any,
    ) -> dict[str, Any]:
        """Bind a module; inputs may be left out whose shapes its parameters tell."""
        body = {"data_shapes": data_shapes, "label_shapes": label_shapes, **options}
        return self._json("POST", f"/v1/modules/{name}/bind", json=body)

    def reshape(
        self,
        name: str,
        data_shapes: Sequence[Mapping[str, Any]],
        label_shapes: Sequence[Mapping[str, Any]] = (),
    ) -> dict[str, Any]:
        """Change the input shapes of a bound module."""
        body = {"data_shapes": data_shapes, "label_shapes": label_shapes}
        return self._json("POST", f"/v1/modules/{name}/reshape", json=body)

    def buckets(self, name: str) -> list[str]:
        """Return the keys of the bound buckets, that of the default one first."""
        keys: list[str] = self._json("GET", f"/v1/modules/{name}/buckets")["items"]
        return keys

    def bind_bucket(
        self,
        name: str,
        key: str | int,
        data_shapes: Sequence[Mapping[str, Any]],
        label_shapes: Sequence[Mapping[str, Any]] = (),
    ) -> dict[str, Any]:
        """Bind one more bucket of a bucketing module."""
        body = {"key": key, "data_shapes": data_shapes, "label_shapes": label_shapes}
        return self._json("POST", f"/v1/modules/{name}/buckets", json=body)

    def bucket_plan(self, name: str, most: int) -> dict[str, Any]:
        """Return the buckets, so many at most, that pad the predictions so far the least."""
        return self._json("GET", f"/v1/modules/{name}/buckets/plan", params={"k": most})

    def apply_bucket_plan(self, name: str, most: int) -> dict[str, Any]:
        """Bind the buckets of ``bucket_plan``, and drop the others."""
        return self._json("POST", f"/v1/modules/{name}/buckets/plan", params={"k": most})

    def warm_up_module(self, name: str) -> None:
        """Make what the first predictions of each batch size would have to wait for."""
        self.request("POST", f"/v1/modules/{name}/warm_up")

    def init_params(
        self, name: str, initializer: str = "uniform", **options: Any
    ) -> dict[str, Any]:
        """Initialize the parameters."""
        body = {"initializer": initializer, **options}
        return self._json("POST", f"/v1/modules/{name}/params/init", json=body)

    def params(self, name: str) -> Arrays:
        """Return all parameters by name."""
        return self._tensors(f"/v1/modules/{name}/params")

    def set_params(
        self, name: str, params: Mapping[str, npt.ArrayLike], **flags: bool
    ) -> dict[str, Any]:
        """Set parameters by name; flags are ``allow_missing``, ``allow_extra`` and others."""
        path = f"/v1/modules/{name}/params"
        answer: dict[str, Any] = self._send_tensors("PUT", path, params, params=flags).json()
        return answer

    def param(self, name: str, parameter: str) -> npt.NDArray[Any]:
        """Return one parameter."""
        return self._tensors(f"/v1/modules/{name}/params/{parameter}", NPY)["data"]

    def param_summary(
        self, name: str, checkpoint: int | str = "live", against: int | str | None = None
    ) -> dict[str, Any]:
        """Return figures of all parameters, beside those of a checkpoint if one is named."""
        params = _given(checkpoint=checkpoint, against=against)
        return self._json("GET", f"/v1/modules/{name}/param_summary", params=params)

    def init_optimizer(self, name: str, optimizer: str = "sgd", **options: Any) -> dict[str, Any]:
        """Install an optimizer."""
        body = {"name": optimizer, "options": options}
        return self._json("POST", f"/v1/modules/{name}/optimizer", json=body)

    def optimizer(self, name: str) -> dict[str, Any]:
        """Return what a module's optimizer is, with its learning rate and count of updates."""
        return self._json("GET", f"/v1/modules/{name}/optimizer")

    def set_learning_rate(self, name: str, learning_rate: float) -> dict[str, Any]:
        """Change the learning rate."""
        body = {"learning_rate": learning_rate}
        return self._json("PATCH", f"/v1/modules/{name}/optimizer", json=body)

    def serving(self, name: str) -> dict[str, Any]:
        """Return how predictions of a module are served."""
        return self._json("GET", f"/v1/modules/{name}/serving")

    def set_serving(self, name: str, **fields: Any) -> dict[str, Any]:
        """Change how they are served: ``max_batch_size``, ``batches``, ``max_delay_us``,
        ``instances``; of sequences ``states``, ``max_sequences``, ``max_sequence_idle_seconds``.
        """
        return self._json("PATCH", f"/v1/modules/{name}/serving", json=fields)

    def versions(self, name: str) -> dict[str, Any]:
        """Return which versions are promoted, labelled and tried, and the newest of all."""
        return self._json("GET", f"/v1/modules/{name}/versions")

    def promote(self, name: str, version: int | str) -> dict[str, Any]:
        """Let a version answer predictions that name none."""
        return self._json("POST", f"/v1/modules/{name}/versions/{version}/promote")

    def roll_back(self, name: str) -> dict[str, Any]:
        """Promote the version that was promoted before."""
        return self._json("POST", f"/v1/modules/{name}/rollback")

    def set_version_label(self, name: str, label: str, version: int | str) -> dict[str, Any]:
        """Give a version another name."""
        path = f"/v1/modules/{name}/version_labels/{label}"
        return self._json("PUT", path, json={"version": version})

    def remove_version_label(self, name: str, label: str) -> None:
        """Take a label away."""
        self.request("DELETE", f"/v1/modules/{name}/version_labels/{label}")

    def set_canary(self, name: str, version: int | str, weight: float) -> dict[str, Any]:
        """Let a version answer a share of the predictions that name none."""
        body = {"version": version, "weight": weight}
        return self._json("PUT", f"/v1/modules/{name}/canary", json=body)

    def remove_canary(self, name: str) -> None:
        """Let no canary answer any more."""
        self.request("DELETE", f"/v1/modules/{name}/canary")

    def optimizer_states(self, name: str) -> bytes:
        """Return the optimizer's states as MXNet's ``.states`` file has them."""
        return self.request("GET", f"/v1/modules/{name}/optimizer/states").content

    def set_optimizer_states(self, name: str, states: bytes) -> None:
        """Set the optimizer's states from the bytes of a ``.states`` file."""
        self.request("PUT", f"/v1/modules/{name}/optimizer/states", content=states)

    def _send_files(
        self, path: str, files: Sequence[Path], fields: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Post a form with files of a checkpoint, each under the name that its ending tells."""
        texts = {key: _form_value(value) for key, value in fields.items()}
        with ExitStack() as stack:
            opened = {
                _part_of(file): (file.name, stack.enter_context(file.open("rb"))) for file in files
            }
            return self._json("POST", path, data=texts, files=opened)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _part_of(file: Path) -> str:
    return {".params": "params", ".states": "states"}.get(file.suffix, "symbol")


def _form_value(value: Any) -> Any:
    """Return a field of a form: a list repeats it, a flag is a word."""
    if isinstance(value, bool):
        return str(value).lower()
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


def _parsed(symbol: Any) -> Any:
    return json.loads(symbol) if isinstance(symbol, str) else symbol
