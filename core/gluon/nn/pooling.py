"""Pooling layers over one to three axes, and padding by reflection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ...errors import UsageError
from ..hybrid_block import HybridBlock
from ..parameter_dict import ParameterDict
from .convolutions import Lengths, checked_layout, per_axis

__all__ = [
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "GlobalAvgPool1D",
    "GlobalAvgPool2D",
    "GlobalAvgPool3D",
    "GlobalMaxPool1D",
    "GlobalMaxPool2D",
    "GlobalMaxPool3D",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "ReflectionPad2D",
]

_LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


class _Pooling(HybridBlock):
    """Base of pooling layers; subclasses define the number of axes and the function."""

    _axes: ClassVar[int]
    _kind: ClassVar[str]

    def __init__(
        self,
        pool_size: Lengths,
        strides: Lengths | None,
        padding: Lengths,
        ceil_mode: bool,
        layout: str | None,
        prefix: str | None,
        params: ParameterDict | None,
        **settings: Any,
    ) -> None:
        super().__init__(prefix, params)
        kernel = per_axis("pool_size", pool_size, self._axes)
        self._kwargs: dict[str, Any] = {
            "kernel": kernel,
            "stride": kernel if strides is None else per_axis("strides", strides, self._axes),
            "pad": per_axis("padding", padding, self._axes),
            "global_pool": False,
            "pool_type": self._kind,
            "layout": checked_layout(self, layout, _LAYOUTS[self._axes]),
            "pooling_convention": "full" if ceil_mode else "valid",
            **settings,
        }

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Pool."""
        return F.Pooling(x, name="fwd", **self._kwargs)

    def _alias(self) -> str:
        return "pool"

    def __repr__(self) -> str:
        settings = self._kwargs
        return (
            f"{type(self).__name__}(size={settings['kernel']}, stride={settings['stride']}, "
            f"padding={settings['pad']}, ceil_mode={settings['pooling_convention'] == 'full'}, "
            f"global_pool={settings['global_pool']}, pool_type={settings['pool_type']}, "
            f"layout={settings['layout']})"
        )


class _MaxPooling(_Pooling):
    """The largest value of each window.

    Args:
        pool_size: length of the window, one number for all axes or one for each.
        strides: distance between windows, by default the window's length.
        padding: number of smallest values to pad on both sides.
        layout: the axes of the data; by default channels come second.
        ceil_mode: let the last window reach beyond the end.
        prefix, params: as for ``Block``.
    """

    _kind = "max"

    def __init__(
        self,
        pool_size: Lengths = 2,
        strides: Lengths | None = None,
        padding: Lengths = 0,
        layout: str | None = None,
        ceil_mode: bool = False,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, layout, prefix, params)


class MaxPool1D(_MaxPooling):
    __doc__ = f"Max pooling over one axis.\n{_MaxPooling.__doc__}"
    _axes = 1


class MaxPool2D(_MaxPooling):
    __doc__ = f"Max pooling over two axes.\n{_MaxPooling.__doc__}"
    _axes = 2


# Not derived from _MaxPooling, because in MXNet its ceil_mode precedes layout.
class MaxPool3D(_Pooling):
    __doc__ = f"Max pooling over three axes.\n{_MaxPooling.__doc__}"
    _axes, _kind = 3, "max"

    def __init__(
        self,
        pool_size: Lengths = 2,
        strides: Lengths | None = None,
        padding: Lengths = 0,
        ceil_mode: bool = False,
        layout: str | None = None,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, layout, prefix, params)


class AvgPool1D(_Pooling):
    """The average of each window, over one axis.

    Args:
        pool_size, strides, padding, layout, ceil_mode: as for ``MaxPool1D``; padding is zeros.
        count_include_pad: divide by the length of the whole window, including padding.
        prefix, params: as for ``Block``.
    """

    _axes, _kind = 1, "avg"

    def __init__(
        self,
        pool_size: Lengths = 2,
        strides: Lengths | None = None,
        padding: Lengths = 0,
        layout: str | None = None,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(
            pool_size,
            strides,
            padding,
            ceil_mode,
            layout,
            prefix,
            params,
            count_include_pad=count_include_pad,
        )


class _AvgPooling(_Pooling):
    """The average of each window; like ``AvgPool1D``, but ``ceil_mode`` precedes ``layout``, as in
    MXNet."""

    _kind = "avg"

    def __init__(
        self,
        pool_size: Lengths = 2,
        strides: Lengths | None = None,
        padding: Lengths = 0,
        ceil_mode: bool = False,
        layout: str | None = None,
        count_include_pad: bool = True,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(
            pool_size,
            strides,
            padding,
            ceil_mode,
            layout,
            prefix,
            params,
            count_include_pad=count_include_pad,
        )


class AvgPool2D(_AvgPooling):
    __doc__ = f"Average pooling over two axes.\n{_AvgPooling.__doc__}"
    _axes = 2


class AvgPool3D(_AvgPooling):
    __doc__ = f"Average pooling over three axes.\n{_AvgPooling.__doc__}"
    _axes = 3


class _GlobalPooling(_Pooling):
    """One value for each channel.

    Args:
        layout: the axes of the data; by default channels come second.
        prefix, params: as for ``Block``.
    """

    def __init__(
        self,
        layout: str | None = None,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(1, None, 0, True, layout, prefix, params, global_pool=True)


class GlobalMaxPool1D(_GlobalPooling):
    __doc__ = f"The largest value over one axis.\n{_GlobalPooling.__doc__}"
    _axes, _kind = 1, "max"


class GlobalMaxPool2D(_GlobalPooling):
    __doc__ = f"The largest value over two axes.\n{_GlobalPooling.__doc__}"
    _axes, _kind = 2, "max"


class GlobalMaxPool3D(_GlobalPooling):
    __doc__ = f"The largest value over three axes.\n{_GlobalPooling.__doc__}"
    _axes, _kind = 3, "max"


class GlobalAvgPool1D(_GlobalPooling):
    __doc__ = f"The average over one axis.\n{_GlobalPooling.__doc__}"
    _axes, _kind = 1, "avg"


class GlobalAvgPool2D(_GlobalPooling):
    __doc__ = f"The average over two axes.\n{_GlobalPooling.__doc__}"
    _axes, _kind = 2, "avg"


class GlobalAvgPool3D(_GlobalPooling):
    __doc__ = f"The average over three axes.\n{_GlobalPooling.__doc__}"
    _axes, _kind = 3, "avg"


class ReflectionPad2D(HybridBlock):
    """Pads (batch, channels, h, w) by reflection.

    Args:
        padding: one number for all four sides, or eight numbers: before and after each axis.
        prefix, params: as for ``Block``.

    Raises:
        UsageError: the number of paddings is wrong.
    """

    def __init__(
        self,
        padding: int | Sequence[int] = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix, params)
        widths = (0, 0, 0, 0, *[padding] * 4) if isinstance(padding, int) else tuple(padding)
        if len(widths) != 8:
            raise UsageError(f"padding is {padding!r}; expected a number or 8 of them")
        self._padding = widths

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Pad."""
        return F.pad(x, mode="reflect", pad_width=self._padding)
