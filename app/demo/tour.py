"""The steps of ``modserve demo``, each as a user would make them over HTTP."""

from __future__ import annotations

import json
import shlex
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from app.client import Client
from app.client.local_server import ServerProcess, running_server
from app.demo.drawing import draw_digit

__all__ = ["run_demo"]

DATA = Path(__file__).parent / "data"
MNIST = DATA / "mnist_5k.npz"
LENET = DATA / "lenet-symbol.json"

BATCH_SIZE = 64
EPOCHS = 12
SCALE = 1 / 255


def images(part: str) -> dict[str, Any]:
    """Return how the arrays of a part of the digits become LeNet's inputs."""
    return {
        "dataset": "mnist",
        "inputs": {
            "data": {"array": f"{part}_images", "shape": [1, 28, 28], "scale": SCALE},
            "softmax_label": {"array": f"{part}_labels"},
        },
    }


FIT = {
    **images("train"),
    "validation": images("test"),
    "epochs": EPOCHS,
    "batch_size": BATCH_SIZE,
    "optimizer": {"name": "sgd", "options": {"learning_rate": 0.05, "momentum": 0.9}},
    "metrics": ["accuracy", "ce"],
}


def run_demo(port: int, once: bool, console: Console | None = None) -> int:
    """Run the tour against a server of its own; return the exit status.

    Args:
        port: to listen on; 0 takes a free one.
        once: end after the tour instead of serving on.
        console: where to print.
    """
    console = console or Console()
    with tempfile.TemporaryDirectory(prefix="modserve-demo-") as folder:
        try:
            with running_server(Path(folder), port=port) as server:
                return _tour(server, once, console)
        except KeyboardInterrupt:
            console.print("\nStopped.")
            return 0


def _tour(server: ServerProcess, once: bool, console: Console) -> int:
    started, url = time.monotonic(), server.url
    with Client(url) as client:
        console.rule(f"[bold]modserve at {url}")
        _upload(client, console)
        _create(client, console)
        accuracy = _train(client, console)
        _save(client, console)
        _ask(client, console)
        console.print(f"\n[bold green]Done in {time.monotonic() - started:.0f} s.[/]")
        _print_curl(url, console)
        if once:
            return 0 if accuracy >= 0.97 else 1
        console.print(f"\nServing at {url}/docs until Ctrl-C.")
        server.process.wait()
    return 0


def _upload(client: Client, console: Console) -> None:
    record = client.put_dataset("mnist", MNIST)
    arrays = ", ".join(f"{one['name']} {tuple(one['shape'])}" for one in record["arrays"])
    console.print(f"[bold]1.[/] Uploaded 5,000 MNIST digits: {arrays}")


def _create(client: Client, console: Console) -> None:
    client.create_module("lenet", LENET.read_text())
    client.bind(
        "lenet",
        data_shapes=[{"name": "data", "shape": [BATCH_SIZE, 1, 28, 28]}],
        label_shapes=[{"name": "softmax_label", "shape": [BATCH_SIZE]}],
    )
    module = client.init_params("lenet", "xavier", seed=7)
    console.print(f"[bold]2.[/] Created LeNet from its symbol JSON; it is {module['stage']}")


def _train(client: Client, console: Console) -> float:
    job = client.fit("lenet", **FIT)
    console.print(f"[bold]3.[/] Training job {job['id']}: {EPOCHS} epochs of 4,000 digits")
    columns = (
        TextColumn("   epoch {task.fields[epoch]:>2}"),
        BarColumn(bar_width=30),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("fit", total=EPOCHS, epoch=1, figures="")
        for event in client.job_events(job["id"]):
            _show(progress, task, event)
    job = client.job(job["id"])
    if job["status"] != "succeeded":
        raise SystemExit(f"the training job ended as {job['status']}: {job['error']}")
    score = client.wait(client.score("lenet", **images("test"), batch_size=100)["id"])
    accuracy = float(score["result"]["metrics"]["accuracy"])
    console.print(f"   Accuracy on the 1,000 test digits: [bold]{accuracy:.1%}[/]")
    return accuracy


def _show(progress: Progress, task: TaskID, event: dict[str, Any]) -> None:
    data = event["data"]
    if event["kind"] == "progress" and data.get("batches"):
        figures = "  ".join(
            [
                f"loss {data['metrics'].get('cross-entropy') or 0:.3f}",
                f"accuracy {data['metrics'].get('accuracy') or 0:.1%}",
                f"{data.get('samples_per_second') or 0:,.0f} samples/s",
            ]
        )
        done = data["epoch"] + data["batch"] / data["batches"]
        progress.update(task, completed=done, epoch=data["epoch"] + 1, figures=figures)
    elif event["kind"] == "succeeded":
        progress.update(task, completed=EPOCHS)


def _save(client: Client, console: Console) -> None:
    client.save_checkpoint("lenet", EPOCHS + 1)
    listed = client.checkpoints("lenet")
    tags = ", ".join(one["tag"] for one in listed)
    files = ", ".join(sorted(listed[0]["files"]))
    console.print(f"[bold]4.[/] Saved a checkpoint ({files}); there are: {tags}")


def _ask(client: Client, console: Console) -> None:
    with np.load(MNIST) as digits:
        image, label = digits["test_images"][0], int(digits["test_labels"][0])
    batch = image.reshape(1, 1, 28, 28).astype(np.float32) * SCALE
    started = time.perf_counter()
    (probabilities,) = client.predict("lenet", data=batch).values()
    milliseconds = (time.perf_counter() - started) * 1000
    answer = int(probabilities[0].argmax())
    console.print(f"[bold]5.[/] What digit is this?\n{draw_digit(image)}")
    console.print(
        f"   The answer is [bold]{answer}[/] with {probabilities[0, answer]:.1%} "
        f"(it is a {label}), in {milliseconds:.1f} ms"
    )


def _print_curl(url: str, console: Console) -> None:
    fit = json.dumps(FIT)
    lines = [
        f"curl -T {MNIST.name} '{url}/v1/datasets/mnist?kind=npz'",
        f'curl {url}/v1/modules -d \'{{"name": "lenet2", "symbol": \'"$(cat {LENET.name})"\'}}\'',
        f"curl {url}/v1/modules/lenet2/bind -d "
        + shlex.quote(
            '{"data_shapes": [{"name": "data", "shape": [64, 1, 28, 28]}], '
            '"label_shapes": [{"name": "softmax_label", "shape": [64]}]}'
        ),
        f"curl {url}/v1/modules/lenet2/params/init -d " + shlex.quote('{"initializer": "xavier"}'),
        f"curl {url}/v1/modules/lenet2/fit -d {shlex.quote(fit)}",
        f"curl -N {url}/v1/jobs/3/events",
        f"curl {url}/v1/modules/lenet2/checkpoints -d " + shlex.quote('{"epoch": 12}'),
        f'curl {url}/v1/modules/lenet/predict -d \'{{"inputs": {{"data": [[[[0, ...]]]]}}}}\'',
    ]
    console.print(f"\nThe same with curl (in {DATA}):")
    for line in lines:
        console.print(f"   {line}", markup=False, highlight=False, soft_wrap=True)
