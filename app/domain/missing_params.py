"""Why a file lacks the parameters of a symbol, by the names of both."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["why_missing"]

_STATISTICS = ("_moving_mean", "_moving_var", "_running_mean", "_running_var")
_OTHER_ENDINGS = {
    "_moving_mean": "_running_mean",
    "_moving_var": "_running_var",
    "_running_mean": "_moving_mean",
    "_running_var": "_moving_var",
}
_BY_STRUCTURE = re.compile(r"(?:[A-Za-z_]\w*\.)*(?:\d+|[A-Za-z_]\w*)\.[A-Za-z_]\w*")


def why_missing(missing: Sequence[str], extra: Sequence[str]) -> str:
    """Return what probably happened to missing parameters, and what to do.

    Args:
        missing: names that the symbol has and the file lacks.
        extra: names that the file has and the symbol does not.
    """
    others = set(extra)
    renamed = [name for name in missing if _otherwise(name) in others]
    if renamed:
        name = renamed[0]
        return (
            f"the file has {_otherwise(name)!r} where the symbol has {name!r}"
            f"{_and_more(len(renamed) - 1)}: rename the arrays in the file, or save the symbol "
            "and the parameters from the same net"
        )
    if extra and all(map(_BY_STRUCTURE.fullmatch, extra)):
        return (
            f"the file has names like {extra[0]!r}, so gluon's save_parameters wrote it: load it "
            "by net.load_parameters in the net's own code, and upload what net.export writes"
        )
    if all(name.endswith(_STATISTICS) for name in missing):
        return (
            "they are the moving statistics of batch norms, which are auxiliary states: save the "
            "net again with mod.save_checkpoint or net.export, which write them too"
        )
    hint = "name it in data_names, label_names or state_names if it is an input"
    if extra:
        hint += f"; the file has others, as {extra[0]}, so it may be of another net"
    return hint


def _otherwise(name: str) -> str | None:
    """Return what the other of MXNet's two interfaces calls a statistic of a batch norm."""
    ending = next((one for one in _STATISTICS if name.endswith(one)), None)
    return None if ending is None else name.removesuffix(ending) + _OTHER_ENDINGS[ending]


def _and_more(count: int) -> str:
    return f", and {count} more so" if count > 0 else ""
