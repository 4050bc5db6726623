"""Batches made by worker processes: complete and in order; workers leave nothing behind."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import MXNetError, UsageError
from core.gluon.data import ArrayDataset, DataLoader, Dataset, SimpleDataset
from core.gluon.data.batchify import AsList
from core.gluon.data.worker_pool import _connections
from core.ndarray import NDArray

ROOT = Path(__file__).parents[4]
PATIENCE = 60.0
"""Seconds that a loaded machine may need for what takes milliseconds otherwise."""


class Computed(Dataset):
    """Examples computed from their index."""

    def __init__(self, length: int, function: Callable[[int], Any]) -> None:
        self._length = length
        self._function = function

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, idx: int) -> Any:
        return self._function(int(idx))


def pids(loader: DataLoader) -> list[int]:
    return [worker.process.pid for worker in loader._pool._workers]  # type: ignore[union-attr]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def open_files() -> int:
    """Count a loader's open files: shared memory in transit, and connections to workers."""
    of_memory = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            of_memory += "memfd:batch" in os.readlink(f"/proc/self/fd/{name}")
    return of_memory + sum(one.fileno() >= 0 for one in _connections)


def mappings() -> int:
    return Path("/proc/self/maps").read_text().count("memfd:batch")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Check that a test leaves no shared memory, no connection and no worker behind."""
    before = set(multiprocessing.active_children())
    yield
    gc.collect()
    assert mappings() == 0
    assert open_files() == 0
    assert not set(multiprocessing.active_children()) - before


def test_arrays_are_in_shared_memory_and_outlive_the_loader() -> None:
    data = np.random.RandomState(0).rand(6, 5).astype("float32")
    loader = DataLoader(ArrayDataset(mx.nd.array(data), np.arange(6)), 4, num_workers=1)
    kept = list(loader)
    assert mappings() > 0
    del loader
    gc.collect()
    images, labels = kept[0]
    assert str(images.context) == "cpu_shared(0)"
    np.testing.assert_array_equal(images.asnumpy(), data[:4])
    assert labels.asnumpy().tolist() == [0, 1, 2, 3]
    images += 1
    np.testing.assert_array_equal(images.asnumpy(), data[:4] + 1)


def kinds(batch: Any) -> Any:
    if isinstance(batch, list):
        return [kinds(one) for one in batch]
    return type(batch).__name__, batch.shape, np.dtype(batch.dtype).name, batch.asnumpy().tolist()


@pytest.mark.parametrize(
    "examples",
    [
        [np.ones((2, 1)), np.zeros((2, 1))],
        [np.ones((2, 3), "uint8")[:, ::2], np.zeros((2, 2), "uint8")],
        [mx.nd.ones((3, 2), dtype="float16").T, mx.nd.zeros((2, 3), dtype="float16")],
        [np.array(True), np.array(False)],
        [np.ones(2, "float32"), np.ones(2, "float64")],
        [(np.arange(3), mx.nd.arange(3), 5), (np.arange(3), mx.nd.arange(3), 6)],
        [[1, 2], [3, 4]],
    ],
)
def test_workers_stack_batches_like_the_main_process(examples: list[Any]) -> None:
    dataset = SimpleDataset(examples)
    here, there = (list(DataLoader(dataset, 2, num_workers=count)) for count in (0, 1))
    assert [kinds(one) for one in there] == [kinds(one) for one in here]


def test_examples_of_different_shapes_fail_in_workers_too() -> None:
    with pytest.raises(MXNetError, match="shape"):
        list(DataLoader([mx.nd.ones(2), mx.nd.ones(3)], 2, num_workers=1))


@pytest.mark.parametrize("options", [{}, {"num_workers": 1}, {"num_workers": 1, "thread_pool": 1}])
def test_pinned_batches(options: dict[str, Any]) -> None:
    dataset = SimpleDataset([(mx.nd.ones(2), k) for k in range(3)])
    batches = list(DataLoader(dataset, 2, pin_memory=True, pin_device_id=1, **options))
    assert len(batches) == 2
    for images, labels in batches:
        assert str(images.context) == str(labels.context) == "cpu_pinned(1)"


def test_batchify_fn_makes_the_batches() -> None:
    dataset = SimpleDataset([(f"text {k}", k) for k in range(5)])
    loader = DataLoader(dataset, 2, batchify_fn=AsList(), num_workers=2)
    assert list(loader)[2] == [("text 4", 4)]

    def mixed(examples: list[Any]) -> Any:
        count = len(examples)
        rows = mx.nd.sparse.csr_matrix(np.eye(count, dtype="float32"))
        return {"numpy": np.arange(count), "none": None, "rows": rows, "scalar": np.float32(2)}

    batch = next(iter(DataLoader(dataset, 3, batchify_fn=mixed, num_workers=1)))
    assert batch["numpy"].tolist() == [0, 1, 2]
    assert batch["none"] is None
    assert batch["rows"].stype == "csr"
    np.testing.assert_array_equal(batch["rows"].asnumpy(), np.eye(3))


def test_many_and_large_batches_do_not_deadlock() -> None:
    numbers = list(range(60_000))
    dataset = SimpleDataset(numbers)
    loader = DataLoader(dataset, 20_000, num_workers=2, batchify_fn=sum)
    assert sum(loader) == sum(numbers)
    small = DataLoader(dataset.take(4_000), 1, num_workers=1, prefetch=3_000, batchify_fn=AsList())
    assert [batch[0] for batch in small] == numbers[:4_000]


def test_a_workers_error_reaches_the_caller_with_its_traceback() -> None:
    def fragile(number: int) -> int:
        if number == 3:
            raise LookupError(f"no example {number}")
        return number

    loader = DataLoader(Computed(6, fragile), 2, num_workers=2)
    for _ in range(2):
        rounds = iter(loader)
        assert next(rounds).asnumpy().tolist() == [0, 1]
        with pytest.raises(LookupError, match="no example 3") as caught:
            next(rounds)
        trace = str(caught.value.__cause__)
        assert "in fragile" in trace
        assert "test_dataloader.py" in trace


class Unpicklable(Exception):
    """An error that cannot be rebuilt from its arguments."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


