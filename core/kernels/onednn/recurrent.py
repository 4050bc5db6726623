"""Recurrent networks: one primitive for each layer, with both directions.

The operator ``RNN`` has all its parameters in one vector. A layer that a plan has made from
unrolled cells has a separate array for each, with the gates in any order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ...capabilities.fused import Recurrent
from ...capabilities.layers import Rnn
from ...types import Array
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources, KernelUnavailable
from ..recurrent_forms import Apart, ConcatInPlace, Form
from .constants import Argument
from .kernel import are_float32, present
from .primitive import Primitive, launch, scratchpad_bytes
from .recurrent_layers import Layer, make_layers
from .recurrent_parameters import Block, Call, Packed, pack, unpack

__all__ = ["recurrent", "recurrent_backward", "recurrent_layer", "recurrent_layer_backward"]


def recurrent(request: KernelRequest[Rnn]) -> Kernel | None:
    """Prepare the forward pass, if all sequences have the same length."""
    return _forward(request, ConcatInPlace(request.operator))


def recurrent_backward(request: KernelRequest[Rnn]) -> Kernel | None:
    """Prepare the backward pass if ``recurrent`` prepared the forward pass."""
    return _backward(request, ConcatInPlace(request.operator))


def recurrent_layer(request: KernelRequest[Recurrent]) -> Kernel | None:
    """Prepare the forward pass of a layer whose parameters are separate arrays."""
    layer = request.operator
    return _forward(request, Apart(layer))


def recurrent_layer_backward(request: KernelRequest[Recurrent]) -> Kernel | None:
    """Prepare the backward pass if ``recurrent_layer`` prepared the forward pass."""
    layer = request.operator
    return _backward(request, Apart(layer))


def _forward(request: KernelRequest[object], form: Form) -> Kernel | None:
    return _Recurrent(request, form) if _is_supported(request, form) else None


def _backward(request: KernelRequest[object], form: Form) -> Kernel | None:
    if not isinstance(request.forward, _Recurrent) or not request.is_train:
        return None
    return _RecurrentBackward(request, form) if _is_supported(request, form) else None


def _is_supported(request: KernelRequest[object], form: Form) -> bool:
    rnn = form.rnn
    drops = rnn.p > 0 and request.is_train and rnn.num_layers > 1
    is_plain = rnn.projection_size is None and rnn.clip is None and not rnn.use_sequence_length
    return are_float32(request) and is_plain and not drops


_NO_BYTES = np.empty(0, np.uint8)


class _Kept(NamedTuple):
    """What a layer's forward pass keeps for its backward pass."""

    workspace: Array
    output: Array | None


def _kept(layers: Sequence[Layer], block: Block) -> list[_Kept]:
    last = layers[-1]
    return [
        _Kept(
            block.take_bytes(layer.forward.desc(Argument.WORKSPACE).nbytes),
            None if layer is last else block.take(layer.output),
        )
        for layer in layers
    ]


