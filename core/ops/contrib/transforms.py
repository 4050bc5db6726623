"""Fourier transforms and count sketches: the components of compact bilinear pooling.

MXNet has these for GPUs only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ...errors import ShapeError
from ...types import Array, DType, Shape
from ..attributes import attribute
from ..operator import Operator, Reads, Run
from ..registry import register

__all__ = ["CountSketch", "Fft", "Ifft"]

_PORTION = "number of rows that MXNet transforms at once; has no effect on the result"


def _transform(run: Run, data: Array, out: Array) -> None:
    """Write the spectrum of each row, with real and imaginary parts alternating."""
    spectrum = run.xp.fft.fft(data, axis=-1)
    out[..., 0::2] = spectrum.real
    out[..., 1::2] = spectrum.imag


def _transform_back(run: Run, spectrum: Array, out: Array) -> None:
    """Write the real part of the unnormalized inverse transform of a spectrum."""
    numbers = spectrum[..., 0::2] + 1j * spectrum[..., 1::2]
    out[...] = run.xp.fft.ifft(numbers, axis=-1).real * out.shape[-1]


class _Transform(Operator):
    """Base: rows along the last axis, whose length changes by a factor."""

    def backward_reads(self) -> Reads:
        return Reads()


@register("_contrib_fft")
class Fft(_Transform):
    """The Fourier transform of each row: (..., d) to (..., 2 d), real and imaginary parts
    alternating.

    Source: MXNet's ``contrib.fft``.
    """

    names_outputs: ClassVar[bool] = True

    compute_size: int = attribute(128, minimum=1, doc=_PORTION)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        _check_rows(data)
        return inputs, [self.expect("output", outputs[0], (*data[:-1], 2 * data[-1]))]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        _transform(run, inputs[0], outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        # The adjoint of the transform is its inverse without the division by the length.
        assert in_grads[0] is not None
        _transform_back(run, out_grads[0], in_grads[0])


@register("_contrib_ifft")
class Ifft(_Transform):
    """The real part of the inverse Fourier transform of each row, times the length of the row.

    (..., 2 d), real and imaginary parts alternating, to (..., d). Source: MXNet's ``contrib.ifft``.
    """

    names_outputs: ClassVar[bool] = True

    compute_size: int = attribute(128, minimum=1, doc=_PORTION)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        _check_rows(data)
        if data[-1] % 2:
            raise ShapeError(
                f"data has shape {data}; expected rows of alternating real and imaginary parts, "
                f"so an even number of them"
            )
        return inputs, [self.expect("output", outputs[0], (*data[:-1], data[-1] // 2))]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        _transform_back(run, inputs[0], outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        assert in_grads[0] is not None
        _transform(run, out_grads[0], in_grads[0])


@register("_contrib_count_sketch")
class CountSketch(Operator):
    """Sums of the columns of (n, d): column j times ``s[j]`` is added to column ``h[j]`` of
    ``out_dim`` (Charikar, Chen and Farach-Colton, 2002).

    ``h`` (1, d) holds indices from 0 to ``out_dim - 1``, clipped to that range; ``s`` (1, d) holds
    signs. Neither gets a gradient. Source: MXNet's ``contrib.count_sketch``.
    """

    names_outputs: ClassVar[bool] = True

    out_dim: int = attribute(minimum=1, maximum=2**31 - 1, doc="length of a sketch")
    processing_batch_size: int = attribute(32, minimum=1, doc=_PORTION)

    def input_names(self) -> tuple[str, ...]:
        return ("data", "h", "s")

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,)

    def backward_reads(self) -> Reads:
        return Reads(inputs=(1, 2))

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        if len(data) != 2:
            raise ShapeError(f"data has shape {data}; expected (rows, columns)")
        vectors = [
            self.expect(name, shape, (1, data[1]))
            for name, shape in zip("hs", inputs[1:], strict=True)
        ]
        return [data, *vectors], [self.expect("output", outputs[0], (data[0], self.out_dim))]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        common = self.expect_dtype("data", inputs[0], outputs[0])
        vectors = [
            self.expect_dtype(name, dtype, common)
            for name, dtype in zip("hs", inputs[1:], strict=True)
        ]
        return [common, *vectors], [common]

    def _places(self, run: Run, hashes: Array) -> Any:
        return run.xp.clip(hashes.reshape(-1).astype("int64"), 0, self.out_dim - 1)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, hashes, signs = inputs
        out = outputs[0]
        out[...] = 0
        run.xp.add.at(out, (slice(None), self._places(run, hashes)), data * signs)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        _, hashes, signs = inputs
        grads = out_grads[0][:, self._places(run, hashes)]
        run.xp.multiply(grads, signs, out=in_grads[0])


def _check_rows(shape: Shape) -> None:
    if len(shape) not in (2, 4):
        raise ShapeError(f"data has shape {shape}; expected two axes, or four")
