"""The structures of the kernels in C, field by field as their sources declare them."""

from __future__ import annotations

import ctypes
from ctypes import c_double, c_float, c_int, c_long, c_void_p

__all__ = [
    "Alignment",
    "Boxes",
    "DeformablePsroi",
    "DenseLayer",
    "Follows",
    "ImageTaps",
    "Lines",
    "Maps",
    "Matrices",
    "MatrixVector",
    "PixelShuffle",
    "Problem",
    "RecurrentSizes",
    "RecurrentTensors",
    "Regions",
    "Resizing",
    "RroiAlignment",
    "Sampling",
    "SamplingWindow",
    "Softmax",
    "SoftmaxGradient",
    "SuppressionLimit",
    "Systems",
    "Targets",
    "Tensor",
    "UpdateStep",
    "Windows",
]


class Tensor(ctypes.Structure):
    """Size and strides, in elements, of images with channels in vectors of 16."""

    _fields_ = tuple(
        (name, c_long) for name in ("height", "width", "image", "block", "row", "pixel")
    )


class Problem(ctypes.Structure):
    """A convolution and how to compute it; mirrors the structure in ``winograd.c``."""

    _fields_ = (
        *((name, c_long) for name in ("images", "inputs", "outputs", "results")),
        *((name, c_long) for name in ("pad_y", "pad_x", "dilation")),
        ("data", Tensor),
        ("result", Tensor),
        ("form", c_long),
        ("tiles", c_long),
        ("threads", c_long),
    )


class Lines(ctypes.Structure):
    """A convolution along lines and how to compute it; mirrors the structure in ``lines.c``."""

    _fields_ = (
        *((name, c_long) for name in ("images", "inputs", "outputs", "taps", "is_vertical", "pad")),
        ("data", Tensor),
        ("result", Tensor),
        ("tiles", c_long),
        ("threads", c_long),
    )


class Maps(ctypes.Structure):
    """Images with channels in vectors of 16; mirrors the structure in ``batch_norm.c``."""

    _fields_ = tuple(
        (name, c_long)
        for name in ("images", "channels", "pixels", "image", "block", "pixel", "threads")
    )


class Follows(ctypes.Structure):
    """The activation that follows a batch norm; mirrors the structure in ``batch_norm.c``."""

    _fields_ = (("kind", c_long), ("low", c_float), ("high", c_float))


class Sampling(ctypes.Structure):
    """Maps that are sampled at points; mirrors the structure in ``sampling.c``."""

    _fields_ = tuple(
        (name, c_long) for name in ("maps", "channels", "height", "width", "points", "threads")
    )


class SamplingWindow(ctypes.Structure):
    """Geometry of sliding windows; mirrors the structure in ``sampling.c``."""

    _fields_ = (
        *((name, c_long * 2) for name in ("kernel", "stride", "pad", "dilate", "output")),
        ("fades", c_long),
    )


class Regions(ctypes.Structure):
    """Regions of interest and their bins; mirrors the structure in ``regions.c``."""

    _fields_ = tuple(
        (name, c_long)
        for name in (
            *("images", "channels", "height", "width", "regions", "rows", "columns"),
            *("groups", "threads"),
        )
    )


class DeformablePsroi(ctypes.Structure):
    """Regions of interest with displaced bins; mirrors the structure in ``moved_regions.c``."""

    _fields_ = (
        *((name, c_long) for name in ("images", "channels", "height", "width", "regions", "bins")),
        *((name, c_long) for name in ("groups", "classes", "parts", "samples", "threads")),
        ("reach", c_float),
    )


class RroiAlignment(ctypes.Structure):
    """Rotated regions and their bins; mirrors the structure in ``rotated_regions.c``."""

    _fields_ = tuple(
        (name, c_long)
        for name in (
            *("images", "channels", "height", "width", "regions", "rows", "columns"),
            "threads",
        )
    )


class Matrices(ctypes.Structure):
    """Square matrices; mirrors the structure in ``factors.c``."""

    _fields_ = tuple((name, c_long) for name in ("matrices", "size", "threads"))


class Systems(ctypes.Structure):
    """Triangular systems of equations; mirrors the structure in ``triangular.c``."""

    _fields_ = tuple(
        (name, c_long)
        for name in (
            *("matrices", "size", "columns", "is_lower", "is_transposed", "is_right"),
            "threads",
        )
    )


