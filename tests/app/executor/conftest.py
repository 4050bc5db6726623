"""Hosts with an engine, run in this thread."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from app.domain.dataset import ArrayInfo, DatasetKind, DatasetRecord
from app.domain.job import JobKind
from app.domain.module import (
    SINGLE,
    BindSpec,
    BucketShapes,
    InitSpec,
    InputDesc,
    ModuleKind,
    ModuleRecord,
    OptimizerSpec,
)
from app.errors.tree import HostError
from app.executor.host import ModuleHost
from app.files.checkpoint_files import admit_attempt
from app.link import calls
from app.link.job_messages import DatasetFile, JobStart
from app.link.protocols import Answer, Computation
from served.perceptron import (
    BATCH,
    CLASSES,
    EXAMPLES,
    FEATURES,
    data_shape,
    label_shape,
    perceptron,
    toy_examples,
)


def sequence_network(length: int) -> mx.sym.Symbol:
    """Return a classifier of sequences that averages their first ``length`` steps."""
    data, lengths = mx.sym.Variable("data"), mx.sym.Variable("lengths")
    steps = mx.sym.SwapAxis(data, dim1=0, dim2=1)
    masked = mx.sym.SequenceMask(steps, lengths, use_sequence_length=True)
    summed = mx.sym.sum(masked, axis=0)
    mean = mx.sym.broadcast_div(summed, mx.sym.Reshape(lengths, shape=(-1, 1)))
    net = mx.sym.FullyConnected(mean, num_hidden=CLASSES, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")


class Driver:
    """A host in this thread, called like an executor calls it.

    Attributes:
        events: what jobs reported.
    """

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._woken = threading.Event()
        self.host = ModuleHost("cpu(0)", self.events.append, self._woken.set)

    def ask(self, call: Any, /, **tensors: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Make a call; return its result and copies of its tensors."""
        method, params = calls.to_call(call)
        arrays = {name: np.asarray(value) for name, value in tensors.items()}
        answer = self.host.handle(method, params, arrays)
        if isinstance(answer, Computation):
            answer = self._compute(answer)
        result, outputs = answer
        return dict(result), {name: np.array(value) for name, value in outputs.items()}

    def _compute(self, computation: Computation) -> Answer:
        outputs = {name: np.empty(*spec) for name, spec in computation.specs.items()}
        steps = computation.run(outputs)
        awaited = None
        while True:
            if awaited is not None:
                wait([awaited])
            awaited = None  # it may contain the error the next step raises
            try:
                awaited = next(steps)
            except StopIteration as end:
                return end.value, outputs

    def refusal(self, call: Any, /, **tensors: Any) -> HostError:
        """Make a call that must be refused, and return the refusal."""
        with pytest.raises(HostError) as refusal:
            self.ask(call, **tensors)
        return refusal.value

    def create(self, symbol: mx.sym.Symbol, name: str = "net", **changes: Any) -> ModuleRecord:
        """Create a module of one symbol."""
        record = ModuleRecord(name=name, symbols={SINGLE: symbol.tojson()}, **changes)
        self.ask(calls.CreateModule(record=record))
        return record

    def create_buckets(self, lengths: tuple[int, ...], default: int) -> ModuleRecord:
        """Create a bucketing module of sequence networks."""
        record = ModuleRecord(
            name="net",
            kind=ModuleKind.BUCKETING,
            symbols={str(n): sequence_network(n).tojson() for n in lengths},
            default_bucket_key=str(default),
            data_names=("data", "lengths"),
        )
        self.ask(calls.CreateModule(record=record))
        return record

    def bind(self, batch: int = BATCH, **changes: Any) -> dict[str, Any]:
        """Bind the module ``net`` for batches of this size."""
        spec = BindSpec(
            data_shapes=(data_shape(batch),), label_shapes=(label_shape(batch),), **changes
        )
        return self.ask(calls.Bind(module="net", spec=spec))[0]

    def bind_buckets(self, default: int, others: tuple[int, ...], batch: int = 4) -> None:
        """Bind a bucketing module of sequence networks."""
        shapes = {n: self.sequence_shapes(n, batch) for n in (default, *others)}
        spec = BindSpec(
            data_shapes=shapes[default].data_shapes,
            label_shapes=shapes[default].label_shapes,
            buckets={str(n): shapes[n] for n in others},
        )
        self.ask(calls.Bind(module="net", spec=spec))

    @staticmethod
    def sequence_shapes(length: int, batch: int) -> BucketShapes:
        """Return the shapes of a bucket of the sequence network."""
        return BucketShapes(
            data_shapes=(
                InputDesc(name="data", shape=(batch, length, FEATURES), layout="NTC"),
                InputDesc(name="lengths", shape=(batch,)),
            ),
            label_shapes=(InputDesc(name="softmax_label", shape=(batch,)),),
        )

    def ready(self, **optimizer: Any) -> None:
        """Create, bind and initialize the module ``net`` and give it an optimizer."""
        self.create(perceptron())
        self.bind()
        self.ask(calls.InitParams(module="net", spec=InitSpec(seed=3)))
        options = optimizer or {"learning_rate": 0.1, "momentum": 0.9}
        self.ask(calls.InitOptimizer(module="net", spec=OptimizerSpec(options=options)))

    def step(self, data: Mapping[str, np.ndarray], name: str = "net") -> None:
        """Train a module with the first batch of these examples."""
        batch = {key: array[:BATCH] for key, array in data.items()}
        self.ask(calls.Forward(module=name, backward=True), **batch)
        self.ask(calls.Update(module=name))

    def params(self, name: str = "net") -> dict[str, np.ndarray]:
        """Return copies of a module's parameters."""
        return self.ask(calls.GetParams(module=name))[1]

    def describe(self, name: str = "net") -> dict[str, Any]:
        """Return what is known of a module."""
        return self.ask(calls.DescribeModule(module=name))[0]

    def run_jobs(self) -> dict[str, Any]:
        """Run all jobs to their end and return the last event."""
        while self.advance():
            pass
        return self.events[-1]

    def advance(self) -> bool:
        """Run the next step of a job; return False when there is none."""
        while not self.host.has_work():
            if not self.ask(calls.ExecutorInfo())[0]["jobs"]:
                return False
            assert self._woken.wait(60), "a job has waited for a minute"
            self._woken.clear()
        self.host.advance()
        return True

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of a type."""
        return [event for event in self.events if event["type"] == kind]


@pytest.fixture
def driver() -> Driver:
    """A host without modules."""
    return Driver()


@pytest.fixture
def fresh_driver() -> type[Driver]:
    """The class of hosts, to create more of them, as after a death."""
    return Driver


@pytest.fixture
def make_network() -> Any:
    """Make the symbol of a perceptron, see ``served.perceptron``."""
    return perceptron


@pytest.fixture
def toy_data() -> dict[str, np.ndarray]:
    """Examples of three classes that a perceptron can learn."""
    return toy_examples()


@pytest.fixture
def toy_sequences() -> dict[str, np.ndarray]:
    """Sequences of 2 to 9 steps of three classes, one after the other."""
    rng = np.random.default_rng(6)
    labels = rng.integers(0, CLASSES, EXAMPLES)
    lengths = rng.integers(2, 10, EXAMPLES)
    frames = rng.normal(size=(lengths.sum(), FEATURES)).astype(np.float32)
    frames[np.arange(len(frames)), np.repeat(labels, lengths)] += 2.0
    return {"frames": frames, "lengths": lengths, "labels": labels}


class JobMaker:
    """Creates jobs on a dataset of this test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "checkpoints"
        self._datasets: dict[str, DatasetFile] = {}

    def dataset(self, name: str, arrays: Mapping[str, np.ndarray]) -> str:
        """Write a dataset and return its name."""
        path = self.folder / f"{name}.npz"
        np.savez(path, **arrays)
        infos = tuple(
            ArrayInfo(name=key, shape=array.shape, dtype=array.dtype.name)
            for key, array in arrays.items()
        )
        record = DatasetRecord(
            name=name, kind=DatasetKind.NPZ, arrays=infos, size=path.stat().st_size, sha256="0" * 64
        )
        self._datasets[name] = DatasetFile(record=record, path=str(path))
        return name

    def start(
        self,
        record: ModuleRecord,
        params: Mapping[str, Any],
        *,
        kind: JobKind = JobKind.FIT,
        job_id: int = 1,
        attempt: int = 1,
        resume: str | None = None,
        is_admitted: bool = True,
    ) -> JobStart:
        """Return the message that starts a job; a fit may write checkpoints from now on."""
        root = self.root if record.name == "net" else self.folder / record.name
        if kind is JobKind.FIT and is_admitted:
            admit_attempt(root, job_id, attempt)
        return JobStart(
            job_id=job_id,
            attempt=attempt,
            kind=kind,
            params=params,
            module=record.name,
            init=record.init,
            optimizer=record.optimizer,
            datasets=self._datasets,
            checkpoint_root=str(root),
            resume=None if resume is None else str(self.root / resume),
            output_path=str(self.folder / "output.npz") if kind is JobKind.PREDICT else None,
        )


@pytest.fixture
def jobs(tmp_path: Path) -> JobMaker:
    """Creates jobs whose files are in this test's own folder."""
    return JobMaker(tmp_path)
