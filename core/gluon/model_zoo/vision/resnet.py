"""Residual networks, version 1 (arXiv:1512.03385) and version 2 (1603.05027)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ... import nn
from ...hybrid_block import HybridBlock
from .pretrained import load_pretrained

__all__ = [
    "BasicBlockV1",
    "BasicBlockV2",
    "BottleneckV1",
    "BottleneckV2",
    "ResNetV1",
    "ResNetV2",
    "get_resnet",
    "resnet18_v1",
    "resnet18_v2",
    "resnet34_v1",
    "resnet34_v2",
    "resnet50_v1",
    "resnet50_v2",
    "resnet101_v1",
    "resnet101_v2",
    "resnet152_v1",
    "resnet152_v2",
]

_NARROW, _WIDE = [64, 64, 128, 256, 512], [64, 256, 512, 1024, 2048]

# By number of layers: whether blocks have a bottleneck, blocks of each stage, channels.
_SIZES = {
    18: (False, [2, 2, 2, 2], _NARROW),
    34: (False, [3, 4, 6, 3], _NARROW),
    50: (True, [3, 4, 6, 3], _WIDE),
    101: (True, [3, 4, 23, 3], _WIDE),
    152: (True, [3, 8, 36, 3], _WIDE),
}


def _conv3(channels: int, stride: int, in_channels: int) -> nn.Conv2D:
    return nn.Conv2D(channels, 3, stride, 1, use_bias=False, in_channels=in_channels)


def _conv1(channels: int, stride: int = 1, in_channels: int = 0) -> nn.Conv2D:
    return nn.Conv2D(channels, 1, stride, use_bias=False, in_channels=in_channels)


class _BlockV1(HybridBlock):
    """Layers with a shortcut around them, which is a convolution if the shape changes; then ReLU.

    Args:
        channels: number of output channels.
        stride: stride of the first convolution.
        downsample: whether the shortcut has a convolution.
        in_channels: number of input channels.
    """

    def __init__(
        self,
        channels: int,
        stride: int,
        downsample: bool = False,
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.body = nn.HybridSequential(prefix="")
        for position, layer in enumerate(self._convolutions(channels, stride, in_channels)):
            if position:
                self.body.add(nn.Activation("relu"))
            self.body.add(layer, nn.BatchNorm())
        self.downsample = None
        if downsample:
            self.downsample = nn.HybridSequential(prefix="")
            self.downsample.add(_conv1(channels, stride, in_channels), nn.BatchNorm())

    def _convolutions(self, channels: int, stride: int, in_channels: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define _convolutions")

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        around = x if self.downsample is None else self.downsample(x)
        return F.Activation(self._sum(around, self.body(x)), act_type="relu")

    def _sum(self, around: Any, x: Any) -> Any:
        # The order of nodes in MXNet's graphs.
        return around + x


class BasicBlockV1(_BlockV1):
    """Two convolutions of 3x3; arguments as for all blocks here."""

    def _convolutions(self, channels: int, stride: int, in_channels: int) -> Any:
        yield _conv3(channels, stride, in_channels)
        yield _conv3(channels, 1, channels)


class BottleneckV1(_BlockV1):
    """A convolution of 3x3 over a quarter of the channels, between two of 1x1."""

    def _convolutions(self, channels: int, stride: int, in_channels: int) -> Any:
        # MXNet's convolutions of 1x1 have a bias here, although BatchNorm makes it superfluous.
        yield nn.Conv2D(channels // 4, 1, stride)
        yield _conv3(channels // 4, 1, channels // 4)
        yield nn.Conv2D(channels, 1, 1)

    def _sum(self, around: Any, x: Any) -> Any:
        return x + around


class _BlockV2(HybridBlock):
    """As in version 1, but normalization and ReLU precede each convolution."""

    depth = 2

    def __init__(
        self,
        channels: int,
        stride: int,
        downsample: bool = False,
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        layers = self._convolutions(channels, stride, in_channels)
        for number, layer in enumerate(layers, 1):
            setattr(self, f"bn{number}", nn.BatchNorm())
            # Made here, not in _convolutions, because the order of creation numbers the names.
            setattr(self, f"conv{number}", layer())
        self.downsample = _conv1(channels, stride, in_channels) if downsample else None

    def _convolutions(self, channels: int, stride: int, in_channels: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define _convolutions")

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        around = x
        for number in range(1, self.depth + 1):
            x = F.Activation(getattr(self, f"bn{number}")(x), act_type="relu")
            if number == 1 and self.downsample is not None:
                around = self.downsample(x)
            x = getattr(self, f"conv{number}")(x)
        return x + around


class BasicBlockV2(_BlockV2):
    """Two convolutions of 3x3."""

    def _convolutions(self, channels: int, stride: int, in_channels: int) -> Any:
        return [
            partial(_conv3, channels, stride, in_channels),
            partial(_conv3, channels, 1, channels),
        ]


class BottleneckV2(_BlockV2):
    """A convolution of 3x3 over a quarter of the channels, between two of 1x1."""

    depth = 3

    def _convolutions(self, channels: int, stride: int, in_channels: int) -> Any:
        inner = channels // 4
        return [
            partial(_conv1, inner),
            partial(_conv3, inner, stride, inner),
            partial(_conv1, channels),
        ]


class _ResNet(HybridBlock):
    """A first convolution, stages of blocks and a classifier.

    Args:
        block: class of the blocks.
        layers: number of blocks in each stage.
        channels: number of output channels of the first convolution and of each stage.
        classes: number of outputs.
        thumbnail: whether images are small and so are not downsampled before the first stage.
    """

    def __init__(
        self,
        block: Callable[..., HybridBlock],
        layers: Sequence[int],
        channels: Sequence[int],
        classes: int = 1000,
        thumbnail: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if len(layers) != len(channels) - 1:
            raise AssertionError(f"{len(layers)} stages need {len(layers) + 1} channels")
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self._begin()
            if thumbnail:
                self.features.add(_conv3(channels[0], 1, 0))
            else:
                self.features.add(
                    nn.Conv2D(channels[0], 7, 2, 3, use_bias=False),
                    nn.BatchNorm(),
                    nn.Activation("relu"),
                    nn.MaxPool2D(3, 2, 1),
                )
            for number, count in enumerate(layers, 1):
                given, made = channels[number - 1 : number + 1]
                self.features.add(_stage(block, number, count, given, made))
            self._end()
            self.output = nn.Dense(classes, in_units=channels[-1])

    def _begin(self) -> None:
        """Add the layers before the first convolution."""

    def _end(self) -> None:
        """Add the layers after the last stage."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.output(self.features(x))


