"""Private attributes of MXNet's modules that scripts and subclasses of theirs use nevertheless.

The classes of ``core.module`` derive from these mix-ins, so that these can name them only by
protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self

from ..io import DataDesc
from ..kvstore import KVStore
from ..ndarray import NDArray
from ..optimizer import Optimizer, Updater

__all__ = [
    "BaseNames",
    "BucketingNames",
    "ModuleNames",
    "MutableNames",
    "SequentialNames",
]


class _HostParameters(Protocol):
    arguments: dict[str, NDArray]
    auxiliary: dict[str, NDArray]
    known: bool
    dirty: bool


class _Spec(Protocol):
    @property
    def grad_req(self) -> Any: ...


class _Group(Protocol):
    @property
    def data_shapes(self) -> list[DataDesc]: ...

    @property
    def label_shapes(self) -> list[DataDesc] | None: ...

    @property
    def spec(self) -> _Spec: ...

    @property
    def _total_exec_bytes(self) -> int: ...


class _Updates(Protocol):
    @property
    def optimizer(self) -> Optimizer: ...

    @property
    def kvstore(self) -> KVStore | None: ...

    @property
    def update_on_kvstore(self) -> bool: ...

    @property
    def updater(self) -> Updater | None: ...


class BaseNames:
    """Names that every module has; subclasses set them as they like."""

    _total_exec_bytes: int = 0
    """Bytes of the arrays and plans of the executors."""


class ModuleNames(BaseNames):
    """The parts of a module under their private names in ``mxnet.module.Module``.

    Scripts with a ``load`` of their own set the values here, and then ``params_initialized``.
    """

    _host: _HostParameters
    _exec_group: _Group | None
    _updates: _Updates | None
    get_params: Callable[..., Any]

    @property
    def params_initialized(self) -> bool:
        """True once the parameters have values."""
        return self._host.known

    @params_initialized.setter
    def params_initialized(self, value: bool) -> None:
        self._host.known = value

    @property
    def _arg_params(self) -> Mapping[str, NDArray] | None:
        return self._host.arguments if self._has_values else None

    @_arg_params.setter
    def _arg_params(self, values: dict[str, NDArray] | None) -> None:
        self._host.arguments = {} if values is None else values

    @property
    def _aux_params(self) -> Mapping[str, NDArray] | None:
        return self._host.auxiliary if self._has_values else None

    @_aux_params.setter
    def _aux_params(self, values: dict[str, NDArray] | None) -> None:
        self._host.auxiliary = {} if values is None else values

    @property
    def _has_values(self) -> bool:
        host = self._host
        return host.known or bool(host.arguments) or self._exec_group is not None

    @property
    def _params_dirty(self) -> bool:
        return self._host.dirty

    @_params_dirty.setter
    def _params_dirty(self, value: bool) -> None:
        self._host.dirty = value

    def _sync_params_from_devices(self) -> None:
        """Fetch the devices' values, which a script may have changed without saying so."""
        self._host.dirty = self._host.dirty or self._exec_group is not None
        self.get_params()

    @property
    def _optimizer(self) -> Optimizer | None:
        return self._updates.optimizer if self._updates else None

    @property
    def _kvstore(self) -> KVStore | None:
        return self._updates.kvstore if self._updates else None

    @property
    def _update_on_kvstore(self) -> bool:
        return self._updates.update_on_kvstore if self._updates else False

    @property
    def _updater(self) -> Updater | None:
        return self._updates.updater if self._updates else None

    @property
    def _data_shapes(self) -> Sequence[DataDesc] | None:
        return self._exec_group.data_shapes if self._exec_group else None

    @property
    def _label_shapes(self) -> Sequence[DataDesc] | None:
        return self._exec_group.label_shapes if self._exec_group else None

    @property
    def _grad_req(self) -> Any:
        return self._exec_group.spec.grad_req if self._exec_group else None

    @property
    def _total_exec_bytes(self) -> int:  # type: ignore[override]
        return self._exec_group._total_exec_bytes if self._exec_group else 0


class BucketingNames(BaseNames):
    """Names of ``mxnet.module.BucketingModule``."""

    _buckets: Mapping[Any, ModuleNames]
    _default_bucket_key: Any
    _active: Any
    _active_key: Any

    @property
    def _curr_module(self) -> Any:
        """The module of the current bucket, which ``switch_bucket`` of a subclass may set."""
        return self._active

    @_curr_module.setter
    def _curr_module(self, module: Any) -> None:
        self._active = module

    @property
    def _curr_bucket_key(self) -> Any:
        return self._active_key

    @_curr_bucket_key.setter
    def _curr_bucket_key(self, key: Any) -> None:
        self._active_key = key

    @property
    def _total_exec_bytes(self) -> int:  # type: ignore[override]
        """Bytes taken by the largest bucket, whose memory the others reuse."""
        return max((module._total_exec_bytes for module in self._buckets.values()), default=0)

    @property
    def _params_dirty(self) -> bool:
        default = self._buckets.get(self._default_bucket_key)
        return default is not None and default._params_dirty


class SequentialNames(BaseNames):
    """Names of ``mxnet.module.SequentialModule``."""

    _modules: Sequence[BaseNames]

    @property
    def _total_exec_bytes(self) -> int:  # type: ignore[override]
        return sum(module._total_exec_bytes for module in self._modules)


class MutableNames:
    """Names of the ``MutableModule`` in MXNet's example of Faster R-CNN."""

    @property
    def _curr_module(self) -> Self:
        """The currently bound module."""
        return self
