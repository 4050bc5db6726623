"""Real executor processes: calls, shared memory, death of either side."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import app
from app.errors.tree import ExecutorGone, ExecutorKilled, HostError
from app.link.process import PATIENCE, ProcessClient, ProcessOptions
from app.link.slab_port import SlabLimits
from served.processes import shared_memory

MIB = 2**20
ECHO = ("app.executor", "--host", "echo_host:EchoHost")


async def values(executor: ProcessClient, method: str, **params: object) -> dict[str, object]:
    reply = await executor.call(method, params)
    reply.release()
    return reply.result


async def wait_until(condition, seconds: float = 60.0) -> None:
    """Wait until a condition holds; fail the test when it takes too long."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def has_ended(pid: int) -> bool:
    """Return whether a process is gone or is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("step", ["os.pidfd_open", "Connection"])
async def test_a_process_that_cannot_be_watched_leaves_nothing_behind(
    echo_options: ProcessOptions, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    pids: list[int] = []
    spawn = ProcessClient._spawn

    def note_pid(self: ProcessClient, *arguments: object) -> subprocess.Popen[bytes]:
        process = spawn(self, *arguments)
        pids.append(process.pid)
        return process

    def refuse(*arguments: object) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(ProcessClient, "_spawn", note_pid)
    monkeypatch.setattr(f"app.link.process.{step}", refuse)
    client = ProcessClient("cpu(0)", echo_options)
    with pytest.raises(OSError, match="too many open files"):
        await client.start()
    # There may be fewer: descriptors that an earlier test left may be closed by now.
    assert len(os.listdir("/proc/self/fd")) <= before
    with pytest.raises(ChildProcessError):  # not even a zombie
        os.waitpid(pids[0], os.WNOHANG)
    await client.kill("as a supervisor does")
    await client.stop()


async def test_values_and_tensors_are_returned(executor):
    tensors = {
        "image": np.arange(12, dtype=np.float32).reshape(3, 4),
        "fortran": np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
        "strided": np.arange(20, dtype=np.uint8)[::3],
        "big_endian": np.arange(4, dtype=">i4"),
        "half": np.float16([0.5, np.inf]),
        "scalar": np.array(True),
        "none": np.empty((0, 7)),
    }
    reply = await executor.call("echo", {"a": [1, None, "ü", 2**63]}, tensors)
    assert reply.result == {"params": {"a": [1, None, "ü", 2**63]}, "device": "cpu(0)"}
    assert list(reply.tensors) == list(tensors)
    for name, sent in tensors.items():
        got = reply.tensors[name]
        assert got.dtype == sent.dtype.newbyteorder("=")
        np.testing.assert_array_equal(got, sent)
        assert got.shape == sent.shape
    reply.release()


async def test_a_request_is_copied_when_the_call_is_made(executor):
    x = np.ones(1000)
    call = asyncio.ensure_future(executor.call("sums", {}, {"x": x}))
    await asyncio.sleep(0)
    x[:] = 7
    assert (await call).result == {"x": 1000.0}


async def test_reserved_buffers_are_sent_without_a_copy(executor):
    buffers = executor.reserve({"rows": ((3, 5), np.float32)})
    for row in range(3):
        buffers.tensors["rows"][row] = row
    reply = await executor.call("sums", {}, buffers)
    assert reply.result == {"rows": 15.0}
    assert executor.connection.request_bytes == 0


async def test_unsent_buffers_may_be_released_twice(executor):
    buffers = executor.reserve({"x": ((3,), np.float32)})
    assert executor.connection.request_bytes > 0
    buffers.release()
    buffers.release()
    assert executor.connection.request_bytes == 0


async def test_thousands_of_concurrent_calls_get_their_own_answers(executor):
    async def one(number: int) -> None:
        x = np.full(1 + number % 700, number, dtype=np.float64)
        reply = await executor.call("echo", {"number": number}, {"x": x})
        assert reply.result["params"]["number"] == number
        np.testing.assert_array_equal(reply.tensors["x"], x)
        reply.release()

    for start in range(0, 5000, 250):
        await asyncio.gather(*(one(number) for number in range(start, start + 250)))
    assert executor.connection.request_bytes == 0
    assert executor.connection.calls_under_way == 0


async def test_large_tensors_are_sent_both_ways(executor):
    x = np.random.default_rng(0).integers(0, 255, 96 * MIB, dtype=np.uint8)
    for _ in range(2):
        reply = await executor.call("echo", {}, {"x": x})
        assert np.array_equal(reply.tensors["x"], x)
        reply.release()


async def test_steady_traffic_opens_no_new_files(executor):
    async def call() -> None:
        reply = await executor.call("echo", {}, {"x": np.zeros(MIB, dtype=np.uint8)})
        reply.release()

    for _ in range(40):
        await call()
    ours = len(os.listdir("/proc/self/fd"))
    theirs = await values(executor, "open_files")
    for _ in range(300):
        await call()
    assert len(os.listdir("/proc/self/fd")) <= ours
    async with asyncio.timeout(10):  # until the executor hears that the last reply was released
        while (await values(executor, "open_files"))["count"] > theirs["count"]:
            await asyncio.sleep(0.01)


async def test_held_replies_keep_their_values(executor):
    replies = [
        await executor.call("echo", {}, {"x": np.full(5000, number)}) for number in range(50)
    ]
    for number, reply in enumerate(replies):
        assert (reply.tensors["x"] == number).all()
        reply.release()


async def test_replies_never_released_lead_to_a_clear_refusal(echo_options):
    limits = SlabLimits(limit_bytes=MIB, idle_bytes=MIB)
    client = ProcessClient("cpu(0)", dataclasses.replace(echo_options, limits=limits))
    await client.start()
    try:
        held = [await client.call("zeros", {"shape": [400_000]}) for _ in range(2)]
        with pytest.raises(HostError, match="leave no room") as refusal:
            await client.call("zeros", {"shape": [400_000]})
        assert refusal.value.code == "unavailable"
        held[0].release()
        assert (await client.call("zeros", {"shape": [400_000]})).tensors["zeros"].sum() == 0
        with pytest.raises(HostError, match="cannot be taken") as refusal:
            await client.call("echo", {}, {"x": np.zeros(2 * MIB, dtype=np.uint8)})
        assert refusal.value.code == "unavailable"
    finally:
        await client.stop()


async def test_under_memory_pressure_the_executor_ends_before_the_server(executor):
    own = int(Path("/proc/self/oom_score_adj").read_text())
    its = int(Path(f"/proc/{executor.pid}/oom_score_adj").read_text())
    assert its == min(1000, own + 400)


async def test_errors_of_the_host_are_raised_unchanged(executor):
    with pytest.raises(HostError, match="no") as refusal:
        await executor.call("refuse")
    assert (refusal.value.code, refusal.value.field_name) == ("invalid", "field")
    assert [one["hint"] for one in refusal.value.errors] == ["do this"]
    assert refusal.value.extensions == {"call": "POST /first"}
    with pytest.raises(HostError, match="ValueError: a bug") as refusal:
        await executor.call("fail", {}, {"x": np.zeros(3)})
    assert refusal.value.code == "internal"
    with pytest.raises(HostError) as refusal:
        await executor.call("unknown")
    assert refusal.value.code == "not_found"
    assert executor.connection.request_bytes == 0


async def test_unserializable_values_are_refused_by_the_caller(executor):
    with pytest.raises(TypeError):
        await executor.call("echo", {"x": object()})
    with pytest.raises(TypeError, match="only numbers"):
        await executor.call("echo", {}, {"x": np.array(["text"])})
    buffers = executor.reserve({"x": ((3,), np.float32)})
    with pytest.raises(TypeError):
        await executor.call("echo", {"x": object()}, buffers)
    assert executor.connection.request_bytes == 0
    assert await values(executor, "sums") == {}


async def test_a_cancelled_call_is_dropped_and_its_memory_released(executor):
    sleeping = asyncio.create_task(executor.call("sleep", {"seconds": 1.0}))
    waiting = asyncio.create_task(executor.call("echo", {"label": "dropped"}, {"x": np.ones(9)}))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await sleeping
    order = await values(executor, "order")
    assert "dropped" not in order["order"]
    assert executor.connection.request_bytes == 0


async def test_the_late_answer_to_a_cancelled_call_is_released(echo_options):
    limits = SlabLimits(limit_bytes=MIB, idle_bytes=MIB)
    client = ProcessClient("cpu(0)", dataclasses.replace(echo_options, limits=limits))
    await client.start()
    try:
        for _ in range(20):
            call = asyncio.create_task(client.call("zeros", {"shape": [400_000]}))
            await asyncio.sleep(0)
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await call
            await values(client, "sums")
        # Two answers that were not released would leave no memory for this one.
        reply = await client.call("zeros", {"shape": [400_000]})
        assert reply.tensors["zeros"].shape == (400_000,)
    finally:
        await client.stop()


async def test_control_and_predictions_are_answered_while_a_job_runs(executor):
    await values(executor, "job", batches=1000, seconds=0.02)
    await values(executor, "control")
    await values(executor, "predict")
    order = (await values(executor, "order"))["order"]
    assert order.count("batch") < 1000
    received = [event async for event, _ in _take(executor, 20)]
    assert [event["left"] for event in received] == list(range(999, 979, -1))


async def _take(executor: ProcessClient, count: int):
    """Yield that many events with their number."""
    number = 0
    async for event in executor.events():
        yield event, number
        number += 1
        if number == count:
            return


async def test_killing_the_process_fails_its_calls_at_once(executor):
    calls = [asyncio.create_task(executor.call("sleep", {"seconds": 300})) for _ in range(3)]
    while not executor.running_works():
        await asyncio.sleep(0.01)
    os.kill(executor.pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        results = await asyncio.gather(*calls, return_exceptions=True)
    killed, *waited = results
    assert [type(result) for result in results] == [ExecutorKilled, ExecutorGone, ExecutorGone]
    assert "while it ran this call (sleep)" in str(killed)
    assert "while it ran" not in str(waited)
    (work,) = executor.running_works()
    assert work.method == "sleep"
    assert not executor.is_alive()
    assert await executor.exited == -signal.SIGKILL
    with pytest.raises(ExecutorGone):
        await executor.call("echo")
    with pytest.raises(ExecutorGone):
        executor.reserve({"x": ((1,), np.float32)})


async def test_events_sent_before_the_death_are_read_after_it(executor):
    call = asyncio.create_task(
        executor.call("report_and_die", {"events": 12, "bytes": 10_000})  # more than one read takes
    )
    await asyncio.sleep(0)
    while not has_ended(executor.pid):
        time.sleep(0.01)  # the event loop must not read them while the process lives
    with pytest.raises(ExecutorKilled, match="while it ran this call"):
        await call
    async with asyncio.timeout(60):
        received = [event["number"] async for event, _ in _take(executor, 12)]
    assert received == list(range(12))


async def test_replies_outlive_the_process(executor):
    reply = await executor.call("echo", {}, {"x": np.arange(1000)})
    os.kill(executor.pid, signal.SIGKILL)
    await executor.exited
    assert reply.tensors["x"].sum() == 499500
    reply.release()


async def test_a_stopped_process_ends_with_status_zero(executor):
    await executor.stop()
    assert await executor.exited == 0
    with pytest.raises(ExecutorGone):
        await executor.call("echo")


async def test_stopping_lets_the_running_call_finish(executor):
    call = asyncio.create_task(executor.call("sleep", {"seconds": 0.3}))
    await asyncio.sleep(0.05)
    await executor.stop()
    assert (await call).result == {}


async def test_a_process_that_does_not_stop_is_killed(echo_options):
    client = ProcessClient("cpu(0)", dataclasses.replace(echo_options, stop_seconds=0.2))
    await client.start()
    call = asyncio.create_task(client.call("sleep", {"seconds": 60}))
    await asyncio.sleep(0.05)
    await client.stop()
    assert await client.exited == -signal.SIGKILL
    with pytest.raises(ExecutorGone):
        await call


async def test_ctrl_c_and_terminate_leave_the_process_to_its_parent(executor):
    os.kill(executor.pid, signal.SIGINT)
    os.kill(executor.pid, signal.SIGTERM)
    assert await values(executor, "sums") == {}


async def test_a_host_that_cannot_be_created_fails_the_start(echo_options, capfd):
    client = ProcessClient("missing", echo_options)
    with pytest.raises(ExecutorGone):
        await client.start()
    assert await client.exited == 1
    assert "there is no such device" in capfd.readouterr().err


async def test_a_host_that_refuses_its_device_gives_the_reason(echo_options, capfd):
    client = ProcessClient("refused", echo_options)
    with pytest.raises(ExecutorGone, match="executor start failed: device: got refused"):
        await client.start()
    assert "Traceback" not in capfd.readouterr().err


async def test_a_process_that_never_answers_fails_the_start(echo_options, tmp_path):
    (tmp_path / "slow_host.py").write_text("import time\ntime.sleep(60)\n")
    options = dataclasses.replace(
        echo_options,
        program=("app.executor", "--host", "slow_host:Host"),
        start_seconds=0.5,
        environ={"PYTHONPATH": str(tmp_path)},
    )
    client = ProcessClient("cpu(0)", options)
    with pytest.raises(ExecutorGone, match="did not answer within"):
        await client.start()
    assert has_ended(client.pid)


async def test_thread_counts_are_set_before_the_process_starts(echo_options):
    client = ProcessClient("cpu(0)", dataclasses.replace(echo_options, threads=3))
    await client.start()
    names = ["MODSERVE_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"]
    assert await values(client, "environ", names=names) == dict.fromkeys(names, "3")
    await client.stop()


async def test_executors_know_how_many_share_the_processors(echo_options, monkeypatch):
    monkeypatch.delenv("MODSERVE_THREADS", raising=False)
    client = ProcessClient("cpu(0)", dataclasses.replace(echo_options, threads=None, sharers=3))
    await client.start()
    expected = {"CORE_SHARERS": "3", "MODSERVE_THREADS": None}
    assert await values(client, "environ", names=list(expected)) == expected
    await client.stop()


async def test_idle_threads_sleep_unless_configured_otherwise(echo_options, monkeypatch):
    monkeypatch.setenv("GOMP_SPINCOUNT", "123")
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    client = ProcessClient("cpu(0)", echo_options)
    await client.start()
    expected = {**PATIENCE, "GOMP_SPINCOUNT": "123"}
    assert await values(client, "environ", names=list(expected)) == expected
    await client.stop()


async def test_another_app_in_the_working_directory_is_not_imported(
    echo_options, tmp_path, monkeypatch
):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("raise RuntimeError('the wrong app')")
    monkeypatch.chdir(tmp_path)
    client = ProcessClient("cpu(0)", echo_options)
    await client.start()
    await client.stop()


PARENT = """
import asyncio, os, sys
import numpy as np
from app.link.process import PATIENCE, ProcessClient, ProcessOptions

