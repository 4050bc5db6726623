"""Calls on modules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.client.bodies import Body, FilePath, Form, Json, Progress, checkpoint_form
from app.client.methods import method
from app.client.module_results import ModuleView
from app.client.request import AsJson, Items, Pages, Request, at, nothing
from app.client.tensor_calls import NPY, NPZ, Tensors, array, arrays

if TYPE_CHECKING:
    import numpy.typing as npt

    from app.client.tensors import Arrays

__all__ = ["ModuleCalls"]


class ModuleCalls:
    """Calls on modules."""

    @method
    def create_module(self, /, name: str, symbol: Any, **options: Any) -> Request[ModuleView]:
        """Create a module from its symbol (parsed JSON or text)."""
        return _created(Json({"name": name, "symbol": _parsed(symbol), **options}))

    @method
    def create_bucketing_module(
        self, /, name: str, symbols: Mapping[int, Any], default_bucket_key: int, **options: Any
    ) -> Request[ModuleView]:
        """Create a bucketing module from one symbol (parsed JSON or text) for each bucket key."""
        body = {
            "name": name,
            "symbols": {str(key): _parsed(symbol) for key, symbol in symbols.items()},
            "default_bucket_key": str(default_bucket_key),
            **options,
        }
        return _created(Json(body))

    @method
    def create_from_files(
        self,
        /,
        name: str,
        files: Sequence[FilePath],
        *,
        progress: Progress | None = None,
        **fields: Any,
    ) -> Request[ModuleView]:
        """Create a module from a checkpoint that MXNet wrote, and load its parameters.

        Args:
            name: of the module.
            files: the symbol, or those of buckets named like ``net-10-symbol.json``, the
                parameters, and optionally the optimizer's states.
            progress: called with the bytes sent so far, and the total.
            **fields: fields of the form: ``epoch``, ``allow_extra``, ``data_names`` and others.
        """
        return _created(checkpoint_form(files, {"name": name, **fields}), progress)

    @method
    def create_from_archive(
        self, /, file: FilePath, *, progress: Progress | None = None, **fields: Any
    ) -> Request[ModuleView]:
        """Create a module from an archive, bind it and load its parameters.

        Args:
            file: a ``.mar`` or ``.model`` of mxnet-model-server, or a ``model.tar.gz`` of
                SageMaker; Python code in it is ignored.
            progress: called with the bytes sent so far, and the total.
            **fields: ``name``, if it should differ from the archive's, and ``executor``.
        """
        return _created(Form(fields, [("archive", Path(file))]), progress)

    @method
    def create_from_module(
        self, /, name: str, source: str, epoch: int | str | None = None, **options: Any
    ) -> Request[ModuleView]:
        """Create a module that starts from a checkpoint of another one.

        Args:
            name: of the new module.
            source: the other module.
            epoch: of the checkpoint; None for the newest.
            **options: ``output`` to cut the symbol at, ``head`` to add there, and others.
        """
        origin = {"module": source, "epoch": epoch}
        return _created(Json({"name": name, "from": origin, **options}))

    @method
    def modules(self, /, **filters: Any) -> Pages[ModuleView]:
        """Return the descriptions of all modules, or of those that match the filters.

        Args:
            filters: ``kind``, ``stage``, ``state``, ``executor`` (one or a list), and ``prefix`` of
                the name.
        """
        return Pages(at("modules"), ModuleView, filters)

    @method
    def module(self, name: str) -> Request[ModuleView]:
        """Return a module's description."""
        return Request("GET", at("modules", name), AsJson(ModuleView))

    @method
    def restore_module(self, name: str) -> Request[ModuleView]:
        """Restore a module on its device now, even one that failed before."""
        return Request("POST", at("modules", name, "restore"), AsJson(ModuleView))

    @method
    def delete_module(self, name: str) -> Request[None]:
        """Delete a module with its checkpoints."""
        return Request("DELETE", at("modules", name), nothing)

    @method
    def symbol(self, name: str, key: str | int | None = None) -> Request[dict[str, Any]]:
        """Return a module's symbol as parsed JSON: the default bucket's, unless a key is given."""
        path, where = at("modules", name, "symbol"), {"key": key}
        return Request("GET", path, AsJson(dict[str, Any]), query=where)

    @method
    def bind(
        self,
        /,
        name: str,
        data_shapes: Sequence[Mapping[str, Any]] = (),
        label_shapes: Sequence[Mapping[str, Any]] = (),
        **options: Any,
    ) -> Request[ModuleView]:
        """Bind a module; inputs whose shapes follow from the parameters may be left out."""
        body = {"data_shapes": data_shapes, "label_shapes": label_shapes, **options}
        return _changed(name, "bind", body)

    @method
    def reshape(
        self,
        name: str,
        data_shapes: Sequence[Mapping[str, Any]],
        label_shapes: Sequence[Mapping[str, Any]] = (),
    ) -> Request[ModuleView]:
        """Change the input shapes of a bound module."""
        return _changed(name, "reshape", {"data_shapes": data_shapes, "label_shapes": label_shapes})

    @method
    def buckets(self, name: str) -> Request[list[str]]:
        """Return the keys of the bound buckets, the default one first."""
        return Request("GET", at("modules", name, "buckets"), Items(str))

    @method
    def bind_bucket(
        self,
        name: str,
        key: str | int,
        data_shapes: Sequence[Mapping[str, Any]],
        label_shapes: Sequence[Mapping[str, Any]] = (),
    ) -> Request[ModuleView]:
        """Bind one more bucket of a bucketing module."""
        body = {"key": key, "data_shapes": data_shapes, "label_shapes": label_shapes}
        return _changed(name, "buckets", body)

    @method
    def init_params(
        self, /, name: str, initializer: str = "uniform", **options: Any
    ) -> Request[ModuleView]:
        """Initialize the parameters."""
        body = Json({"initializer": initializer, **options})
        return Request("POST", at("modules", name, "params", "init"), AsJson(ModuleView), body=body)

    @method
    def params(self, name: str) -> Request[Arrays]:
        """Return all parameters by name."""
        return Request("GET", at("modules", name, "params"), arrays, accept=NPZ)

    @method
    def set_params(
        self, /, name: str, params: Mapping[str, npt.ArrayLike], **flags: bool
    ) -> Request[ModuleView]:
        """Set parameters by name; flags are ``allow_missing``, ``allow_extra`` and others."""
        path, body = at("modules", name, "params"), Tensors(params)
        return Request("PUT", path, AsJson(ModuleView), body=body, query=flags)

    @method
    def param(self, name: str, parameter: str) -> Request[npt.NDArray[Any]]:
        """Return one parameter."""
        return Request("GET", at("modules", name, "params", parameter), array, accept=NPY)


def _created(body: Body, progress: Progress | None = None) -> Request[ModuleView]:
    return Request(
        "POST", at("modules"), AsJson(ModuleView), body=body, has_key=True, progress=progress
    )


def _changed(name: str, what: str, body: Mapping[str, Any]) -> Request[ModuleView]:
    return Request("POST", at("modules", name, what), AsJson(ModuleView), body=Json(body))


def _parsed(symbol: Any) -> Any:
    return json.loads(symbol) if isinstance(symbol, str) else symbol