@pytest.mark.parametrize(
    ("raised", "expected", "message"),
    [
        (Unpicklable(1, 2), MXNetError, "Unpicklable: 1 and 2"),
        (SystemExit(3), SystemExit, "3"),
        (MXNetError("of the engine"), MXNetError, "of the engine"),
    ],
)
def test_errors_of_every_kind_reach_the_caller(
    raised: BaseException, expected: Any, message: str
) -> None:
    def fail(number: int) -> None:
        raise raised

    with pytest.raises(expected, match=message):
        list(DataLoader(Computed(1, fail), 1, num_workers=1))


def test_unpicklable_results_are_an_error() -> None:
    loader = DataLoader(SimpleDataset([1]), 1, num_workers=1, batchify_fn=lambda data: open)
    assert list(loader) == [open]
    loader = DataLoader(
        SimpleDataset([1]), 1, num_workers=1, batchify_fn=lambda data: (1 for _ in ())
    )
    with pytest.raises(TypeError, match="generator"):
        list(loader)


def test_a_worker_killed_while_working_is_reported_and_replaced() -> None:
    def deadly(number: int) -> int:
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    loader = DataLoader(Computed(4, deadly), 1, num_workers=2, timeout=10 * PATIENCE)
    for _ in range(2):
        batches = iter(loader)
        assert next(batches).asscalar() == 0
        assert next(batches).asscalar() == 1
        with pytest.raises(MXNetError, match=r"worker process \d+ of .* was killed by SIGKILL"):
            next(batches)
    loader = DataLoader(Computed(4, lambda number: os._exit(7)), 1, num_workers=1)
    with pytest.raises(MXNetError, match="ended with code 7"):
        next(iter(loader))


