"""Modules whose functions are the operators: ``mx.sym``, ``mx.nd.contrib``, ``mx.sym._internal``.

A module becomes a namespace with two lines; functions are created on first access::

    _operators = OperatorNamespace(__name__, "_contrib_", make_function)
    __getattr__, __dir__ = _operators.get, _operators.names
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..errors import did_you_mean
from .operator import Operator
from .registry import get_operator, has_operator, registered_names

__all__ = ["INTERNAL", "NUMPY_PREFIXES", "PREFIXES", "PUBLIC", "MakeFunction", "OperatorNamespace"]

MakeFunction = Callable[[type[Operator], str], Callable[..., Any]]
"""Creates the function of an operator, given the function's name."""

PUBLIC = ""
"""Prefix of the main namespace: names without a leading underscore."""

INTERNAL = "_"
"""Prefix of ``_internal``: names with a leading underscore that are in no other namespace."""

PREFIXES = ("_contrib_", "_linalg_", "_sparse_", "_image_", "_random_")
"""Prefixes that have a namespace of their own, named like them (``mx.sym.contrib``)."""

NUMPY_PREFIXES = ("_np_", "_npx_", "_npi_")
"""Prefixes of MXNet's NumPy interface, which is in none of these namespaces."""


class OperatorNamespace:
    """The operators that one module exports, as functions.

    Args:
        module: name of the module.
        prefix: ``PUBLIC``, ``INTERNAL`` or one of ``PREFIXES``; which names belong where is
            MXNet's rule, so the samplers ``_random_x`` are internal and only
            ``_random_x_like`` is in ``random``.
        make_function: makes the function of an operator.
    """

    def __init__(self, module: str, prefix: str, make_function: MakeFunction) -> None:
        self._module = module
        self._prefix = prefix
        self._make_function = make_function

    def get(self, name: str) -> Any:
        """Return the function called ``name`` (a module's ``__getattr__``)."""
        registered = self._registered_name(name)
        if not has_operator(registered) or _prefix_of(registered) != self._prefix:
            raise AttributeError(
                f"module {self._module!r} has no attribute {name!r}"
                f"{did_you_mean(name, self._operator_names())}"
            )
        function = self._make_function(get_operator(registered), name)
        function.__module__ = self._module
        # From now on Python finds it without asking for it here.
        setattr(sys.modules[self._module], name, function)
        return function

    def names(self) -> list[str]:
        """Return all names in the module (its ``__dir__``)."""
        return sorted({*vars(sys.modules[self._module]), *self._operator_names()})

    def _operator_names(self) -> list[str]:
        cut = len(self._prefix) if self._prefix in PREFIXES else 0
        return [name[cut:] for name in registered_names() if _prefix_of(name) == self._prefix]

    def _registered_name(self, name: str) -> str:
        return self._prefix + name if self._prefix in PREFIXES else name


def _prefix_of(registered: str) -> str | None:
    if registered.startswith(NUMPY_PREFIXES):
        return None
    for prefix in PREFIXES:
        if registered.startswith(prefix):
            sampler = prefix == "_random_" and not registered.endswith("_like")
            return INTERNAL if sampler else prefix
    return INTERNAL if registered.startswith("_") else PUBLIC
