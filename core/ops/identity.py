"""Operators that return their data: copies, gradient stops and casts; operators on shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ..capabilities import arrays
from ..capabilities.kinds import implements
from ..types import Array, DType, Shape, is_floating, is_half, shape_size
from .attributes import attribute
from .implied_loss import ImpliedLoss, mean_output
from .operator import Operator, Reads, Run
from .registry import register
from .sparse_elementwise import of_stored_values
from .sparse_kernel import SparseKernel
from .storage_rules import of_first

__all__ = [
    "AmpCast",
    "AmpMulticast",
    "BlockGrad",
    "Cast",
    "Copy",
    "IdentityWithAttrLikeRhs",
    "MakeLossOfOnes",
    "PassThrough",
    "ShapeArray",
    "SizeArray",
    "copy_reshaped",
]

_FLOAT32, _INT64 = np.dtype("float32"), np.dtype("int64")


def copy_reshaped(run: Run, x: Array, out: Array) -> None:
    """Write the elements of ``x``, in C order, into ``out`` of another shape.

    Nothing is copied if ``out`` is the same memory.
    """
    if out.flags.c_contiguous:
        run.xp.copyto(out.reshape(x.shape), x)
    else:
        run.xp.copyto(out, x.reshape(out.shape))


class PassThrough(Operator):
    """Base of operators whose output is their input, whatever its shape."""

    def backward_reads(self) -> Reads:
        return Reads()

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def is_view(self) -> bool:
        return True

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        copy_reshaped(run, inputs[0], outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        copy_reshaped(run, out_grads[0], in_grads[0])


@register("_copy", "identity")
class Copy(PassThrough):
    """The input, unchanged; of a sparse one, its stored values."""

    is_linear: ClassVar[bool] = True

    def keeps_features(self) -> bool:
        return True

    def output_storage(self, inputs: Sequence[str]) -> str:
        return of_first(inputs)

    def sparse_kernel(self, inputs: Sequence[str]) -> SparseKernel | None:
        return of_stored_values(self, inputs[0])


@register("_np_copy")
class NumpyCopy(PassThrough):
    """The input, unchanged; ``mx.np.copy`` has this name in symbols."""

    def keeps_features(self) -> bool:
        return True

    def input_names(self) -> tuple[str, ...]:
        return ("a",)


@register("BlockGrad", "stop_gradient", "_sparse_stop_gradient")
class BlockGrad(PassThrough):
    """The input, unchanged, with a gradient of 0: what reads it does not train what computes it."""

    def keeps_features(self) -> bool:
        return True

    def output_storage(self, inputs: Sequence[str]) -> str:
        return of_first(inputs)

    def sparse_kernel(self, inputs: Sequence[str]) -> SparseKernel | None:
        return of_stored_values(self, inputs[0])

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()


@register("make_loss", "_sparse_make_loss")
class MakeLossOfOnes(PassThrough):
    """The input, unchanged, whose gradient is 1 regardless of the output's gradient."""

    names_outputs: ClassVar[bool] = True

    def output_storage(self, inputs: Sequence[str]) -> str:
        return of_first(inputs)

    def output_names(self) -> tuple[str, ...]:
        return ("loss",)

    def implied_loss(self) -> ImpliedLoss | None:
        return mean_output

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        gradient: Array = in_grads[0]
        gradient.fill(1)


@register("_identity_with_attr_like_rhs")
class IdentityWithAttrLikeRhs(PassThrough):
    """The left input, unchanged; its shape and dtype are inferred from the right one."""

    def input_names(self) -> tuple[str, ...]:
        return ("lhs", "rhs")

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,)


@register("Cast", "cast", "_npi_cast", "_npx_cast")
@implements(arrays.CAST)
class Cast(Operator):
    """The input in another dtype; conversion to integers rounds towards 0."""

    is_linear: ClassVar[bool] = True

    dtype: DType = attribute(doc="the output's dtype")

    def keeps_features(self) -> bool:
        return True

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        return inputs, [self.expect_dtype("output", outputs[0], self.dtype)]

    def backward_reads(self) -> Reads:
        return Reads()

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.copyto(outputs[0], inputs[0], casting="unsafe")

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        run.xp.copyto(in_grads[0], out_grads[0], casting="unsafe")


@register("amp_cast")
class AmpCast(Cast):
    """The input converted to another dtype if it is floating point, else unchanged."""

    dtype: DType = attribute(doc="the output's dtype")

    def uncast(self, output: int) -> int | None:
        return 0

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        data = inputs[0]
        expected = data if data is not None and not is_floating(data) else self.dtype
        return inputs, [self.expect_dtype("output", outputs[0], expected)]


@register("amp_multicast")
class AmpMulticast(Operator):
    """The inputs, those in half precision and float32 all converted to the wider (or the narrower)
    of these dtypes. Inputs of other dtypes keep theirs."""

    variadic = "num_outputs"

    num_outputs: int = attribute(minimum=1, doc="number of inputs and outputs")
    cast_narrow: bool = attribute(default=False, doc="use the narrowest instead")

    def uncast(self, output: int) -> int | None:
        return output

    def input_names(self) -> tuple[str, ...]:
        return tuple(f"data_{i}" for i in range(self.num_outputs))

    def output_names(self) -> tuple[str, ...]:
        count = self.num_outputs
        return tuple(f"output{i}" for i in range(count)) if count > 1 else ("output",)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        for i, name in enumerate(self.input_names()):
            inputs[i] = outputs[i] = self.expect(name, inputs[i], outputs[i])
        return inputs, outputs

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        known = [dtype for dtype in inputs if dtype is not None]
        if len(known) < self.num_outputs:
            return inputs, outputs
        choose = min if self.cast_narrow else max
        mixed = [dtype for dtype in known if _is_mixed(dtype)]
        common = choose(mixed, key=lambda dtype: dtype.itemsize) if mixed else None
        wanted = [common if _is_mixed(dtype) else dtype for dtype in known]
        names = self.output_names()
        return inputs, [
            self.expect_dtype(*both) for both in zip(names, outputs, wanted, strict=True)
        ]

    def backward_reads(self) -> Reads:
        return Reads()

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        for x, y in zip(inputs, outputs, strict=True):
            run.xp.copyto(y, x, casting="unsafe")

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        for dy, dx in zip(out_grads, in_grads, strict=True):
            if dx is not None:
                run.xp.copyto(dx, dy, casting="unsafe")


def _is_mixed(dtype: DType) -> bool:
    """Return whether mixed precision computes in a dtype."""
    return dtype == _FLOAT32 or is_half(dtype)


class _OfShape(Operator):
    """Base of operators that read only the shape of their data."""

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        return inputs, [self.expect_dtype("output", outputs[0], _INT64)]


@register("shape_array", "_npx_shape_array")
class ShapeArray(_OfShape):
    """The dimensions of the input: int64 (axes,)."""

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        expected = None if data is None else (len(data),)
        return inputs, [self.expect("output", outputs[0], expected)]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        for i, dim in enumerate(inputs[0].shape):
            outputs[0][i] = dim


@register("size_array")
class SizeArray(_OfShape):
    """The number of elements of the input: int64 (1,)."""

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        return inputs, [self.expect("output", outputs[0], (1,))]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        outputs[0].fill(shape_size(inputs[0].shape))
