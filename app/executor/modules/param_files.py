"""Reads files of parameters that strangers wrote, and says what else a file is."""

from __future__ import annotations

from app.errors.tree import Damaged
from app.files.file_kinds import MOST_LOOKED_AT, PARAMS, kind_of_file
from core.checkpoint import load_params_by_name
from core.errors import FormatError, MXNetError
from core.ndarray import NDArray

__all__ = ["not_params", "read_param_file"]

_EXPECTED = "a file of parameters as MXNet saves them: net-0010.params"


def read_param_file(path: str, field: str) -> dict[str, NDArray]:
    """Return the parameters in a file by name.

    Args:
        path: of the file.
        field: what to call the file in an error.

    Raises:
        Damaged: it is of another kind, not whole, or not readable.
    """
    try:
        return load_params_by_name(path)
    except (MXNetError, ValueError) as error:
        raise not_params(path, field, error) from None


def not_params(path: str, field: str, error: Exception) -> Damaged:
    """Return the error for a file that could not be read as parameters."""
    fault = str(error).removeprefix(f"{path}: ")
    if not isinstance(error, FormatError):
        return Damaged(field, fault, _EXPECTED)
    with open(path, "rb") as file:
        kind = kind_of_file(file.read(MOST_LOOKED_AT))
    if kind == PARAMS:
        return Damaged(field, f"a file that is not whole ({fault})", _EXPECTED, "copy it again")
    return Damaged(field, kind, _EXPECTED)
