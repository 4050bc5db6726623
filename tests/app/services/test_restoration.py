"""Modules brought back: which calls their executor gets, from what the store says of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from app.domain.checkpoint import CheckpointTag
from app.domain.module import BindSpec, InitSpec, InputDesc, OptimizerSpec, ParamsSource
from app.errors import ExecutorGone, HostError
from app.files.checkpoint_files import write_checkpoint
from app.link.client import Buffers, Reply, Tensors, TensorSpecs
from app.services.restoration import Restoration

BIND = BindSpec(data_shapes=(InputDesc(name="data", shape=(2, 3)),))


class RecordingExecutor:
    """An ``ExecutorClient`` that notes calls; ``errors`` are raised by method."""

    name = "cpu(0)"

    def __init__(self, **errors: Exception) -> None:
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self._errors = errors

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def is_alive(self) -> bool:
        return True

    def reserve(self, specs: TensorSpecs) -> Buffers:
        raise AssertionError("nothing is restored from tensors")

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        tensors: Tensors | Buffers | None = None,
    ) -> Reply:
        assert params is not None
        self.calls.append((method, params))
        if method in self._errors:
            raise self._errors[method]
        return Reply({})

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        raise AssertionError("nobody listens")
        yield

    def methods(self, module: str) -> list[str]:
        """Return the methods called of a module."""
        names = [
            (method, params.get("module", params.get("record"))) for method, params in self.calls
        ]
        return [
            method
            for method, name in names
            if (name if isinstance(name, str) else name["name"]) == module
        ]


@pytest.fixture
def restoration(bench: Any) -> Restoration:
    """The restoration of the bench's modules."""
    return Restoration(bench.modules, bench.checkpoints)


async def test_only_what_was_done_is_done_again(bench: Any, restoration: Restoration) -> None:
    bench.modules.change(
        "a",
        lambda a: a.evolve(
            bind=BIND, init=InitSpec(seed=3), params=ParamsSource.INIT, optimizer=OptimizerSpec()
        ),
    )
    executor = RecordingExecutor()
    await restoration.restore(executor)
    assert executor.methods("a") == ["create_module", "bind", "init_params", "init_optimizer"]
    assert executor.methods("b") == ["create_module"]


async def test_parameters_that_no_seed_brings_back_are_gone(
    bench: Any, restoration: Restoration
) -> None:
    bench.modules.change(
        "a", lambda a: a.evolve(bind=BIND, params=ParamsSource.SET, optimizer=OptimizerSpec())
    )
    executor = RecordingExecutor()
    await restoration.restore(executor)
    assert executor.methods("a") == ["create_module", "bind"]
    assert bench.modules.get("a").params is None


@pytest.mark.parametrize("has_states", [False, True])
async def test_a_checkpoint_is_loaded_with_its_states(
    bench: Any, restoration: Restoration, has_states: bool
) -> None:
    with write_checkpoint(bench.checkpoints.root("a"), CheckpointTag(4), module="a") as writer:
        (writer.directory / "a-0004.params").write_bytes(b"values")
        if has_states:
            (writer.directory / "a-0004.states").write_bytes(b"states")
    bench.modules.change(
        "a",
        lambda a: a.evolve(
            bind=BIND,
            params=ParamsSource.CHECKPOINT,
            checkpoint=CheckpointTag(4),
            optimizer=OptimizerSpec(),
        ),
    )
    executor = RecordingExecutor()
    await restoration.restore(executor)
    expected = ["create_module", "bind", "load_checkpoint", "init_optimizer"]
    assert executor.methods("a") == expected + ["load_checkpoint"] * has_states
    loads = [params for method, params in executor.calls if method == "load_checkpoint"]
    assert [load.get("optimizer_states", False) for load in loads] == [False, True][: len(loads)]


async def test_a_module_that_cannot_be_restored_harms_no_other(
    bench: Any, restoration: Restoration
) -> None:
    bench.modules.change(
        "a",
        lambda a: a.evolve(params=ParamsSource.CHECKPOINT, checkpoint=CheckpointTag(9)),
    )
    executor = RecordingExecutor(bind=HostError("too_large", "no memory"))
    bench.modules.change("b", lambda b: b.evolve(bind=BIND))
    await restoration.restore(executor)
    assert executor.methods("a") == ["create_module"]
    assert executor.methods("b") == ["create_module", "bind"]


async def test_an_executor_that_dies_meanwhile_is_no_fault_of_a_module(
    restoration: Restoration,
) -> None:
    executor = RecordingExecutor(create_module=ExecutorGone("it died"))
    with pytest.raises(ExecutorGone, match="it died"):
        await restoration.restore(executor)
