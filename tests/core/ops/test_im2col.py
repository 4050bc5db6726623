"""Correlation against plain loops, for every way of cutting the batch into chunks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from core.device import Context
from core.ops import Run, im2col
from core.ops.im2col import Correlation
from core.ops.window import Window
from core.random import DeviceRandom

RANDOM = np.random.RandomState(0)


def correlate_by_loops(window: Window, groups: int, images, weight, counts) -> np.ndarray:
    """Return the convolution by its definition, element by element."""
    padded = np.pad(images, [(0, 0), (0, 0), *((p, p) for p in window.pad)])
    filters, per_group = len(weight), len(weight) // groups
    maps = np.zeros((len(images), filters, *counts))
    for f, o in itertools.product(range(filters), np.ndindex(*counts)):
        first = f // per_group * weight.shape[1]
        for c, k in itertools.product(range(weight.shape[1]), np.ndindex(*window.kernel)):
            place = tuple(
                i * s + j * d for i, s, j, d in zip(o, window.stride, k, window.dilate, strict=True)
            )
            maps[(slice(None), f, *o)] += (
                weight[(f, c, *k)] * padded[(slice(None), first + c, *place)]
            )
    return maps


WINDOWS = {
    "plain": Window((3, 2), (1, 1), (1, 1), (0, 0)),
    "padded": Window((3, 3), (2, 1), (1, 2), (1, 2)),
    "pointwise": Window((1, 1), (1, 1), (1, 1), (0, 0)),
    "pointwise_padded": Window((1, 1), (1, 1), (1, 1), (1, 0)),
}


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_chunked_correlation_matches_plain_loops(
    monkeypatch, window: Window, groups: int, chunk: int
) -> None:
    monkeypatch.setattr(im2col, "_WORTHWHILE_IMAGES", 1)
    monkeypatch.setattr(im2col, "_CHUNK_IMAGES", chunk)
    images, weight = (
        RANDOM.normal(size=(5, 4, 6, 7)),
        RANDOM.normal(size=(2, 4 // groups, *window.kernel)),
    )
    counts = window.counts(images.shape[2:])
    expected = correlate_by_loops(window, groups, images, weight, counts)
    maps = np.full_like(expected, np.nan)
    run = Run(np, True, DeviceRandom(Context("cpu", 0), 0), lambda s, t: np.full(s, np.nan, t))
    correlation = Correlation(run, window, groups, images.shape, maps.shape, images.dtype)
    correlation.correlate(images, weight, maps)
    np.testing.assert_allclose(maps, expected, atol=1e-12)

    # Gradients are transposes: <maps, grad> is the same whichever side the operator moves to.
    grad = RANDOM.normal(size=maps.shape)
    image_grad, weight_grad = np.full_like(images, np.nan), np.full_like(weight, np.nan)
    correlation.image_gradient(grad, weight, image_grad)
    correlation.weight_gradient(images, grad, weight_grad)
    other_images, other_weight = RANDOM.normal(size=images.shape), RANDOM.normal(size=weight.shape)
    moved = correlate_by_loops(window, groups, other_images, weight, counts)
    np.testing.assert_allclose(np.vdot(image_grad, other_images), np.vdot(moved, grad))
    moved = correlate_by_loops(window, groups, images, other_weight, counts)
    np.testing.assert_allclose(np.vdot(weight_grad, other_weight), np.vdot(moved, grad))


@pytest.mark.parametrize(
    ("batch", "size", "kernel", "chunk"),
    [
        (64, 12, 5, 16),
        (64, 40, 3, 1),
        (64, 14, 1, 16),
        (64, 28, 1, 1),
        (4, 12, 5, 1),
        (64, 30, 9, 1),
    ],
    ids=["small", "large", "small_pointwise", "large_pointwise", "few", "many_bytes"],
)
def test_only_small_images_share_a_chunk(batch: int, size: int, kernel: int, chunk: int) -> None:
    window = Window((kernel,) * 2, (1, 1), (1, 1), (0, 0))
    taken: list[tuple[int, ...]] = []

    def scratch(shape, dtype) -> np.ndarray:
        taken.append(shape)
        return np.empty(0, dtype)

    run = Run(np, True, DeviceRandom(Context("cpu", 0), 0), scratch)
    counts = window.counts((size, size))
    Correlation(run, window, 1, (batch, 20, size, size), (batch, 30, *counts), np.dtype("float32"))
    # Only a chunk of several images needs space to transpose its maps.
    assert ((30 * counts[0] * counts[1] * 16,) in taken) == (chunk == 16)
