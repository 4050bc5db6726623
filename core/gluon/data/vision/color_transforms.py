"""Random changes of colors, by the operators ``mx.nd.image.random_...``."""

from __future__ import annotations

from typing import Any, ClassVar

from ...hybrid_block import HybridBlock

__all__ = [
    "RandomBrightness",
    "RandomColorJitter",
    "RandomContrast",
    "RandomHue",
    "RandomLighting",
    "RandomSaturation",
]


class _RandomColor(HybridBlock):
    """Base: changes a color by a random factor from [max(0, 1 - spread), 1 + spread)."""

    _operator: ClassVar[str]

    def __init__(self, spread: float) -> None:
        super().__init__()
        self._limits = {"min_factor": max(0, 1 - spread), "max_factor": 1 + spread}

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the changed image."""
        return getattr(F.image, self._operator)(x, **self._limits)


class RandomBrightness(_RandomColor):
    """Changes brightness by a random factor from [max(0, 1 - brightness), 1 + brightness)."""

    _operator: ClassVar[str] = "random_brightness"

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness)


class RandomContrast(_RandomColor):
    """Changes contrast by a random factor from [max(0, 1 - contrast), 1 + contrast)."""

    _operator: ClassVar[str] = "random_contrast"

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast)


class RandomSaturation(_RandomColor):
    """Changes saturation by a random factor from [max(0, 1 - saturation), 1 + saturation)."""

    _operator: ClassVar[str] = "random_saturation"

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation)


class RandomHue(_RandomColor):
    """Rotates hues by a random factor from [max(0, 1 - hue), 1 + hue) of a full circle."""

    _operator: ClassVar[str] = "random_hue"

    def __init__(self, hue: float) -> None:
        super().__init__(hue)


class RandomColorJitter(HybridBlock):
    """Changes brightness, contrast, saturation and hue, in random order."""

    def __init__(
        self, brightness: float = 0, contrast: float = 0, saturation: float = 0, hue: float = 0
    ) -> None:
        super().__init__()
        self._spreads = {
            "brightness": brightness,
            "contrast": contrast,
            "saturation": saturation,
            "hue": hue,
        }

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the changed image."""
        return F.image.random_color_jitter(x, **self._spreads)


class RandomLighting(HybridBlock):
    """Adds the principal components of ImageNet's colors with random factors, as for AlexNet.

    Args:
        alpha: standard deviation of their factors.
    """

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the changed image."""
        return F.image.random_lighting(x, alpha_std=self._alpha)
