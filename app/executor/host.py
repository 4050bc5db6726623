"""The device side of an executor: answers the calls of ``app.link.calls`` and runs jobs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from app.domain.checkpoint import CheckpointTag
from app.domain.codec import from_plain, to_plain
from app.domain.job_params import parse_job_params
from app.domain.module import BucketShapes, symbol_field
from app.errors.tree import AlreadyExists, HostError, Invalid, OutOfMemory
from app.executor.background import Waits, awaited, in_background
from app.executor.faults import as_refusals
from app.executor.jobs.job_checks import check_job
from app.executor.jobs.job_scheduler import JobScheduler
from app.executor.memory_manager import Make, MemoryManager
from app.executor.modules.describe import describe_module, describe_optimizer
from app.executor.modules.engine_optimizer import (
    check_saved,
    load_states,
    set_learning_rate,
    states_of,
)
from app.executor.modules.graph_description import bucket_of, packed_graph
from app.executor.modules.graph_limits import check_symbols
from app.executor.modules.hosted_module import HostedModule, parse_context
from app.executor.modules.inspection import inspect_model
from app.executor.modules.loaded_modules import LoadedModules
from app.executor.modules.memory_limits import available_bytes, default_budget
from app.executor.modules.module_files import load_module, read_base, save_module
from app.executor.modules.module_params import get_params, init_params, set_params
from app.executor.modules.param_summaries import summarize_params
from app.executor.modules.process_memory import resident_bytes, return_free_memory
from app.executor.modules.randomness import RandomStreams
from app.executor.modules.restoring import restored_module
from app.executor.modules.shape_proposals import propose_shapes
from app.executor.modules.stepping import Stepper
from app.executor.modules.version_loading import load_version
from app.executor.predict.batching import Batching
from app.executor.predict.profiling import profile_module
from app.executor.step_calls import StepCalls
from app.link import calls
from app.link.calls import CALL_NAMES
from app.link.job_messages import JobControl, JobStart
from app.link.module_messages import eviction
from app.link.packed_frames import BatchFacts
from app.link.protocols import (
    Answer,
    Arrays,
    Computation,
    Emit,
    IncomingCall,
    Predicted,
    Prepared,
    Priority,
)
from core.backends import backend_of

__all__ = ["ModuleHost"]

Handler = Callable[["ModuleHost", Any, Arrays], Answer | Computation]

_TYPES: Mapping[str, type[Any]] = {name: cls for cls, name in CALL_NAMES.items()}
_CONTROL = (
    calls.ExecutorInfo,
    calls.ResidentModules,
    calls.CreateModule,
    calls.DeleteModule,
    calls.CutSymbols,
    calls.CheckJob,
    calls.DescribeModule,
    calls.GetOptimizer,
    JobStart,
    JobControl,
)
_PRIORITIES: Mapping[type[Any], Priority] = {
    **dict.fromkeys((calls.Predict, calls.RestoreModule, calls.LoadVersion), Priority.PREDICT),
    **dict.fromkeys(_CONTROL, Priority.CONTROL),
}
"""Priorities of all calls but step calls."""

_MEASURED_BATCHES = 16
"""The memory of a job's module is measured once in this many batches, because it grows only while
buckets are first used."""


class ModuleHost:
    """Owns the modules of one device. All methods run in the device thread."""

    def __init__(
        self,
        device: str,
        emit: Emit,
        wake: Callable[[], None],
        *,
        budget_bytes: int | None = None,
        sharers: int = 1,
        turn_of_job: Callable[[int, str], None] = lambda job_id, module: None,
    ) -> None:
        """Create a host without modules.

        Args:
            device: for example ``cpu(0)``.
            emit: where events of jobs and modules go.
            wake: called, in any thread, when a job that waited for a file can continue.
            budget_bytes: memory that modules may take before idle ones are evicted; by default a
                share of the device's memory.
            sharers: number of devices that share its memory, this one included.
            turn_of_job: called with each job whose turn it is, and its module.

        Raises:
            Invalid: the device does not exist.
        """
        self._device = parse_context(device, "device")
        self._backend = backend_of(self._device)
        self._random = RandomStreams()
        budget = budget_bytes or default_budget(self._device, sharers)
        self._loaded_modules = LoadedModules(
            *(budget, self._random.forget, lambda name: emit(eviction(name))),
            is_apart=self._backend.memory() is not None,
        )
        self._memory_manager = MemoryManager(self._loaded_modules, self._backend.release)
        self._batches = 0
        self._batching = Batching(self._get, budget)
        self.step_calls = StepCalls(self._stepper, self._random)
        remove = self._loaded_modules.remove
        self._jobs = JobScheduler(
            self._module_of_job,
            remove,
            self._random,
            emit,
            wake,
            self._memory_manager.free,
            turn_of_job,
        )

    # -- the loop's side ----------------------------------------------------------------------

    def priority(self, method: str) -> Priority:
        """Return a call's priority; raise HostError for an unknown method."""
        if method not in _TYPES:
            raise HostError("not_found", f"an executor has no method {method!r}")
        return _PRIORITIES.get(_TYPES[method], Priority.STEP)

    def handle(
        self, method: str, params: Mapping[str, Any], tensors: Arrays
    ) -> Answer | Computation:
        """Answer a call; raise HostError if the caller is at fault."""
        with self._on_device():
            call = from_plain(_TYPES[method], params)
            try:
                answer = self._memory_manager.answer(
                    call, lambda: _HANDLERS[method](self, call, tensors)
                )
            finally:
                self._memory_manager.account(call)
        if isinstance(answer, Computation):
            return dataclasses.replace(answer, run=partial(self._steps, answer))
        return answer

    def _alone(self, call: Any, make: Make) -> Computation:
        """Return the computation of a call that uses its module exclusively until it ends."""
        return self._memory_manager.in_steps(call, make, is_exclusive=True)

    def _steps(self, computation: Computation, outputs: Arrays) -> Waits[Mapping[str, Any]]:
        steps = computation.run(outputs)
        while True:
            with self._on_device():
                try:
                    awaited = next(steps)
                except StopIteration as end:
                    return dict(end.value)
            yield awaited
            del awaited  # see in_background

    @contextmanager
    def _on_device(self) -> Iterator[None]:
        """Compute on the device; errors that the caller can handle become HostErrors."""
        with as_refusals(), self._backend.scope():
            yield

    def known(self, call: IncomingCall) -> Prepared | None:
        """Return the prepared prediction from the cache, if one like it was prepared and is still
        valid."""
        return self._batching.known(call)

    def plan(self, call: IncomingCall) -> Computation | None:
        """Return the work that plans a large graph off the device thread; None if it has a plan
        already."""
        with self._on_device():
            found = self._batching.plan(call)
        if found is None:
            return None
        computation = self._alone(*found)
        return dataclasses.replace(computation, run=partial(self._steps, computation))

    def prepare(self, call: IncomingCall) -> Prepared:
        """Return a prediction that is ready to join a batch; raise HostError."""
        with self._on_device():
            return self._batching.prepare(call)

    def predict(self, batch: Sequence[Prepared]) -> tuple[list[Predicted], BatchFacts]:
        """Compute the predictions of one group as a batch; a HostError applies to all of them."""
        asked: calls.Predict = batch[0].work.asked
        with self._on_device():
            try:
                return self._batching.predict(batch)
            except MemoryError as error:
                reason = str(error)
            finally:
                self._memory_manager.account(asked)
            # Outside of the except block, so that the failed batch's frames and arrays are gone.
            self._memory_manager.free(asked.module)
            try:
                return self._batching.predict(batch)
            except MemoryError:
                raise OutOfMemory(f"a prediction of module {asked.module!r}", reason) from None

    def has_work(self) -> bool:
        """Return whether any job can run a step."""
        return self._jobs.has_work()

    def advance(self) -> None:
        """Run one batch of one job."""
        with self._backend.scope():
            name = self._jobs.advance()
            self._batches += 1
            if self._batches % _MEASURED_BATCHES == 0 and name in self._loaded_modules:
                self._loaded_modules.measure(name)
                self._loaded_modules.keep_to_budget(name)

    def close(self) -> None:
        """Release all jobs and modules."""
        self._jobs.close()
        self._loaded_modules.clear()

    # -- control ------------------------------------------------------------------------------

    def _executor_info(self, call: calls.ExecutorInfo, tensors: Arrays) -> Answer:
        memory = self._backend.memory()
        return {
            "device": str(self._device),
            "pid": os.getpid(),
            "rss_bytes": resident_bytes(),
            "available_bytes": available_bytes(self._device),
            "device_memory": None if memory is None else {"used": memory[0], "total": memory[1]},
            "numpy": np.__version__,
            **self._loaded_modules.describe(),
            "jobs": self._jobs.summarize(),
        }, {}

    def _create_module(self, call: calls.CreateModule, tensors: Arrays) -> Computation:
        if call.record.name in self._loaded_modules:
            raise AlreadyExists("module", call.record.name)

        def make() -> Waits[Mapping[str, Any]]:
            symbols = {symbol_field(key): text for key, text in call.record.symbols.items()}
            yield from awaited(in_background(check_symbols, symbols, call.max_nodes))
            module = yield from awaited(in_background(HostedModule, call.record))
            self._loaded_modules.add(module)
            return describe_module(module)

        return self._alone(call, make)

    def _restore_module(self, call: calls.RestoreModule, tensors: Arrays) -> Answer | Computation:
        if call.record.name in self._loaded_modules:
            return {}, {}

        def make() -> Waits[None]:
            module = yield from restored_module(call, self._random)
            self._loaded_modules.add(module, is_awaited=True)

        return self._alone(call, make)

    def _resident_modules(self, call: calls.ResidentModules, tensors: Arrays) -> Answer:
        return {"names": [module.name for module in self._loaded_modules]}, {}

    def _delete_module(self, call: calls.DeleteModule, tensors: Arrays) -> Answer:
        module = self._get(call.module)
        module.require_idle("deleting")
        self._loaded_modules.remove(module.name)
        del module
        return_free_memory()
        return {}, {}

    def _describe_module(self, call: calls.DescribeModule, tensors: Arrays) -> Answer:
        module = self._get(call.module)
        return describe_module(module) | {"sequence": self._stepper(module.name).sequence}, {}

    def _describe_graph(self, call: calls.DescribeGraph, tensors: Arrays) -> Computation:
        module = self._get(call.module)
        key = bucket_of(module, call.bucket)
        describe = partial(packed_graph, module, key)
        return Computation({}, lambda outputs: awaited(in_background(describe)))

    def _profile_module(self, call: calls.ProfileModule, tensors: Arrays) -> Computation:
        run = partial(profile_module, self._get(call.module), call)
        return self._memory_manager.in_steps(call, run, is_exclusive=False)

    def _summarize_params(self, call: calls.SummarizeParams, tensors: Arrays) -> Computation:
        return Computation({}, lambda outputs: summarize_params(self._get, call))

    def _cut_symbols(self, call: calls.CutSymbols, tensors: Arrays) -> Answer:
        return self._get(call.module).derive(call.output, call.head), {}

    def _inspect_model(self, call: calls.InspectModel, tensors: Arrays) -> Computation:
        return Computation({}, lambda outputs: inspect_model(call))

    def _propose_shapes(self, call: calls.ProposeShapes, tensors: Arrays) -> Answer:
        return propose_shapes(self._get(call.module), call), {}

    def _check_job(self, call: calls.CheckJob, tensors: Arrays) -> Answer:
        module = None if call.module is None else self._get(call.module)
        check_job(parse_job_params(call.kind, call.params), module)
        return {}, {}

    def _get_optimizer(self, call: calls.GetOptimizer, tensors: Arrays) -> Answer:
        module = self._get(call.module)
        module.require("get_optimizer")
        return describe_optimizer(module) or {}, {}

    def _start_job(self, call: JobStart, tensors: Arrays) -> Answer:
        self._jobs.start(call)
        return {}, {}

    def _control_job(self, call: JobControl, tensors: Arrays) -> Answer:
        self._jobs.control(call)
        return {}, {}

    # -- binding, parameters, optimizer -------------------------------------------------------

    def _bind(self, call: calls.Bind, tensors: Arrays) -> Computation:
        module = self._idle(call.module, "binding")
        return self._alone(call, lambda: module.bind(call.spec))

    def _reshape(self, call: calls.Reshape, tensors: Arrays) -> Answer:
        module = self._idle(call.module, "reshaping")
        module.reshape(BucketShapes(data_shapes=call.data_shapes, label_shapes=call.label_shapes))
        return describe_module(module), {}

    def _bind_bucket(self, call: calls.BindBucket, tensors: Arrays) -> Answer:
        module = self._idle(call.module, "binding a bucket")
        module.bind_bucket(call.key, call.shapes)
        return describe_module(module), {}

    def _change_buckets(self, call: calls.ChangeBuckets, tensors: Arrays) -> Computation:
        module = self._idle(call.module, "changing buckets")

        def make() -> Waits[None]:
            yield from module.change_buckets(call.buckets, call.max_batch_size)
            self._stepper(call.module).forget()

        return dataclasses.replace(self._alone(call, make), is_exclusive=False)

    def _warm_up(self, call: calls.WarmUp, tensors: Arrays) -> Computation:
        module = self._get(call.module)
        module.require("predict")
        steps = partial(module.inference.warm_up, None, call.max_batch_size)
        return dataclasses.replace(self._alone(call, steps), is_exclusive=False)

    def _init_params(self, call: calls.InitParams, tensors: Arrays) -> Computation:
        module = self._idle(call.module, "initializing")

        def make() -> Waits[Mapping[str, Any]]:
            kept = yield from read_base(module, call.base)
            if call.spec.seed is None:
                self._random.enter(module.name)
            else:
                self._random.seed(module.name, call.spec.seed, module.contexts)
            work = partial(init_params, module, call.spec, tensors, "", kept)
            drawn = module.beside(self._random.drawn_apart(module.name, work))
            self._random.set_position(module.name, (yield from drawn))
            return _unsaved(module)

        return self._alone(call, make)

    def _set_params(self, call: calls.SetParams, tensors: Arrays) -> Computation:
        module = self._idle(call.module, "setting parameters")
        options = _chosen(call, "allow_missing", "allow_extra", "allow_nonfinite")

        def make() -> Waits[Mapping[str, Any]]:
            yield from set_params(module, tensors, **options)
            return _unsaved(module)

        return self._alone(call, make)

    def _get_params(self, call: calls.GetParams, tensors: Arrays) -> Answer:
        return get_params(self._get(call.module), call.names)

    def _init_optimizer(self, call: calls.InitOptimizer, tensors: Arrays) -> Answer:
        module = self._idle(call.module, "installing an optimizer")
        module.init_optimizer(call.spec, "")
        return describe_optimizer(module) or {}, {}

    def _set_learning_rate(self, call: calls.SetLearningRate, tensors: Arrays) -> Answer:
        module = self._get(call.module)
        module.require("set_learning_rate")
        set_learning_rate(module.engine, call.learning_rate)
        return describe_optimizer(module) or {}, {}

    def _get_optimizer_states(self, call: calls.GetOptimizerStates, tensors: Arrays) -> Answer:
        module = self._get(call.module)
        module.require("optimizer_states")
        return {}, {"states": np.frombuffer(states_of(module.engine), dtype=np.uint8)}

    def _set_optimizer_states(self, call: calls.SetOptimizerStates, tensors: Arrays) -> Computation:
        module = self._idle(call.module, "setting optimizer states")
        module.require("optimizer_states")
        if set(tensors) != {"states"} or tensors["states"].dtype != np.uint8:
            raise Invalid("states", list(tensors), "one tensor of bytes of this name")
        weights = module.on_device().arguments

        def make() -> Waits[None]:
            content = yield from awaited(in_background(tensors["states"].tobytes))
            saved = yield from module.beside(check_saved, module.engine, content, weights)
            module.has_unsaved = True  # first: a load that fails may have set some of them
            load_states(module.engine, saved)

        return self._alone(call, make)

    # -- predictions --------------------------------------------------------------------------

    def _predict(self, call: calls.Predict, tensors: Arrays) -> Answer | Computation:
        return self._batching.answer(call, tensors)

    # -- files --------------------------------------------------------------------------------

    def _save_checkpoint(self, call: calls.SaveCheckpoint, tensors: Arrays) -> Computation:
        module = self._get(call.module)
        module.require("save_checkpoint")

        def run(outputs: Arrays) -> Waits[Mapping[str, Any]]:
            tag = CheckpointTag(call.epoch, call.batch)
            saving = save_module(module, Path(call.root), tag, call.optimizer_states)
            return {"manifest": to_plain((yield from saving))}

        return Computation({}, run)

    def _load_checkpoint(self, call: calls.LoadCheckpoint, tensors: Arrays) -> Computation:
        module = self._idle(call.module, "loading a checkpoint")
        options = _chosen(call, "allow_missing", "allow_extra", "optimizer_states", "check_states")

        def make() -> Waits[Mapping[str, Any]]:
            yield from load_module(module, Path(call.directory), **options)
            return _unsaved(module)

        return self._alone(call, make)

    def _load_version(self, call: calls.LoadVersion, tensors: Arrays) -> Computation:
        module = self._get(call.module)
        module.require("predict_version")

        return self._memory_manager.in_steps(
            call, partial(load_version, module, call), is_exclusive=False
        )

    # -- modules ------------------------------------------------------------------------------

    def _get(self, name: str) -> HostedModule:
        if name not in self._loaded_modules:
            raise HostError("not_resident", f"module {name!r} is not on its device at the moment")
        return self._loaded_modules.use(name)

    def _idle(self, name: str, call: str) -> HostedModule:
        module = self._get(name)
        module.require_idle(call)
        return module

    def _stepper(self, name: str) -> Stepper:
        self._get(name)
        return self._loaded_modules.stepper(name)

    def _module_of_job(self, name: str) -> HostedModule:
        """Return the module a job is to work on."""
        module = self._get(name)
        self._loaded_modules.stepper(name).forget()
        return module


def _unsaved(module: HostedModule) -> dict[str, bool]:
    return {"has_unsaved": module.has_unsaved}


def _chosen(call: Any, *options: str) -> dict[str, bool]:
    return {option: getattr(call, option) for option in options}


def _handler(name: str) -> Handler:
    """Return what answers a call: a method of the host, or of ``StepCalls``."""
    own: Handler | None = getattr(ModuleHost, f"_{name}", None)
    if own is not None:
        return own
    of_steps = getattr(StepCalls, name)
    return lambda host, call, tensors: of_steps(host.step_calls, call, tensors)


_HANDLERS: Mapping[str, Handler] = {name: _handler(name) for name in CALL_NAMES.values()}
