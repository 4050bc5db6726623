"""Attributes that belong to the graph but are written without underscores: ``lr_mult``.

They are stored as ``__lr_mult__`` and shown under both names.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import GraphError

__all__ = ["HIDDEN_KEYS", "hide_key", "split_hidden_suffix", "with_visible_keys"]

HIDDEN_KEYS = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")


def hide_key(key: str, value: str) -> str:
    """Return the name under which an attribute is stored.

    Raises:
        GraphError: the old form ``weight_lr_mult``, for an attribute of an input.
    """
    if key in HIDDEN_KEYS:
        return f"__{key}__"
    old = split_hidden_suffix(key)
    if old is not None:
        argument, hidden = old
        raise GraphError(
            f"setting variable attributes with {key} is deprecated; instead use "
            f"{argument or 'w'} = Variable(..., {hidden}={value}) and pass {argument or 'w'} in"
        )
    return key


def split_hidden_suffix(key: str) -> tuple[str, str] | None:
    """Split ``weight_lr_mult`` into ``("weight", "lr_mult")``; None for any other key."""
    for hidden in HIDDEN_KEYS:
        if key.endswith(hidden) and key != hidden:
            return key[: -len(hidden)].rstrip("_"), hidden
    return None


def with_visible_keys(attrs: Mapping[str, str]) -> dict[str, str]:
    """Return attributes with those hidden under their plain names as well."""
    shown = {key: attrs[f"__{key}__"] for key in HIDDEN_KEYS if f"__{key}__" in attrs}
    return {**attrs, **shown}
