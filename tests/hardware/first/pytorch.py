"""PyTorch's times on this GPU, the anchor of our own: eager, as a CUDA graph, and compiled.

``python -m hardware.first.pytorch [NAME ...]`` prints a line of JSON for each case, of all or of
those whose names begin so. Needs PyTorch, and torchvision for ResNet-50. Times are medians of five
groups of steps, by events of the device.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from torch_training import NETWORKS

Step = Callable[[], Any]
DEVICE = "cuda"


def resnet50() -> nn.Module:
    """Return torchvision's ResNet-50."""
    import torchvision

    network: nn.Module = torchvision.models.resnet50()
    return network


class LanguageModel(nn.Module):
    """Embedding, two LSTM layers, scores of 10,000 words: MXNet's lstm_bucketing example."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10000, 200)
        self.lstm = nn.LSTM(200, 200, 2, batch_first=True)
        self.scores = nn.Linear(200, 10000)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return a row of scores for each word."""
        return self.scores(self.lstm(self.embed(words))[0]).flatten(0, 1)


def milliseconds(step: Step) -> float:
    """Return the median over five groups of the milliseconds of a step."""
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    step()
    torch.cuda.synchronize()
    count = max(3, min(200, int(0.1 / max(time.perf_counter() - begin, 1e-5))))
    times = []
    for _ in range(5):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(count):
            step()
        last.record()
        last.synchronize()
        times.append(first.elapsed_time(last) / count)
    return statistics.median(times)


def graphed(step: Step) -> Step:
    """Return the step as one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def training(
    make: Callable[[], nn.Module],
    data: torch.Tensor,
    labels: torch.Tensor,
    half: bool,
    *,
    compiled: bool = False,
) -> Step:
    """Return a step of training: gradients and an update by SGD with momentum."""
    torch.manual_seed(0)
    network = make().to(DEVICE)
    if data.dim() == 4:
        network, data = (one.to(memory_format=torch.channels_last) for one in (network, data))
    optimizer = torch.optim.SGD(network.parameters(), 0.05, 0.9, fused=True)
    called: Any = torch.compile(network) if compiled else network

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=half):
            loss = functional.cross_entropy(called(data), labels)
        loss.backward()
        optimizer.step()

    return step


def inference(batch: int) -> Step:
    """Return a prediction of ResNet-50 in bfloat16."""
    network = resnet50().to(DEVICE).eval().to(torch.bfloat16, memory_format=torch.channels_last)
    data = torch.randn(batch, 3, 224, 224, device=DEVICE, dtype=torch.bfloat16)
    data = data.to(memory_format=torch.channels_last)

    def step() -> None:
        with torch.inference_mode():
            network(data)

    return step


def cases() -> Iterator[tuple[str, Callable[[bool], Step]]]:
    """Yield names, and what returns a step, compiled or not."""

    def images(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=DEVICE)

    def labels(count: int) -> torch.Tensor:
        return torch.randint(0, 10, (count,), device=DEVICE)

    for name, shape in (("mlp", (784,)), ("lenet", (1, 28, 28)), ("resnet20", (3, 32, 32))):
        yield (
            f"train {name} 64 float32",
            lambda is_compiled, name=name, shape=shape: training(
                NETWORKS[name], images(64, *shape), labels(64), False, compiled=is_compiled
            ),
        )
    for batch in (1, 8, 64):
        yield f"infer resnet50 {batch} bfloat16", lambda is_compiled, batch=batch: inference(batch)
    for kind in ("bfloat16", "tf32", "float32"):

        def of_resnet50(is_compiled: bool, kind: str = kind) -> Step:
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = kind == "tf32"
            return training(resnet50, images(64, 3, 224, 224), labels(64), kind == "bfloat16")

        yield f"train resnet50 64 {kind}", of_resnet50
    for length in (10, 30, 60):
        yield (
            f"train lstm 32x{length} float32",
            lambda is_compiled, length=length: training(
                LanguageModel,
                torch.randint(0, 10000, (32, length), device=DEVICE),
                torch.randint(0, 10000, (32 * length,), device=DEVICE),
                False,
            ),
        )


def main(wanted: list[str]) -> None:
    """Print each case as it stands, then those that are worth compiling."""
    torch.backends.cudnn.benchmark = True
    for is_compiled in (False, True):
        for name, make in cases():
            if wanted and not name.startswith(tuple(wanted)):
                continue
            if is_compiled and not name.endswith(("64 float32", "8 bfloat16")):
                continue
            if is_compiled and "resnet50" in name:
                continue
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
            found: dict[str, Any] = {"case": name, "compiled": is_compiled}
            try:
                step = make(is_compiled)
                found["ms eager"] = milliseconds(step)
                found["ms graph"] = milliseconds(graphed(step))
            except Exception as error:
                found["error"] = f"{type(error).__name__}: {error}"[:300]
            print(json.dumps(found), flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main(sys.argv[1:])
