"""The host's copy of a module's parameters, which users read, set and save."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..initializer import InitDesc
from ..ndarray import NDArray, zeros
from .checks import fill_parameter, storage_type
from .group import ExecutorGroup

__all__ = ["HostParameters"]

Params = Mapping[str, NDArray]


class HostParameters:
    """Parameter values by name; the buckets of a module share one copy.

    Attributes:
        arguments, auxiliary: the values; empty until they are initialized, and while the devices
            alone have them.
        known: True once the parameters have values, here or on the devices.
        dirty: True while the devices have newer values.
        fetch_rows: fills in ``row_sparse`` parameters, of which devices may have only some rows;
            None until there is an optimizer.
    """

    def __init__(self) -> None:
        self.arguments: dict[str, NDArray] = {}
        self.auxiliary: dict[str, NDArray] = {}
        self.known = False
        self.dirty = False
        self.fetch_rows: Callable[[Params], None] | None = None

    def adopt(self, arguments: Params, auxiliary: Params) -> None:
        """Use these values, from a checkpoint for example, before any device has them."""
        self.arguments, self.auxiliary = dict(arguments), dict(auxiliary)
        self.known, self.dirty = True, False

    def initialize(
        self,
        group: ExecutorGroup,
        initializer: Callable[[str, NDArray], None] | None,
        arg_params: Params | None,
        aux_params: Params | None,
        allow_missing: bool,
    ) -> None:
        """Set every parameter, here and on the devices: to its given value or by the initializer.

        Values for names that the symbol does not have are ignored, as in MXNet. A failure leaves
        everything unchanged.
        """
        arguments, auxiliary = self._allocate(group)
        if initializer is None and self.known:
            # set_params() without an initializer: parameters that are not given keep their values.
            self.sync(group)
            _copy_common(self.arguments, arguments)
            _copy_common(self.auxiliary, auxiliary)
        attributes = group.spec.symbol.attr_dict()
        for values, given in ((arguments, arg_params), (auxiliary, aux_params)):
            for name in sorted(values):  # MXNet's order, on which the random values depend
                desc = InitDesc(name, attributes.get(name))
                fill_parameter(desc, values[name], given, initializer, allow_missing)
        group.set_params(arguments, auxiliary)
        self.adopt(arguments, auxiliary)

    def overwrite(
        self,
        group: ExecutorGroup,
        arg_params: Params | None,
        aux_params: Params | None,
        allow_extra: bool,
    ) -> None:
        """Set the given parameters on the devices; the others keep their values."""
        if not self.arguments:
            self.arguments, self.auxiliary = self._allocate(group)
        group.set_params(arg_params, aux_params, allow_extra)
        self.known = self.dirty = True

    def sync(self, group: ExecutorGroup) -> None:
        """Fetch the devices' values if they are newer."""
        if self.dirty:
            if not self.arguments and not self.auxiliary:
                self.arguments, self.auxiliary = self._allocate(group)
            group.get_params(self.arguments, self.auxiliary)
            if self.fetch_rows is not None:
                self.fetch_rows(self.arguments)
            self.dirty = False

    def release(self, group: ExecutorGroup) -> None:
        """Let go of values that the device has, too; ``sync`` fetches them again.

        Of several devices it would fetch the mean, so that they are kept.
        """
        if len(group.execs) == 1:
            self.arguments, self.auxiliary, self.dirty = {}, {}, True

    def _allocate(self, group: ExecutorGroup) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        attributes = group.spec.symbol.attr_dict()
        arguments = zip(group.spec.param_names, group.param_arrays, strict=True)
        auxiliary = zip(group.spec.auxiliary, group.aux_arrays, strict=True)
        return (
            {
                name: zeros(one[0].shape, dtype=one[0].dtype, stype=storage_type(attributes, name))
                for name, one in arguments
            },
            {name: zeros(one[0].shape, dtype=one[0].dtype) for name, one in auxiliary},
        )


def _copy_common(source: Params, target: Params) -> None:
    for name in source.keys() & target.keys():
        if source[name].shape == target[name].shape:
            source[name].copyto(target[name])
