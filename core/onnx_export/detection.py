"""Boxes from offsets, and regions of feature maps."""

from __future__ import annotations

import numpy as np

from ..ops.contrib.boxes import BoxDecode
from ..ops.contrib.regions import ROIAlign
from ..ops.contrib.roi_pooling import ROIPooling
from .conversion import Call, converts
from .graph import INT64, Tensor

_FLOAT32 = np.dtype("float32")


@converts(BoxDecode)
def _box_decode(call: Call, op: BoxDecode) -> str:
    data, anchors = call.inputs
    sizes, middles = _columns(call, anchors, 2, 4), _columns(call, anchors, 0, 2)
    if op.format == "corner":
        sizes = call.emit("Sub", sizes, middles)
        middles = call.emit("Add", middles, call.emit("Mul", sizes, call.number(0.5)))
    stds = call.constant([op.std0, op.std1, op.std2, op.std3], call.output.dtype)
    offsets = Tensor(call.emit("Mul", data.name, stds), data.shape, data.dynamic, data.dtype)
    growth = _columns(call, offsets, 2, 4)
    if op.clip > 0:
        growth = call.emit("Min", growth, call.number(op.clip))
    grown = call.emit("Mul", call.emit("Exp", growth), sizes)
    halves = call.emit("Mul", grown, call.number(0.5))
    shift = call.emit("Mul", _columns(call, offsets, 0, 2), sizes)
    shifted = call.emit("Add", shift, middles)
    ends = call.emit("Sub", shifted, halves), call.emit("Add", shifted, halves)
    return call.emit("Concat", *ends, axis=-1)


@converts(ROIAlign)
def _roi_align(call: Call, op: ROIAlign) -> str:
    data, rois = call.inputs
    height, width = op.pooled_size
    image, numbers = _images(call, rois)
    found = call.emit(
        "RoiAlign",
        call.as_dtype(data, _FLOAT32),
        call.emit("Slice", image.name, *(call.integers(one) for one in (1, 5, 1))),
        numbers,
        output_height=height,
        output_width=width,
        sampling_ratio=max(0, op.sample_ratio),
        spatial_scale=op.spatial_scale,
        coordinate_transformation_mode="half_pixel" if op.aligned else "output_half_pixel",
    )
    if op.position_sensitive:
        found = _own_channels(call, found, height, width)
    return _zero_without_image(call, found, image)


def _own_channels(call: Call, found: str, height: int, width: int) -> str:
    """Return the value of each position in the channel that belongs to it."""
    places, out = height * width, call.output
    shape = (*out.shape[:2], places, places)
    square = call.viewed(found, shape, (*out.dynamic[:2], False, False))
    own = call.emit("Mul", square, call.constant(np.eye(places), _FLOAT32))
    return call.reshaped(call.emit("ReduceSum", own, call.integers(3), keepdims=0), out)


@converts(ROIPooling)
def _roi_pooling(call: Call, op: ROIPooling) -> str:
    data, rois = call.inputs
    image, numbers = _images(call, rois)
    column = call.emit("Unsqueeze", call.cast(numbers, _FLOAT32), call.integers(1))
    corners = call.emit("Slice", image.name, *(call.integers(one) for one in (1, 5, 1)))
    found = call.emit(
        "MaxRoiPool",
        call.as_dtype(data, _FLOAT32),
        call.emit("Concat", column, corners, axis=1),
        pooled_shape=list(op.pooled_size),
        spatial_scale=op.spatial_scale,
    )
    return _zero_without_image(call, found, image)


def _images(call: Call, rois: Tensor) -> tuple[Tensor, str]:
    """Return the regions as float32, and the index of each one's image, 0 for one of none."""
    name = call.as_dtype(rois, _FLOAT32)
    regions = Tensor(name, rois.shape, rois.dynamic, _FLOAT32)
    numbers = call.cast(_image_column(call, regions), INT64)
    return regions, call.emit("Max", numbers, call.constant(0, INT64))


def _image_column(call: Call, regions: Tensor) -> str:
    return call.emit("Gather", regions.name, call.constant(0, INT64), axis=1)


def _zero_without_image(call: Call, found: str, regions: Tensor) -> str:
    """Return 0 for the regions whose image is below 0, and the output's dtype."""
    zero = call.constant(0, _FLOAT32)
    has_image = call.emit("GreaterOrEqual", _image_column(call, regions), zero)
    rows = call.emit("Unsqueeze", has_image, call.integers(1, 2, 3))
    out = call.emit("Where", rows, found, zero)
    return out if call.output.dtype == _FLOAT32 else call.cast(out, call.output.dtype)


def _columns(call: Call, tensor: Tensor, start: int, stop: int) -> str:
    everything = slice(None)
    return call.sliced(tensor.name, [everything] * (tensor.rank - 1) + [slice(start, stop)], tensor)
