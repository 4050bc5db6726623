"""Fourier transforms against NumPy, count sketches against sums; MXNet has them on GPUs only.

Expected values follow MXNet's ``test_operator_gpu.py``.
"""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import ShapeError
from oracle.apply import apply, make

RANDOM = np.random.RandomState(2)


def _parts(numbers: np.ndarray) -> np.ndarray:
    """Return alternating real and imaginary parts along the last axis."""
    both = np.stack([numbers.real, numbers.imag], axis=-1)
    return both.reshape(*numbers.shape[:-1], -1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 8), (2, 5), (2, 1, 3, 6)])
def test_fft_and_its_gradient_match_numpy(shape: tuple[int, ...], dtype: str) -> None:
    data = RANDOM.normal(size=shape).astype(dtype)
    numbers = RANDOM.normal(size=shape) + 1j * RANDOM.normal(size=shape)
    head = _parts(numbers).astype(dtype)
    result = apply("_contrib_fft", {}, [data], [head])
    np.testing.assert_allclose(result.outputs[0], _parts(np.fft.fft(data)), rtol=1e-4, atol=1e-5)
    expected = np.fft.ifft(numbers).real * shape[-1]
    np.testing.assert_allclose(result.grads[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 8), (2, 5), (2, 1, 3, 6)])
def test_ifft_and_its_gradient_match_numpy(shape: tuple[int, ...]) -> None:
    numbers = RANDOM.normal(size=shape) + 1j * RANDOM.normal(size=shape)
    data, head = _parts(numbers), RANDOM.normal(size=shape)
    result = apply("_contrib_ifft", {"compute_size": 2}, [data], [head])
    np.testing.assert_allclose(result.outputs[0], np.fft.ifft(numbers).real * shape[-1])
    np.testing.assert_allclose(result.grads[0], _parts(np.fft.fft(head)), atol=1e-12)


def test_count_sketches_and_their_gradients_match_sums() -> None:
    data, head = RANDOM.normal(size=(3, 6)), RANDOM.normal(size=(3, 4))
    places, signs = np.array([[0, 3, 1, 3, 0, 3.0]]), np.array([[1, -1, 1, 1, -1, -1.0]])
    result = apply("_contrib_count_sketch", {"out_dim": 4}, [data, places, signs], [head])
    expected = np.zeros((3, 4))
    for column in range(6):
        expected[:, int(places[0, column])] += signs[0, column] * data[:, column]
    np.testing.assert_allclose(result.outputs[0], expected)
    np.testing.assert_allclose(result.grads[0], head[:, places[0].astype(int)] * signs)


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ShapeError, match="alternating real and imaginary parts"):
        make("_contrib_ifft", {}).infer_shape([(2, 3)], [None])
    with pytest.raises(ShapeError, match="expected two axes, or four"):
        make("_contrib_fft", {}).infer_shape([(3,)], [None])
    with pytest.raises(ShapeError, match=r"expected \(rows, columns\)"):
        make("_contrib_count_sketch", {"out_dim": 4}).infer_shape([(3,), None, None], [None])
