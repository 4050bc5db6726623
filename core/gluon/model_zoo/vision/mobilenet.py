"""Networks of depthwise convolutions: MobileNet (arXiv:1704.04861) and MobileNetV2 (1801.04381)."""

from __future__ import annotations

from functools import partial
from typing import Any

from ... import nn
from ...hybrid_block import HybridBlock
from .classifier import Classifier
from .pretrained import load_pretrained

__all__ = [
    "MobileNet",
    "MobileNetV2",
    "get_mobilenet",
    "get_mobilenet_v2",
    "mobilenet0_5",
    "mobilenet0_25",
    "mobilenet0_75",
    "mobilenet1_0",
    "mobilenet_v2_0_5",
    "mobilenet_v2_0_25",
    "mobilenet_v2_0_75",
    "mobilenet_v2_1_0",
]

# (channels, stride) of the pairs of convolutions of version 1.
_PAIRS = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)]
_PAIRS += [*[(512, 1)] * 5, (1024, 2), (1024, 1)]

# (expansion, channels, blocks, stride of the first) of the stages of version 2.
_STAGES = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
]


class RELU6(HybridBlock):
    """ReLU clipped at 6."""

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Clip."""
        return F.clip(x, 0, 6, name="relu6")


def _convolve(
    chain: nn.HybridSequential,
    channels: int,
    kernel: int = 1,
    stride: int = 1,
    groups: int = 1,
    active: HybridBlock | None = None,
) -> None:
    chain.add(
        nn.Conv2D(channels, kernel, stride, kernel // 2, groups=groups, use_bias=False),
        nn.BatchNorm(scale=True),
    )
    if active is not None:
        chain.add(active)


class LinearBottleneck(HybridBlock):
    """An inverted residual block: expansion, depthwise convolution, projection, and a shortcut if
    shapes match.

    Args:
        in_channels, channels: number of input and output channels.
        t: expansion factor of the channels in between.
        stride: stride of the depthwise convolution.
        **kwargs: as for ``Block``.
    """

    def __init__(self, in_channels: int, channels: int, t: int, stride: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.use_shortcut = stride == 1 and in_channels == channels
        inner = in_channels * t
        with self.name_scope():
            self.out = nn.HybridSequential()
            _convolve(self.out, inner, active=RELU6())
            _convolve(self.out, inner, 3, stride, inner, RELU6())
            _convolve(self.out, channels)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the layers, and add the input if shapes match."""
        out = self.out(x)
        return F.elemwise_add(out, x) if self.use_shortcut else out


class MobileNet(Classifier):
    """MobileNet.

    Args:
        multiplier: factor of all channel counts.
        classes: number of outputs.
        **kwargs: as for ``Block``.
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        given = int(32 * multiplier)
        with self.name_scope():
            chain = self.features = nn.HybridSequential(prefix="")
            with chain.name_scope():
                _convolve(chain, given, 3, 2, active=nn.Activation("relu"))
                for wanted, stride in _PAIRS:
                    channels = int(wanted * multiplier)
                    _convolve(chain, given, 3, stride, given, nn.Activation("relu"))
                    _convolve(chain, channels, active=nn.Activation("relu"))
                    given = channels
                chain.add(nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes)


class MobileNetV2(Classifier):
    """MobileNetV2; arguments as for ``MobileNet``."""

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        given = int(32 * multiplier)
        with self.name_scope():
            chain = self.features = nn.HybridSequential(prefix="features_")
            with chain.name_scope():
                _convolve(chain, given, 3, 2, active=RELU6())
                for expansion, wanted, count, first in _STAGES:
                    channels = int(wanted * multiplier)
                    for number in range(count):
                        stride = 1 if number else first
                        chain.add(LinearBottleneck(given, channels, expansion, stride))
                        given = channels
                _convolve(chain, int(1280 * max(multiplier, 1.0)), active=RELU6())
                chain.add(nn.GlobalAvgPool2D())
            last = self.output = nn.HybridSequential(prefix="output_")
            with last.name_scope():
                last.add(nn.Conv2D(classes, 1, use_bias=False, prefix="pred_"), nn.Flatten())


def get_mobilenet(
    multiplier: float,
    pretrained: bool = False,
    ctx: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> MobileNet:
    """Return a MobileNet; if ``pretrained``, with parameters from a file."""
    net = MobileNet(multiplier, **kwargs)
    if pretrained:
        load_pretrained(net, f"mobilenet{float(multiplier)}", ctx, root)
    return net


def get_mobilenet_v2(
    multiplier: float,
    pretrained: bool = False,
    ctx: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> MobileNetV2:
    """Return a MobileNetV2; if ``pretrained``, with parameters from a file."""
    net = MobileNetV2(multiplier, **kwargs)
    if pretrained:
        load_pretrained(net, f"mobilenetv2_{float(multiplier)}", ctx, root)
    return net


mobilenet1_0 = partial(get_mobilenet, 1.0)
mobilenet0_75 = partial(get_mobilenet, 0.75)
mobilenet0_5 = partial(get_mobilenet, 0.5)
mobilenet0_25 = partial(get_mobilenet, 0.25)
mobilenet_v2_1_0 = partial(get_mobilenet_v2, 1.0)
mobilenet_v2_0_75 = partial(get_mobilenet_v2, 0.75)
mobilenet_v2_0_5 = partial(get_mobilenet_v2, 0.5)
mobilenet_v2_0_25 = partial(get_mobilenet_v2, 0.25)
