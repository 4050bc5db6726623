"""The memory of a module's parameters on one device, which all its executors share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ..device import Context
from ..executor.flat import FlatBuffer
from ..ndarray import NDArray, RowSparseNDArray
from ..ndarray.sparse import zeros
from ..types import DType, Shape

__all__ = ["DeviceParameters"]


class DeviceParameters:
    """Arguments, gradients and auxiliary states in one flat buffer per dtype.

    Trained parameters are contiguous, so that one optimizer kernel can update all of them; those
    with weight decay come first, so that each decay rate applies to one contiguous part. Parameters
    that are ``row_sparse``, or whose gradients are, are stored separately.

    Args:
        context: the device.
        shapes, dtypes: of arguments and auxiliary states, by name.
        trained: names of the arguments that have a gradient.
        others: names of fixed arguments and auxiliary states.
        by_rows: names of the ``row_sparse`` parameters.
        gradients_by_rows: names of the arguments whose gradients are ``row_sparse``.
        places: by name, contexts of the parameters that report another device than ``context``.

    Attributes:
        apart: names of the trained parameters stored separately, which are not in ``weights``.
    """

    def __init__(
        self,
        context: Context,
        shapes: Mapping[str, Shape],
        dtypes: Mapping[str, DType],
        trained: Iterable[str],
        others: Iterable[str],
        by_rows: Collection[str] = (),
        gradients_by_rows: Collection[str] = (),
        places: Mapping[str, Context] | None = None,
    ) -> None:
        places = places or {}
        self.context = context
        # MXNet's rule (Optimizer.set_wd_mult): by default only these are decayed. The sort is
        # stable, so that each half keeps the symbol's order.
        decayed_first = sorted(trained, key=lambda name: not name.endswith(("_weight", "_gamma")))
        self.apart = [name for name in decayed_first if name in {*by_rows, *gradients_by_rows}]
        together = [name for name in decayed_first if name not in self.apart]
        self.weights = _by_dtype(context, shapes, dtypes, together)
        self.gradients = [buffer.like() for buffer in self.weights]
        # Parameters stored separately are among the fixed ones here, since a buffer in `weights`
        # needs a gradient of the same layout.
        self.fixed = _by_dtype(context, shapes, dtypes, [*self.apart, *others])
        self._values = _handles([*self.weights, *self.fixed], context, places)
        for name in by_rows:
            self._values[name] = RowSparseNDArray.over(self._values[name])
        self._gradients = _handles(self.gradients, context, places)
        for name in self.apart:
            stype = "row_sparse" if name in gradients_by_rows else "default"
            place = places.get(name, context)
            self._gradients[name] = zeros(stype, shapes[name], place, dtypes[name])

    def value(self, name: str) -> NDArray:
        """Return the array of an argument or auxiliary state."""
        return self._values[name]

    def gradient(self, name: str) -> NDArray | None:
        """Return the gradient of an argument, or None if it has none."""
        return self._gradients.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def nbytes(self) -> int:
        """Return the bytes of all values and gradients."""
        buffers = (*self.weights, *self.gradients, *self.fixed)
        apart = sum(self._gradients[name].nbytes for name in self.apart)
        return apart + sum(int(buffer.data.nbytes) for buffer in buffers)


def _by_dtype(
    context: Context,
    shapes: Mapping[str, Shape],
    dtypes: Mapping[str, DType],
    names: Iterable[str],
) -> list[FlatBuffer]:
    groups: dict[DType, dict[str, Shape]] = {}
    for name in names:
        groups.setdefault(dtypes[name], {})[name] = shapes[name]
    return [FlatBuffer(members, dtype, context) for dtype, members in groups.items()]


def _handles(
    buffers: Iterable[FlatBuffer], context: Context, places: Mapping[str, Context]
) -> dict[str, NDArray]:
    return {
        name: NDArray(view, places.get(name, context), version=buffer.versions[name])
        for buffer in buffers
        for name, view in buffer.views.items()
    }
