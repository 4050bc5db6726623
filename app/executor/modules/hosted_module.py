"""A module on its executor: the engine's module, with the specifications it was made from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any, ParamSpec, TypeVar

from app.domain.codec import canonical_json
from app.domain.module import (
    BindSpec,
    BucketShapes,
    ModuleKind,
    ModuleRecord,
    OptimizerSpec,
    ParamsSource,
    require,
    symbol_field,
)
from app.domain.origin import Head
from app.errors.tree import Conflict, InUse, Invalid
from app.executor.background import Waits, awaited, in_background
from app.executor.faults import client_fault
from app.executor.modules.bind_checks import (
    check_bind,
    check_label_names,
    check_names_of,
    describe_inputs,
)
from app.executor.modules.engine_optimizer import (
    Engine,
    Parked,
    install_optimizer,
    main_module,
    optimizer_of,
    park_optimizer,
    unpark_optimizer,
)
from app.executor.modules.engines import check_kind, make_engine
from app.executor.modules.host_copy import Values, host_values, release_host_copy
from app.executor.modules.symbol_surgery import cut
from app.executor.predict.inference import Inference
from app.executor.predict.loaded_versions import LoadedVersions
from app.executor.predict.predictor import Parameters
from app.link.signatures import Target
from core.backends import backend_of
from core.device import Context
from core.errors import DeviceError
from core.module import BucketingModule
from core.symbol import Symbol, load_json

__all__ = ["HostedModule", "parse_context", "parse_key"]

P = ParamSpec("P")
T = TypeVar("T")


def parse_context(text: str, field: str) -> Context:
    """Return the context for ``cpu(0)``, ``gpu(1)``, or ``gpu`` (the first one); raise Invalid."""
    text = f"{text}(0)" if text in ("cpu", "gpu") else text
    kind, _, rest = text.partition("(")
    number = rest.removesuffix(")")
    if kind not in ("cpu", "gpu") or not rest.endswith(")") or not number.isdecimal():
        raise Invalid(field, text, "a device like cpu(0) or gpu(1)")
    context = Context(kind, int(number))
    try:
        backend_of(context)
    except DeviceError as error:
        raise Invalid(field, text, str(error)) from None
    return context


def parse_key(text: str, field: str) -> Any:
    """Return the bucket key in a JSON text: a number, a string or a tuple of these."""
    try:
        return _hashable(json.loads(text))
    except ValueError:
        raise Invalid(field, text, 'a bucket key as JSON: 20, [10,20] or "small"') from None


class HostedModule:
    """One module on its executor.

    Attributes:
        record: the module's current specification; calls update its ``bind``, ``params`` and
            ``optimizer``.
        symbols: by bucket key, as canonical JSON text.
        contexts: its devices.
        data_names, label_names: its inputs.
        engine: the engine's module.
        has_unsaved: True while its parameters, auxiliary states or optimizer states exist only here
            and no seed reproduces them.
        changes: counts changes that exist only here.
        job_id: the job that works on it, or None.
        job_data_bytes: of the datasets that the job has in memory.
        is_changing: a call is changing it off the device thread.
        basis: changes when it is rebound or given other parameters (training does not count);
            states of sequences that were computed before are then invalid.
        stays_until: time on the monotonic clock until which it is not evicted.
        versions: parameters of checkpoints, for predictions.
        learned: findings about predictions of a kind, valid until the plans are released.
        nodes: number of nodes in all its symbols.
        is_stateless: it has neither parameters nor states, so it cannot lose anything.
    """

    def __init__(self, record: ModuleRecord) -> None:
        """Parse the symbols; nothing is bound.

        Raises:
            Invalid: a name, key or device does not fit.
            HostError: a symbol is not a valid graph.
        """
        self.record: ModuleRecord = record.evolve(bind=None, init=None, params=None, optimizer=None)
        self.contexts = [parse_context(text, "contexts") for text in record.contexts]
        self.symbols: dict[str, Symbol] = {}
        for key, text in record.symbols.items():
            with client_fault(symbol_field(key)):
                self.symbols[canonical_json(parse_key(key, "symbols"))] = load_json(text)
        self.default_key = parse_key(record.default_bucket_key, "default_bucket_key")
        _symbol_of(self.symbols, self.default_key, "default_bucket_key")
        self.nodes = sum(len(one.get_internals().list_outputs()) for one in self.symbols.values())
        check_names_of(self.default_symbol, record)
        self.data_names: list[str] = list(record.data_names)
        self.label_names: list[str] = check_label_names(self.default_symbol, record)
        check_kind(record, self.default_symbol)
        self.is_stateless = not (any(self.param_names()) or record.state_names)
        self.engine = self._make_engine()
        self.changes = 0
        self._has_unsaved = False
        self.job_id: int | None = None
        self.job_data_bytes = 0
        self.is_changing = False
        self.basis = 0
        self.stays_until = 0.0
        self._early: Values | None = None
        self._parked: Parked | None = None
        self._inference: Inference | None = None
        self.versions = LoadedVersions()
        self.learned: dict[Target, Any] = {}

    # -- what it is -------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The module's name."""
        return self.record.name

    @property
    def default_symbol(self) -> Symbol:
        """The symbol that has every parameter."""
        return self.symbols[self.record.default_bucket_key]

    @property
    def has_unsaved(self) -> bool:
        """Whether it has something that exists only here; see the class."""
        return self._has_unsaved

    @has_unsaved.setter
    def has_unsaved(self, value: bool) -> None:
        self._has_unsaved = value and not self.is_stateless
        self.changes += value

    def require(self, call: str) -> None:
        """Raise WrongStage or Conflict unless the module's stage allows a call."""
        require(self.record, call)

    def require_idle(self, call: str) -> None:
        """Raise InUse while a job works on the module."""
        if self.job_id is not None:
            raise InUse(
                f"{call} of module {self.name!r} must wait: job {self.job_id} works on it; "
                "cancel or pause the job, or wait for its end"
            )

    def beside(self, work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> Waits[T]:
        """Do, off the device thread, work that touches nothing but this module's arrays.

        On a device with memory of its own it is done at once in the device thread, because other
        threads must not pixel_shuffle with the operations queued there.
        """
        if any(context.device_type == "gpu" for context in self.contexts):
            return work(*arguments, **options)
        backend = backend_of(self.contexts[0])

        def run() -> T:
            with backend.scope():
                return work(*arguments, **options)

        return (yield from awaited(in_background(run)))

    def param_names(self) -> tuple[list[str], list[str]]:
        """Return the names of the parameters and of the auxiliary states."""
        inputs = {*self.data_names, *self.label_names, *self.record.state_names}
        arguments = self.default_symbol.list_arguments()
        auxiliary = self.default_symbol.list_auxiliary_states()
        return [name for name in arguments if name not in inputs], auxiliary

    def on_device(self) -> Parameters:
        """Return the arrays of parameters and auxiliary states on the first device."""
        arguments, auxiliary = self.param_names()
        first = main_module(self.engine).executor_group.parameters[0]
        return Parameters(
            {name: first.value(name) for name in arguments},
            {name: first.value(name) for name in auxiliary},
            self.contexts[0],
        )

    def values(self) -> Values | None:
        """Return the parameters' values on the host, perhaps the module's own arrays; None before
        there are any."""
        if self.record.bind is None or self.record.params is None:
            return self._early
        return host_values(self.engine, self.contexts, self.on_device())

    def buckets(self) -> dict[str, BucketShapes]:
        """Return the shapes of all buckets by key, the default one first."""
        spec = self.record.bind
        if spec is None:
            return {}
        default = BucketShapes(data_shapes=spec.data_shapes, label_shapes=spec.label_shapes)
        return {self.record.default_bucket_key: default, **spec.buckets}

    def derive(self, output: str | None, head: Head | None) -> dict[str, Any]:
        """Return the symbols cut off and given a new head, and their inputs; see ``CutSymbols``."""
        cut_symbols = {
            key: symbol if output is None else cut(symbol, output, head)
            for key, symbol in self.symbols.items()
        }
        arguments = cut_symbols[self.record.default_bucket_key].list_arguments()
        labels = [name for name in self.label_names if name in arguments]
        if head is not None and "softmax_label" not in labels:
            labels.append("softmax_label")
        return {
            "symbols": {key: symbol.tojson() for key, symbol in cut_symbols.items()},
            "data_names": [name for name in self.data_names if name in arguments],
            "label_names": labels,
            "state_names": [name for name in self.record.state_names if name in arguments],
        }

    # -- binding ----------------------------------------------------------------------------

    def bind(self, spec: BindSpec) -> Waits[None]:
        """Bind or rebind; parameters and optimizer stay. A refused call changes nothing."""
        fresh = yield from self.beside(self._bound, spec)
        self._parked = park_optimizer(self.engine) or self._parked  # None if it was not to train
        self._early = None
        self.engine = fresh
        self.basis += 1
        self.record = self.record.evolve(bind=spec)
        self.forget_plans()
        self.versions.clear()  # their parameters may no longer fit
        if self.record.params is not None:
            self._finish_binding()

    def _bound(self, spec: BindSpec) -> Engine:
        """Return a new, bound engine with the current parameters."""
        values = self.values()
        check_bind(self, spec, {**values[0], **values[1]} if values else {})
        fresh = self._make_engine()
        with client_fault("data_shapes"):
            fresh.bind(
                describe_inputs(spec.data_shapes),
                describe_inputs(spec.label_shapes) or None,
                for_training=spec.for_training,
                inputs_need_grad=spec.inputs_need_grad,
                grad_req=spec.grad_req,
            )
            if values is not None:
                fresh.set_params(*values)
                release_host_copy(fresh, self.contexts)
        return fresh

    def reshape(self, shapes: BucketShapes) -> None:
        """Change the input shapes; raise Conflict for a module with buckets."""
        self.require("reshape")
        if isinstance(self.engine, BucketingModule):
            raise Conflict(
                f"each bucket of module {self.name!r} has a shape of its own; bind a bucket of the "
                "shape you want"
            )
        spec = self._with(data_shapes=shapes.data_shapes, label_shapes=shapes.label_shapes)
        self._check_against_present(spec)
        with client_fault("data_shapes"):
            self.engine.reshape(
                describe_inputs(shapes.data_shapes), describe_inputs(shapes.label_shapes) or None
            )
        self.basis += 1
        self.record = self.record.evolve(bind=spec)
        self.forget_plans()

    def bind_bucket(self, key: str, shapes: BucketShapes) -> None:
        """Bind one more bucket; without parameters, it is bound as soon as they arrive."""
        self.require("bind_bucket")
        if not isinstance(self.engine, BucketingModule):
            raise Conflict(f"module {self.name!r} is not a bucketing module")
        value = parse_key(key, "key")
        _symbol_of(self.symbols, value, "key")
        key = canonical_json(value)
        if key in self.buckets():
            raise Conflict(f"bucket {key} of module {self.name!r} is bound already")
        assert self.record.bind is not None
        spec = self._with(buckets={**self.record.bind.buckets, key: shapes})
        self._check_against_present(spec)
        if self.record.params is not None:
            self._bind_one(key, shapes)
        self.record = self.record.evolve(bind=spec)
        if self._inference is not None:
            self._inference = self._inference.with_buckets(self.buckets())
        self._note_buckets()

    def change_buckets(
        self, buckets: Mapping[str, BucketShapes], most_rows: int | None
    ) -> Generator[None]:
        """Replace all buckets but the default one; yield after each plan of a new bucket.

        Until the end the module is unchanged and can be used.

        Args:
            buckets: shapes by key.
            most_rows: largest number of examples computed in one batch of predictions.

        Raises:
            Conflict: the module was rebound meanwhile, or has no buckets.
        """
        self.require("bind_bucket")
        if not isinstance(self.engine, BucketingModule):
            raise Conflict(f"module {self.name!r} is not a bucketing module")
        engine, before = self.engine, self.buckets()
        spec = self._with(buckets=dict(buckets))
        self._check_against_present(spec)
        after = {self.record.default_bucket_key: before[self.record.default_bucket_key], **buckets}
        new = [key for key in after if before.get(key) != after[key]]
        fresh = None
        if self.record.params is not None:
            fresh = self.inference.with_buckets(after)
            yield from fresh.warm_up(new, most_rows)
        self.require_idle("changing buckets")  # again: calls were answered during the warm-up
        if self.engine is not engine or self.buckets() != before:
            raise Conflict(f"module {self.name!r} was rebound meanwhile; try again")
        for key in before:
            if before[key] != after.get(key):
                engine.drop_bucket(parse_key(key, "buckets"))
        self.record = self.record.evolve(bind=spec)
        if fresh is not None:
            for key in new:
                self._bind_one(key, after[key])
        self._inference = fresh
        self._note_buckets()

    def _note_buckets(self) -> None:
        """Pass the module's current buckets on to its loaded versions."""
        self.versions.have_buckets(self.buckets())
        self.learned.clear()

    # -- parameters and optimizer -----------------------------------------------------------

    def install(self, values: Values, source: ParamsSource) -> None:
        """Set parameters, bound or not. Names are checked, and if it is bound, shapes."""
        if self.record.bind is None:
            self._early = values
            self.record = self.record.evolve(params=source, lost=False)
            return
        with client_fault("params"):
            self.engine.set_params(*values)
        self.note_params(source)

    def note_params(self, source: ParamsSource) -> None:
        """React to new values of the bound parameters, and do what had to wait for parameters."""
        self.basis += 1
        had_some = self.record.params is not None
        self.record = self.record.evolve(params=source, lost=False)
        if not had_some:
            self._finish_binding()
        elif optimizer_of(self.engine) is not None and main_module(self.engine).kvstore is not None:
            # The store has its own copy of the weights, which the next update would restore.
            self._parked = park_optimizer(self.engine)
            self._install_parked()
        release_host_copy(self.engine, self.contexts)

    def init_optimizer(self, spec: OptimizerSpec, prefix: str) -> None:
        """Install an optimizer, replacing an existing one; see ``install_optimizer``."""
        self.require("init_optimizer")
        if self.record.compression_params is not None and "device" not in (spec.kvstore or ""):
            expected = "device, the store that compresses gradients as the module says"
            raise Invalid(f"{prefix}kvstore", spec.kvstore, expected)
        install_optimizer(self.engine, spec, prefix)
        release_host_copy(self.engine, self.contexts)
        self._parked = None
        self.record = self.record.evolve(optimizer=spec)

    def expect_optimizer(self, spec: OptimizerSpec) -> None:
        """Install an optimizer once there are parameters and the module is bound for training."""
        self.record = self.record.evolve(optimizer=spec)

    # -- inference ----------------------------------------------------------------------------

    @property
    def inference(self) -> Inference:
        """Makes predictions with the module's current parameters, independently of its training."""
        if self._inference is None:
            self._inference = self._inference_over(self.on_device())
        return self._inference

    @property
    def takes_any_shape(self) -> bool:
        """True if examples may have other shapes than bound."""
        return self.record.kind is ModuleKind.MUTABLE

    def inference_of(self, version: str | None) -> Inference:
        """Return the inference of a loaded version, or of the current parameters for None."""
        if version is None:
            self.require("predict")
            return self.inference
        self.require("predict_version")
        return self.versions.inference(version, self._inference_over)

    def predict_bytes(self) -> int:
        """Return the bytes that the plans of predictions use."""
        return sum(one.nbytes() for one in self._inferences())

    def predict_plans(self) -> int:
        """Return the number of plans of predictions."""
        return sum(one.plans() for one in self._inferences())

    def _inferences(self) -> list[Inference]:
        own = [] if self._inference is None else [self._inference]
        return [*own, *self.versions.inferences()]

    def forget_plans(self) -> bool:
        """Release the plans and buckets of predictions; False if there are none."""
        had_some = self.versions.forget_plans() or self._inference is not None
        self._inference = None
        self.learned.clear()
        return had_some

    # -- inside -------------------------------------------------------------------------------

    def _inference_over(self, parameters: Parameters) -> Inference:
        return Inference(self.symbols, self.buckets(), parameters, any_shape=self.takes_any_shape)

    def _make_engine(self) -> Engine:
        # The engine must not reference this object: the cycle would keep all memory of a deleted
        # module alive until the garbage collector runs.
        generate = partial(_generate, self.symbols, self.data_names, self.label_names)
        return make_engine(self.record, generate, self.default_key, self.contexts)

    def _with(self, **changes: Any) -> BindSpec:
        assert self.record.bind is not None
        return dataclasses.replace(self.record.bind, **changes)

    def _check_against_present(self, spec: BindSpec) -> None:
        present = self.on_device()
        check_bind(self, spec, {**present.arguments, **present.auxiliary})

    def _finish_binding(self) -> None:
        """Bind the buckets and install the optimizer, both of which need parameters."""
        assert self.record.bind is not None
        for key, shapes in self.record.bind.buckets.items():
            self._bind_one(key, shapes)
        self._install_parked()

    def _bind_one(self, key: str, shapes: BucketShapes) -> None:
        assert isinstance(self.engine, BucketingModule)
        with client_fault(f"buckets[{key}]"):
            self.engine.switch_bucket(
                parse_key(key, "buckets"),
                describe_inputs(shapes.data_shapes),
                describe_inputs(shapes.label_shapes) or None,
            )
            self.engine.switch_bucket(self.default_key, None)  # used by steps that name none

    def _install_parked(self) -> None:
        """Install the record's optimizer with the parked position and states."""
        spec, bound = self.record.optimizer, self.record.bind
        if spec is None or bound is None or not bound.for_training:
            return
        install_optimizer(self.engine, spec, "optimizer.")
        release_host_copy(self.engine, self.contexts)
        if self._parked is not None:
            unpark_optimizer(self.engine, self._parked)
            self._parked = None


def _generate(
    symbols: Mapping[str, Symbol], data_names: list[str], label_names: list[str], key: Any
) -> tuple[Symbol, list[str], list[str]]:
    return _symbol_of(symbols, key, "bucket"), data_names, label_names


def _symbol_of(symbols: Mapping[str, Symbol], key: Any, field: str) -> Symbol:
    text = canonical_json(key)
    if text not in symbols:
        raise Invalid(field, text, f"a key that has a symbol: {', '.join(symbols)}")
    return symbols[text]


def _hashable(value: Any) -> Any:
    return tuple(_hashable(one) for one in value) if isinstance(value, list) else value