class _Recurrent(Kernel):
    """The forward pass. Its workspace holds oneDNN's workspaces and the outputs of all layers but
    the last; the operator's own reserve is not written."""

    name = "onednn:rnn"
    inplace = ()
    uses_scratch = False

    def __init__(self, request: KernelRequest[object], form: Form) -> None:
        self._form = form
        self._layers = layers = make_layers(request, form.rnn, form.order)
        self._is_train = request.is_train
        self.unwritten_outputs = (form.visible_outputs,)
        self._parameter_inputs = form.parameter_inputs(len(request.inputs))
        self._keeps_parameters = not request.is_train and all(
            request.is_constant[position] for position in self._parameter_inputs
        )
        block = Block()
        self._temporaries(block)
        self._own = block.nbytes
        forward = [layer.forward for layer in layers]
        self.scratchpad_bytes = self._own + scratchpad_bytes(*forward)
        if self._is_train:
            block = Block()
            _kept(layers, block)
            self.workspace_bytes = block.nbytes

    def _temporaries(self, block: Block) -> tuple[list[Packed], list[Array | None]]:
        """Return temporary memory for the packed parameters and for the outputs of all layers but
        the last, unless these are kept."""
        packed = [] if self._keeps_parameters else self._packed(block)
        between = [
            None if self._is_train or layer is self._layers[-1] else block.take(layer.output)
            for layer in self._layers
        ]
        return packed, between

    def _packed(self, block: Block) -> list[Packed]:
        return [Packed.of(layer, block) for layer in self._layers]

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Call:
        """Return a closure that packs the parameters, unless they are cached, and runs the
        layers."""
        data, out = present(arrays.inputs[0]), present(arrays.outputs[0])
        states = [present(one) for one in self._form.states(arrays.inputs)]
        last_states = [present(one) for one in self._form.last_states(arrays.outputs)]
        pad = resources.scratchpad
        pad = _NO_BYTES if pad is None else pad
        rest = dataclasses.replace(resources, scratchpad=pad[self._own :])
        packed, temporaries = self._temporaries(Block(pad))
        make = partial(self._pack, arrays, rest)
        calls: list[Call] = []
        if self._keeps_parameters:
            packed = self._packed(Block(self._kept_parameters(resources, make)))
        else:
            calls += make(packed)
        kept: list[_Kept | None] = [None] * len(self._layers)
        if self._is_train:
            kept = [*_kept(self._layers, Block(present(arrays.workspace)))]
        for index, (layer, weights, between, held) in enumerate(
            zip(self._layers, packed, temporaries, kept, strict=True)
        ):
            if held is not None:
                between = held.output
            target = out if between is None else between
            tensors = {
                Argument.SRC: data,
                Argument.WEIGHTS: weights.i2h,
                Argument.WEIGHTS_1: weights.h2h,
                Argument.BIAS: weights.bias,
                Argument.DST: target,
            }
            span = slice(index * layer.directions, (index + 1) * layer.directions)
            for argument, state in zip((Argument.SRC_1, Argument.SRC_2), states, strict=False):
                tensors[argument] = state[span]
            for argument, state in zip((Argument.DST_1, Argument.DST_2), last_states, strict=False):
                tensors[argument] = state[span]
            if held is not None:
                tensors[Argument.WORKSPACE] = held.workspace
            calls.append(launch(layer.forward, tensors, rest))
            data = target
        return _in_turn(calls)

    def _pack(
        self, arrays: KernelArrays, resources: KernelResources, packed: list[Packed]
    ) -> list[Call]:
        parameters = self._form.parameters(arrays.inputs, present(arrays.inputs[0]))
        assert parameters is not None
        calls: list[Call] = []
        for layer, given, target in zip(self._layers, parameters, packed, strict=True):
            calls += pack(layer, given, target, resources)
        return calls

    def _kept_parameters(
        self, resources: KernelResources, make: Callable[..., list[Call]]
    ) -> Array:
        """Return the parameters in oneDNN's form, which the plan caches until they change."""
        block = Block()
        self._packed(block)

        def fill(array: Array) -> None:
            for call in make(self._packed(Block(array))):
                call()

        key = ("rnn", *((layer.cell, layer.inputs, layer.hidden) for layer in self._layers))
        return resources.prepack(key, self._parameter_inputs, block.nbytes, fill)


