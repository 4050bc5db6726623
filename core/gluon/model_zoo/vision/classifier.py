"""What all networks for images have in common."""

from __future__ import annotations

from typing import Any

from ...hybrid_block import HybridBlock

__all__ = ["Classifier"]


class Classifier(HybridBlock):
    """Features, and the output made of them."""

    features: HybridBlock
    output: HybridBlock

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the features and the output."""
        return self.output(self.features(x))