class Windows(ctypes.Structure):
    """Windows of images; mirrors the structure in ``patches.c``."""

    _fields_ = (
        *((name, c_long) for name in ("planes", "height", "width")),
        *((name, c_long * 2) for name in ("kernel", "stride", "pad", "dilate")),
        *((name, c_long) for name in ("rows", "columns", "threads")),
    )


class Boxes(ctypes.Structure):
    """The sides of boxes, their areas and classes; mirrors the structure in ``suppression.c``."""

    _fields_ = tuple(
        (name, c_void_p) for name in ("left", "top", "right", "bottom", "area", "classes")
    )


class SuppressionLimit(ctypes.Structure):
    """How much boxes may overlap; mirrors the structure in ``suppression.c``."""

    _fields_ = (("threshold", c_float), ("includes_threshold", c_int))


class UpdateStep(ctypes.Structure):
    """A step of an optimizer; mirrors the structure in ``updates.c``."""

    _fields_ = (
        *((name, c_float) for name in ("rescale", "clip", "decay")),
        ("decays_first", c_int),
        ("factors", c_float * 5),
    )


class Resizing(ctypes.Structure):
    """Sizes of an image before and after resizing; mirrors the structure in ``images.c``."""

    _fields_ = tuple(
        (name, c_long) for name in ("height", "width", "channels", "row", "new_height", "new_width")
    )


class PixelShuffle(ctypes.Structure):
    """Images computed by phase; mirrors the structure in ``pixel_shuffle.c``."""

    _fields_ = tuple(
        (name, c_long)
        for name in (
            *("images", "channels", "height", "width", "stride_y", "stride_x", "pad_y", "pad_x"),
            *("rows", "columns", "threads"),
        )
    )


class ImageTaps(ctypes.Structure):
    """Source rows or columns and their weights; mirrors the structure in ``images.c``."""

    _fields_ = (("near", c_void_p), ("weight", c_void_p))


class MatrixVector(ctypes.Structure):
    """A fully connected layer of one row; mirrors the structure in ``gemv.c``."""

    _fields_ = (
        *((name, c_long) for name in ("outputs", "inputs")),
        *((name, c_void_p) for name in ("matrix", "data", "bias", "result")),
        ("slope", c_float),
        ("threads", c_long),
    )


class DenseLayer(ctypes.Structure):
    """A fully connected layer in training; mirrors the structure in ``dense.c``."""

    _fields_ = (
        *((name, c_long) for name in ("rows", "inputs", "outputs", "bands")),
        *((name, c_void_p) for name in ("data", "weight", "bias", "out", "grad")),
        *((name, c_void_p) for name in ("data_grad", "weight_grad", "bias_grad", "scratch")),
    )


class Softmax(ctypes.Structure):
    """A matrix and the softmax of its rows; mirrors the structure in ``softmax.c``."""

    _fields_ = (("rows", c_long), ("columns", c_long), ("data", c_void_p), ("result", c_void_p))


class SoftmaxGradient(ctypes.Structure):
    """The gradient of a softmax loss; mirrors the structure in ``softmax_gradient.c``."""

    _fields_ = (
        *((name, c_long) for name in ("samples", "classes", "places", "labels")),
        *((name, c_void_p) for name in ("probabilities", "label", "grad")),
        ("scale", c_double),
        ("ignored_label", c_float),
        ("ignores", c_int),
        ("counts", c_int),
    )


class RecurrentSizes(ctypes.Structure):
    """Sizes of a recurrent layer; mirrors the structure in ``recurrent.c``."""

    _fields_ = tuple(
        (name, c_long)
        for name in ("steps", "batch", "inputs", "hidden", "directions", "gates", "threads")
    )


class RecurrentTensors(ctypes.Structure):
    """A recurrent layer; mirrors the structure in ``recurrent.c``."""

    _fields_ = (
        ("sizes", RecurrentSizes),
        *((name, c_void_p) for name in ("data", "packed", "first", "first_memory", "out")),
        *((name, c_void_p) for name in ("last", "last_memory", "scratch")),
    )


class Alignment(ctypes.Structure):
    """Sizes of a CTC loss; mirrors the structure in ``alignment.c``."""

    _fields_ = tuple(
        (name, c_long) for name in ("steps", "batch", "channels", "labels", "blank", "threads")
    )


class Targets(ctypes.Structure):
    """What data are aligned with; mirrors the structure in ``alignment.c``."""

    _fields_ = tuple(
        (name, c_void_p) for name in ("labels", "label_lengths", "data_lengths", "is_possible")
    )
