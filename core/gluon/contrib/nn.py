"""Additional layers (``mx.gluon.contrib.nn``)."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from ... import ndarray
from ...backends import gpu_count
from ..base_block import Block
from ..hybrid_block import HybridBlock
from ..nn.normalization import BatchNorm
from ..nn.sequential import HybridSequential, Sequential
from ..parameter_dict import ParameterDict

__all__ = [
    "Concurrent",
    "HybridConcurrent",
    "Identity",
    "PixelShuffle1D",
    "PixelShuffle2D",
    "PixelShuffle3D",
    "SparseEmbedding",
    "SyncBatchNorm",
]


class Concurrent(Sequential):
    """Applies blocks to the same input and concatenates their outputs.

    Args:
        axis: axis of the concatenation.
        prefix, params: as for ``Block``.
    """

    def __init__(
        self, axis: int = -1, prefix: str | None = None, params: ParameterDict | None = None
    ) -> None:
        super().__init__(prefix, params)
        self.axis = axis

    def forward(self, *args: Any) -> Any:
        """Run each block and concatenate the outputs."""
        return ndarray.concat(*[block(*args) for block in self], dim=self.axis)


class HybridConcurrent(HybridSequential):
    """``Concurrent`` that can be compiled.

    Args:
        axis: axis of the concatenation.
        prefix, params: as for ``Block``.
    """

    def __init__(
        self, axis: int = -1, prefix: str | None = None, params: ParameterDict | None = None
    ) -> None:
        super().__init__(prefix, params)
        self.axis = axis

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Run each block and concatenate the outputs."""
        return F.concat(*[block(x) for block in self], dim=self.axis)


class Identity(HybridBlock):
    """Returns its input, as a shortcut beside the other blocks of a ``HybridConcurrent``."""

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the input."""
        return x


class SparseEmbedding(Block):
    """``Embedding`` whose parameter and gradient are ``row_sparse``.

    Args:
        input_dim: number of vectors.
        output_dim: their length.
        dtype: dtype of the vectors.
        weight_initializer: initializer or its name.
        **kwargs: as for ``Block``.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs = {
            "input_dim": input_dim,
            "output_dim": output_dim,
            "dtype": dtype,
            "sparse_grad": True,
        }
        self.weight = self.params.get(
            "weight",
            shape=(input_dim, output_dim),
            init=weight_initializer,
            dtype=dtype,
            grad_stype="row_sparse",
            stype="row_sparse",
        )

    def forward(self, *args: Any) -> Any:
        """Look up the vectors, fetching only the rows that are needed."""
        (x,) = args
        weight = self.weight.row_sparse_data(x)
        return ndarray.Embedding(x, weight, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        settings = self._kwargs
        vectors = f"{settings['input_dim']} -> {settings['output_dim']}"
        return f"{type(self).__name__}({vectors}, {settings['dtype']})"


class SyncBatchNorm(BatchNorm):
    """Batch norm of channels along axis 1 in networks that several devices train together.

    Here each device normalizes its own part of the batch; MXNet's joins the statistics of
    ``num_devices`` devices.

    Args:
        in_channels: number of channels; 0 finds it at the first call.
        num_devices: devices that train together; the number of GPUs (at least 1) by default.
        momentum, epsilon, center, scale, use_global_stats, beta_initializer, gamma_initializer,
            running_mean_initializer, running_variance_initializer: as of ``BatchNorm``.
        **kwargs: as of ``Block``.
    """

    def __init__(
        self,
        in_channels: int = 0,
        num_devices: int | None = None,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            momentum=momentum,
            epsilon=epsilon,
            center=center,
            scale=scale,
            use_global_stats=use_global_stats,
            beta_initializer=beta_initializer,
            gamma_initializer=gamma_initializer,
            running_mean_initializer=running_mean_initializer,
            running_variance_initializer=running_variance_initializer,
            in_channels=in_channels,
            **kwargs,
        )
        count = max(gpu_count(), 1) if num_devices is None else num_devices
        if count > 1:
            warnings.warn(
                f"SyncBatchNorm {self.name} is for {count} devices, but each normalizes its own "
                "part of the batch by itself",
                stacklevel=2,
            )
        del self._kwargs["axis"]
        self._kwargs |= {"ndev": count, "key": self.prefix}

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Normalize."""
        parameters = ("gamma", "beta", "running_mean", "running_var")
        arrays = [kwargs[name] for name in parameters]
        return F.contrib.SyncBatchNorm(x, *arrays, name="fwd", **self._kwargs)


class _PixelShuffle(HybridBlock):
    """Base: interleaves groups of channels as pixels (sub-pixel convolution).

    Args:
        factor: enlargement of the image, as one number or by axis.
    """

    _axes: ClassVar[int]

    def __init__(self, factor: int | tuple[int, ...]) -> None:
        super().__init__()
        given = (factor,) * self._axes if isinstance(factor, int) else tuple(factor)
        if len(given) != self._axes:
            raise AssertionError(f"wrong length {len(given)}, expected {self._axes} factors")
        self._factors = given

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Rearrange channels into pixels."""
        axes = self._axes
        # For each axis, from the last to the first, split its factor off the channels. Codes of
        # reshape: -4 splits, 0 keeps, -3 merges two.
        for done, factor in enumerate(reversed(self._factors)):
            x = F.reshape(x, shape=(0, -4, -1, factor, *[0] * (axes + done)))
        pairs = [axis for at in range(axes) for axis in (2 + axes + at, 2 + at)]
        x = F.transpose(x, axes=(0, 1, *pairs))
        return F.reshape(x, shape=(0, 0, *[-3] * axes))

    def __repr__(self) -> str:
        shown = self._factors[0] if self._axes == 1 else self._factors
        return f"{type(self).__name__}({shown})"


class PixelShuffle1D(_PixelShuffle):
    """From (N, f * C, W) to (N, C, f * W)."""

    _axes = 1


class PixelShuffle2D(_PixelShuffle):
    """From (N, f * g * C, H, W) to (N, C, f * H, g * W)."""

    _axes = 2


class PixelShuffle3D(_PixelShuffle):
    """From (N, f * g * h * C, D, H, W) to (N, C, f * D, g * H, h * W)."""

    _axes = 3
