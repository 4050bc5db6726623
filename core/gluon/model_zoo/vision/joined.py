"""Networks that concatenate branches: SqueezeNet (arXiv:1602.07360) and DenseNet (1608.06993)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ... import nn
from ...contrib.nn import HybridConcurrent, Identity
from ...hybrid_block import HybridBlock
from .classifier import Classifier
from .pretrained import load_pretrained

__all__ = [
    "DenseNet",
    "SqueezeNet",
    "densenet121",
    "densenet161",
    "densenet169",
    "densenet201",
    "get_densenet",
    "get_squeezenet",
    "squeezenet1_0",
    "squeezenet1_1",
]

# By version: channels and kernel of the first convolution; squeeze channels, with 0 for a pooling.
_FIRES = {
    "1.0": (96, 7, [0, 16, 16, 32, 0, 32, 48, 48, 64, 0, 64]),
    "1.1": (64, 3, [0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64]),
}

# By number of layers: channels of the first convolution; growth rate; layers of each stage.
_DENSE = {
    121: (64, 32, [6, 12, 24, 16]),
    161: (96, 48, [6, 12, 36, 24]),
    169: (64, 32, [6, 12, 32, 32]),
    201: (64, 32, [6, 12, 48, 32]),
}


def _row(*blocks: HybridBlock) -> nn.HybridSequential:
    row = nn.HybridSequential(prefix="")
    row.add(*blocks)
    return row


def _joined(*blocks: HybridBlock) -> HybridConcurrent:
    both = HybridConcurrent(axis=1, prefix="")
    both.add(*blocks)
    return both


def _relu_of(channels: int, kernel: int) -> nn.HybridSequential:
    return _row(nn.Conv2D(channels, kernel, padding=kernel // 2), nn.Activation("relu"))


class SqueezeNet(Classifier):
    """SqueezeNet.

    Args:
        version: ``"1.0"`` or ``"1.1"``.
        classes: number of outputs.
        **kwargs: as for ``Block``.
    """

    def __init__(self, version: str, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if version not in _FIRES:
            raise AssertionError(f"Unsupported SqueezeNet version {version}: 1.0 or 1.1 expected")
        channels, kernel, fires = _FIRES[version]
        with self.name_scope():
            chain = self.features = nn.HybridSequential(prefix="")
            chain.add(nn.Conv2D(channels, kernel, 2), nn.Activation("relu"))
            for squeezed in fires:
                if not squeezed:
                    chain.add(nn.MaxPool2D(3, 2, ceil_mode=True))
                    continue
                first = _relu_of(squeezed, 1)
                wide = _joined(_relu_of(4 * squeezed, 1), _relu_of(4 * squeezed, 3))
                chain.add(_row(first, wide))
            chain.add(nn.Dropout(0.5))
            self.output = _row(
                nn.Conv2D(classes, 1), nn.Activation("relu"), nn.AvgPool2D(13), nn.Flatten()
            )


class DenseNet(Classifier):
    """DenseNet: each layer reads the outputs of all layers before it in its stage.

    Args:
        num_init_features: channels of the first convolution.
        growth_rate: number of channels that each layer adds.
        block_config: number of layers in each stage.
        bn_size: width of a layer's bottleneck, in multiples of the growth rate.
        dropout: dropout rate of a layer's output.
        classes: number of outputs.
        **kwargs: as for ``Block``.
    """

    def __init__(
        self,
        num_init_features: int,
        growth_rate: int,
        block_config: Sequence[int],
        bn_size: int = 4,
        dropout: float = 0,
        classes: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        channels = num_init_features
        with self.name_scope():
            chain = self.features = nn.HybridSequential(prefix="")
            chain.add(
                nn.Conv2D(channels, 7, 2, 3, use_bias=False),
                nn.BatchNorm(),
                nn.Activation("relu"),
                nn.MaxPool2D(3, 2, 1),
            )
            for number, layers in enumerate(block_config, 1):
                stage = nn.HybridSequential(prefix=f"stage{number}_")
                with stage.name_scope():
                    for _ in range(layers):
                        added = _row(*_normal(bn_size * growth_rate, 1), *_normal(growth_rate, 3))
                        if dropout:
                            added.add(nn.Dropout(dropout))
                        stage.add(_joined(Identity(), added))
                chain.add(stage)
                channels += layers * growth_rate
                if number < len(block_config):
                    channels //= 2
                    chain.add(_row(*_normal(channels, 1), nn.AvgPool2D(2, 2)))
            chain.add(nn.BatchNorm(), nn.Activation("relu"), nn.AvgPool2D(7), nn.Flatten())
            self.output = nn.Dense(classes)


def _normal(channels: int, kernel: int) -> list[HybridBlock]:
    """Return a convolution preceded by normalization and activation."""
    convolution = nn.Conv2D(channels, kernel, padding=kernel // 2, use_bias=False)
    return [nn.BatchNorm(), nn.Activation("relu"), convolution]


def get_squeezenet(
    version: str,
    pretrained: bool = False,
    ctx: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> SqueezeNet:
    """Return a SqueezeNet; if ``pretrained``, with parameters from a file."""
    net = SqueezeNet(version, **kwargs)
    if pretrained:
        load_pretrained(net, f"squeezenet{version}", ctx, root)
    return net


def get_densenet(
    num_layers: int,
    pretrained: bool = False,
    ctx: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> DenseNet:
    """Return a DenseNet of 121, 161, 169 or 201 layers; ``pretrained`` as for all networks."""
    net = DenseNet(*_DENSE[num_layers], **kwargs)
    if pretrained:
        load_pretrained(net, f"densenet{num_layers}", ctx, root)
    return net


squeezenet1_0 = partial(get_squeezenet, "1.0")
squeezenet1_1 = partial(get_squeezenet, "1.1")
densenet121 = partial(get_densenet, 121)
densenet161 = partial(get_densenet, 161)
densenet169 = partial(get_densenet, 169)
densenet201 = partial(get_densenet, 201)
