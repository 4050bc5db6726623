"""The steps of ``modserve demo``, each as a user would make them over HTTP."""

from __future__ import annotations

import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from app.cli.demo.curl_lines import curl_lines
from app.cli.demo.drawing import draw_digit
from app.client import Client
from app.client.local_server import ServerProcess, running_server
from app.client.results import EventView

__all__ = ["run_demo"]

DATA = Path(__file__).parent / "data"
MNIST = DATA / "mnist_5k.npz"
LENET = DATA / "lenet-symbol.json"

BATCH_SIZE = 64
EPOCHS = 12
_STOPPED = (-signal.SIGINT, -signal.SIGTERM, 128 + signal.SIGINT)
LEAST_ACCURACY = 0.97
SCALE = 1 / 255
ASKED = 20


def images(part: str) -> dict[str, Any]:
    """Return the mapping from arrays of a part of the digits to LeNet's inputs."""
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
BIND = {
    "data_shapes": [{"name": "data", "shape": [BATCH_SIZE, 1, 28, 28]}],
    "label_shapes": [{"name": "softmax_label", "shape": [BATCH_SIZE]}],
}


def run_demo(port: int, once: bool, console: Console | None = None) -> int:
    """Run the tour against a server of its own.

    Returns:
        Exit status: 0 if all went well, 1 if the accuracy is below 97 % or the server ended
        unexpectedly, 130 if the tour was interrupted.

    Args:
        port: to listen on; 0 chooses a free one.
        once: exit after the tour instead of continuing to serve.
        console: where to print.
    """
    console = console or Console()
    try:
        # If the server had to be killed, an executor may still write for a moment.
        with (
            tempfile.TemporaryDirectory(
                prefix="modserve-demo-", ignore_cleanup_errors=True
            ) as folder,
            running_server(Path(folder), port=port) as server,
        ):
            accuracy = _tour(server, Path(folder) / "digit.npy", console)
            if once:
                console.print("\nThe server ends now; to try these lines, run without --once.")
                return 0 if accuracy >= LEAST_ACCURACY else 1
            return _serve_on(server, console)
    except KeyboardInterrupt:
        console.print("\nInterrupted.")
        return 130


def _tour(server: ServerProcess, digit: Path, console: Console) -> float:
    started, url = time.monotonic(), server.url
    with Client(url) as client:
        console.rule(f"[bold]modserve at {url}")
        _upload(client, console)
        _create(client, console)
        accuracy = _train(client, console)
        _save(client, console)
        _ask(client, digit, console)
    console.print(f"\n[bold green]Done in {time.monotonic() - started:.0f} s.[/]")
    _print_curl(url, digit, console)
    return accuracy


def _serve_on(server: ServerProcess, console: Console) -> int:
    try:
        console.print(f"\nServing at {server.url} until Ctrl-C: open it in a browser.")
        status = server.process.wait()
    except KeyboardInterrupt:
        status = -signal.SIGINT
    if status in _STOPPED:  # by Ctrl-C, which reaches both, or because the server was ended
        console.print("\nStopped.")
        return 0
    console.print(f"The server ended:\n{server.log.read_text()[-2000:]}", markup=False)
    return 1


def _upload(client: Client, console: Console) -> None:
    record = client.put_dataset("mnist", MNIST)
    arrays = ", ".join(f"{one['name']} {tuple(one['shape'])}" for one in record["arrays"])
    console.print(f"[bold]1.[/] Uploaded 5,000 MNIST digits: {arrays}")


def _create(client: Client, console: Console) -> None:
    client.create_module("lenet", LENET.read_text())
    client.bind("lenet", **BIND)
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
    if score["result"] is None:
        raise SystemExit(f"the scoring job ended as {score['status']}: {score['error']}")
    accuracy = float(score["result"]["metrics"]["accuracy"])
    console.print(f"   Accuracy on the 1,000 test digits: [bold]{accuracy:.1%}[/]")
    return accuracy


def _show(progress: Progress, task: TaskID, event: EventView) -> None:
    data = event["data"]
    if event["type"] == "progress" and data.get("batches"):
        figures = "  ".join(
            [
                f"loss {data['metrics'].get('cross-entropy') or 0:.3f}",
                f"accuracy {data['metrics'].get('accuracy') or 0:.1%}",
                f"{data.get('samples_per_second') or 0:,.0f} samples/s",
            ]
        )
        done = data["epoch"] + data["batch"] / data["batches"]
        progress.update(task, completed=done, epoch=data["epoch"] + 1, figures=figures)
    elif event["type"] == "succeeded":
        progress.update(task, completed=EPOCHS)


def _save(client: Client, console: Console) -> None:
    client.save_checkpoint("lenet", EPOCHS + 1)
    listed = client.checkpoints("lenet")
    tags = ", ".join(one["tag"] for one in listed)
    files = ", ".join(sorted(listed[0]["files"]))
    console.print(f"[bold]4.[/] Saved a checkpoint ({files}); available: {tags}")


def _ask(client: Client, digit: Path, console: Console) -> None:
    with np.load(MNIST) as digits:
        image, label = digits["test_images"][0], int(digits["test_labels"][0])
    batch = image.reshape(1, 1, 28, 28).astype(np.float32) * np.float32(SCALE)
    np.save(digit, batch)
    times = []
    for _ in range(ASKED):
        started = time.perf_counter()
        (probabilities,) = client.predict("lenet", data=batch).values()
        times.append((time.perf_counter() - started) * 1000)
    answer = int(probabilities[0].argmax())
    console.print(f"[bold]5.[/] What digit is this?\n{draw_digit(image)}")
    console.print(
        f"   The answer is [bold]{answer}[/] with {probabilities[0, answer]:.1%} "
        f"(it is a {label}), in {statistics.median(times):.1f} ms (median of {ASKED})"
    )


def _print_curl(url: str, digit: Path, console: Console) -> None:
    lines = curl_lines(url, "lenet2", dataset=MNIST, symbol=LENET, digit=digit, bind=BIND, fit=FIT)
    console.print("\nThe same with curl, for another module:")
    for line in lines:
        console.print(f"   {line}", markup=False, highlight=False, soft_wrap=True)
