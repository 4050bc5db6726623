"""The installed command in a real shell, against a real server."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

from app.cli.main import app
from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served.perceptron import BATCH, perceptron
from served.processes import ENVIRONMENT
from served.trainings import examples

_BIN = Path(sys.executable).parent
_WITHOUT_JSON = {
    ("serve",),  # prints a log
    ("demo",),  # prints explanations for people
    ("openapi",),  # writes a file
    ("completion",),  # prints a script
    ("run",),  # prints what the script prints
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("server"), environment=ENVIRONMENT) as one:
        yield one


@pytest.fixture
def net(server: ServerProcess, tmp_path: Path) -> Iterator[Path]:
    """A module ``net`` on the server, and a file of examples it can be trained with."""
    np.savez(tmp_path / "toy.npz", **examples())
    with Client(server.url) as client:
        client.create_module("net", perceptron().tojson())
        yield tmp_path / "toy.npz"
        client.delete_module("net")


def shell(line: str, server: ServerProcess | None = None) -> subprocess.CompletedProcess[str]:
    """Run a line in bash."""
    environment = os.environ | {"PATH": f"{_BIN}:{os.environ['PATH']}"}
    if server is not None:
        environment["MODSERVE_URL"] = server.url
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env=environment, timeout=120
    )


def _commands() -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for name, one in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        for inner, command in getattr(one, "commands", {"": one}).items():
            found[(name, inner) if inner else (name,)] = command
    return found


def test_every_command_prints_json() -> None:
    without = {
        path
        for path, command in _commands().items()
        if not any("--json" in one.opts for one in command.params)
    }
    assert without == _WITHOUT_JSON


def test_help_imports_only_what_it_needs() -> None:
    """So that it takes less than 150 ms: pydantic alone takes another 100 ms."""
    unwanted = {"pydantic", "rich", "httpx", "numpy", "core", "asyncio", "ssl", "PIL", "onnx"}
    unwanted |= {"sqlalchemy", "fastapi", "uvicorn", "email", "http"}
    code = (
        "import sys\n"
        "from app.cli.main import app\n"
        f"for path in {list(_commands())!r}:\n"
        "    app([*path, '--help'], standalone_mode=False)\n"
        f"print(sorted({unwanted!r} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"


def test_bash_completes() -> None:
    complete = (
        "COMP_WORDS=(modserve {}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
        "_modserve_completion modserve; echo ${{COMPREPLY[@]}};"
    )
    done = shell(
        "source <(modserve completion bash);"
        + complete.format("check")
        + complete.format("jobs wa")
        + complete.format("checkpoints export --fo")
    )
    assert (done.stdout, done.stderr) == ("checkpoints\nwatch\n--format\n", "")


@pytest.mark.parametrize(("name", "word"), [("zsh", "#compdef modserve"), ("fish", "complete ")])
def test_other_shells_have_completion_scripts(name: str, word: str) -> None:
    done = shell(f"modserve completion {name}")
    assert done.stdout.startswith(word)
    assert "_MODSERVE_COMPLETE" in done.stdout


def test_errors_are_json_with_the_json_option(server: ServerProcess) -> None:
    refused = shell("modserve modules show nothing --json", server)
    assert (refused.returncode, refused.stdout) == (3, "")
    error = json.loads(refused.stderr)["error"]
    assert (error["status"], error["code"]) == (404, "not_found")
    assert "nothing" in error["message"]
    misused = shell("modserve modules shwo nothing --json", server)
    assert misused.returncode == 2
    assert "shwo" in json.loads(misused.stderr)["error"]["message"]
    unreachable = shell("modserve jobs ls --json --url http://127.0.0.1:9")
    assert unreachable.returncode == 3
    assert "modserve serve" in json.loads(unreachable.stderr)["error"]["message"]


def test_commands_print_text_or_json(server: ServerProcess, net: Path) -> None:
    text = shell("modserve modules show net", server)
    assert "state" in [line.split()[0] for line in text.stdout.splitlines()]
    found = json.loads(shell("modserve modules show net --json", server).stdout)
    assert found["state"] == "ready"
    shell(f"modserve datasets add {net} --name gone", server)
    rows = json.loads(shell("modserve datasets preview gone --rows 1 --json", server).stdout)
    assert len(rows["data"]) == 1
    assert "data" in shell("modserve datasets preview gone --rows 1", server).stdout
    removed = shell("modserve datasets rm gone --json", server)
    assert json.loads(removed.stdout) == {"deleted": ["gone"]}


def test_a_pipe_gets_plain_lines_and_a_terminal_drawings(server: ServerProcess, net: Path) -> None:
    train = f"modserve train net {net} --epochs 2 --batch-size {BATCH} --optimizer sgd"
    piped = shell(f"{train} --initializer xavier", server)
    assert piped.returncode == 0, piped.stderr
    assert "\x1b" not in piped.stdout + piped.stderr
    assert piped.stdout.splitlines()[-1] == "succeeded"
    job = json.loads(shell("modserve jobs ls --module net --json", server).stdout)[0]["id"]
    picture = _on_a_terminal(["jobs", "watch", str(job), "--url", server.url])
    assert "\x1b[" in picture
    last = picture[picture.rindex(f"job {job}") :]
    assert "succeeded" in last
    assert "100 %" in last
    assert "train accuracy" in last


def _on_a_terminal(arguments: list[str]) -> str:
    """Return what a successful command writes to a terminal 100 columns wide."""
    main, other = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    with subprocess.Popen(
        [_BIN / "modserve", *arguments], stdin=other, stdout=other, stderr=other, env=environment
    ) as process:
        os.close(other)
        written = b""
        try:
            while part := os.read(main, 65536):
                written += part
        except OSError:
            pass  # Linux reports this when the other end is closed
        os.close(main)
        assert process.wait(60) == 0, written.decode()
    return written.decode()


def test_jobs_show_their_attempt_and_inputs_no_default_layout(
    server: ServerProcess, net: Path
) -> None:
    shell(
        f"modserve train net {net} --batch-size {BATCH} --optimizer sgd --initializer xavier",
        server,
    )
    heading, row, *_ = shell("modserve jobs ls --module net", server).stdout.splitlines()
    assert row[heading.index("ATTEMPT") :].split()[0] == "1/3"
    found = json.loads(shell("modserve modules show net --json", server).stdout)
    assert [one["layout"] for one in found["bind"]["data_shapes"]] == [None]


def test_health(server: ServerProcess, net: Path) -> None:
    ready = shell("modserve health net --json", server)
    assert ready.returncode == 0
    found = json.loads(ready.stdout)
    assert (found["status"], found["modules"]) == ("ready", {"net": "ready"})
    assert shell("modserve health", server).stdout.splitlines()[0].split() == ["status", "ready"]
    missing = shell("modserve health other --wait --timeout 0.5 --json", server)
    assert missing.returncode == 1
    assert json.loads(missing.stdout)["modules"] == {"other": None}
    nobody = shell("modserve health --url http://127.0.0.1:9 --json")
    assert nobody.returncode == 3
    assert json.loads(nobody.stdout)["status"] == "unreachable"


def test_health_waits_until_everything_is_ready() -> None:
    """At first nothing listens; then the server is not ready; then the module does not exist."""
    readiness = [(503, {"status": "unready"})]
    modules = [(404, {"code": "not_found"})] * 2

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/readyz":
                status, body = readiness.pop() if readiness else (200, {"status": "ready"})
            else:
                status, body = modules.pop() if modules else (200, {"state": "ready"})
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False) as server:
        server.server_bind()  # bound but not listening: connections are refused
        command = ["health", "net", "--wait", "--json", "--url"]
        with subprocess.Popen(
            [_BIN / "modserve", *command, f"http://127.0.0.1:{server.server_port}"],
            stdout=subprocess.PIPE,
        ) as waiting:
            server.server_activate()
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            written, _ = waiting.communicate(timeout=100)
            server.shutdown()
            thread.join()
    assert waiting.returncode == 0
    assert json.loads(written) == {"status": "ready", "modules": {"net": "ready"}}
    assert (readiness, modules) == ([], [])
