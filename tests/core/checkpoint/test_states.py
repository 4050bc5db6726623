"""``.states`` pickles: MXNet's, ours, and malicious ones."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import pickletools
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core as mx
from core import nd
from core.checkpoint import copy_states, read_states, register_pickled, write_states
from core.checkpoint.unpickle import MAX_NESTING
from core.errors import FormatError
from core.ndarray import NDArray

# pickle.dumps({0: (mx.nd.array([1, 2]), None), "w": mx.nd.array([3])}, 4) of MXNet 1.9.1.
BY_MXNET = bytes.fromhex(
    "800495c5000000000000007d94284b008c156d786e65742e6e6461727261792e6e646172726179948c074e44417272"
    "61799493944e859452947d948c0668616e646c65948c086275696c74696e73948c096279746561727261799493"
    "944328c9fa93f9000000000100000002000000000000000100000000000000000000000000803f00000040948594"
    "529473624e86948c0177946803680452947d946807680a4324c9fa93f9000000000100000001000000000000000100"
    "000000000000000000000000404094859452947362752e"
)


class Recorder:
    """A user's class."""


@pytest.fixture
def optimizer() -> mx.optimizer.Optimizer:
    scheduler = mx.lr_scheduler.FactorScheduler(step=10, factor=0.5, base_lr=0.2)
    return mx.optimizer.Adam(learning_rate=0.2, lr_scheduler=scheduler)


