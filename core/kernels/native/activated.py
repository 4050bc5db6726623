"""Convolutions in C, followed by an activation by oneDNN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...capabilities.functions import Pointwise
from ..kernel import Kernel, KernelArrays, KernelResources
from ..onednn.constants import Argument, Propagation
from ..onednn.eltwise import eltwise
from ..onednn.kernel import present
from ..onednn.memory import MemoryDesc
from ..onednn.primitive import Primitive, launch, scratchpad_bytes

__all__ = ["Activated"]


class Activated(Kernel):
    """A convolution and its activation, which works in place.

    Args:
        convolution: the convolution.
        function: the activation.
        desc: describes the results.

    Raises:
        KernelUnavailable: oneDNN lacks this activation.
    """

    uses_scratch = False

    def __init__(self, convolution: Kernel, function: Pointwise, desc: MemoryDesc) -> None:
        algorithm, *numbers = eltwise(function)
        inference = Propagation.FORWARD_INFERENCE
        self._convolution = convolution
        self._activation = Primitive.of(
            "eltwise_forward", inference, algorithm, desc, desc, *numbers
        )
        self.name, self.inplace = convolution.name, convolution.inplace
        self.layouts = convolution.layouts
        scratch = scratchpad_bytes(self._activation)
        self.scratchpad_bytes = max(convolution.scratchpad_bytes, scratch)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes both."""
        convolve, out = self._convolution.bind(arrays, resources), present(arrays.outputs[0])
        tensors = {Argument.SRC: out, Argument.DST: out}
        activate = launch(self._activation, tensors, resources).call

        def call() -> Any:
            return convolve() or activate()  # functions in C return None, primitives a status

        return call
