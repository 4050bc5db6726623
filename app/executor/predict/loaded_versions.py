"""Versions of a module beside the parameters in training, each with predictors of its own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from app.domain.module import BucketShapes
from app.errors import HostError
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
    """Parameters by version, those used last at the end."""

    def __init__(self) -> None:
        """Begin with none."""
        self._loaded: OrderedDict[str, _Loaded] = OrderedDict()

    def __contains__(self, version: str) -> bool:
        return version in self._loaded

    def __len__(self) -> int:
        return len(self._loaded)

    def inference(self, version: str, make: Callable[[Parameters], Inference]) -> Inference:
        """Return what computes with a version, which is in use now.

        Args:
            version: see ``app.link.calls.LoadVersion``.
            make: makes what computes with some parameters.

        Raises:
            HostError: it is not loaded.
        """
        loaded = self._loaded.get(version)
        if loaded is None:
            raise HostError("version_not_loaded", f"version {version} is not on the device")
        self.use(version)
        if loaded.inference is None:
            loaded.inference = make(loaded.parameters)
        return loaded.inference

    def use(self, version: str) -> None:
        """Note that a version is in use now."""
        self._loaded.move_to_end(version)

    def add(self, version: str, parameters: Parameters) -> None:
        """Take a version in."""
        self._loaded[version] = _Loaded(parameters)

    def forget_plans(self) -> bool:
        """Release the plans of predictions; False if there are none."""
        with_plans = [one for one in self._loaded.values() if one.inference is not None]
        for one in with_plans:
            one.inference = None
        return bool(with_plans)

    def have_buckets(self, buckets: Mapping[str, BucketShapes]) -> None:
        """Compute in these buckets from now on."""
        for one in self._loaded.values():
            if one.inference is not None:
                one.inference = one.inference.with_buckets(buckets)

    def drop_oldest(self, but: int = 0) -> bool:
        """Release the least recently used version; False if none may be released.

        Args:
            but: how many stay.
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
        """Return what computes with those that were used."""
        return [one.inference for one in self._loaded.values() if one.inference is not None]
