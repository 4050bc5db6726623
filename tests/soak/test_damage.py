"""Every file of a data directory deleted, emptied, truncated or altered.

The server either refuses to start, with a message instead of a traceback, or it serves. Then a
module predicts what one of its checkpoints predicts, or its error says why it cannot.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.client import Client, ClientError
from app.client.local_server import ServerProcess, running_server, start_server
from served.perceptron import BATCH, perceptron
from served.processes import ENVIRONMENT
from served.trainings import examples, make_dataset

INPUT = examples()["data"][:BATCH]
REFUSALS = {404, 409, 422, 503}


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


MAY_KEEP_FROM_STARTING = {"directory-id", "modserve.db"}
"""Without these a server cannot tell which database and which directory belong together."""

DAMAGES: list[Callable[[Path], None]] = [Path.unlink, empty, cut, alter]


def predicted(client: Client, name: str) -> bytes:
    return client.predict(name, data=INPUT)["softmax_output"].tobytes()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, set[bytes]]]:
    """A data directory, and what the checkpoints of its two modules predict."""
    folder = tmp_path_factory.mktemp("sound")
    with (
        running_server(folder / "var", environment=ENVIRONMENT) as server,
        Client(server.url) as client,
    ):
        make_dataset(client, folder)
        answers = {name: fill(client, name) for name in ("good", "hurt")}
    (folder / "var" / "server.log").unlink()
    return folder / "var", answers


def fill(client: Client, name: str) -> set[bytes]:
    """Train a module for three epochs; return what each of its checkpoints predicts."""
    client.create_module(name, perceptron().tojson())
    job = client.fit(
        name,
        dataset="toy",
        epochs=3,
        batch_size=BATCH,
        initializer={"initializer": "xavier", "seed": 4},
        optimizer={"name": "sgd", "options": {"learning_rate": 0.05}},
    )
    assert client.wait(job["id"])["status"] == "succeeded"
    answers = set()
    for epoch in (1, 2, 3):
        client.load(name, epoch)
        answers.add(predicted(client, name))
    assert len(answers) == 3
    return answers


def damageable(folder: Path) -> list[Path]:
    """Return the files with content, except those of the module ``good``."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    apart = ("modules/good/", "locks/", "executors/", "servers/")
    names = (path.relative_to(folder) for path in found)
    return [name for name in names if not str(name).startswith(apart)]


@pytest.mark.parametrize(
    "step", [17, pytest.param(1, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)
def test_a_damaged_file_spoils_no_other_module(
    sound: tuple[Path, dict[str, set[bytes]]], tmp_path: Path, step: int
) -> None:
    """Try every ``step``-th of all pairs of a file and a kind of damage."""
    folder, answers = sound
    cases = [(name, damage) for name in damageable(folder) for damage in DAMAGES]
    assert len(cases) > 50
    for number, (name, damage) in list(enumerate(cases))[::step]:
        copy = tmp_path / str(number)
        shutil.copytree(folder, copy)
        damage(copy / name)
        what = f"{damage.__name__} {name}"
        before = files_of(copy, "good")
        server = started(copy, what)
        if server is None:
            assert name.name in MAY_KEEP_FROM_STARTING, what
        else:
            try:
                look_at(server.url, answers, what)
            finally:
                server.process.terminate()
                server.process.wait(timeout=60)
        assert before.items() <= files_of(copy, "good").items(), what
        shutil.rmtree(copy)


def started(folder: Path, what: str) -> ServerProcess | None:
    """Start a server; return None if it refuses to start, which must print no traceback."""
    try:
        return start_server(folder, environment=ENVIRONMENT)
    except RuntimeError as error:
        said = str(error)
    assert "Traceback" not in said, (what, said)
    return None


def look_at(url: str, answers: dict[str, set[bytes]], what: str) -> None:
    """Check that the sound module answers, and that the other one does or is refused properly."""
    with Client(url) as client:
        assert predicted(client, "good") in answers["good"], what
        status = 200
        try:
            assert predicted(client, "hurt") in answers["hurt"], what
        except ClientError as error:
            status = error.status
        assert status == 200 or status in REFUSALS, (what, status)
        of_module = ("/v1/modules/hurt/checkpoints", "/v1/jobs/2/metrics?points=9")
        for path in ("/v1/modules", "/v1/datasets", "/v1/jobs", *of_module):
            status = httpx.get(url + path, timeout=60).status_code
            assert status == 200 or status in REFUSALS, (what, path, status)


def files_of(folder: Path, module: str) -> dict[str, Any]:
    """Return the contents of all checkpoint files of a module, by name."""
    root = folder / "modules" / module / "checkpoints"
    found = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in found}
