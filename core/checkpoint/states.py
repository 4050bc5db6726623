"""``.states`` files: optimizer states as MXNet pickles them.

The object is a dict from parameter index or name to a state (None, an NDArray, or a tuple of
states), or, from a Trainer, a pair of that dict and the optimizer itself.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
from typing import Any

from ..errors import FormatError
from ..ndarray import NDArray
from ..ndarray.stored import StoredArray, encode_array
from .known_names import name_of
from .unpickle import unpickle

__all__ = ["copy_states", "read_states", "write_states"]

PROTOCOL = 4
"""The default of Python 3.8 and later, and thus the protocol of files that MXNet writes there."""

_NOTHING = (None,)
"""The arguments in MXNet's ``NDArray.__reduce__``. As there, they are one object for all arrays:
the pickler writes it once and then refers to it, which makes the files equal byte for byte."""


def read_states(data: bytes) -> Any:
    """Return the object in a ``.states`` file.

    Nothing in the file is executed. Arrays are restored on their device if it was host memory,
    otherwise on ``cpu(0)``.

    Raises:
        FormatError: the file is damaged, or uses names other than those of optimizer states.
    """
    return unpickle(bytes(data))


def write_states(states: Any) -> bytes:
    """Return the bytes of a ``.states`` file, the same that MXNet 1.9.1 writes on Python 3.8+.

    Raises:
        FormatError: the object contains something that MXNet's reader or ours could not read.
    """
    out = io.BytesIO()
    _Pickler(out, PROTOCOL).dump(states)
    return out.getvalue()


def copy_states(states: Any) -> Any:
    """Return a snapshot of states on the host, which ``write_states`` can write later, in any
    thread, even if the arrays change meanwhile."""
    if isinstance(states, NDArray):
        stored = states.stored()
        auxiliary = tuple(one.copy() for one in stored.auxiliary)
        copied = dataclasses.replace(stored, data=stored.data.copy(), auxiliary=auxiliary)
        return _Copied(type(states), copied)
    if isinstance(states, dict):
        return {key: copy_states(state) for key, state in states.items()}
    if type(states) in (tuple, list):
        return type(states)(copy_states(state) for state in states)
    return states


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Copied:
    """A copy of an array's values, and the array's class."""

    cls: type[NDArray]
    stored: StoredArray


class _Pickler(pickle._Pickler):
    """Writes our classes under MXNet's names, and refuses all others.

    It extends the pickler written in Python, because the one in C imports every name it writes, and
    MXNet's names cannot be imported here.
    """

    def reducer_override(self, obj: Any) -> Any:
        """Reduce an array to the same form as MXNet's NDArray."""
        if isinstance(obj, NDArray):
            return type(obj), _NOTHING, obj.__getstate__()
        if isinstance(obj, _Copied):
            return obj.cls, _NOTHING, {"handle": bytearray(encode_array(obj.stored))}
        return NotImplemented

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write a class under its name in MXNet."""
        known = name_of(obj) if isinstance(obj, type) else None
        if known is None:
            raise FormatError(
                f"{obj!r} cannot be written to a .states file; it holds numbers, texts, arrays and "
                "registered optimizers and schedulers"
            )
        self.save(known[0])  # type: ignore[attr-defined]
        self.save(known[1])  # type: ignore[attr-defined]
        self.write(pickle.STACK_GLOBAL)  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]
