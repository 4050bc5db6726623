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
    """``x`` where it is positive, elsewhere ``alpha x``.

    Args:
        alpha: the slope, 0 or more (UsageError).
        prefix, params: as of ``Block``.
    """

    def __init__(
        self, alpha: float, prefix: str | None = None, params: ParameterDict | None = None
    ) -> None:
        if alpha < 0:
            raise UsageError(f"Slope coefficient for LeakyReLU is {alpha}, must not be below 0")
        super().__init__(prefix, params)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply it to every element."""
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._alpha})"


class PReLU(HybridBlock):
    """``LeakyReLU`` with slopes that are learned.

    Args:
        alpha_initializer: of the slopes.
        in_channels: one slope for all, or one for each channel of the second axis.
        prefix, params: as of ``Block``.
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
        """Apply it to every element."""
        return F.LeakyReLU(x, gamma=kwargs["alpha"], act_type="prelu", name="fwd")


class ELU(HybridBlock):
    """``x`` where it is positive, elsewhere ``alpha (exp(x) - 1)``.

    Args:
        alpha: the scale.
        prefix, params: as of ``Block``.
    """

    def __init__(
        self, alpha: float = 1.0, prefix: str | None = None, params: ParameterDict | None = None
    ) -> None:
        super().__init__(prefix, params)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply it to every element."""
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """``ELU`` scaled so that networks normalize themselves (arXiv:1706.02515)."""

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply it to every element."""
        return F.LeakyReLU(x, act_type="selu", name="fwd")


class GELU(HybridBlock):
    """``x`` times the normal distribution's probability of less than ``x`` (arXiv:1606.08415)."""

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply it to every element."""
        return F.LeakyReLU(x, act_type="gelu", name="fwd")


class Swish(HybridBlock):
    """``x sigmoid(beta x)`` (arXiv:1710.05941).

    Args:
        beta: the scale.
        prefix, params: as of ``Block``.
    """

    def __init__(
        self, beta: float = 1.0, prefix: str | None = None, params: ParameterDict | None = None
    ) -> None:
        super().__init__(prefix, params)
        self._beta = beta

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply it to every element."""
        return x * F.sigmoid(self._beta * x, name="fwd")