class ResNetV1(_ResNet):
    """A residual network of version 1; arguments as for version 2."""

    def _end(self) -> None:
        self.features.add(nn.GlobalAvgPool2D())


class ResNetV2(_ResNet):
    """A residual network of version 2, which normalizes its input."""

    def _begin(self) -> None:
        self.features.add(nn.BatchNorm(scale=False, center=False))

    def _end(self) -> None:
        self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Flatten())


def _stage(
    block: Callable[..., HybridBlock], number: int, count: int, in_channels: int, channels: int
) -> nn.HybridSequential:
    stage = nn.HybridSequential(prefix=f"stage{number}_")
    with stage.name_scope():
        stride = 1 if number == 1 else 2
        changes = channels != in_channels
        stage.add(block(channels, stride, changes, in_channels=in_channels, prefix=""))
        for _ in range(count - 1):
            stage.add(block(channels, 1, False, in_channels=channels, prefix=""))
    return stage


def get_resnet(
    version: int,
    num_layers: int,
    pretrained: bool = False,
    ctx: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> HybridBlock:
    """Return a residual network.

    Args:
        version: 1 or 2.
        num_layers: 18, 34, 50, 101 or 152.
        pretrained: load its parameters from a file; see ``load_pretrained``.
        ctx: devices of the parameters.
        root: folder of the file.
        **kwargs: ``classes``, ``thumbnail``, and the arguments of ``Block``.

    Raises:
        AssertionError: there is no such version or number of layers.
    """
    if num_layers not in _SIZES:
        raise AssertionError(f"Invalid number of layers: {num_layers}. Options are {[*_SIZES]}")
    if version not in (1, 2):
        raise AssertionError(f"Invalid resnet version: {version}. Options are 1 and 2.")
    is_deep, layers, channels = _SIZES[num_layers]
    blocks = [(BasicBlockV1, BottleneckV1), (BasicBlockV2, BottleneckV2)][version - 1]
    kind = (ResNetV1, ResNetV2)[version - 1]
    net = kind(blocks[is_deep], layers, channels, **kwargs)
    if pretrained:
        load_pretrained(net, f"resnet{num_layers}_v{version}", ctx, root)
    return net


resnet18_v1 = partial(get_resnet, 1, 18)
resnet34_v1 = partial(get_resnet, 1, 34)
resnet50_v1 = partial(get_resnet, 1, 50)
resnet101_v1 = partial(get_resnet, 1, 101)
resnet152_v1 = partial(get_resnet, 1, 152)
resnet18_v2 = partial(get_resnet, 2, 18)
resnet34_v2 = partial(get_resnet, 2, 34)
resnet50_v2 = partial(get_resnet, 2, 50)
resnet101_v2 = partial(get_resnet, 2, 101)
resnet152_v2 = partial(get_resnet, 2, 152)
