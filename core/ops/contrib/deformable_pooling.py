"""Position-sensitive pooling with bins displaced by an input (Dai et al., 2017)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from ...capabilities import sampling as kinds
from ...capabilities.kinds import implements
from ...errors import AttributeValueError, ShapeError
from ...types import Array, Shape
from ..attributes import attribute
from ..interpolation import Neighbor, neighbors
from ..operator import Reads, Run
from ..precision import wide_backward, wide_forward
from ..registry import register
from .regions import OnRegions, half_away, image_numbers

__all__ = ["DeformablePSROIPooling"]


class _Bins:
    """The points of all bins of one region, (classes, height, width, points)."""

    def __init__(
        self,
        xp: Any,
        op: DeformablePSROIPooling,
        starts: Array,
        sizes: Array,
        trans: Array | None,
    ) -> None:
        count, points = op.pooled_size, op.sample_per_part
        self._xp, self.sizes = xp, sizes
        step = sizes / count
        place, sample = xp.arange(count), xp.arange(points)
        # The bins' first points, and the offsets of the others from them, across and down.
        across, down = (place * step[i] + starts[i] for i in (0, 1))
        # As in MXNet, points begin at the bin's corner, not half a step into it.
        inner_x, inner_y = (sample * (step[i] / points) for i in (0, 1))
        self.part = place * op.parts // count
        if trans is not None:
            moved = trans[:, :, self.part[:, None], self.part] * op.trans_std
            across = across + moved[:, 0] * self.sizes[0]
            down = down[:, None] + moved[:, 1] * self.sizes[1]
        else:
            across, down = across[None, None], down[None, :, None]
        shape = (len(trans) if trans is not None else 1, count, count, points, points)
        self.x = xp.broadcast_to(across[..., None, None] + inner_x, shape)
        self.y = xp.broadcast_to(down[..., None, None] + inner_y[:, None], shape)

    def read(self, height: int, width: int) -> tuple[Array, list[Neighbor]]:
        """Return which points count, and their neighbors; points beyond the border are moved onto
        it."""
        xp = self._xp
        # As in MXNet, points up to half an element outside count, with the border's value.
        inside = (self.x >= -0.5) & (self.x <= width - 0.5)
        inside &= (self.y >= -0.5) & (self.y <= height - 0.5)
        x, y = xp.clip(self.x, 0, width - 1), xp.clip(self.y, 0, height - 1)
        # The slope of the interpolation at an element itself is taken as 0, as in MXNet.
        slopes = (y > xp.floor(y)), (x > xp.floor(x))
        found = [
            Neighbor(near.position, near.weight, near.down * slopes[0], near.across * slopes[1])
            for near in neighbors(xp, y, x, height, width)
        ]
        return inside, found


@register("_contrib_DeformablePSROIPooling")
@implements(kinds.DEFORMABLE_PSROI_POOL)
class DeformablePSROIPooling(OnRegions):
    """Means of ``sample_per_part``² points in bins that are displaced by ``trans``.

    ``data`` has ``output_dim · group_size²`` channels and ``rois`` is (regions, 5). ``trans``
    (regions, 2 · classes, part_size, part_size) is the displacement, across and down, of the bins
    of each class of channels, relative to the region's size times ``trans_std``. With ``no_trans``
    there is no such input and bins are not displaced.
    """

    names_outputs: ClassVar[bool] = True

    all_inputs: ClassVar[tuple[str, ...]] = ("data", "rois", "trans")

    spatial_scale: float = attribute(
        minimum=0,
        maximum=1,
        doc="size of the data divided by the size of the image in which regions are given",
    )
    output_dim: int = attribute(minimum=1, doc="number of output channels")
    group_size: int = attribute(minimum=1, doc="number of channel groups in each direction")
    pooled_size: int = attribute(minimum=1, doc="height and width of the output")
    part_size: int = attribute(
        0, minimum=0, doc="parts of trans in each direction; 0 for pooled_size"
    )
    sample_per_part: int = attribute(1, minimum=1, doc="points per bin in each direction")
    trans_std: float = attribute(0.0, minimum=0, maximum=1, doc="factor of the displacements")
    no_trans: bool = attribute(False, doc="whether bins are not displaced")

    @property
    def parts(self) -> int:
        """Parts in each direction."""
        return self.part_size or self.pooled_size

    def input_names(self) -> tuple[str, ...]:
        return ("data", "rois") if self.no_trans else ("data", "rois", "trans")

    def stored_outputs(self) -> int:
        """MXNet has a hidden output: the number of points that count in each bin."""
        return 2

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,) if self.no_trans else (0, 2)

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0, 1) if self.no_trans else (0, 1, 2))

    def pooled(self) -> Shape:
        return (self.pooled_size, self.pooled_size)

    def channels(self, data: int) -> int:
        expected = self.output_dim * self.group_size**2
        if data != expected:
            raise ShapeError(
                f"data has {data} channels; expected output_dim {self.output_dim} times "
                f"{self.group_size**2} groups"
            )
        return self.output_dim

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        found, outputs = super().infer_shape(inputs, outputs)
        if self.no_trans:
            return found, outputs
        rois = found[1]
        assert rois is not None
        trans = self.expect("trans", inputs[2], (rois[0], 0, self.parts, self.parts))
        if trans[1] % 2 or (trans[1] and self.output_dim % (trans[1] // 2)):
            raise AttributeValueError(
                f"trans has {trans[1]} channels; expected two for each class, and output_dim "
                f"{self.output_dim} a multiple of the classes"
            )
        return [*found[:2], trans], outputs

    # -- arithmetic -------------------------------------------------------------------------

    def extents(self, xp: Any, rois: Array, images: int) -> tuple[Array, Array, Array]:
        """Return each region's image, and its start and size across and down."""
        # As in the authors' code: corners are rounded and belong to the region, elements have their
        # centers at whole numbers, and no region is empty.
        scale, half = rois.dtype.type(self.spatial_scale), rois.dtype.type(0.5)
        corners = half_away(xp, rois[:, 1:])
        starts = corners[:, :2] * scale - half
        ends = (corners[:, 2:] + 1) * scale - half
        sizes = xp.maximum(ends - starts, rois.dtype.type(0.1))
        return image_numbers(rois, images), starts, sizes

    def _regions(
        self, xp: Any, inputs: Sequence[Array], height: int, width: int
    ) -> Iterator[tuple[int, int, _Bins, Array, list[Neighbor]]]:
        """Yield for each region its index, its image, its bins, which points count, and their
        neighbors."""
        numbers, starts, sizes = self.extents(xp, inputs[1], inputs[0].shape[0])
        for region, image in enumerate(numbers.tolist()):
            if image < 0:
                continue
            trans = None
            if not self.no_trans:
                trans = inputs[2][region].reshape(-1, 2, self.parts, self.parts)
            bins = _Bins(xp, self, starts[region], sizes[region], trans)
            inside, found = bins.read(height, width)
            yield region, image, bins, inside, found

    def _index(self, xp: Any, near: Neighbor) -> tuple[Array, Array]:
        """Return the channel and the position in the image of all points, by output channel."""
        place = xp.arange(self.pooled_size) * self.group_size // self.pooled_size
        group = place[:, None] * self.group_size + place
        channel = xp.arange(self.output_dim)[:, None, None] * self.group_size**2 + group
        return channel[..., None, None], self._by_channel(xp, near.position)

    def _by_channel(self, xp: Any, by_class: Array) -> Array:
        """Expand an array by class to one by output channel."""
        return xp.repeat(by_class, self.output_dim // len(by_class), axis=0)

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, data, out = run.xp, inputs[0], outputs[0]
        out.fill(0)
        height, width = data.shape[2:]
        flat = data.reshape(*data.shape[:2], -1)
        for region, image, _, inside, found in self._regions(xp, inputs, height, width):
            total = sum(
                flat[image][self._index(xp, near)] * self._by_channel(xp, near.weight * inside)
                for near in found
            )
            counts = xp.maximum(inside.sum(axis=(3, 4)), 1).astype(out.dtype)
            out[region] = total.sum(axis=(3, 4)) / self._by_channel(xp, counts)

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp, data = run.xp, inputs[0]
        height, width = data.shape[2:]
        flat = data.reshape(*data.shape[:2], -1)
        data_grad = xp.zeros(flat.shape, flat.dtype)
        trans_grad = None if self.no_trans else in_grads[2]
        if trans_grad is not None:
            trans_grad.fill(0)
        for region, image, bins, inside, found in self._regions(xp, inputs, height, width):
            counts = xp.maximum(inside.sum(axis=(3, 4)), 1).astype(data.dtype)
            share = (out_grads[0][region] / self._by_channel(xp, counts))[..., None, None]
            share = share * self._by_channel(xp, inside)
            pulls: list[Any] = [0, 0]
            for near in found:
                index = self._index(xp, near)
                xp.add.at(data_grad[image], index, share * self._by_channel(xp, near.weight))
                value = flat[image][index] * share
                for i, slope in enumerate((near.across, near.down)):
                    pulls[i] = pulls[i] + (value * self._by_channel(xp, slope)).sum(axis=(3, 4))
            if trans_grad is not None:
                self._move(xp, bins, pulls, trans_grad[region])
        if in_grads[0] is not None:
            in_grads[0][...] = data_grad.reshape(data.shape)

    def _move(self, xp: Any, bins: _Bins, pulls: list[Array], target: Array) -> None:
        """Add the gradients of the points of each class and part to those of ``trans``."""
        by_class = target.reshape(-1, 2, self.parts, self.parts)
        classes = len(by_class)
        for i, pull in enumerate(pulls):
            of_class = pull.reshape(classes, -1, *pull.shape[1:]).sum(axis=1)
            of_class = of_class * bins.sizes[i] * self.trans_std
            index = (xp.arange(classes)[:, None, None], bins.part[:, None], bins.part)
            xp.add.at(by_class[:, i], index, of_class)
