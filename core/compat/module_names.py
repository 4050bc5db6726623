"""Private attributes of MXNet's modules that scripts and subclasses of theirs use nevertheless.

The classes of ``core.module`` derive from these mix-ins, so that these can name them only by
protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Protocol, Self

from ..io import DataDesc
from ..kvstore import KVStore
from ..ndarray import NDArray
from ..optimizer import Optimizer

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

    def sync(self, group: Any) -> None: ...


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
    def optimizer(self) -> Optimizer | None: ...

    @property
    def kvstore(self) -> KVStore | None: ...

    @property
    def update_on_kvstore(self) -> bool: ...

    @property
    def updater(self) -> Callable[..., None] | None: ...


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
    _groups: MutableMapping[Any, Any]
    _updates: _Updates | None
    _new_updates: Callable[[], _Updates]
    get_params: Callable[..., Any]
    reshape: Callable[..., None]
    _is_marked_unbound: bool = False
    """A script has set ``binded`` to False: the next ``bind`` makes new executors."""
    _is_marked_without_optimizer: bool = False
    """A script has set ``optimizer_initialized`` to False."""

    @property
    def binded(self) -> bool:
        """True once shapes are set and memory is allocated; False lets ``bind`` be called again."""
        return self._exec_group is not None and not self._is_marked_unbound

    @binded.setter
    def binded(self, value: bool) -> None:
        if not value and self._exec_group is not None:
            # Values that only the devices have would be lost with the executors.
            self._host.sync(self._exec_group)
        self._is_marked_unbound = not value

    def _reset_bind(self) -> None:
        """Free the executors; the parameters keep their values."""
        self.binded = False
        self._exec_group = None
        self._groups.clear()

    @property
    def optimizer_initialized(self) -> bool:
        """True once there is an optimizer; False lets ``init_optimizer`` replace it."""
        return self._updates is not None and not self._is_marked_without_optimizer

    @optimizer_initialized.setter
    def optimizer_initialized(self, value: bool) -> None:
        self._is_marked_without_optimizer = not value

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

    def _set_part(self, name: str, value: Any) -> None:
        """Set a part of the optimizer; a module without one needs it only for a real value."""
        if self._updates is None:
            if value is None or value is False:
                return
            self._updates = self._new_updates()
            # As in MXNet, only the flag says that the module is ready.
            self._is_marked_without_optimizer = True
        setattr(self._updates, name, value)

    @property
    def _optimizer(self) -> Optimizer | None:
        return self._updates.optimizer if self._updates else None

    @_optimizer.setter
    def _optimizer(self, value: Optimizer | None) -> None:
        self._set_part("optimizer", value)

    @property
    def _kvstore(self) -> KVStore | None:
        return self._updates.kvstore if self._updates else None

    @_kvstore.setter
    def _kvstore(self, value: KVStore | None) -> None:
        self._set_part("kvstore", value)

    @property
    def _update_on_kvstore(self) -> bool:
        return self._updates.update_on_kvstore if self._updates else False

    @_update_on_kvstore.setter
    def _update_on_kvstore(self, value: bool) -> None:
        self._set_part("update_on_kvstore", bool(value))

    @property
    def _updater(self) -> Callable[..., None] | None:
        """Called with the lists of a device's indices, gradients and weights."""
        return self._updates.updater if self._updates else None

    @_updater.setter
    def _updater(self, value: Callable[..., None] | None) -> None:
        self._set_part("updater", value)

    @property
    def _data_shapes(self) -> Sequence[DataDesc] | None:
        return self._exec_group.data_shapes if self._exec_group else None

    @_data_shapes.setter
    def _data_shapes(self, value: Sequence[Any] | None) -> None:
        self._reshape_to(value, self._label_shapes)

    @property
    def _label_shapes(self) -> Sequence[DataDesc] | None:
        return self._exec_group.label_shapes if self._exec_group else None

    @_label_shapes.setter
    def _label_shapes(self, value: Sequence[Any] | None) -> None:
        if self._exec_group is not None:
            self._reshape_to(self._exec_group.data_shapes, value)

    def _reshape_to(self, data: Sequence[Any] | None, labels: Sequence[Any] | None) -> None:
        """Bind for shapes that a script has set; an unbound module gets them from ``bind``."""
        if (
            self.binded
            and data is not None
            and (data, labels)
            != (
                self._data_shapes,
                self._label_shapes,
            )
        ):
            self.reshape(data, labels)

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