def test_workers_killed_between_epochs_are_replaced() -> None:
    loader = DataLoader(SimpleDataset(list(range(4))), 1, num_workers=2)
    assert [one.asscalar() for one in loader] == [0, 1, 2, 3]
    for worker in loader._pool._workers:  # type: ignore[union-attr]
        worker.process.kill()
        worker.process.join()  # by then its files are closed
    assert [one.asscalar() for one in loader] == [0, 1, 2, 3]


@pytest.mark.parametrize("thread_pool", [False, True])
def test_a_slow_worker_times_out(thread_pool: bool) -> None:
    go_on = multiprocessing.get_context("fork").Event()

    def slow(number: int) -> int:
        assert go_on.wait(PATIENCE)
        return number

    dataset = Computed(2, slow)
    loader = DataLoader(dataset, 1, num_workers=1, thread_pool=thread_pool, timeout=0.05)
    with pytest.raises(multiprocessing.TimeoutError, match=r"within 0\.05 s"):
        next(iter(loader))
    go_on.set()
    loader._timeout = PATIENCE
    assert [one.asscalar() for one in loader] == [0, 1]


def test_thread_workers_share_objects_and_raise_the_original_error() -> None:
    seen = []

    def watched(number: int) -> int:
        seen.append(number)
        if number == 5:
            raise KeyError(number)
        return number

    loader = DataLoader(Computed(6, watched), 2, num_workers=2, thread_pool=True)
    with pytest.raises(KeyError, match="5"):
        list(loader)
    assert sorted(seen) == [0, 1, 2, 3, 4, 5]


def test_workers_end_with_their_loader_even_while_busy() -> None:
    def endless(number: int) -> int:
        while True:
            time.sleep(PATIENCE)

    loader = DataLoader(Computed(4, endless), 1, num_workers=2)
    batches = iter(loader)
    loader._timeout = 0.01
    with pytest.raises(multiprocessing.TimeoutError):
        next(batches)
    found = pids(loader)
    assert all(is_running(pid) for pid in found)
    del loader, batches
    gc.collect()
    assert not any(is_running(pid) for pid in found)


def test_an_abandoned_epoch_is_collected_while_others_continue() -> None:
    dataset = ArrayDataset(mx.nd.arange(40).reshape(20, 2))
    first = DataLoader(dataset, 2, num_workers=1)
    second = DataLoader(dataset, 5, num_workers=1)
    for _ in range(3):
        for _batch in first:
            break
    batches = iter(second)
    next(batches)
    collected = weakref.ref(first)
    del first, _batch
    gc.collect()
    assert collected() is None
    assert sum(len(batch) for batch in batches) == 15


def test_two_epochs_may_run_at_once() -> None:
    loader = DataLoader(SimpleDataset(list(range(6))), 2, num_workers=2)
    pairs = [
        (a.asnumpy().tolist(), b.asnumpy().tolist()) for a, b in zip(loader, loader, strict=True)
    ]
    assert pairs == [([0, 1], [0, 1]), ([2, 3], [2, 3]), ([4, 5], [4, 5])]


def test_a_forked_child_does_not_stop_the_workers() -> None:
    loader = DataLoader(SimpleDataset([1, 2]), 1, num_workers=1)
    child = multiprocessing.get_context("fork").Process(target=loader._pool.close)  # type: ignore[union-attr]
    child.start()
    child.join()
    assert child.exitcode == 0
    assert [one.asscalar() for one in loader] == [1, 2]
    child.close()


def drawn(number: int) -> NDArray:
    engine = mx.nd.random.uniform(shape=(1,)).asscalar()
    return mx.nd.array([random.random(), np.random.rand(), engine])


def rounds_of(workers: int) -> np.ndarray:
    random.seed(1)
    np.random.seed(2)
    mx.random.seed(3)
    loader = DataLoader(Computed(8, drawn), 2, num_workers=workers)
    return np.array([[batch.asnumpy() for batch in loader] for _ in range(2)])


def test_random_numbers_do_not_depend_on_the_number_of_workers() -> None:
    one, three = rounds_of(1), rounds_of(3)
    np.testing.assert_array_equal(one, three)
    for kind in range(3):
        assert len(np.unique(one[..., kind])) == one[..., kind].size


