"""Finding the files of a model by the path of one of them, their common prefix or their folder."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from app.domain.model_names import (
    PARAMS_ALONE,
    archive_stem,
    params_among,
    parse_params_name,
    symbols_among,
    symbols_beside,
    usual_params,
)

__all__ = ["ModelPlace", "find_model", "is_archive"]


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """Where the files of a model are.

    Attributes:
        symbol: the graph.
        params: the parameters; None if there are none beside the symbol.
    """

    symbol: Path
    params: Path | None

    @property
    def states(self) -> Path | None:
        """The optimizer's states; None if there are none beside the parameters."""
        path = None if self.params is None else self.params.with_suffix(".states")
        return path if path is not None and path.is_file() else None

    @property
    def usual_params(self) -> Path:
        """Path of the parameters as they are usually called."""
        return self.symbol.with_name(usual_params(self.symbol.name))


def is_archive(path: Path) -> bool:
    """Return whether a file is an archive of a whole model by its name."""
    return archive_stem(path.name) is not None


def find_model(target: str) -> ModelPlace:
    """Return the files of a model: the parameters that were named, else those of the last epoch.

    Args:
        target: the symbol, a parameter file, their common prefix, or their folder.

    Raises:
        ValueError: there is no model, or more than one; the message says which.
    """
    path = Path(target)
    if path.is_dir():
        return _of_folder(path)
    names = _names_in(path.parent)
    if path.is_file() and parse_params_name(path.name):
        symbols = symbols_beside(names, path.name)
        return ModelPlace(_only_symbol(path.parent, names, symbols), path)
    if path.is_file() and path.name.endswith(".json"):
        return _with_params(path, names)
    if path.is_file():
        raise ValueError(
            f"{path} is not named like a model file, PREFIX-symbol.json or PREFIX-0001.params; "
            "rename it, and its other file, if it is one"
        )
    found = [one for one in names if one in (f"{path.name}-symbol.json", f"{path.name}.json")]
    if not found:
        raise ValueError(
            f"there is no {path}-symbol.json; name a file of the model, what its files begin with, "
            "or their folder"
        )
    return _with_params(path.with_name(found[-1]), names)


def _of_folder(folder: Path) -> ModelPlace:
    names = _names_in(folder)
    symbols = symbols_among(names)
    if not symbols:
        inside = sorted(str(path) for path in folder.glob("*/*symbol.json"))
        if inside:
            raise ValueError(
                f"{folder} has no file like net-symbol.json; name one of {', '.join(inside)}"
            )
    return _with_params(_only_symbol(folder, names, symbols), names)


def _only_symbol(folder: Path, names: Collection[str], symbols: list[str]) -> Path:
    if len(symbols) == 1:
        return folder / symbols[0]
    if symbols:
        paths = ", ".join(str(folder / one) for one in symbols)
        raise ValueError(f"{folder} has several models; name one of {paths}")
    hint = f": {PARAMS_ALONE}" if any(map(parse_params_name, names)) else ""
    raise ValueError(f"{folder} has no file like net-symbol.json{hint}")


def _with_params(symbol: Path, names: Collection[str]) -> ModelPlace:
    params = params_among(names, symbol.name)
    return ModelPlace(symbol, symbol.with_name(params[max(params)]) if params else None)


def _names_in(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
