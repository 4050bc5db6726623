"""Kinds of operators that read images at positions given by another input."""

from __future__ import annotations

from typing import Any, Protocol

from ..types import Array, Shape
from .kinds import Kind
from .layers import Window

__all__ = [
    "BILINEAR_SAMPLER",
    "DEFORMABLE_CONVOLUTION",
    "DEFORMABLE_PSROI_POOL",
    "PSROI_POOL",
    "ROI_POOL",
    "RROI_ALIGN",
    "SPATIAL_TRANSFORMER",
    "DeformableConvolution",
    "DeformablePsroiPooling",
    "PsroiPooling",
    "RoiPooling",
    "RroiAlign",
    "SpatialTransformer",
]


class DeformableConvolution(Protocol):
    """``DeformableConvolution`` or ``ModulatedDeformableConvolution``."""

    @property
    def has_mask(self) -> bool:
        """Whether an input has a weight for each element of the window at each position."""

    @property
    def no_bias(self) -> bool:
        """Whether there is no bias."""

    @property
    def num_deformable_group(self) -> int:
        """Number of groups of channels; the channels of a group are read at the same points."""

    @property
    def num_filter(self) -> int:
        """Number of output channels."""

    @property
    def num_group(self) -> int:
        """Number of groups."""

    @property
    def window(self) -> Window:
        """Size, stride, dilation and padding."""


class RoiPooling(Protocol):
    """``ROIPooling`` or ``PSROIPooling``."""

    def pooled(self) -> Shape:
        """Return height and width of the output."""

    def bins(self, xp: Any, rois: Array, shape: Shape) -> tuple[Array, Array, Array]:
        """Return the image of each region, and the rows and the columns at which its bins begin and
        end."""


class PsroiPooling(RoiPooling, Protocol):
    """``PSROIPooling``: bins read separate channels."""

    @property
    def group_size(self) -> int:
        """Number of groups of channels in each direction; 0 for as many as bins."""

    @property
    def pooled_size(self) -> int:
        """Number of bins in each direction."""


class DeformablePsroiPooling(Protocol):
    """``DeformablePSROIPooling``."""

    @property
    def group_size(self) -> int:
        """Number of groups of channels in each direction."""

    @property
    def no_trans(self) -> bool:
        """Whether bins are not displaced."""

    @property
    def parts(self) -> int:
        """Number of parts in each direction; the bins of a part have the same offset."""

    @property
    def pooled_size(self) -> int:
        """Number of bins in each direction."""

    @property
    def sample_per_part(self) -> int:
        """Number of points of a bin in each direction."""

    @property
    def trans_std(self) -> float:
        """Displacement by an offset of 1, relative to the size of the region."""

    def extents(self, xp: Any, rois: Array, images: int) -> tuple[Array, Array, Array]:
        """Return each region's image (-1 for none), and its corner and size, each across and
        down."""


class RroiAlign(Protocol):
    """``RROIAlign``."""

    def frames(self, xp: Any, rois: Array, images: int) -> tuple[Array, Array]:
        """Return each region's image (-1 for none), and (regions, 8) numbers: its center across and
        down, the cosine and sine of its angle, its height and width, and the number of points of a
        bin down and across."""


class SpatialTransformer(Protocol):
    """``SpatialTransformer``."""

    def grid(self, xp: Any, loc: Array) -> Array:
        """Return the point that each element of the output is read at, (batch, 2, points): x, then
        y, from -1 to 1."""

    def loc_gradient(self, xp: Any, grid_gradient: Array) -> Array:
        """Return the gradient of the transformation matrices, given that of the grid."""


BILINEAR_SAMPLER = Kind[object]("bilinear sampler")
SPATIAL_TRANSFORMER = Kind[SpatialTransformer]("spatial transformer")
DEFORMABLE_CONVOLUTION = Kind[DeformableConvolution]("deformable convolution")
ROI_POOL = Kind[RoiPooling]("maxima of regions")
PSROI_POOL = Kind[PsroiPooling]("means of regions")
RROI_ALIGN = Kind[RroiAlign]("means of rotated regions")
DEFORMABLE_PSROI_POOL = Kind[DeformablePsroiPooling]("means of moved regions")
