"""Modules that scripts import from MXNet's top level, such as ``mxnet.log``."""

from __future__ import annotations

import sys

from .. import random as generators
from ..ndarray import random as operators
from . import engine, executor_manager, library, log, misc, symbol_doc, test_utils, util

__all__ = ["install"]


def install(package: str) -> None:
    """Make the modules importable from a package's top level, too."""
    for module in (engine, executor_manager, library, log, misc, symbol_doc, test_utils, util):
        name = module.__name__.rpartition(".")[2]
        sys.modules[f"{package}.{name}"] = module
    # ``mxnet.random`` also has the operators that draw numbers.
    for name in operators.__all__:
        if not hasattr(generators, name):
            setattr(generators, name, getattr(operators, name))
