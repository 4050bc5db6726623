"""The part of a symbol that computes some of its outputs, in MXNet's JSON.

It is taken before the engine reads the symbol, so the rest may have operators that nobody has here,
such as the ``Custom`` ones of a head that is only for training.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.errors.tree import Damaged, Invalid

__all__ = ["keep_outputs"]

_OUTPUT = re.compile(r"(.+)_output([0-9]*)", re.DOTALL)
_MOST_NAMED = 5

Json = dict[str, Any]


def keep_outputs(symbol: Mapping[str, Any], outputs: Sequence[str], field: str) -> Json:
    """Return the part of a symbol that computes some outputs of its operators.

    Args:
        symbol: as MXNet saves it, parsed.
        outputs: each ``fc_output``, ``split_output1`` or, for its first output, an operator's name.
        field: of the symbol, for errors.

    Raises:
        Invalid: there is no such operator.
        Damaged: it is not a symbol.
    """
    try:
        return _kept(symbol, outputs)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        fault = f"not a graph ({type(error).__name__}: {error})"
        raise Damaged(field, fault, "a symbol in MXNet's JSON") from None


def _kept(symbol: Mapping[str, Any], outputs: Sequence[str]) -> Json:
    nodes: list[Json] = symbol["nodes"]
    ids = {node["name"]: index for index, node in enumerate(nodes) if node["op"] != "null"}
    heads = [_head(ids, f"outputs[{index}]", output) for index, output in enumerate(outputs)]
    needed: set[int] = set()
    waiting = [head[0] for head in heads]
    while waiting:
        index = waiting.pop()
        if index not in needed:
            needed.add(index)
            waiting += _sources(nodes[index])
    new = {old: number for number, old in enumerate(sorted(needed))}
    kept = [_renumbered(nodes[old], new) for old in new]
    return {
        **{key: value for key, value in symbol.items() if key != "node_row_ptr"},
        "nodes": kept,
        "arg_nodes": [index for index, node in enumerate(kept) if node["op"] == "null"],
        "heads": [[new[index], *rest] for index, *rest in heads],
    }


def _head(ids: Mapping[str, int], field: str, output: str) -> list[int]:
    """Return the entry of an output of an operator."""
    if output in ids:
        return [ids[output], 0, 0]
    found = _OUTPUT.fullmatch(output)
    if found is not None and found[1] in ids:
        return [ids[found[1]], int(found[2] or 0), 0]
    near = difflib.get_close_matches(output, ids, n=_MOST_NAMED, cutoff=0.5)
    named = ", ".join(f"{name}_output" for name in near or list(ids)[-_MOST_NAMED:])
    raise Invalid(field, output, f"an output of an operator of the symbol, as {named}")


def _sources(node: Json) -> list[int]:
    return [entry[0] for entry in node["inputs"]] + list(node.get("control_deps", ()))


def _renumbered(node: Json, new: Mapping[int, int]) -> Json:
    changed = {**node, "inputs": [[new[index], *rest] for index, *rest in node["inputs"]]}
    if "control_deps" in node:
        changed["control_deps"] = [new[index] for index in node["control_deps"]]
    if "backward_source_id" in node:
        changed["backward_source_id"] = new.get(node["backward_source_id"], -1)
    return changed
