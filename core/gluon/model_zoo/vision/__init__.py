"""Networks for images (``mx.gluon.model_zoo.vision``), with MXNet's names and shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....errors import did_you_mean
from ...hybrid_block import HybridBlock

# The module's name is that of its function, which has to be imported after it.
from .alexnet import AlexNet, alexnet
from .inception import (
    Inception3,
    inception_v3,
)
from .joined import (
    DenseNet,
    SqueezeNet,
    densenet121,
    densenet161,
    densenet169,
    densenet201,
    get_densenet,
    get_squeezenet,
    squeezenet1_0,
    squeezenet1_1,
)
from .mobilenet import (
    MobileNet,
    MobileNetV2,
    get_mobilenet,
    get_mobilenet_v2,
    mobilenet0_5,
    mobilenet0_25,
    mobilenet0_75,
    mobilenet1_0,
    mobilenet_v2_0_5,
    mobilenet_v2_0_25,
    mobilenet_v2_0_75,
    mobilenet_v2_1_0,
)
from .plain import (
    VGG,
    get_vgg,
    vgg11,
    vgg11_bn,
    vgg13,
    vgg13_bn,
    vgg16,
    vgg16_bn,
    vgg19,
    vgg19_bn,
)
from .resnet import (
    BasicBlockV1,
    BasicBlockV2,
    BottleneckV1,
    BottleneckV2,
    ResNetV1,
    ResNetV2,
    get_resnet,
    resnet18_v1,
    resnet18_v2,
    resnet34_v1,
    resnet34_v2,
    resnet50_v1,
    resnet50_v2,
    resnet101_v1,
    resnet101_v2,
    resnet152_v1,
    resnet152_v2,
)

__all__ = [
    "VGG",
    "AlexNet",
    "BasicBlockV1",
    "BasicBlockV2",
    "BottleneckV1",
    "BottleneckV2",
    "DenseNet",
    "Inception3",
    "MobileNet",
    "MobileNetV2",
    "ResNetV1",
    "ResNetV2",
    "SqueezeNet",
    "alexnet",
    "densenet121",
    "densenet161",
    "densenet169",
    "densenet201",
    "get_densenet",
    "get_mobilenet",
    "get_mobilenet_v2",
    "get_model",
    "get_resnet",
    "get_squeezenet",
    "get_vgg",
    "inception_v3",
    "mobilenet0_5",
    "mobilenet0_25",
    "mobilenet0_75",
    "mobilenet1_0",
    "mobilenet_v2_0_5",
    "mobilenet_v2_0_25",
    "mobilenet_v2_0_75",
    "mobilenet_v2_1_0",
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
    "squeezenet1_0",
    "squeezenet1_1",
    "vgg11",
    "vgg11_bn",
    "vgg13",
    "vgg13_bn",
    "vgg16",
    "vgg16_bn",
    "vgg19",
    "vgg19_bn",
]

_MODELS: dict[str, Callable[..., HybridBlock]] = {
    "resnet18_v1": resnet18_v1,
    "resnet34_v1": resnet34_v1,
    "resnet50_v1": resnet50_v1,
    "resnet101_v1": resnet101_v1,
    "resnet152_v1": resnet152_v1,
    "resnet18_v2": resnet18_v2,
    "resnet34_v2": resnet34_v2,
    "resnet50_v2": resnet50_v2,
    "resnet101_v2": resnet101_v2,
    "resnet152_v2": resnet152_v2,
    "vgg11": vgg11,
    "vgg11_bn": vgg11_bn,
    "vgg13": vgg13,
    "vgg13_bn": vgg13_bn,
    "vgg16": vgg16,
    "vgg16_bn": vgg16_bn,
    "vgg19": vgg19,
    "vgg19_bn": vgg19_bn,
    "alexnet": alexnet,
    "densenet121": densenet121,
    "densenet161": densenet161,
    "densenet169": densenet169,
    "densenet201": densenet201,
    "squeezenet1.0": squeezenet1_0,
    "squeezenet1.1": squeezenet1_1,
    "inceptionv3": inception_v3,
    "mobilenet1.0": mobilenet1_0,
    "mobilenetv2_1.0": mobilenet_v2_1_0,
    "mobilenet0.75": mobilenet0_75,
    "mobilenetv2_0.75": mobilenet_v2_0_75,
    "mobilenet0.5": mobilenet0_5,
    "mobilenetv2_0.5": mobilenet_v2_0_5,
    "mobilenet0.25": mobilenet0_25,
    "mobilenetv2_0.25": mobilenet_v2_0_25,
}


def model_names() -> list[str]:
    """Return the names that ``get_model`` knows."""
    return list(_MODELS)


def get_model(name: str, **kwargs: Any) -> HybridBlock:
    """Return a network by its name.

    Args:
        name: for example ``"resnet18_v1"``; case is ignored.
        **kwargs: arguments of the network's own function, such as ``classes`` and ``pretrained``.

    Raises:
        ValueError: there is no such network.
    """
    found = _MODELS.get(name.lower())
    if found is None:
        raise ValueError(
            f"Model {name} is not supported{did_you_mean(name.lower(), _MODELS)}. Available "
            f"options are {', '.join(sorted(_MODELS))}"
        )
    return found(**kwargs)
