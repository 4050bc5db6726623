"""``modserve demo`` as users run it, and its shell commands pasted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from rich.console import Console

from app.cli.demo import tour
from app.cli.demo.curl_lines import curl_lines
from app.cli.demo.tour import BIND, FIT, LENET, MNIST
from app.client.local_server import ServerProcess
from served.programs import program

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "app", "demo"]
QUIET = "curl --silent --show-error --fail-with-body "


class Demo(NamedTuple):
    """A running demo and what it has printed."""

    process: subprocess.Popen[str]
    text: str

    @property
    def url(self) -> str:
        return re.search(r"Serving at (\S+) until Ctrl-C", self.text)[1]


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    """The demo in its own process group, as in a terminal."""
    process = subprocess.Popen(
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0
    )
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "until Ctrl-C" in line:
                break
        yield Demo(process, "".join(lines))
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=60)
        process.stdout.close()


def test_the_tour_explains_what_it_does(demo: Demo) -> None:
    (accuracy,) = re.findall(r"Accuracy on the 1,000 test digits: ([\d.]+)%", demo.text)
    assert float(accuracy) >= 97
    assert "lenet-0013.params" in demo.text
    assert "available: 13, 12, 11" in demo.text
    answer, label = re.search(r"The answer is (\d) with .*\(it is a (\d)\)", demo.text).groups()
    assert answer == label
    assert demo.text.count("██") > 40, "it has drawn the digit"
    (milliseconds,) = re.findall(r"in ([\d.]+) ms \(median", demo.text)
    assert 0 < float(milliseconds) < 5000  # the right unit, however busy this machine is


def test_the_curl_lines_work_when_pasted(demo: Demo) -> None:
    program("curl", "curl")
    printed = demo.text.split("for another module:\n")[1].split("\n\n")[0]
    lines = [line.strip() for line in printed.splitlines()]
    digit = Path(re.search(r"--data-binary @(\S+)", printed)[1])
    assert lines == curl_lines(
        demo.url, "lenet2", dataset=MNIST, symbol=LENET, digit=digit, bind=BIND, fit=FIT
    )
    script = "\n".join(["set -o pipefail", *lines]).replace("curl ", QUIET)
    pasted = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, timeout=200)
    assert pasted.returncode == 0, f"{pasted.stdout[-2000:]}\n{pasted.stderr}"
    *_, outputs = pasted.stdout.rpartition('{"outputs":')
    probabilities = json.loads('{"outputs":' + outputs)["outputs"]["softmax_output"]["data"]
    assert max(range(10), key=probabilities[0].__getitem__) == 2
    assert "event: succeeded" in pasted.stdout
    listed = httpx.get(f"{demo.url}/v1/modules/lenet2/checkpoints").json()["items"]
    assert [one["tag"] for one in listed] == [str(epoch) for epoch in range(13, 0, -1)]


def test_interrupting_it_stops_its_server_too(demo: Demo) -> None:
    assert httpx.get(f"{demo.url}/readyz").status_code == 200
    os.killpg(demo.process.pid, signal.SIGINT)
    rest = demo.process.stdout.read()
    assert demo.process.wait(timeout=30) == 0
    assert "Stopped." in rest
    assert "Traceback" not in rest
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{demo.url}/livez")
    digit = Path(re.search(r"--data-binary @(\S+)", demo.text)[1])
    assert not digit.parent.exists(), "its data directory is removed"


def test_ctrl_c_stops_a_demo_started_by_a_shell_script(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    shell = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]  # as a shell without job control does
    with subprocess.Popen(
        [*shell, *COMMAND],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        process_group=0,
    ) as process:
        next(line for line in process.stdout if "Uploaded" in line)
        os.killpg(process.pid, signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 130, rest
    assert "Interrupted." in rest
    assert "Traceback" not in rest
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_server_is_not_a_failure(
    tmp_path: Path, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    # The parent of the tests may ignore SIGINT, which child processes inherit.
    sleeper = "import signal, time; signal.signal(2, signal.SIG_DFL); print(flush=True)"
    command = [sys.executable, "-c", f"{sleeper}; time.sleep(60)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline()
        process.send_signal(number)
        server = ServerProcess(process, "http://127.0.0.1:1", tmp_path / "log")
        assert tour._serve_on(server, Console()) == 0
    assert "Stopped." in capsys.readouterr().out


def test_a_crashed_server_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_text("what it died of")
    with subprocess.Popen(["false"]) as process:
        server = ServerProcess(process, "http://127.0.0.1:1", tmp_path / "log")
        assert tour._serve_on(server, Console()) == 1
    assert "what it died of" in capsys.readouterr().out


def test_terminating_the_demo_leaves_no_server(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        url = next(found[1] for line in process.stdout if (found := re.search(r"(http\S+)", line)))
        process.terminate()
        assert "Interrupted." in process.stdout.read()
    assert process.returncode == 130
    assert not list(tmp_path.iterdir())
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/livez")


def test_once_ends_by_itself() -> None:
    ended = subprocess.run(
        [*COMMAND, "--once"], capture_output=True, text=True, timeout=200, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Done in" in ended.stdout
    assert "until Ctrl-C" not in ended.stdout
    assert ended.stderr == ""
