"""Symbols: ``mx.sym``. Every operator is a function of this module, made when first asked for."""

from __future__ import annotations

from ..ops.namespace import PUBLIC, OperatorNamespace
from . import _internal, contrib, image, linalg, op, random, sparse
from .creation import (
    Group,
    Variable,
    arange,
    eye,
    full,
    histogram,
    hypot,
    linspace,
    maximum,
    minimum,
    ones,
    pow,
    power,
    split_v2,
    var,
    zeros,
)
from .functions import make_function
from .symbol import Symbol, load, load_json

__all__ = [
    "Group",
    "Symbol",
    "Variable",
    "_internal",
    "arange",
    "contrib",
    "eye",
    "fromjson",
    "full",
    "histogram",
    "hypot",
    "image",
    "linalg",
    "linspace",
    "load",
    "load_json",
    "maximum",
    "minimum",
    "ones",
    "op",
    "pow",
    "power",
    "random",
    "sparse",
    "split_v2",
    "var",
    "zeros",
]

fromjson = load_json

_operators = OperatorNamespace(__name__, PUBLIC, make_function)
__getattr__, __dir__ = _operators.get, _operators.names
