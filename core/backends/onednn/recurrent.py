"""The fused recurrent network: a primitive for each layer, with both its directions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from core.backends.kernels import (
    Kernel,
    KernelArrays,
    KernelRequest,
    KernelResources,
    KernelUnavailable,
)
from core.backends.onednn.constants import Argument
from core.backends.onednn.kernel import are_float32, present
from core.backends.onednn.primitive import Primitive, launch, scratchpad_bytes
from core.backends.onednn.recurrent_layers import Layer, make_layers
from core.backends.onednn.recurrent_parameters import Block, Call, Packed, pack, unpack
from core.types import Array

__all__ = ["recurrent", "recurrent_backward"]


def recurrent(request: KernelRequest) -> Kernel | None:
    """Prepare the forward pass, where no sequence has a length of its own."""
    return _Recurrent(request, make_layers(request)) if _holds(request) else None


def recurrent_backward(request: KernelRequest) -> Kernel | None:
    """Prepare the backward pass of a forward pass that ran by ``recurrent``."""
    if not _holds(request) or not isinstance(request.forward, _Recurrent) or not request.is_train:
        return None
    return _RecurrentBackward(request, make_layers(request))


def _holds(request: KernelRequest) -> bool:
    operator = request.operator
    drops = operator.p > 0 and request.is_train and operator.num_layers > 1
    return are_float32(request) and not operator.use_sequence_length and not drops


class _Kept(NamedTuple):
    """What the forward pass of a layer keeps for its backward pass."""

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
    """The forward pass. Its workspace holds oneDNN's, and the outputs of all layers but the last;
    the operator's own reserve stays unwritten."""

    name = "onednn:rnn"
    inplace = ()
    uses_scratch = False

    def __init__(self, request: KernelRequest, layers: list[Layer]) -> None:
        self._operator, self._layers = request.operator, layers
        self._is_train = request.is_train
        self._own = self._temporaries(Block())[1]
        forward = [layer.forward for layer in layers]
        self.scratchpad_bytes = self._own + scratchpad_bytes(*forward)
        if self._is_train:
            block = Block()
            _kept(layers, block)
            self.workspace_bytes = block.nbytes

    def _temporaries(self, block: Block) -> tuple[list[tuple[Packed, Array | None]], int]:
        last = self._layers[-1]
        found = [
            (
                Packed.of(layer, block),
                None if self._is_train or layer is last else block.take(layer.output),
            )
            for layer in self._layers
        ]
        return found, block.nbytes

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Call:
        """Return a closure that packs the parameters and runs the layers."""
        data, vector, *states = map(present, arrays.inputs)
        out, *last_states = map(present, arrays.outputs[: self._operator.visible_outputs()])
        parameters = self._operator.split(vector, data)
        pad = present(resources.scratchpad)
        rest = dataclasses.replace(resources, scratchpad=pad[self._own :])
        temporaries, _ = self._temporaries(Block(pad))
        kept: list[_Kept | None] = [None] * len(self._layers)
        if self._is_train:
            kept = [*_kept(self._layers, Block(present(arrays.workspace)))]
        calls: list[Call] = []
        for index, (layer, (packed, between), held) in enumerate(
            zip(self._layers, temporaries, kept, strict=True)
        ):
            if held is not None:
                between = held.output
            target = out if between is None else between
            calls += pack(layer, parameters[index], packed, rest)
            tensors = {
                Argument.SRC: data,
                Argument.WEIGHTS: packed.i2h,
                Argument.WEIGHTS_1: packed.h2h,
                Argument.BIAS: packed.bias,
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


class _RecurrentBackward(Kernel):
    """The backward pass."""

    name = "onednn:rnn_backward"
    inplace = ()
    uses_scratch = False

    def __init__(self, request: KernelRequest, layers: list[Layer]) -> None:
        self._operator, self._layers = request.operator, layers
        self.backward_inputs = tuple(range(len(request.inputs)))
        self.backward_outputs = tuple(range(request.operator.visible_outputs()))
        self._own = self._temporaries(Block())[-1]
        backward = [_there(layer.backward) for layer in layers]
        self.scratchpad_bytes = self._own + scratchpad_bytes(*backward)

    def _temporaries(
        self, block: Block
    ) -> tuple[list[tuple[Packed, Packed]], list[Array], list[Array], Array, int]:
        """Return by layer the weights and their gradients; two outputs' gradients; gradients of
        the first states; the data's gradient; and the number of bytes."""
        packed = [(Packed.of(one, block), Packed.of(one, block)) for one in self._layers]
        first = self._layers[0]
        between = [block.take(first.output) for _ in range(min(2, len(self._layers) - 1))]
        shape = (len(self._layers), *first.states[1:])
        states = [block.take(shape).reshape(-1) for _ in range(1 + first.cell.has_memory)]
        data = block.take(first.data)
        return packed, between, states, data, block.nbytes

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Call:
        """Return a closure that computes all gradients and writes those wanted."""
        data, vector, *states = map(present, arrays.inputs)
        out, *last_states = map(present, arrays.outputs[: self._operator.visible_outputs()])
        out_grad, *last_grads = map(present, arrays.out_grads[: self._operator.visible_outputs()])
        parameters = self._operator.split(vector, data)
        wanted = arrays.in_grads[1]
        gradients = None if wanted is None else self._operator.split(wanted, data)
        pad = present(resources.scratchpad)
        rest = dataclasses.replace(resources, scratchpad=pad[self._own :])
        packed, between, own_states, own_data, _ = self._temporaries(Block(pad))
        kept = _kept(self._layers, Block(present(arrays.workspace)))
        state_grads = [
            own.reshape(states[0].shape) if given is None else given
            for own, given in zip(own_states, arrays.in_grads[2:], strict=True)
        ]
        calls: list[Call] = []
        for index in range(len(self._layers) - 1, -1, -1):
            layer, (weights, grads) = self._layers[index], packed[index]
            span = slice(index * layer.directions, (index + 1) * layer.directions)
            source = kept[index - 1].output if index else data
            target = arrays.in_grads[0] if index == 0 else between[index % len(between)]
            target = own_data if target is None else target
            held = kept[index].output
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
    """Return a primitive that must be there."""
    if primitive is None:
        raise KernelUnavailable("this layer was prepared without a backward pass")
    return primitive


def _in_turn(calls: Sequence[Call]) -> Call:
    def call() -> None:
        for each in calls:
            each()

    return call
