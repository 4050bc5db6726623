"""Networks in PyTorch, trained on request, for compare_training.py; needs PyTorch and NumPy alone.

For each line it reads, a number of seconds, it trains for so long and prints the median
milliseconds of a step: forward pass, backward pass and update.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional


def norm_relu(channels: int) -> nn.Sequential:
    """Batch norm and ReLU."""
    return nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(inplace=True))


def convolution(
    before: int, after: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Conv2d:
    """Return a convolution without bias that keeps the size but for its stride."""
    return nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False)


class Residual(nn.Module):
    """A sum of layers' output and their input, or what ``around`` makes of it."""

    def __init__(self, body: nn.Module, around: nn.Module, *, is_active: bool) -> None:
        super().__init__()
        self.body, self.around, self.is_active = body, around, is_active

    def forward(self, x: Tensor) -> Tensor:
        """Add, with a ReLU where one follows."""
        out = self.body(x) + self.around(x)
        return functional.relu(out) if self.is_active else out


class Dense(nn.Module):
    """Layers whose output is appended to their input."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        """Append."""
        return torch.cat([x, self.body(x)], 1)


def head(channels: int, classes: int) -> list[nn.Module]:
    """Return what makes scores of images."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


def resnet(stem: list[nn.Module], units: list[int], filters: list[int], classes: int) -> nn.Module:
    """Return a residual network of two convolutions a unit."""
    layers, given = stem, filters[0]
    for stage, (count, channels) in enumerate(zip(units, filters, strict=True)):
        for unit in range(count):
            stride = 2 if stage and not unit else 1
            body = nn.Sequential(
                convolution(given, channels, 3, stride),
                norm_relu(channels),
                convolution(channels, channels, 3),
                nn.BatchNorm2d(channels),
            )
            around: nn.Module = nn.Identity()
            if given != channels:
                projection = convolution(given, channels, 1, stride)
                around = nn.Sequential(projection, nn.BatchNorm2d(channels))
            layers.append(Residual(body, around, is_active=True))
            given = channels
    return nn.Sequential(*layers, *head(given, classes))


def resnet20() -> nn.Module:
    """ResNet-20 for small images."""
    return resnet([convolution(3, 16, 3), norm_relu(16)], [3, 3, 3], [16, 32, 64], 10)


def resnet18() -> nn.Module:
    """ResNet-18."""
    stem = [convolution(3, 64, 7, 2), norm_relu(64), nn.MaxPool2d(3, 2, 1)]
    return resnet(stem, [2, 2, 2, 2], [64, 128, 256, 512], 1000)


def mobilenet() -> nn.Module:
    """MobileNet, version 2."""
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1))

    def normed(
        before: int, after: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> list[nn.Module]:
        return [convolution(before, after, kernel, stride, groups), nn.BatchNorm2d(after)]

    layers: list[nn.Module] = [*normed(3, 32, 3, 2), nn.ReLU6(inplace=True)]
    given = 32
    for expansion, channels, count, first in (*stages, (6, 160, 3, 2), (6, 320, 1, 1)):
        for number in range(count):
            stride, inner = 1 if number else first, given * expansion
            body = nn.Sequential(
                *normed(given, inner, 1),
                nn.ReLU6(inplace=True),
                *normed(inner, inner, 3, stride, inner),
                nn.ReLU6(inplace=True),
                *normed(inner, channels, 1),
            )
            is_short = stride == 1 and given == channels
            layers.append(Residual(body, nn.Identity(), is_active=False) if is_short else body)
            given = channels
    layers += [*normed(given, 1280, 1), nn.ReLU6(inplace=True), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, convolution(1280, 1000, 1), nn.Flatten())


def densenet() -> nn.Module:
    """DenseNet-121."""
    layers: list[nn.Module] = [convolution(3, 64, 7, 2), norm_relu(64), nn.MaxPool2d(3, 2, 1)]
    given = 64
    for stage, count in enumerate((6, 12, 24, 16)):
        if stage:
            layers += [norm_relu(given), convolution(given, given // 2, 1), nn.AvgPool2d(2)]
            given //= 2
        for _ in range(count):
            wide = convolution(given, 128, 1)
            narrow = convolution(128, 32, 3)
            layers.append(Dense(nn.Sequential(norm_relu(given), wide, norm_relu(128), narrow)))
            given += 32
    return nn.Sequential(
        *layers, norm_relu(given), nn.AvgPool2d(7), nn.Flatten(), nn.Linear(given, 1000)
    )


def lenet() -> nn.Module:
    """LeNet with tanh."""
    return nn.Sequential(
        *(nn.Conv2d(1, 20, 5), nn.Tanh(), nn.MaxPool2d(2)),
        *(nn.Conv2d(20, 50, 5), nn.Tanh(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(800, 500), nn.Tanh(), nn.Linear(500, 10)),
    )


def mlp() -> nn.Module:
    """784-128-64-10 with ReLU."""
    layers = (nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    return nn.Sequential(*layers)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "mlp": mlp,
    "lenet": lenet,
    "resnet20": resnet20,
    "resnet18": resnet18,
    "mobilenetv2_1.0": mobilenet,
    "densenet121": densenet,
}
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, 0.05, 0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, 0.001, fused=True),
}


def main() -> None:
    """Train the network named first, on batches of the shape and by the optimizer that follow."""
    name, shape = sys.argv[1], tuple(map(int, sys.argv[2].split(",")))
    torch.manual_seed(0)
    network, data = NETWORKS[name](), torch.randn(*shape)
    if data.dim() == 4:
        network = network.to(memory_format=torch.channels_last)
        data = data.to(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, shape[:1])
    optimizer = OPTIMIZERS[sys.argv[3]](network.parameters())

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(network(data), labels).backward()
        optimizer.step()

    for _ in range(3):
        step()
    print("ready", flush=True)
    for line in sys.stdin:
        step()  # not timed: the caches still hold the other engine's memory
        end, times = time.perf_counter() + float(line), []
        while not times or time.perf_counter() < end:
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        print(statistics.median(times) * 1e3, flush=True)


if __name__ == "__main__":
    main()
