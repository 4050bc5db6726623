"""The CTC loss: its gradient is computed together with it, as both need the same probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...capabilities.alignment import Ctc
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from ..onednn.kernel import present
from .library import library, loaded, pointer, threads
from .scratchpad import nbytes_of
from .structures import Alignment, Targets

__all__ = ["ctc_loss"]

_FLOAT32 = np.dtype("float32")


class _Loss(Kernel):
    """The losses; in training their gradients are kept.

    Args:
        operator: reads labels and lengths.
        alignment: the sizes.
    """

    name = "native:ctc_loss"
    uses_scratch = False

    def __init__(self, operator: Ctc, alignment: Alignment, *, is_train: bool) -> None:
        self._operator, self._alignment = operator, alignment
        self.scratchpad_bytes = int(loaded().ctc_scratch(alignment)) * alignment.threads
        if is_train:
            shape = (alignment.steps, alignment.batch, alignment.channels)
            self.workspace_bytes = nbytes_of(shape)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that aligns the labels with the data."""
        inputs = [present(one) for one in arrays.inputs]
        gradient = pointer(arrays.workspace) if self.workspace_bytes else None
        outputs = (pointer(arrays.outputs[0]), gradient, pointer(resources.scratchpad))
        data = pointer(inputs[0])

        def call() -> None:
            found = self._operator.targets(np, inputs)
            # They must live until the C function has returned.
            facts = found.labels, found.label_lengths, found.data_lengths, found.is_possible
            targets = Targets(*map(pointer, facts))
            loaded().ctc_loss(self._alignment, targets, data, *outputs)

        return call


class _LossBackward(Kernel):
    """Multiplies the gradients that the forward pass has kept."""

    name = "native:ctc_loss_backward"
    backward_inputs = ()
    backward_outputs = ()
    uses_scratch = False

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that multiplies by the gradient of each example's loss."""
        data_grad = present(arrays.in_grads[0])
        kept = present(arrays.workspace).view(_FLOAT32).reshape(data_grad.shape)
        grad = present(arrays.out_grads[0])[:, None]

        def call() -> None:
            np.multiply(kept, grad, out=data_grad)

        return call


def ctc_loss(request: KernelRequest[Ctc]) -> Kernel | None:
    """Prepare either pass of ``CTCLoss``."""
    data, label, out = request.inputs[0], request.inputs[1], request.outputs[0]
    if library() is None or data is None or label is None or out is None:
        return None
    if {data.dtype, out.dtype} != {_FLOAT32} or 0 in (*data.shape, *label.shape):
        return None
    if request.is_backward:
        return _LossBackward() if isinstance(request.forward, _Loss) else None
    steps, batch, channels = data.shape
    blank = request.operator.blank(channels)
    alignment = Alignment(steps, batch, channels, label.shape[1], blank, threads())
    return _Loss(request.operator, alignment, is_train=request.is_train)
