"""Which servers are alive, according to locks the kernel releases."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.services.operations.liveness import Liveness

OTHER = """
import sys, time
from pathlib import Path
from app.services.operations.liveness import Liveness
liveness = Liveness(Path(sys.argv[1]))
liveness.enter()
print(liveness.server, flush=True)
time.sleep(60)
"""


def test_two_servers_see_each_other(tmp_path: Path) -> None:
    one, two = Liveness(tmp_path / "servers"), Liveness(tmp_path / "servers")
    assert one.server != two.server
    one.enter()
    two.enter()
    assert not one.is_dead(two.server)
    assert not two.is_dead(one.server)
    two.leave()
    assert one.is_dead(two.server)
    assert two.is_dead(two.server)
    one.leave()


def test_a_file_removed_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = Liveness(tmp_path), Liveness(tmp_path)
    flock, removals = fcntl.flock, iter([two.forget_dead])

    def lock_late(descriptor: int, operation: int) -> None:
        for forget_dead in removals:
            forget_dead(set())
        flock(descriptor, operation)

    monkeypatch.setattr("app.services.operations.liveness.fcntl.flock", lock_late)
    one.enter()
    assert two.others() == [one.server]
    one.leave()


def test_leaving_twice_does_nothing(tmp_path: Path) -> None:
    liveness = Liveness(tmp_path)
    liveness.enter()
    liveness.leave()
    liveness.leave()
    assert liveness.is_dead(liveness.server)


def test_nothing_is_known_of_a_server_on_another_machine(tmp_path: Path) -> None:
    liveness = Liveness(tmp_path)
    liveness.enter()
    assert not liveness.is_dead("0" * 32)
    liveness.leave()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_server_is_known_to_be_dead(tmp_path: Path, how: signal.Signals) -> None:
    liveness = Liveness(tmp_path)
    liveness.enter()
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as other:
        server = other.stdout.readline().strip()
        assert not liveness.is_dead(server)
        other.send_signal(how)
        other.wait()
        assert liveness.is_dead(server)
    liveness.leave()


def test_files_of_dead_servers_are_removed_unless_a_job_names_them(tmp_path: Path) -> None:
    living, needed, dead = (Liveness(tmp_path) for _ in range(3))
    for one in (living, needed, dead):
        one.enter()
    needed.leave()
    dead.leave()
    living.forget_dead({needed.server})
    assert {path.stem for path in tmp_path.iterdir()} == {living.server, needed.server}
    assert living.is_dead(needed.server)
    living.leave()
