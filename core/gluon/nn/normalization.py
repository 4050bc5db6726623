"""Normalization over the batch, over each example, and over groups of channels."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..hybrid_block import HybridBlock
from ..parameter_dict import ParameterDict

__all__ = ["BatchNorm", "BatchNormReLU", "GroupNorm", "InstanceNorm", "LayerNorm"]


class _Normalization(HybridBlock):
    """Base: a scale ``gamma`` and a shift ``beta``, learned or fixed."""

    def __init__(
        self,
        settings: dict[str, Any],
        length: int,
        center: bool,
        scale: bool,
        beta_initializer: Any,
        gamma_initializer: Any,
        prefix: str | None,
        params: ParameterDict | None,
    ) -> None:
        super().__init__(prefix, params)
        self._kwargs = settings
        self.gamma = self.params.get(
            "gamma",
            grad_req="write" if scale else "null",
            shape=(length,),
            init=gamma_initializer,
            allow_deferred_init=True,
        )
        self.beta = self.params.get(
            "beta",
            grad_req="write" if center else "null",
            shape=(length,),
            init=beta_initializer,
            allow_deferred_init=True,
        )

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self._kwargs.items())
        channels = self.gamma.shape[0] if self.gamma.shape else None
        return f"{type(self).__name__}({settings}, in_channels={channels or None})"


class BatchNorm(_Normalization):
    """Normalizes each channel over the batch, in inference by moving averages (arXiv:1502.03167).

    Args:
        axis: the channel axis.
        momentum: momentum of the moving averages.
        epsilon: added to the variance.
        center, scale: whether to learn ``beta`` and ``gamma``, which are otherwise 0 and 1.
        use_global_stats: normalize by the moving averages in training, too.
        beta_initializer, gamma_initializer: initializers or their names.
        running_mean_initializer, running_variance_initializer: initializers of the moving averages.
        in_channels: number of channels; 0 infers it at the first call.
        prefix, params: as for ``Block``.
    """

    _node_name: ClassVar[str] = "fwd"

    def __init__(
        self,
        axis: int = 1,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        in_channels: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        settings = {
            "axis": axis,
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
        }
        super().__init__(
            settings,
            in_channels,
            center,
            scale,
            beta_initializer,
            gamma_initializer,
            prefix,
            params,
        )
        self.running_mean, self.running_var = (
            self.params.get(
                name, grad_req="null", shape=(in_channels,), init=init, allow_deferred_init=True
            )
            for name, init in (
                ("running_mean", running_mean_initializer),
                ("running_var", running_variance_initializer),
            )
        )

    def cast(self, dtype: Any) -> None:
        """Change the dtype of all parameters; for float16 they stay float32, which the operator
        takes for float16 data."""
        super().cast("float32" if np.dtype(dtype) == np.float16 else dtype)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Normalize."""
        parameters = ("gamma", "beta", "running_mean", "running_var")
        arrays = [kwargs[name] for name in parameters]
        return F.BatchNorm(x, *arrays, name=self._node_name, **self._kwargs)


class BatchNormReLU(BatchNorm):
    """``BatchNorm`` followed by ReLU."""

    _node_name = "norm"

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Normalize and rectify."""
        normalized = super().hybrid_forward(F, x, *args, **kwargs)
        return F.Activation(normalized, act_type="relu", name="fwd")


class InstanceNorm(_Normalization):
    """Normalizes each channel of each example (arXiv:1607.08022).

    Args:
        axis: the channel axis.
        epsilon: added to the variance.
        center, scale: whether to learn ``beta`` and ``gamma``.
        beta_initializer, gamma_initializer: initializers or their names.
        in_channels: number of channels; 0 infers it at the first call.
        prefix, params: as for ``Block``.
    """

    def __init__(
        self,
        axis: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        settings = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        super().__init__(
            settings,
            in_channels,
            center,
            scale,
            beta_initializer,
            gamma_initializer,
            prefix,
            params,
        )
        self._axis, self._epsilon = axis, epsilon

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Normalize."""
        gamma, beta = kwargs["gamma"], kwargs["beta"]
        if self._axis == 1:
            return F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon)
        found = F.InstanceNorm(
            x.swapaxes(1, self._axis), gamma, beta, name="fwd", eps=self._epsilon
        )
        return found.swapaxes(1, self._axis)


class LayerNorm(_Normalization):
    """Normalizes along an axis of each example (arXiv:1607.06450).

    Args:
        axis: the axis.
        epsilon: added to the variance.
        center, scale: whether to learn ``beta`` and ``gamma``.
        beta_initializer, gamma_initializer: initializers or their names.
        in_channels: length of the axis; 0 infers it at the first call.
        prefix, params: as for ``Block``.
    """

    def __init__(
        self,
        axis: int = -1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        settings = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        super().__init__(
            settings,
            in_channels,
            center,
            scale,
            beta_initializer,
            gamma_initializer,
            prefix,
            params,
        )
        self._axis, self._epsilon = axis, epsilon

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Normalize."""
        return F.LayerNorm(x, kwargs["gamma"], kwargs["beta"], axis=self._axis, eps=self._epsilon)


class GroupNorm(_Normalization):
    """Normalizes groups of channels of each example (arXiv:1803.08494).

    As in MXNet 1.9, ``gamma`` and ``beta`` have one value for each group.

    Args:
        num_groups: number of groups of channels, which are the second axis.
        epsilon: added to the variance.
        center, scale: whether to learn ``beta`` and ``gamma``.
        beta_initializer, gamma_initializer: initializers or their names.
        prefix, params: as for ``Block``.
    """

    def __init__(
        self,
        num_groups: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        settings = {"eps": epsilon, "num_groups": num_groups, "center": center, "scale": scale}
        super().__init__(
            settings, num_groups, center, scale, beta_initializer, gamma_initializer, prefix, params
        )
        self._num_groups, self._epsilon = num_groups, epsilon

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Normalize."""
        gamma, beta = kwargs["gamma"], kwargs["beta"]
        return F.GroupNorm(x, gamma, beta, num_groups=self._num_groups, eps=self._epsilon)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self._kwargs.items())
        return f"{type(self).__name__}({settings})"