def numbers(value: Any) -> Any:
    """Return states with arrays replaced by (values, dtype, context)."""
    if isinstance(value, NDArray):
        return value.asnumpy().tolist(), value.dtype, value.context
    if isinstance(value, dict):
        return {key: numbers(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(numbers(item) for item in value)
    return value


# -- MXNet's own files --------------------------------------------------------------------------


def test_mxnets_pickle_is_read() -> None:
    states = read_states(BY_MXNET)
    assert numbers(states) == {
        0: (([1, 2], np.float32, mx.cpu(0)), None),
        "w": ([3], np.float32, mx.cpu(0)),
    }
    assert write_states(states) == BY_MXNET


def sample_names() -> list[str]:
    optimizers = "adadelta adagrad adamax ftml ftrl lamb lars lbsgd nadam nag rmsc sgdmom sgld"
    local = [f"st_local1_{name}-0001" for name in (*optimizers.split(), "signum")]
    return [*local, "st_device2_adam-0001", "st_none1_sgd-0001", "tr_None"]


@pytest.mark.parametrize("name", sample_names())
def test_samples_are_rewritten_byte_for_byte(shared_dir: Path, name: str) -> None:
    data = (shared_dir / "formats" / f"{name}.states").read_bytes()
    assert write_states(read_states(data)) == data


def test_states_of_published_trainings_are_read(shared_dir: Path) -> None:
    files = sorted((shared_dir / "checkpoints").glob("*/*.states"))
    assert files
    for path in files:
        assert write_states(read_states(path.read_bytes())) == path.read_bytes(), path


def test_a_modules_states_are_read(shared_dir: Path) -> None:
    states = read_states((shared_dir / "formats" / "st_local1_sgdmom-0001.states").read_bytes())
    assert sorted(states) == [0, 1, 2, 3]
    assert [states[index].shape for index in range(4)] == [(3, 4), (3,), (2, 3), (2,)]
    assert states[0].context == mx.cpu(0)


def test_a_kvstores_states_keep_their_pinned_context(shared_dir: Path) -> None:
    states = read_states((shared_dir / "formats" / "st_device2_adam-0001.states").read_bytes())
    mean, variance = states["fc1_weight"]
    assert mean.context == variance.context == mx.cpu_pinned(0)


def test_a_trainers_optimizer_is_read(shared_dir: Path) -> None:
    states, optimizer = read_states((shared_dir / "formats" / "tr_None.states").read_bytes())
    assert sorted(states) == [0, 1, 4, 5, 6, 7]
    assert isinstance(optimizer, mx.optimizer.Adam)
    assert isinstance(optimizer.lr_scheduler, mx.lr_scheduler.FactorScheduler)
    assert optimizer.rescale_grad == 0.125
    assert optimizer.num_update == 1
    # One dict referenced twice must stay one.
    assert optimizer._index_update_count is optimizer._all_index_update_counts[0]


# -- ours ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "states",
    [
        {},
        {0: None, 1: None},
        {0: nd.array([1, 2]), 1: (nd.zeros((2, 3)), nd.ones((2, 3)))},
        {"w": (nd.ones(3, dtype="float16"), (nd.ones(3), None))},
        {0: [nd.ones(2, ctx=mx.cpu(1)), True, 1.5, "text", 10**20, -3, ()]},
        {0: nd.array([[0, 1], [0, 0]]).tostype("row_sparse")},
        {0: nd.array([[0, 1], [0, 0]]).tostype("csr")},
        {0: nd.ones((300, 300))},
    ],
    ids=repr,
)
def test_written_states_are_read_back(states: Any) -> None:
    assert numbers(read_states(write_states(states))) == numbers(states)


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
def test_a_copy_of_the_states_does_not_change_with_them(stype: str) -> None:
    array = nd.array([[0, 1], [0, 2]]).tostype(stype)
    states = {0: (array, None), 1: [nd.ones(3), True], "w": nd.ones(2, ctx=mx.cpu(1))}
    written = write_states(states)
    copied = copy_states(states)
    states[1][0][:] = 5
    array.dense_for_write()[:] = 7
    assert write_states(states) != written
    assert write_states(copied) == written


def test_an_optimizer_is_written_and_read_back(optimizer: mx.optimizer.Optimizer) -> None:
    updater = mx.optimizer.get_updater(optimizer)
    weight = nd.ones((2, 3))
    updater(0, nd.ones((2, 3)), weight)
    states, other = read_states(updater.get_states(dump_optimizer=True))
    assert numbers(states) == numbers(updater.states)
    assert vars(other.lr_scheduler) == vars(optimizer.lr_scheduler)
    assert {**vars(other), "lr_scheduler": 0} == {**vars(optimizer), "lr_scheduler": 0}


def test_class_names_in_the_file_are_mxnets(optimizer: mx.optimizer.Optimizer) -> None:
    written = write_states(({0: nd.ones(1)}, optimizer))
    texts = [argument for code, argument, _ in pickletools.genops(written) if "UNI" in code.name]
    for name in ("mxnet.ndarray.ndarray", "mxnet.optimizer.optimizer", "mxnet.lr_scheduler"):
        assert name in texts
    assert not [text for text in texts if text.startswith("core")]


def test_older_names_of_optimizers_are_read() -> None:
    written = write_states(({}, mx.optimizer.SGD()))
    renamed = written.replace(b"\x8c\x19mxnet.optimizer.optimizer", b"\x8c\x0fmxnet.optimizer")
    assert renamed != written
    size = struct.unpack_from("<Q", written, 3)[0] - 10
    renamed = renamed[:3] + struct.pack("<Q", size) + renamed[11:]
    _, optimizer = read_states(renamed)
    assert isinstance(optimizer, mx.optimizer.SGD)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_binary_protocol_is_read(protocol: int) -> None:
    states = {0: [1, 2.5, None, True, "text", -7, 2**40], "k": (1, (2, 3), (1, 2, 3, 4)), 5: []}
    assert read_states(pickle.dumps(states, protocol)) == states


def test_numpy_numbers_are_read() -> None:
    states = {0: np.float32(1.5), 1: np.int64(7)}
    read = read_states(pickle.dumps(states, 4))
    assert read == states
    assert type(read[0]) is np.float32


def test_unsupported_values_are_refused_when_writing() -> None:
    for value in (object(), {0: np.ones(2)}, Recorder(), len, {0: Recorder}):
        with pytest.raises(FormatError, match="cannot be written"):
            write_states(value)


def test_registered_classes_are_written_and_read_back() -> None:
    register_pickled(Recorder, "a.users.module")
    value = Recorder()
    value.rate = 0.5  # type: ignore[attr-defined]
    written = write_states(value)
    assert b"a.users.module" in written
    read = read_states(written)
    assert type(read) is Recorder
    assert vars(read) == {"rate": 0.5}


# -- malicious files ----------------------------------------------------------------------------


class Runs:
    """Unpickling it would call a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._call = function, arguments

    def __reduce__(self) -> Any:
        return self._call


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "call",
    [
        (os.system, "touch owned"),
        (eval, "open('owned', 'w')"),
        (getattr, {}, "keys"),
        (io.open, "owned", "w"),
        (np.load, "x"),
    ],
    ids=lambda call: call[0].__name__,
)
def test_no_code_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int, call: tuple[Any, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FormatError, match=r"not among the names|does not belong"):
        read_states(pickle.dumps({0: Runs(*call)}, protocol))
    assert not list(tmp_path.iterdir())


def test_allowed_classes_refuse_harmful_arguments() -> None:
    attacks = [
        Runs(bytearray, 10**12),
        Runs(bytearray, "x", "rot13"),
        Runs(np.dtype, "O"),
        Runs(np.dtype, "V1000000000000"),
    ]
    for attack in attacks:
        with pytest.raises(FormatError):
            read_states(pickle.dumps(attack, 4))


def program(*parts: bytes) -> bytes:
    return b"\x80\x04" + b"".join(parts) + b"."


def text(value: str) -> bytes:
    return b"\x8c" + bytes([len(value)]) + value.encode()


ARRAY = text("mxnet.ndarray.ndarray") + text("NDArray") + b"\x93"
EMPTY_ARRAY = ARRAY + b"N\x85R"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "damaged|ends"),
        (b"\x80\x04", "damaged|ends"),
        (program(), "damaged"),
        (program(b"N", b"N"), "damaged"),
        (program(b"("), "mark"),
        (program(b"u"), "mark is missing"),
        (program(b"}u"), "mark is missing"),
        (program(b"}(K\x01u"), "keys and values"),
        (program(b"}](Nes"), "damaged|mark"),
        (program(b"}]Ns"), "key of type list"),
        (program(b"}", EMPTY_ARRAY, b"Ns"), "key of type NDArray"),
        (program(b"K\x01K\x02a"), "appended to a int"),
        (program(b"h\x05"), "damaged"),
        (program(b"r\xff\xff\xff\x7f"), "damaged"),
        (program(ARRAY), "name or mark"),
        (program(ARRAY, b"\x85"), "name or mark"),
        (program(ARRAY, b"NR"), "without a tuple"),
        (program(b"N)R"), "NoneType is called"),
        (program(ARRAY, b")N\x86R"), "cannot be made"),
        (program(EMPTY_ARRAY), "not filled"),
        (program(EMPTY_ARRAY, b"}", text("handle"), b"Nsb"), "no bytes under"),
        (program(EMPTY_ARRAY, b"Nb"), "not a dict of attributes"),
        (program(EMPTY_ARRAY, b"}b"), "no bytes under 'handle'"),
        (program(EMPTY_ARRAY, b"}", text("handle"), b"K\x01sb"), "no bytes under 'handle'"),
        (program(EMPTY_ARRAY, b"}", text("handle"), b"C\x02xxsb"), "version"),
        (program(b"}}", text("x"), b"Nsb"), "attributes are set on a dict"),
        (program(b"N}b"), "attributes are set on a NoneType"),
        (program(text("posix"), text("system"), b"\x93"), "posix.system is not among the names"),
        (program(b"K\x01K\x02\x93"), "a name is not text"),
        (program(b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f"), "damaged"),
        (program(b"\x95\xff\xff\xff\xff\xff\xff\xff\x7fN"), ""),
        (program(b"P1\n"), "PERSID"),
        (program(b"\x82\x01"), "EXT1"),
    ],
    ids=repr,
)
def test_malformed_pickles_are_refused(data: bytes, message: str) -> None:
    if not message:
        assert read_states(data) is None
        return
    with pytest.raises(FormatError, match=message):
        read_states(data)


def test_errors_give_the_position() -> None:
    with pytest.raises(FormatError, match="at byte 3"):
        read_states(program(b"N", b"P1\n"))


def test_nesting_is_limited() -> None:
    fine: Any = None
    for _ in range(MAX_NESTING - 1):
        fine = (fine,)
    assert read_states(pickle.dumps(fine)) == fine
    deep = b"N" + b"\x85" * 100_000
    with pytest.raises(FormatError, match="nest deeper"):
        read_states(program(deep))
    # Each list holds the previous one twice: short, but walking it would never end.
    with pytest.raises(FormatError, match="nest deeper"):
        read_states(program(b"N" + b"\x94h\x00\x86" * 100_000))


def test_values_that_contain_themselves_are_refused() -> None:
    with pytest.raises(FormatError, match="contains itself"):
        read_states(program(b"]\x94h\x00a"))
    with pytest.raises(FormatError, match="contains itself"):
        read_states(program(b"}\x94", text("x"), b"]h\x00as"))


@pytest.fixture(scope="module")
def valid_files() -> list[bytes]:
    states = {0: nd.array([1, 2]), 1: (nd.zeros((2, 2)), None), "w": nd.ones(1)}
    return [write_states(states), write_states((states, mx.optimizer.Adam()))]


def test_every_truncation_is_refused(valid_files: list[bytes]) -> None:
    for data in valid_files:
        for length in range(len(data)):
            with pytest.raises(FormatError):
                read_states(data[:length])


@settings(max_examples=600, deadline=None)
@given(data=st.data())
def test_damaged_files_raise_only_format_errors(
    valid_files: list[bytes], data: st.DataObject
) -> None:
    damaged = bytearray(data.draw(st.sampled_from(valid_files)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(FormatError):
        read_states(bytes(damaged))


OPCODES = [code.code.encode("latin-1") for code in pickletools.opcodes]


def programs() -> st.SearchStrategy[bytes]:
    values = st.sampled_from([b"N", b"K\x01", b"}", b"]", b")", b"(", ARRAY, EMPTY_ARRAY])
    names = st.sampled_from([text("handle"), b"C\x02xx", b"h\x00", b"\x94", b"\x88"])
    return st.lists(values | names | st.sampled_from(OPCODES), max_size=30).map(b"".join)


@settings(max_examples=600, deadline=None)
@given(programs())
def test_random_pickle_programs_raise_only_format_errors(code: bytes) -> None:
    with contextlib.suppress(FormatError):
        read_states(program(code))
