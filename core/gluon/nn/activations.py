"""Activation functions as layers."""

from __future__ import annotations

from typing import Any

from ... import initializer
from ...errors import UsageError
from ..hybrid_block import HybridBlock
from ..parameter_dict import ParameterDict
from .layers import Activation

__all__ = ["ELU", "GELU", "SELU", "Activation", "LeakyReLU", "PReLU", "Swish"]


class LeakyReLU(HybridBlock):
    """``x`` for positive ``x``, else ``alpha x``.

    Args:
        alpha: the slope, 0 or more (UsageError).
        prefix, params: as for ``Block``.
    """

    def __init__(
        self, alpha: float, prefix: str | None = None, params: ParameterDict | None = None
    ) -> None:
        if alpha < 0:
            raise UsageError(f"Slope coefficient for LeakyReLU is {alpha}, must not be below 0")
        super().__init__(prefix, params)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply the function to every element."""
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._alpha})"


class PReLU(HybridBlock):
    """``LeakyReLU`` with learned slopes.

    Args:
        alpha_initializer: initializer of the slopes.
        in_channels: number of slopes: 1 for all channels together, or one for each.
        prefix, params: as for ``Block``.
    """

    def __init__(
        self,
        alpha_initializer: Any = initializer.Constant(0.25),  # noqa: B008 - never changed
        in_channels: int = 1,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix, params)
        with self.name_scope():
            self.alpha = self.params.get("alpha", shape=(in_channels,), init=alpha_initializer)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply the function to every element."""
        return F.LeakyReLU(x, gamma=kwargs["alpha"], act_type="prelu", name="fwd")


class ELU(HybridBlock):
    """``x`` for positive ``x``, else ``alpha (exp(x) - 1)``.

    Args:
        alpha: the scale.
        prefix, params: as for ``Block``.
    """

    def __init__(
        self, alpha: float = 1.0, prefix: str | None = None, params: ParameterDict | None = None
    ) -> None:
        super().__init__(prefix, params)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply the function to every element."""
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """Scaled ``ELU``, for self-normalizing networks (arXiv:1706.02515)."""

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply the function to every element."""
        return F.LeakyReLU(x, act_type="selu", name="fwd")


class GELU(HybridBlock):
    """``x`` times the cumulative distribution function of the normal distribution
    (arXiv:1606.08415)."""

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply the function to every element."""
        return F.LeakyReLU(x, act_type="gelu", name="fwd")


class Swish(HybridBlock):
    """``x sigmoid(beta x)`` (arXiv:1710.05941).

    Args:
        beta: the scale.
        prefix, params: as for ``Block``.
    """

    def __init__(
        self, beta: float = 1.0, prefix: str | None = None, params: ParameterDict | None = None
    ) -> None:
        super().__init__(prefix, params)
        self._beta = beta

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply the function to every element."""
        return x * F.sigmoid(self._beta * x, name="fwd")