async def main():
    program = ("app.executor", "--host", "echo_host:EchoHost")
    options = ProcessOptions(program=program, threads=1)
    client = ProcessClient("cpu(0)", options)
    await client.start()
    reply = await client.call("echo", {}, {"x": np.zeros(1 << 20)})
    print(client.pid, flush=True)
    await client.call(sys.argv[1], {"seconds": 60, "batches": 10 ** 6})
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("work", ["sums", "sleep", "job"])
async def test_the_process_ends_when_its_parent_is_killed(work: str):
    shm = shared_memory()
    root = Path(app.__file__).parent.parent
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, work],
        env=os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{Path(__file__).parent}"},
        stdout=subprocess.PIPE,
    )
    with parent:
        pid = int(parent.stdout.readline())
        await asyncio.sleep(0.1)
        assert not has_ended(pid)
        parent.kill()
    await wait_until(lambda: has_ended(pid))
    await wait_until(lambda: shared_memory() <= shm)  # other tests' names come and go


async def test_nothing_is_left_behind_when_either_side_is_killed(echo_options):
    files, shm = len(os.listdir("/proc/self/fd")), shared_memory()
    for _ in range(3):
        client = ProcessClient("cpu(0)", echo_options)
        await client.start()
        reply = await client.call("echo", {}, {"x": np.zeros(MIB)})
        pending = asyncio.create_task(client.call("sleep", {"seconds": 60}, {"x": np.zeros(MIB)}))
        await asyncio.sleep(0.02)
        os.kill(client.pid, signal.SIGKILL)
        with pytest.raises(ExecutorGone):
            await pending
        await client.exited
        reply.release()
    del client, reply, pending
    assert len(os.listdir("/proc/self/fd")) <= files
    await wait_until(lambda: shared_memory() <= shm)


async def test_starting_twice_is_an_error(executor):
    with pytest.raises(RuntimeError, match="new client"):
        await executor.start()


async def test_calling_before_the_start_fails(echo_options):
    client = ProcessClient("cpu(0)", echo_options)
    assert not client.is_alive()
    with pytest.raises(ExecutorGone):
        await client.call("echo")
    await client.stop()


def test_defaults_suit_a_server():
    options = ProcessOptions(program=ECHO)
    assert options.limits.idle_bytes < options.limits.limit_bytes
