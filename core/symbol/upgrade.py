"""Upgrades of symbol JSON written by older MXNet versions, and aliases of operator names."""

from __future__ import annotations

from collections.abc import Mapping

from ..graph.nodes import Entry, Node, joined_name
from ..ops import get_operator, has_operator
from ..ops.attributes import attribute_fields
from .compose import set_initializers
from .hidden_keys import HIDDEN_KEYS, split_hidden_suffix

__all__ = ["canonical_operator", "upgrade_attributes", "upgrade_inputs"]

_STORES_AUXILIARY_STATES = 900
"""Older files leave the auxiliary states out."""

_STORES_INITIALIZERS = 904
"""Older files do not say how auxiliary states start."""

_AXIS_MAY_BE_NEGATIVE = 905
"""In older files ``axis=-1`` of argmax and argmin means no axis."""


def canonical_operator(name: str) -> str:
    """Return the canonical name of an operator; ``MultiBoxPrior`` is ``_contrib_MultiBoxPrior``."""
    if not has_operator(name) and has_operator(f"_contrib_{name}"):
        name = f"_contrib_{name}"
    return get_operator(name).names[0] if has_operator(name) else name


def upgrade_attributes(
    operator: str | None, attrs: Mapping[str, str], version: int
) -> tuple[dict[str, str], dict[str, str]]:
    """Upgrade the attributes of a node to those of MXNet 1.9.1.

    Returns:
        the attributes of the node, and those meant for one of its inputs (``weight_lr_mult``).
    """
    own, for_inputs = {}, {}
    for key, value in attrs.items():
        if key in HIDDEN_KEYS:
            own[f"__{key}__"] = value
        elif operator is not None and split_hidden_suffix(key):
            for_inputs[key] = value
        else:
            own[key] = value
    # MXNet 1.9.1 refuses this switch between implementations, on which no result depends.
    if operator is not None and "mkldnn_off" not in attribute_fields(get_operator(operator)):
        own.pop("mkldnn_off", None)
    if (
        version < _AXIS_MAY_BE_NEGATIVE
        and operator in ("argmax", "argmin")
        and own.get("axis") == "-1"
    ):
        del own["axis"]
    return own, for_inputs


def upgrade_inputs(node: Node, for_inputs: Mapping[str, str], version: int) -> dict[str, str]:
    """Add variables that old files left out, and move attributes to the variables they are for.

    Returns:
        those of ``for_inputs`` that no input of the node answers to.
    """
    assert node.op is not None
    names = node.op.input_names()
    if version < _STORES_AUXILIARY_STATES:
        for name in names[len(node.inputs) :]:
            # As when they are composed, they inherit all attributes of the operator.
            variable = Node(None, joined_name(node.name, name), dict(node.attrs))
            node.inputs.append(Entry(variable, 0))
            node.versions.append(0)
    if version < _STORES_INITIALIZERS:
        set_initializers(node)
    sources = dict(zip(names, (source for source, _ in node.inputs), strict=False))
    left = {}
    for key, value in for_inputs.items():
        argument, hidden = split_hidden_suffix(key) or ("", "")
        if argument in sources and sources[argument].is_variable:
            sources[argument].attrs[f"__{hidden}__"] = value
        else:
            left[key] = value
    return left
