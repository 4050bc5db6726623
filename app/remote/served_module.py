"""What a remote module does through its server: binding, parameters, optimizer and steps."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.client.tensors import Arrays
from app.remote.graph import Graph, host
from app.remote.optimizers import optimizer_spec
from app.remote.session import Session
from core.checkpoint import save_checkpoint
from core.errors import StageError, UsageError
from core.initializer import InitDesc, Uniform
from core.io import DataDesc
from core.io.inputs import check_names_match, describe
from core.kvstore import KVStore
from core.module.base_module import BaseModule, Params
from core.module.checks import fill_parameter
from core.module.lifecycle import Stage, require_stage
from core.ndarray import NDArray, array
from core.optimizer import Optimizer
from core.symbol import Symbol

__all__ = ["ServedModule"]


@dataclass(slots=True)
class _Parameters:
    """State that the buckets of a module share.

    Attributes:
        known: the parameters have values.
        has_optimizer: the server has an optimizer.
        loaded: values not sent to the server yet, because it has no shapes yet.
        loaded_states: optimizer states, until there is an optimizer.
    """

    known: bool = False
    has_optimizer: bool = False
    loaded: tuple[Params, Params] | None = None
    loaded_states: bytes | None = None


class ServedModule(BaseModule):
    """A graph that a server computes: a module of its own, or one bucket of a module.

    Args:
        graph: the symbol and the names of its inputs.
        session: the module on the server; None until a bucket's module exists.
        bucket: its key, in the server's notation.
        logger: for progress lines.
    """

    def __init__(
        self,
        graph: Graph,
        session: Session | None,
        bucket: str | None = None,
        logger: Any = logging,
    ) -> None:
        super().__init__(logger)
        self._graph = graph
        self._served = session
        self._bucket = bucket
        self._symbol: Symbol = graph.symbol
        self._parameters = _Parameters()
        self._data: list[DataDesc] = []
        self._labels: list[DataDesc] = []
        self.has_gradients = False

    def save_checkpoint(
        self,
        prefix: str,
        epoch: int,
        save_optimizer_states: bool = False,
        remove_amp_cast: bool = True,
    ) -> None:
        """Write the symbol, the parameters and optionally the optimizer's states to local files."""
        save_checkpoint(prefix, epoch, self._symbol, *self.get_params(), remove_amp_cast)
        if save_optimizer_states:
            self.save_optimizer_states(f"{prefix}-{epoch:04d}.states")

    # -- what it is -------------------------------------------------------------------------

    @property
    def params_initialized(self) -> bool:  # type: ignore[override]
        """True once the parameters have values."""
        return self._parameters.known

    @property
    def optimizer_initialized(self) -> bool:  # type: ignore[override]
        """True once there is an optimizer."""
        return self._parameters.has_optimizer

    @property
    def data_names(self) -> list[str]:
        """Names of the data inputs."""
        return self._graph.data_names

    @property
    def label_names(self) -> list[str]:
        """Names of the labels."""
        return self._graph.label_names

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return self._symbol.list_outputs()

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Descriptions of the bound data inputs."""
        self._require("data_shapes", Stage.BOUND)
        return self._data

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """Descriptions of the bound labels; None if there are none."""
        self._require("label_shapes", Stage.BOUND)
        return self._labels or None

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """(name, shape) of the outputs of a whole batch."""
        self._require("output_shapes", Stage.BOUND)
        return self._graph.output_shapes([*self._data, *self._labels])

    # -- binding ----------------------------------------------------------------------------

    def bind(
        self,
        data_shapes: Sequence[Any],
        label_shapes: Sequence[Any] | None = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Any = None,
        grad_req: Any = "write",
    ) -> None:
        """Give the module its shapes and allocate its memory on the server; see ``Module.bind``.

        ``shared_module`` may only be another bucket of the same module.
        """
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        data, labels = describe(data_shapes), describe(label_shapes)
        check_names_match(self.data_names, data, "data", strict=True)
        if labels:
            check_names_match(self.label_names, labels, "label", strict=False)
        shapes = {
            "data_shapes": [_input_spec(one) for one in data],
            "label_shapes": [_input_spec(one) for one in labels if self._graph.takes(one.name)],
        }
        kept = None  # values that ``load`` has read could not be sent before there were shapes
        if shared_module is not None:
            self._bind_bucket(shared_module, shapes)
        else:
            kept = self.get_params() if self.params_initialized else None
            how = {"for_training": for_training, "inputs_need_grad": inputs_need_grad}
            self._session.post("bind", {**shapes, **how, "grad_req": grad_req})
        self._data, self._labels, self.binded = data, labels, True
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        if kept is not None:
            self._send_params(*kept)

    def _bind_bucket(self, other: Any, shapes: Mapping[str, Any]) -> None:
        if self._bucket is None or getattr(other, "_served", None) is not self._session:
            raise UsageError("shared_module: modules on a server cannot share memory")
        self._session.post("buckets", {"key": self._bucket, **shapes})
        self._parameters = other._parameters

    # -- parameters -------------------------------------------------------------------------

    def init_params(
        self,
        initializer: Callable[[str, NDArray], None] | None = Uniform(0.01),  # noqa: B008
        arg_params: Params | None = None,
        aux_params: Params | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Give the parameters their values, computed here; see ``Module.init_params``."""
        if self.params_initialized and not force_init:
            self._warn_of("init_params")
            return
        self._require("init_params()", Stage.BOUND)
        arguments, auxiliary = self._graph.allocate([*self._data, *self._labels])
        given = {*(arg_params or ()), *(aux_params or ())}
        is_whole = given.issuperset((*arguments, *auxiliary))
        # Without an initializer, what is not given keeps its value, as in MXNet. Fetching all
        # parameters is saved if none of them would be kept.
        if initializer is None and self.params_initialized and not is_whole:
            arguments, auxiliary = self.get_params()
        attributes = self._symbol.attr_dict()
        for values, source in ((arguments, arg_params), (auxiliary, aux_params)):
            for name in sorted(values):
                desc = InitDesc(name, attributes.get(name))
                fill_parameter(desc, values[name], source, initializer, allow_missing)
        self._send_params(arguments, auxiliary)

    def set_params(
        self,
        arg_params: Params | None,
        aux_params: Params | None,
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Set parameter values; with ``allow_missing``, missing ones keep theirs."""
        if not allow_missing:
            super().set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
        elif self.params_initialized and not force_init:
            self._warn_of("set_params")
        else:
            self._require("set_params()", Stage.BOUND)
            flags = {"allow_missing": True, "allow_extra": allow_extra}
            self._send_params(arg_params or {}, aux_params or {}, **flags)

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Return (arguments, auxiliary states) by name, after all pending calls."""
        loaded = self._parameters.loaded
        if loaded is not None:
            return dict(loaded[0]), dict(loaded[1])
        self._require("get_params()", Stage.INITIALIZED)
        found = {name: _as_ndarray(one) for name, one in self._session.fetch("params").items()}
        auxiliary = set(self._symbol.list_auxiliary_states())
        return (
            {name: found[name] for name in self._graph.param_names},
            {name: one for name, one in found.items() if name in auxiliary},
        )

    def _send_params(self, arguments: Params, auxiliary: Params, **flags: bool) -> None:
        values = {name: one.asnumpy() for name, one in {**arguments, **auxiliary}.items()}
        self._session.send("params", values, **flags)
        self._parameters.known, self._parameters.loaded = True, None

    def _warn_of(self, call: str) -> None:
        warnings.warn(
            f"Parameters already initialized and force_init=False. {call} call ignored.",
            stacklevel=3,
        )

    # -- optimizer --------------------------------------------------------------------------

    def init_optimizer(
        self,
        kvstore: KVStore | str | None = "local",
        optimizer: Optimizer | str = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Install an optimizer; given by name, its ``rescale_grad`` defaults to 1/batch_size."""
        self._require("init_optimizer()", Stage.INITIALIZED)
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        store = kvstore.type if isinstance(kvstore, KVStore) else kvstore
        spec = optimizer_spec(optimizer, dict(optimizer_params), self._symbol)
        self._session.post("optimizer", {**spec, "kvstore": store})
        self._parameters.has_optimizer = True
        if self._parameters.loaded_states is not None:
            self._set_optimizer_states(self._parameters.loaded_states)
            self._parameters.loaded_states = None

    def borrow_optimizer(self, shared_module: ServedModule) -> None:
        """Use the optimizer of another bucket; on a server, all buckets of a module do."""

    def save_optimizer_states(self, fname: str) -> None:
        """Write the optimizer's states to a local file in MXNet's format."""
        self._require("save_optimizer_states()", Stage.READY)
        self._session.wait()
        Path(fname).write_bytes(self._session.client.optimizer_states(self._session.name))

    def load_optimizer_states(self, fname: str) -> None:
        """Read the optimizer's states from a local file that MXNet or this package wrote."""
        self._require("load_optimizer_states()", Stage.READY)
        self._set_optimizer_states(Path(fname).read_bytes())

    def _set_optimizer_states(self, content: bytes) -> None:
        self._session.wait()
        self._session.client.set_optimizer_states(self._session.name, content)

    # -- steps ------------------------------------------------------------------------------

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch; rebinds first if its shapes differ."""
        self._require("forward()", Stage.INITIALIZED)
        training = self.for_training if is_train is None else is_train
        self._pass("forward", data_batch, is_train=training)
        self.has_gradients = False

    def forward_backward(self, data_batch: Any) -> None:
        """Run ``forward`` and ``backward`` of a training step in one call."""
        self._require("forward_backward()", Stage.INITIALIZED)
        self._pass("forward_backward", data_batch)
        self.has_gradients = True

    def _pass(self, verb: str, batch: Any, **fields: Any) -> None:
        tensors = self._graph.tensors(batch, self._data, self._labels)
        if self._bucket is not None:
            fields["bucket"] = self._bucket
        self._session.step(verb, tensors, **fields)

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients of the last training pass."""
        self._require("backward()", Stage.INITIALIZED)
        if not self.for_training:
            raise StageError("backward() needs a module bound with for_training=True")
        grads = [out_grads] if isinstance(out_grads, NDArray) else list(out_grads or ())
        named = dict(zip(self.output_names, grads, strict=False))
        self._session.step("backward", {name: host(one) for name, one in named.items()})
        self.has_gradients = True

    def update(self) -> None:
        """Update the parameters from the gradients of the last backward pass."""
        self._require("update()", Stage.READY)
        self._session.step("update", {})

    def get_outputs(self, merge_multi_context: bool = True) -> Any:
        """Return the outputs of the last forward pass."""
        self._require("get_outputs()", Stage.INITIALIZED)
        return _ordered(self._session.outputs(), self.output_names, merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> Any:
        """Return the gradients of the data inputs."""
        self._require("get_input_grads()", Stage.INITIALIZED)
        if not self.inputs_need_grad:
            raise StageError("get_input_grads() needs bind(..., inputs_need_grad=True)")
        names = [one.name for one in self._data]
        return _ordered(self._session.fetch("input_grads"), names, merge_multi_context)

    def get_states(self, merge_multi_context: bool = True) -> Any:
        """Return the states; those of several devices are concatenated."""
        self._require("get_states()", Stage.INITIALIZED)
        names = self._graph.state_names
        return _ordered(self._session.fetch("states"), names, merge_multi_context)

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states from arrays (one a state), or all to one value."""
        self._require("set_states()", Stage.INITIALIZED)
        self._session.wait()
        firsts = [one[0] if isinstance(one, (list, tuple)) else one for one in states or ()]
        named = dict(zip(self._graph.state_names, firsts, strict=states is not None))
        arrays = {name: host(one) for name, one in named.items()}
        self._session.client.set_states(self._session.name, arrays, value)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Accumulate a metric over the last outputs."""
        if pre_sliced:
            raise UsageError("pre_sliced: a server concatenates the outputs of its devices")
        outputs = dict(zip(self.output_names, self.get_outputs(), strict=True))
        names = [one.name for one in self._labels]
        eval_metric.update_dict(dict(zip(names, labels or (), strict=False)), outputs)

    def install_monitor(self, mon: Any) -> None:
        """Raise UsageError: monitoring is done on the server, through ``client.statistics``."""
        raise UsageError(
            "a monitor watches arrays of this process; for those of a module on a server, call "
            "module.client.forward_backward(module.name, inputs, monitor='fc*') and "
            "module.client.statistics(module.name)"
        )

    @property
    def _session(self) -> Session:
        assert self._served is not None
        return self._served

    def _require(self, call: str, needs: Stage) -> None:
        require_stage(call, self.stage, needs)


def _input_spec(desc: DataDesc) -> dict[str, Any]:
    """Return an input in the form of the server's ``bind``."""
    return {
        "name": desc.name,
        "shape": list(desc.shape),
        "dtype": np.dtype(desc.dtype).name,
        "layout": desc.layout,
    }


def _ordered(arrays: Arrays, names: Sequence[str], is_merged: bool) -> list[Any]:
    found = [_as_ndarray(arrays[name]) for name in names]
    return found if is_merged else [[one] for one in found]


def _as_ndarray(values: np.ndarray) -> NDArray:
    """Return values as an NDArray of their own dtype."""
    return array(values, dtype=values.dtype)
