"""Blocks: callables on arrays, with named parameters and child blocks (``mx.gluon.Block``)."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from ..compat.block_names import BlockNames
from ..device import Context
from ..errors import UsageError
from ..initializer import Uniform
from ..name import NameManager, Prefix
from ..ndarray import load as load_arrays
from ..ndarray import save as save_arrays
from .base_parameter import Parameter
from .hooks import Hook, HookHandle
from .model_file import description_file, parameters_file, read_description, write_description
from .parameter_dict import ParameterDict
from .summary import summarize

__all__ = ["Block"]


class Block(BlockNames):
    """Base of layers and networks written in Python.

    A subclass creates children and parameters in ``__init__`` (within ``self.name_scope()``, which
    prefixes their names with that of this block) and computes in ``forward``.

    Args:
        prefix: prefix of the parameters' names; None derives it from the class name.
        params: parameters to share.
    """

    _is_chain: ClassVar[bool] = False
    """Whether the block only runs its children; a summary omits such blocks."""

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        self._children: dict[str, Block] = {}
        self._forward_hooks: dict[int, Hook] = {}
        self._forward_pre_hooks: dict[int, Hook] = {}
        self._reg_params: dict[str, Parameter] = {}
        self._empty_prefix = prefix == ""
        self._prefix, self._params = _named(prefix, params, self._alias())
        self._name = self._prefix.removesuffix("_")
        self._name_counts: dict[str, int] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        """Register blocks and parameters under the attribute's name.

        Raises:
            TypeError: the attribute is a block or parameter, and the value is of another type.
            UsageError: the attribute is a parameter already.
        """
        existing = getattr(self, name, None)
        if isinstance(existing, (Block, Parameter)) and not isinstance(value, type(existing)):
            raise TypeError(
                f"Changing attribute type for {name} from {type(existing)} to {type(value)} is not "
                "allowed."
            )
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            if self._reg_params.get(name, value) is not value:
                raise UsageError(
                    f"Overriding Parameter attribute {name} is not allowed. If you want to share "
                    "parameters between blocks, pass params= when making the block"
                )
            self._reg_params[name] = value
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        lines = [
            f"  ({key}): " + repr(child).replace("\n", "\n  ")
            for key, child in self._children.items()
        ]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])

    @property
    def prefix(self) -> str:
        """Prefix of the parameters' names."""
        return self._prefix

    @property
    def name(self) -> str:
        """The prefix without its trailing underscore."""
        return self._name

    @property
    def params(self) -> ParameterDict:
        """The block's own parameters, without those of its children."""
        return self._params

    @contextmanager
    def name_scope(self) -> Iterator[Block]:
        """Prefix the names of blocks created within with this block's prefix."""
        if self._empty_prefix:
            yield self
            return
        _scopes.blocks.append(self)
        try:
            with Prefix(self._prefix):
                yield self
        finally:
            _scopes.blocks.pop()

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Add a child, whose parameters then also belong to this block."""
        self._children[str(len(self._children)) if name is None else name] = block

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """Return the parameters of this block and all children.

        Args:
            select: a regular expression to be matched by the names.
        """
        self._warn_of_containers()
        found = ParameterDict(self._params.prefix)
        pattern = re.compile(select or "")
        found.update({name: one for name, one in self._params.items() if pattern.match(name)})
        for child in self._children.values():
            found.update(child.collect_params(select))
        return found

    def initialize(
        self,
        init: Any = Uniform(),  # noqa: B008 - MXNet's default, never changed
        ctx: Context | Sequence[Context] | None = None,
        verbose: bool = False,
        force_reinit: bool = False,
    ) -> None:
        """Initialize the parameters of this block and all children."""
        self.collect_params().initialize(init, ctx, verbose, force_reinit)

    def reset_ctx(self, ctx: Context | Sequence[Context]) -> None:
        """Move the parameters to other devices."""
        self.collect_params().reset_ctx(ctx)

    def zero_grad(self) -> None:
        """Set all gradients to zero."""
        self.collect_params().zero_grad()

    def cast(self, dtype: Any) -> None:
        """Change the dtype of all parameters."""
        for child in self._children.values():
            child.cast(dtype)
        for param in self._params.values():
            param.cast(dtype)

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Compile all children that can be compiled; see ``HybridBlock``."""
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    def apply(self, fn: Any) -> Block:
        """Call a function with every block, children first; return this block."""
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    def save_parameters(self, filename: str, deduplicate: bool = False) -> None:
        """Write the parameters under names by their position in the tree: ``0.weight``,
        ``body.1.bias``.

        Args:
            filename: the file.
            deduplicate: write a parameter shared by several blocks only once.
        """
        params = self._collect_params_with_prefix()
        if deduplicate:
            # Backwards, so that the first place of a shared parameter is the one that stays.
            first = {id(param): place for place, param in reversed(params.items())}
            params = {place: one for place, one in params.items() if first[id(one)] == place}
        save_arrays(filename, {place: param._reduce() for place, param in params.items()})

    def load_parameters(
        self,
        filename: str,
        ctx: Context | Sequence[Context] | None = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Read parameters written by ``save_parameters`` or ``collect_params().save``.

        Arguments and errors are as for ``ParameterDict.load``.
        """
        loaded = load_arrays(filename)
        places = ParameterDict()
        places.update(self._collect_params_with_prefix())
        if not loaded and not places:
            return
        if not isinstance(loaded, Mapping):
            raise UsageError(f"{filename}: its arrays have no names")
        # collect_params().save writes full names, such as dense0_weight, in which no dots occur. A
        # layer saved alone has none in its places either.
        if not any("." in name for name in loaded) and not places.keys() & loaded.keys():
            self.collect_params().load_dict(
                loaded,
                ctx,
                allow_missing,
                ignore_extra,
                self.prefix,
                filename,
                cast_dtype,
                dtype_source,
            )
            return
        places.load_dict(
            loaded,
            ctx,
            allow_missing or self._are_shared(loaded, places),
            ignore_extra,
            "",
            filename,
            cast_dtype,
            dtype_source,
        )

    def save(self, prefix: str) -> None:
        """Write ``prefix-model.json``, which describes the blocks, and ``prefix-model.params``.

        The description includes the graphs of compiled blocks.
        """
        write_description(description_file(prefix), self)
        self.save_parameters(parameters_file(prefix))

    def load(self, prefix: str) -> None:
        """Restore what ``save`` has written, including names and compiled graphs.

        The block must consist of the same classes, created in the same order, as the saved one.

        Raises:
            FormatError: it does not. MXNetError: a file cannot be read.
        """
        read_description(description_file(prefix), self)
        self.load_parameters(parameters_file(prefix))

    def register_forward_hook(self, hook: Hook) -> HookHandle:
        """Call ``hook(block, inputs, outputs)`` after each ``forward``; see ``HookHandle``."""
        handle = HookHandle()
        handle.attach(self._forward_hooks, hook)
        return handle

    def register_forward_pre_hook(self, hook: Hook) -> HookHandle:
        """Call ``hook(block, inputs)`` before each ``forward``; see ``HookHandle``."""
        handle = HookHandle()
        handle.attach(self._forward_pre_hooks, hook)
        return handle

    def register_op_hook(self, callback: Any, monitor_all: bool = False) -> None:
        """Pass the outputs of operators in compiled children to a function; see ``HybridBlock``."""
        for child in self._children.values():
            child.register_op_hook(callback, monitor_all)

    def summary(self, *inputs: Any) -> None:
        """Run the block on these inputs and print a table of layers, their outputs and parameters.

        Raises:
            UsageError: a block has been hybridized.
        """
        print(summarize(self, inputs))

    def __call__(self, *args: Any) -> Any:
        """Call ``forward``, with the hooks before and after it."""
        for hook in tuple(self._forward_pre_hooks.values()):
            hook(self, args)
        outputs = self.forward(*args)
        for hook in tuple(self._forward_hooks.values()):
            hook(self, args, outputs)
        return outputs

    def forward(self, *args: Any) -> Any:
        """Compute the outputs for arrays."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def _warn_of_containers(self) -> None:
        """Warn of lists and dicts of blocks, because the parameters of these would not be found."""
        children = set(self._children.values())
        for name, value in vars(self).items():
            if name not in ("_children", "_compiled") and _has_stranger(value, children):
                warnings.warn(
                    f'"{type(self).__name__}.{name}" is an unregistered container with Blocks. '
                    "Blocks inside a list, tuple or dict are not registered automatically: use "
                    "register_child(), or nn.Sequential or nn.HybridSequential instead.",
                    stacklevel=3,
                )

    def _alias(self) -> str:
        """Return the base of generated names for this class."""
        return type(self).__name__.lower()

    def _rename(self, name: str) -> None:
        """Change the prefix, also in the names of the block's own parameters."""
        start = f"{self._name}_"
        self._name = name
        self._params.rename(start, f"{name}_")

    def _describe_graph(self) -> dict[str, Any]:
        """Return the description of the compiled graph for ``save``."""
        return {}

    def _restore_graph(self, record: Mapping[str, Any]) -> None:
        """Restore the compiled graph that ``save`` has written."""

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """Return the parameters by their names in files of ``save_parameters``.

        The name is MXNet's: public code calls and overrides this method.
        """
        start = f"{prefix}." if prefix else ""
        places = {start + name: param for name, param in self._reg_params.items()}
        for name, child in self._children.items():
            places.update(child._collect_params_with_prefix(start + name))
        return places

    @staticmethod
    def _are_shared(loaded: Mapping[str, Any], places: ParameterDict) -> bool:
        """Return whether every parameter missing in a file is present under the name of a block
        that shares it."""
        present = {id(param) for place, param in places.items() if place in loaded}
        return all(id(param) in present for param in places.values())


def _has_stranger(value: Any, known: set[Block]) -> bool:
    """Return whether a container holds, at any depth, a block that is not registered."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return any(
            one not in known if isinstance(one, Block) else _has_stranger(one, known)
            for one in value
        )
    return False


class _Scopes(threading.local):
    """The blocks whose ``name_scope`` this thread has entered, innermost last."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []


_scopes = _Scopes()


def _named(
    prefix: str | None, params: ParameterDict | None, hint: str
) -> tuple[str, ParameterDict]:
    """Return the prefix and the parameters for a new block."""
    if not _scopes.blocks:
        if prefix is None:
            prefix = NameManager.active().get(None, hint) + "_"
        own = ParameterDict(prefix) if params is None else ParameterDict(params.prefix, params)
        return prefix, own
    outer = _scopes.blocks[-1]
    if prefix is None:
        count = outer._name_counts.get(hint, 0)
        outer._name_counts[hint] = count + 1
        prefix = f"{hint}{count}_"
    if params is None:
        own = ParameterDict(outer.params.prefix + prefix, outer.params._shared)
    else:
        own = ParameterDict(params.prefix, params)
    return outer.prefix + prefix, own
