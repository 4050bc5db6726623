"""Base of all networks for images."""

from __future__ import annotations

from typing import Any

from ...hybrid_block import HybridBlock

__all__ = ["Classifier"]


class Classifier(HybridBlock):
    """A feature extractor followed by an output layer."""

    features: HybridBlock
    output: HybridBlock

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the features and the output."""
        return self.output(self.features(x))
