"""Kinds of operators that read images at places told by another input."""

from __future__ import annotations

from typing import Any, Protocol

from ..types import Array, Shape
from .kinds import Kind
from .layers import Window

__all__ = [
    "BILINEAR_SAMPLER",
    "DEFORMABLE_CONVOLUTION",
    "MOVED_REGIONS",
    "REGION_MAXIMA",
    "REGION_MEANS",
    "ROTATED_REGIONS",
    "SPATIAL_TRANSFORMER",
    "DeformableConvolution",
    "GroupedRegionPooling",
    "MovedRegionPooling",
    "RegionPooling",
    "RotatedRegionPooling",
    "SpatialTransformer",
]


class DeformableConvolution(Protocol):
    """``DeformableConvolution`` or ``ModulatedDeformableConvolution``."""

    @property
    def has_mask(self) -> bool:
        """Whether each element of the window has a weight of its own at each place."""

    @property
    def no_bias(self) -> bool:
        """Whether there is no bias."""

    @property
    def num_deformable_group(self) -> int:
        """Number of groups of channels that are read at the same points."""

    @property
    def num_filter(self) -> int:
        """Number of output channels."""

    @property
    def num_group(self) -> int:
        """Number of groups."""

    @property
    def window(self) -> Window:
        """Size, stride, dilation and padding."""


class RegionPooling(Protocol):
    """``ROIPooling`` or ``PSROIPooling``."""

    def pooled(self) -> Shape:
        """Return height and width of the output."""

    def bins(self, xp: Any, rois: Array, shape: Shape) -> tuple[Array, Array, Array]:
        """Return the image of each region, and where its bins down and across begin and end."""


class GroupedRegionPooling(RegionPooling, Protocol):
    """``PSROIPooling``: each bin has channels of its own."""

    @property
    def group_size(self) -> int:
        """Groups of channels in each direction; 0 for as many as bins."""

    @property
    def pooled_size(self) -> int:
        """Bins in each direction."""


class MovedRegionPooling(Protocol):
    """``DeformablePSROIPooling``."""

    @property
    def group_size(self) -> int:
        """Groups of channels in each direction."""

    @property
    def no_trans(self) -> bool:
        """Whether bins stay where they are."""

    @property
    def parts(self) -> int:
        """Parts in each direction."""

    @property
    def pooled_size(self) -> int:
        """Bins in each direction."""

    @property
    def sample_per_part(self) -> int:
        """Points of a bin in each direction."""

    @property
    def trans_std(self) -> float:
        """How far bins move, as a share of the region."""

    def extents(self, xp: Any, rois: Array, images: int) -> tuple[Array, Array, Array]:
        """Return each region's image, where it begins, and its size, both across and down."""


class RotatedRegionPooling(Protocol):
    """``RROIAlign``."""

    def frames(self, xp: Any, rois: Array, images: int) -> tuple[Array, Array]:
        """Return each region's image, and (regions, 8) numbers: its center across and down, the
        cosine and sine of its angle, its height and width, and how many points a bin has down and
        across."""


class SpatialTransformer(Protocol):
    """``SpatialTransformer``."""

    def grid(self, xp: Any, loc: Array) -> Array:
        """Return where each place of the output looks, (batch, 2, points)."""

    def loc_gradient(self, xp: Any, grid_gradient: Array) -> Array:
        """Return the gradient by the matrices, given the grid's."""


BILINEAR_SAMPLER = Kind[object]("bilinear sampler")
SPATIAL_TRANSFORMER = Kind[SpatialTransformer]("spatial transformer")
DEFORMABLE_CONVOLUTION = Kind[DeformableConvolution]("deformable convolution")
REGION_MAXIMA = Kind[RegionPooling]("maxima of regions")
REGION_MEANS = Kind[GroupedRegionPooling]("means of regions")
ROTATED_REGIONS = Kind[RotatedRegionPooling]("means of rotated regions")
MOVED_REGIONS = Kind[MovedRegionPooling]("means of moved regions")
