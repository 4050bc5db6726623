"""Convolutions, transposed convolutions and upsampling."""

from __future__ import annotations

from ..ops.conv import Convolution, Deconvolution
from ..ops.pad import Pad, UpSampling
from ..ops.resize import BilinearResize2D
from ..ops.window import Window, is_channels_last
from ..types import Shape
from .conversion import Call, converts


def channels_first(call: Call, name: str, rank: int) -> str:
    """Return a tensor with its last axis moved to position 1."""
    return call.transposed(name, (0, rank - 1, *range(1, rank - 1)))


def channels_last(call: Call, name: str, rank: int) -> str:
    """Undo ``channels_first``."""
    return call.transposed(name, (0, *range(2, rank), 1))


@converts(Convolution)
def _convolution(call: Call, op: Convolution) -> str:
    last, rank, window = is_channels_last(op.layout), call.data.rank, op.window
    data, weight, *bias = call.names
    if last:
        data, weight = (channels_first(call, one, rank) for one in (data, weight))
    out = call.emit(
        "Conv",
        data,
        weight,
        *bias,
        kernel_shape=list(window.kernel),
        strides=list(window.stride),
        dilations=list(window.dilate),
        pads=[*window.pad, *window.pad],
        group=op.num_group,
    )
    return channels_last(call, out, rank) if last else out


@converts(Deconvolution)
def _deconvolution(call: Call, op: Deconvolution) -> str:
    last, rank = is_channels_last(op.layout), call.data.rank
    data, weight, *bias = call.names
    axes = range(1, rank - 1) if last else range(2, rank)
    sizes = tuple(call.static_length(call.data, axis) for axis in axes)
    wanted = tuple(call.static_length(call.output, axis) for axis in axes)
    if last:
        data, weight = (channels_first(call, one, rank) for one in (data, weight))
    out = _transposed_convolution(
        call, (data, weight, *bias), op.window_for(sizes), op.num_group, sizes, wanted
    )
    return channels_last(call, out, rank) if last else out


def _transposed_convolution(
    call: Call,
    names: tuple[str, ...],
    window: Window,
    groups: int,
    sizes: Shape,
    wanted: Shape,
) -> str:
    """Emit a ConvTranspose whose output has the wanted sizes: it is cropped or padded at the
    end."""
    ends = [
        stride * (size - 1) + span - before - out
        for stride, size, span, before, out in zip(
            window.stride, sizes, window.spans, window.pad, wanted, strict=True
        )
    ]
    return call.emit(
        "ConvTranspose",
        *names,
        kernel_shape=list(window.kernel),
        strides=list(window.stride),
        dilations=list(window.dilate),
        pads=[*window.pad, *(max(0, end) for end in ends)],
        output_padding=[max(0, -end) for end in ends],
        group=groups,
    )


@converts(UpSampling)
def _up_sampling(call: Call, op: UpSampling) -> str:
    wanted = tuple(call.static_length(call.output, axis) for axis in (2, 3))
    if op.sample_type == "bilinear":
        # The kernel and padding of bilinear interpolation by this factor, as in MXNet.
        size, half = 2 * op.scale - op.scale % 2, op.scale // 2
        window = Window((size, size), (op.scale, op.scale), (1, 1), (half, half))
        data, weight = call.names
        return _transposed_convolution(
            call, (data, weight), window, op.num_filter, call.data.shape[2:], wanted
        )
    parts = []
    for one in call.inputs:
        scales = [1.0, 1.0, *(w / n for w, n in zip(wanted, one.shape[2:], strict=True))]
        parts.append(
            call.emit(
                "Resize",
                one.name,
                "",
                call.constant(scales, "float32"),
                mode="nearest",
                coordinate_transformation_mode="asymmetric",
                nearest_mode="floor",
            )
        )
    if len(parts) == 1:
        return parts[0]
    if op.multi_input_mode == "sum":
        return call.emit("Sum", *parts)
    return call.emit("Concat", *parts, axis=1)


@converts(BilinearResize2D, reads=(0,))
def _bilinear_resize(call: Call, op: BilinearResize2D) -> str:
    height, width = (call.static_length(call.output, axis) for axis in (2, 3))
    channels = call.static_length(call.output, 1)
    if not call.output.dynamic[0]:
        sizes = call.integers(call.output.shape[0], channels, height, width)
    else:
        sizes = call.shape_vector(call.output)
    return call.emit(
        "Resize",
        call.data.name,
        "",
        "",
        sizes,
        mode="linear",
        coordinate_transformation_mode="align_corners" if op.align_corners else "half_pixel",
    )


@converts(Pad)
def _pad(call: Call, op: Pad) -> str:
    widths = call.integers(*op.pad_width[::2], *op.pad_width[1::2])
    if op.mode == "constant":
        return call.emit("Pad", call.data.name, widths, call.number(op.constant_value))
    return call.emit("Pad", call.data.name, widths, mode=op.mode)
