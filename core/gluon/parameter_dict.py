"""Parameters by name (``mx.gluon.ParameterDict``)."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any

import numpy as np

from ..device import Context
from ..errors import UsageError, did_you_mean
from ..initializer import Initializer, Uniform
from ..ndarray import NDArray
from ..ndarray import load as load_arrays
from ..ndarray import save as save_arrays
from .base_parameter import Parameter
from .constant import Constant

__all__ = ["ParameterDict"]


class ParameterDict:
    """The parameters of a block, in the order of their creation.

    Args:
        prefix: prepended to the names passed to ``get``.
        shared: further parameters that ``get`` finds.
    """

    def __init__(self, prefix: str = "", shared: ParameterDict | None = None) -> None:
        self._prefix = prefix
        self._params: dict[str, Parameter] = {}
        self._shared = shared

    def __repr__(self) -> str:
        lines = "\n".join(f"  {param!r}" for param in self.values())
        return f"{self._prefix + ' ' if self._prefix else ''}(\n{lines}\n)"

    def __getitem__(self, key: str) -> Parameter:
        return self._params[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def __contains__(self, key: str) -> bool:
        return key in self._params

    def items(self) -> ItemsView[str, Parameter]:
        """Names and parameters."""
        return self._params.items()

    def keys(self) -> KeysView[str]:
        """Names."""
        return self._params.keys()

    def values(self) -> ValuesView[Parameter]:
        """Parameters."""
        return self._params.values()

    @property
    def prefix(self) -> str:
        """The prefix prepended to the names passed to ``get``."""
        return self._prefix

    def get(self, name: str, **kwargs: Any) -> Parameter:
        """Return the parameter of this name, or create it with ``kwargs``.

        Raises:
            UsageError: it exists and its attributes contradict ``kwargs``.
        """
        name = self._prefix + name
        param = self._find(name)
        if param is None:
            param = self._params[name] = Parameter(name, **kwargs)
            return param
        for attribute, value in kwargs.items():
            _reconcile(param, attribute, value)
        return param

    def get_constant(self, name: str, value: Any = None) -> Parameter:
        """Return the constant of this name, or create it with a value.

        Raises:
            KeyError: it does not exist, and there is no value.
            UsageError: the parameter is not a constant, or has another value.
        """
        name = self._prefix + name
        param = self._find(name)
        if param is None:
            if value is None:
                raise KeyError(
                    f"No constant named '{name}'. Please specify value if you want to create a "
                    "new constant."
                )
            param = self._params[name] = Constant(name, value)
        elif value is not None:
            if not isinstance(param, Constant):
                raise UsageError(f"Parameter '{name}' already exists but it is not a constant.")
            param.check_value(value)
        return param

    def rename(self, start: str, new_start: str) -> None:
        """Replace the prefix ``start`` of names."""
        renamed = {}
        for name, param in self._params.items():
            if name.startswith(start):
                name = new_start + name.removeprefix(start)
                param.name = name
            renamed[name] = param
        self._params = renamed

    def update(self, other: ParameterDict | Mapping[str, Parameter]) -> None:
        """Add the parameters of another dict.

        Raises:
            UsageError: both have different parameters of the same name.
        """
        for name, param in other.items():
            if self._params.get(name, param) is not param:
                raise UsageError(
                    "Cannot update self with other because they have different Parameters with "
                    f"the same name '{name}'"
                )
        self._params.update(other.items())

    def initialize(
        self,
        init: Any = Uniform(),  # noqa: B008 - MXNet's default, never changed
        ctx: Context | Sequence[Context] | None = None,
        verbose: bool = False,
        force_reinit: bool = False,
    ) -> None:
        """Initialize all parameters; ``verbose`` logs each of them."""
        if verbose and isinstance(init, Initializer):
            init.set_verbosity(verbose=verbose)
        for param in self.values():
            param.initialize(None, ctx, init, force_reinit=force_reinit)

    def zero_grad(self) -> None:
        """Set all gradients to zero."""
        for param in self.values():
            param.zero_grad()

    def reset_ctx(self, ctx: Context | Sequence[Context] | None) -> None:
        """Move all parameters to other devices."""
        for param in self.values():
            param.reset_ctx(ctx)

    def list_ctx(self) -> list[Context]:
        """Return the devices of all parameters."""
        return list({context: None for param in self.values() for context in param.list_ctx()})

    def setattr(self, name: str, value: Any) -> None:
        """Set an attribute of all parameters, as ``setattr("grad_req", "null")``."""
        for param in self.values():
            setattr(param, name, value)

    def save(self, filename: str, strip_prefix: str = "") -> None:
        """Write all values to a ``.params`` file, with a prefix stripped off their names.

        Raises:
            ValueError: a name does not start with the prefix.
        """
        values = {}
        for param in self.values():
            if not param.name.startswith(strip_prefix):
                raise ValueError(
                    f"Prefix '{strip_prefix}' is to be stripped before saving, but Parameter's "
                    f"name '{param.name}' does not start with it; the block may share parameters "
                    "of other blocks"
                )
            values[param.name[len(strip_prefix) :]] = param._reduce()
        save_arrays(filename, values)

    def load(
        self,
        filename: str,
        ctx: Context | Sequence[Context] | None = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Read values from a ``.params`` file; prefixes ``arg:`` and ``aux:`` of its names are
        dropped.

        Args:
            filename: the file.
            ctx: devices for parameters that have none yet.
            allow_missing: do not change parameters that the file lacks.
            ignore_extra: skip names without a parameter.
            restore_prefix: prepended to the file's names.
            cast_dtype: accept dtypes other than the parameters'.
            dtype_source: which dtype to keep in that case: ``"current"`` or ``"saved"``.

        Raises:
            UsageError: names are missing or extra, or shape, dtype or device differ.
        """
        loaded = load_arrays(filename)
        if not isinstance(loaded, Mapping):
            raise UsageError(f"{filename}: its arrays have no names")
        self.load_dict(
            loaded,
            ctx,
            allow_missing,
            ignore_extra,
            restore_prefix,
            filename,
            cast_dtype,
            dtype_source,
        )

    def load_dict(
        self,
        param_dict: Mapping[str, NDArray],
        ctx: Context | Sequence[Context] | None = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        filename: str | None = None,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Set values by name; see ``load``."""
        source = f"file: {filename}" if filename else "param_dict"
        values = {
            restore_prefix + (name[4:] if name.startswith(("arg:", "aux:")) else name): array
            for name, array in param_dict.items()
        }
        for name in self.keys() - values.keys():
            if not allow_missing:
                raise UsageError(
                    f"Parameter '{name}' is missing in {source}{did_you_mean(name, values)}; "
                    "allow_missing=True leaves it as it is"
                )
        for name, array in values.items():
            if name in self._params:
                self._params[name]._load_init(array, ctx, cast_dtype, dtype_source)
            elif not ignore_extra:
                raise UsageError(
                    f"Parameter '{name}' loaded from {source} is not present in ParameterDict"
                    f"{did_you_mean(name, self._params)}; ignore_extra=True skips it"
                )

    def _find(self, name: str) -> Parameter | None:
        if name not in self._params and self._shared is not None and name in self._shared:
            self._params[name] = self._shared[name]
        return self._params.get(name)


def _reconcile(param: Parameter, attribute: str, value: Any) -> None:
    """Complete an attribute of a parameter; raise UsageError if the two contradict each other."""
    existing = getattr(param, attribute, None)
    if existing is None:
        setattr(param, attribute, value)
        return
    if attribute == "shape" and value is not None and len(value) == len(existing):
        pairs = list(zip(value, existing, strict=True))
        if all(a == b or a <= 0 or b <= 0 for a, b in pairs):
            param._shape = tuple(b if a <= 0 else a for a, b in pairs)
            return
    if attribute == "dtype" and value is not None and np.dtype(value) == np.dtype(existing):
        return
    if value is not None and value != existing:
        raise UsageError(
            f"Cannot retrieve Parameter '{param.name}' because desired attribute does not match "
            f"with stored for attribute '{attribute}': desired '{value}' vs stored '{existing}'."
        )