class _RecurrentBackward(Kernel):
    """The backward pass."""

    name = "onednn:rnn_backward"
    inplace = ()
    uses_scratch = False

    def __init__(self, request: KernelRequest[object], form: Form) -> None:
        self._form = form
        self._layers = layers = make_layers(request, form.rnn, form.order)
        self.backward_inputs = tuple(range(len(request.inputs)))
        self.backward_outputs = tuple(range(form.visible_outputs))
        self._own = self._temporaries(Block())[-1]
        backward = [_there(layer.backward) for layer in layers]
        self.scratchpad_bytes = self._own + scratchpad_bytes(*backward)

    def _temporaries(
        self, block: Block
    ) -> tuple[list[tuple[Packed, Packed]], list[Array], list[Array], Array, int]:
        """Return the weights and their gradients by layer, the gradients of two outputs, of the
        initial states and of the data, and the number of bytes."""
        packed = [(Packed.of(one, block), Packed.of(one, block)) for one in self._layers]
        first = self._layers[0]
        between = [block.take(first.output) for _ in range(min(2, len(self._layers) - 1))]
        shape = (len(self._layers), *first.states[1:])
        states = [block.take(shape).reshape(-1) for _ in range(1 + first.cell.has_memory)]
        data = block.take(first.data)
        return packed, between, states, data, block.nbytes

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Call:
        """Return a closure that computes all gradients and writes the requested ones."""
        form = self._form
        data, out = present(arrays.inputs[0]), present(arrays.outputs[0])
        out_grad = present(arrays.out_grads[0])
        parameters = form.parameters(arrays.inputs, data)
        gradients = form.parameters(arrays.in_grads, data)
        assert parameters is not None
        states, last_states, last_grads = (
            [present(one) for one in found]
            for found in (
                form.states(arrays.inputs),
                form.last_states(arrays.outputs),
                form.last_states(arrays.out_grads),
            )
        )
        pad = present(resources.scratchpad)
        rest = dataclasses.replace(resources, scratchpad=pad[self._own :])
        packed, between, own_states, own_data, _ = self._temporaries(Block(pad))
        kept = _kept(self._layers, Block(present(arrays.workspace)))
        state_grads = [
            own.reshape(states[0].shape) if given is None else given
            for own, given in zip(own_states, form.states(arrays.in_grads), strict=True)
        ]
        calls: list[Call] = []
        for index in range(len(self._layers) - 1, -1, -1):
            layer, (weights, grads) = self._layers[index], packed[index]
            span = slice(index * layer.directions, (index + 1) * layer.directions)
            source = kept[index - 1].output if index else data
            # Two, alternately: a layer reads the gradient of its output and writes its input's.
            target = arrays.in_grads[0] if index == 0 else between[index % len(between)]
            target = own_data if target is None else target
            held = kept[index].output
            # Once more: the forward pass has them transposed, in memory that others use since then.
            calls += pack(layer, parameters[index], weights, rest, has_rows=True)
            tensors = {
                Argument.SRC: present(source),
                Argument.WEIGHTS: weights.i2h,
                Argument.WEIGHTS_1: weights.h2h,
                Argument.BIAS: weights.bias,
                Argument.DST: out if held is None else held,
                Argument.WORKSPACE: kept[index].workspace,
                Argument.DIFF_SRC: target,
                Argument.DIFF_WEIGHTS: grads.i2h,
                Argument.DIFF_WEIGHTS_1: grads.h2h,
                Argument.DIFF_BIAS: grads.bias,
                Argument.DIFF_DST: out_grad,
            }
            for names, found in (
                ((Argument.SRC_1, Argument.SRC_2), states),
                ((Argument.DST_1, Argument.DST_2), last_states),
                ((Argument.DIFF_DST_1, Argument.DIFF_DST_2), last_grads),
                ((Argument.DIFF_SRC_1, Argument.DIFF_SRC_2), state_grads),
            ):
                tensors.update(zip(names, (one[span] for one in found), strict=False))
            calls.append(launch(_there(layer.backward), tensors, rest))
            if gradients is not None:
                calls += unpack(layer, grads, gradients[index], rest)
            out_grad = target
        return _in_turn(calls)


def _there(primitive: Primitive | None) -> Primitive:
    """Return a primitive; raise an error if the layer has none."""
    if primitive is None:
        raise KernelUnavailable("this layer was prepared without a backward pass")
    return primitive


def _in_turn(calls: Sequence[Call]) -> Call:
    def call() -> None:
        for each in calls:
            each()

    return call
