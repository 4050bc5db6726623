"""Versions of a module that are loaded in addition to the parameters in training."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from app.domain.module import BucketShapes
from app.errors.tree import HostError
from app.executor.predict.inference import Inference
from app.executor.predict.predictor import Parameters

__all__ = ["LoadedVersions"]


@dataclass(slots=True)
class _Loaded:
    parameters: Parameters
    inference: Inference | None = None

    def nbytes(self) -> int:
        arrays = (*self.parameters.arguments.values(), *self.parameters.auxiliary.values())
        return sum(int(array.size) * np.dtype(array.dtype).itemsize for array in arrays)


class LoadedVersions:
    """Parameters by version, each with predictors of its own, the most recently used last."""

    def __init__(self) -> None:
        """Create an empty collection."""
        self._loaded: OrderedDict[str, _Loaded] = OrderedDict()

    def __contains__(self, version: str) -> bool:
        return version in self._loaded

    def __len__(self) -> int:
        return len(self._loaded)

    def inference(self, version: str, make: Callable[[Parameters], Inference]) -> Inference:
        """Return the inference of a version and mark it as the most recently used.

        Args:
            version: see ``app.link.calls.LoadVersion``.
            make: makes the inference for some parameters.

        Raises:
            HostError: the version is not loaded.
        """
        loaded = self._loaded.get(version)
        if loaded is None:
            raise HostError("version_not_loaded", f"version {version} is not on the device")
        self.use(version)
        if loaded.inference is None:
            loaded.inference = make(loaded.parameters)
        return loaded.inference

    def use(self, version: str) -> None:
        """Mark a version as the most recently used."""
        self._loaded.move_to_end(version)

    def add(self, version: str, parameters: Parameters) -> None:
        """Add a version."""
        self._loaded[version] = _Loaded(parameters)

    def forget_plans(self) -> bool:
        """Release the plans of predictions; False if there are none."""
        with_plans = [one for one in self._loaded.values() if one.inference is not None]
        for one in with_plans:
            one.inference = None
        return bool(with_plans)

    def have_buckets(self, buckets: Mapping[str, BucketShapes]) -> None:
        """Use these buckets from now on."""
        for one in self._loaded.values():
            if one.inference is not None:
                one.inference = one.inference.with_buckets(buckets)

    def drop_oldest(self, but: int = 0) -> bool:
        """Release the least recently used version; False if none may be released.

        Args:
            but: number of versions to keep.
        """
        if len(self._loaded) <= but:
            return False
        self._loaded.popitem(last=False)
        return True

    def clear(self) -> None:
        """Release all versions."""
        self._loaded.clear()

    def nbytes(self) -> int:
        """Return the bytes of all parameters."""
        return sum(one.nbytes() for one in self._loaded.values())

    def inferences(self) -> list[Inference]:
        """Return the inferences of the versions that have been used."""
        return [one.inference for one in self._loaded.values() if one.inference is not None]
