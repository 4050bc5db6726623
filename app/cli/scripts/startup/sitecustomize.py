"""Run by every Python that ``modserve run`` starts: makes ``import mxnet`` find the engine.

The finder comes before all others, so that a folder beside the script cannot take precedence.
Nothing is imported from ``app``, because a script may have its own ``app``.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.abspath(os.path.join(_HERE, "..", "..", "..", ".."))
_ENGINE = os.path.join(_ROOT, "core")
_OURS = ("core", "app")


class EngineFinder:
    """Makes ``import mxnet`` load the engine, and its submodules from the engine's folder.

    A script's own ``core`` and ``app`` take precedence over modserve's, even if they have no
    ``__init__.py``; Python would otherwise prefer a regular package further down the path.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name in _OURS:
            others = [folder for folder in sys.path if os.path.abspath(folder) != _ROOT]
            return PathFinder.find_spec(name, others)
        if name != "mxnet":
            return None
        file = os.path.join(_ENGINE, "__init__.py")
        return spec_from_file_location(name, file, submodule_search_locations=[_ENGINE])


class OldNumpyFinder:
    """Finds the installed NumPy, and has its removed names restored when it is loaded."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name) if name == "numpy" else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = OldNumpyLoader(spec.loader.name, spec.loader.path)
        return spec


class OldNumpyLoader(SourceFileLoader):
    """Loads NumPy and restores its removed names."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        spec = PathFinder.find_spec("old_numpy", [_HERE])
        assert spec is not None
        _load(spec).restore(module)


def _load(spec: ModuleSpec) -> ModuleType:
    module = module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module


def _begin() -> None:
    sys.meta_path.insert(0, EngineFinder)
    if os.environ.get("MODSERVE_OLD_NUMPY") == "1":
        sys.meta_path.insert(0, OldNumpyFinder)
    # This folder hides the machine's own sitecustomize, if there is one: run it too.
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != _HERE]
    hidden = PathFinder.find_spec("sitecustomize", sys.path)
    if hidden is not None and hidden.loader is not None:
        sys.modules["sitecustomize"] = _load(hidden)


_begin()
