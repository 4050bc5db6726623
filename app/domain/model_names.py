"""What the names of a model's files say: which is the symbol, which are parameters of which epoch.

MXNet writes ``net-symbol.json`` with ``net-0010.params``. Other tools and people write
``symbol.json`` with ``params``, or ``net.json`` with ``net.params``, and browsers add `` (1)`` to a
file that is there already.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

__all__ = [
    "PARAMS_ALONE",
    "ParamsName",
    "archive_stem",
    "is_symbol_name",
    "params_among",
    "parse_params_name",
    "stored_name",
    "symbols_among",
    "symbols_beside",
    "usual_params",
]

PARAMS_ALONE = (
    "parameters alone do not say what to compute: 'modserve zoo FILE' writes both files of a net "
    "of gluon's model zoo; build any other by its own code (modserve run), then "
    "net.load_parameters(FILE), net.hybridize(), net(an example), net.export('net'); see "
    "'Parameters without a symbol' in the guide to your own model"
)
"""How to go on with a parameter file that has no symbol."""

_COPY = re.compile(r" ?\([0-9]{1,3}\)(?=\.[a-z]+$|$)")
"""The mark of a browser, a file manager or a mail program on a second file of a name."""
_SYMBOL = re.compile(r"(?:(.+)-)?symbol\.json", re.DOTALL)
_PARAMS = re.compile(r"(.+?)(?:-([0-9]{4,9}))?\.(?:params|states)", re.DOTALL)
_ARCHIVE_SUFFIXES = (".mar", ".model", ".tar.gz", ".tgz")
_ENDINGS = {"symbol": "-symbol.json", "params": ".params", "states": ".states"}
_SUFFIXES = {"symbol": ".json", "params": ".params", "states": ".states"}
_ALLOWED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_PREFIX = 100
_UNNAMED = "model"


class ParamsName(NamedTuple):
    """What the name of a parameter file says.

    Attributes:
        prefix: it is shared with the symbol; empty if the file is just called ``params``.
        epoch: None if the name has none.
    """

    prefix: str
    epoch: int | None


def archive_stem(name: str) -> str | None:
    """Return the name of an archive of a model without its suffix; None for another file."""
    suffix = next((one for one in _ARCHIVE_SUFFIXES if name.endswith(one)), None)
    return None if suffix is None else name.removesuffix(suffix)


def is_symbol_name(name: str) -> bool:
    """Return whether a file is a symbol by its name alone."""
    return _SYMBOL.fullmatch(_COPY.sub("", name)) is not None


def parse_params_name(name: str) -> ParamsName | None:
    """Return what the name of a parameter file says; None for another file."""
    name = _COPY.sub("", name)
    if name == "params":
        return ParamsName("", None)
    found = _PARAMS.fullmatch(name)
    if found is None or name.endswith(".states"):
        return None
    return ParamsName(found[1], None if found[2] is None else int(found[2]))


def symbols_among(names: Collection[str]) -> list[str]:
    """Return the files that are symbols: by their own names or, if none is, ``net.json`` beside
    ``net.params``."""
    named = sorted(name for name in names if is_symbol_name(name))
    if named:
        return named
    prefixes = {found.prefix for name in names if (found := parse_params_name(name))}
    return sorted(name for name in names if name.endswith(".json") and _prefix(name) in prefixes)


def params_among(names: Collection[str], symbol: str) -> dict[int, str]:
    """Return the parameter files that go with a symbol, by epoch; 0 for a name without one.

    Files of another prefix go with it only if one of the two has none.
    """
    prefix = _prefix(symbol)
    parsed = {name: found for name in sorted(names) if (found := parse_params_name(name))}
    fitting = [name for name, one in parsed.items() if one.prefix == prefix]
    if not fitting:
        fitting = [name for name, one in parsed.items() if not (prefix and one.prefix)]
        if len({parsed[name].prefix for name in fitting}) > 1:
            return {}
    # A name with the epoch 0 takes precedence over one without.
    fitting.sort(key=lambda name: parsed[name].epoch is not None)
    return {parsed[name].epoch or 0: name for name in fitting}


def symbols_beside(names: Collection[str], params: str) -> list[str]:
    """Return the symbols with which a parameter file goes."""
    return [one for one in symbols_among(names) if params in params_among(names, one).values()]


def usual_params(symbol: str) -> str:
    """Return what a parameter file of a symbol is usually called."""
    return f"{_prefix(symbol) or 'net'}-0001.params"


def stored_name(part: str, name: str) -> str:
    """Return the name under which an uploaded file is stored.

    What the client calls it is a label. It is kept if it is a plain file name with the usual
    suffix; else its letters that are allowed are, with the usual ending.

    Args:
        part: ``symbol``, ``params`` or ``states``.
        name: the file's name at the client, which may contain a path.
    """
    name = _COPY.sub("", name.replace("\\", "/").rpartition("/")[2])
    if _ALLOWED.fullmatch(name) and name.endswith(_SUFFIXES[part]):
        return name
    epoch = None
    if part == "symbol":
        prefix = _prefix(name)
    else:
        found = _PARAMS.fullmatch(name)
        prefix, epoch = (name, None) if found is None else (found[1], found[2])
    prefix = _NOT_ALLOWED.sub("_", prefix).strip("._-")[:_LONGEST_PREFIX] or _UNNAMED
    return f"{prefix}{'' if epoch is None else f'-{epoch}'}{_ENDINGS[part]}"


def _prefix(symbol: str) -> str:
    """Return what a symbol's name shares with the names of its parameters."""
    name = _COPY.sub("", symbol)
    found = _SYMBOL.fullmatch(name)
    return name.removesuffix(".json") if found is None else found[1] or ""
