"""Every operator called without inputs in MXNet: names, hidden outputs, new variables."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

from oracle.topics.signatures import MODULES, parameters

__all__ = ["describe", "write_files"]

_NOT_MADE = re.compile(
    "_backward|_update|CachedOp|_NDArray|_Native|_cond|_foreach|_while_loop|reset_arr|_sg_|_FusedOp|tvm|^dgl_"
)
"""Operators that no symbol is made of in this way; MXNet crashes on some."""

_REQUIRED = re.compile(r"^(\w+) : (.*), required$", re.MULTILINE)


def describe(mx: Any, function: Any, attributes: dict[str, str]) -> dict[str, Any]:
    """Call an operator with attributes alone and return a description that survives JSON.

    Operators with any number of inputs get two.
    """
    variadic = parameters(function) == ["*data"]
    inputs = [mx.sym.Variable(name) for name in ("a", "b")] if variadic else []
    symbol = function(*inputs, name="node", **attributes)
    graph = json.loads(symbol.tojson(remove_amp_cast=False))
    facts = {
        "arguments": symbol.list_arguments(),
        "auxiliary_states": symbol.list_auxiliary_states(),
        "outputs": symbol.list_outputs(),
        "attributes": symbol.attr_dict(),
        "operator": graph["nodes"][-1]["op"],
        "all_outputs": graph["node_row_ptr"][-1] - graph["node_row_ptr"][-2],
    }
    return dict(json.loads(json.dumps(facts)))


def required_attributes(function: Any) -> dict[str, str]:
    """Return values for the required attributes of an MXNet operator."""
    found = _REQUIRED.findall(function.__doc__ or "")
    values = {name: _value(kind) for name, kind in found if name != "num_args"}
    return {**values, "high": "5"} if "high" in values else values


def write_files(mx: Any, folder: Path) -> None:
    """Write one JSON file per module; operators that need more than attributes are left out."""
    for name in MODULES:
        facts = {}
        for key, function in vars(getattr(mx.sym, name)).items():
            if not inspect.isfunction(function) or _NOT_MADE.search(key):
                continue
            attributes = required_attributes(function)
            try:
                facts[key] = {"given": attributes, **describe(mx, function, attributes)}
            except (mx.base.MXNetError, TypeError):
                continue
        lines = [
            f"{json.dumps(key)}: {json.dumps(facts[key], sort_keys=True)}" for key in sorted(facts)
        ]
        (folder / f"{name}.json").write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


def _value(kind: str) -> str:
    if kind.startswith("{"):
        return kind[1:].split("}")[0].split(",")[-1].strip("' ")
    for word, value in (("Shape", "(1, 1)"), ("tuple", "(1,)"), ("boolean", "False")):
        if word in kind:
            return value
    return "3" if "int" in kind or "long" in kind else "1.0" if "float" in kind else "x"