def test_workers_do_not_advance_the_scripts_random_generator() -> None:
    np.random.seed(4)
    expected = np.random.rand()
    np.random.seed(4)
    list(DataLoader(Computed(4, drawn), 2, num_workers=1))
    assert np.random.rand() == expected


def test_workers_can_use_kernels_the_parent_has_used() -> None:
    image, weight = mx.nd.random.uniform(shape=(1, 3, 32, 32)), mx.nd.ones((8, 3, 3, 3))

    def convolved(number: int) -> NDArray:
        product = mx.nd.dot(mx.nd.ones((200, 200)), mx.nd.ones((200, 200)))
        features = mx.nd.Convolution(image, weight, kernel=(3, 3), num_filter=8, no_bias=True)
        return features[0] + product[0, 0]

    expected = convolved(0).asnumpy()  # OpenMP has started threads now, which a fork does not copy
    batches = list(DataLoader(Computed(2, convolved), 1, num_workers=1, timeout=PATIENCE))
    assert len(batches) == 2
    for batch in batches:
        np.testing.assert_allclose(batch.asnumpy()[0], expected, rtol=1e-5)


def test_the_next_epoch_can_start_before_the_last_is_consumed() -> None:
    calls = []

    def watched(number: int) -> int:
        calls.append(number)
        return number

    loader = DataLoader(Computed(2, watched), 1, num_workers=1, thread_pool=True, auto_reload=True)
    wait_until(lambda: calls == [0, 1])
    assert [one.asscalar() for one in loader] == [0, 1]
    wait_until(lambda: calls == [0, 1, 0, 1])
    loader.clean()
    loader.auto_reload = False
    assert [one.asscalar() for one in loader] == [0, 1]
    assert calls == [0, 1] * 3


def test_conflicting_arguments_are_refused() -> None:
    data = list(range(4))
    with pytest.raises(ValueError, match="batch_size must be specified unless batch_sampler"):
        DataLoader(data)
    order = mx.gluon.data.SequentialSampler(4)
    with pytest.raises(ValueError, match="shuffle must not be specified if sampler"):
        DataLoader(data, 2, shuffle=True, sampler=order)
    lists = mx.gluon.data.BatchSampler(order, 3)
    with pytest.raises(ValueError, match="must not be specified if batch_sampler"):
        DataLoader(data, 2, batch_sampler=lists)
    with pytest.raises(UsageError, match="timeout must be positive, given 0"):
        DataLoader(data, 2, timeout=0)
    assert [one.asnumpy().tolist() for one in DataLoader(data, batch_sampler=lists)] == [
        [0, 1, 2],
        [3],
    ]
    assert len(DataLoader(data, 3, sampler=order)) == 2


SCRIPT = """
import sys, time
import core as mx

def slow(number):
    if number:
        time.sleep(600)
    return number

loader = mx.gluon.data.DataLoader(
    mx.gluon.data.SimpleDataset([0, 1, 2, 3]).transform(slow), 1, num_workers=2
)
other = mx.gluon.data.DataLoader([1], 1, num_workers=1)
batches = iter(loader)
next(batches)
pids = [worker.process.pid for one in (loader, other) for worker in one._pool._workers]
print(*pids, flush=True)
next(batches)
"""


def started() -> tuple[subprocess.Popen[str], list[int]]:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    found = [int(pid) for pid in process.stdout.readline().split()]
    assert len(found) == 3
    assert all(is_running(pid) for pid in found)
    return process, found


def test_ctrl_c_ends_script_and_workers_with_one_traceback() -> None:
    process, found = started()
    with process:
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert errors.count("Traceback") == 1
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert not any(is_running(pid) for pid in found)


def test_busy_workers_end_when_their_script_is_killed() -> None:
    process, found = started()
    with process:
        process.kill()
        # Returns when every process that has inherited the pipes has closed them.
        process.communicate(timeout=PATIENCE)
    wait_until(lambda: not any(is_running(pid) for pid in found))
