"""Correlation of images with sliding windows, as matrix products (im2col).

In a chunk of images every window is copied to a column, so that one matrix product computes all
outputs. Small images are processed several at a time with the batch as the *last* axis: copies and
products then run over long contiguous rows, up to twice as fast on the CPU as image by image.
Chunks are chosen so that their columns fit into the cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..types import Array, DType, Shape, shape_size
from .operator import Run
from .window import Window

__all__ = ["Correlation"]

# Bounds for processing several images at a time on a CPU: images in a chunk, bytes of its columns,
# outputs of a map (larger maps have long rows by themselves), and the fewest images for which long
# rows make up for transposing the batch. A pointwise window needs no columns, so less is gained. A
# GPU gains by large products; only memory limits its chunks.
_CHUNK_IMAGES = 16
_CHUNK_BYTES = 8 << 20
_GPU_CHUNK_BYTES = 256 << 20
_SMALL_MAP = 1024
_SMALL_POINTWISE_MAP = 256
_WORTHWHILE_IMAGES = 8


class Correlation:
    """``maps[n, f, o] = Σ weight[f, c, k] · images[n, c, o·stride + k·dilate - pad]``.

    ``images`` is (N, C, *spatial), ``maps`` (N, F, *counts), ``weight`` (F, C / groups, *kernel);
    group g of the F maps reads group g of the C channels. Scratch memory is allocated once, in the
    constructor; an object lives for one call of an operator.
    """

    def __init__(
        self, run: Run, window: Window, groups: int, images: Shape, maps: Shape, dtype: DType
    ) -> None:
        self._xp = run.xp
        self._window = window
        self._groups = groups
        self._batch, self._channels, *spatial = images
        self._filters = maps[1]
        self._counts = maps[2:]
        self._padded = tuple(s + 2 * p for s, p in zip(spatial, window.pad, strict=True))
        self._interior = tuple(slice(p, p + s) for p, s in zip(window.pad, spatial, strict=True))
        self._map_size = shape_size(self._counts)
        self._column_size = self._channels * shape_size(window.kernel)
        self._chunk = self._images_at_once(dtype.itemsize)
        self._take_scratch(run, dtype)

    def correlate(self, images: Array, weight: Array, maps: Array) -> None:
        """Write the maps."""
        weight = self._weight_matrix(weight)
        for chunk in self._chunks():
            columns = self._gather(images[chunk])
            if self._chunk == 1:
                self._xp.matmul(weight, columns, out=self._map_matrix(maps[chunk]))
            else:
                target = self._map_buffer(maps[chunk])
                self._xp.matmul(weight, columns, out=self._as_matrix(target))
                maps[chunk] = self._xp.moveaxis(target, -1, 0)

    def image_gradient(self, maps: Array, weight: Array, images: Array) -> None:
        """Write the images' gradient, given that of the maps."""
        weight = self._weight_matrix(weight).transpose(0, 2, 1)
        for chunk in self._chunks():
            columns = self._column_target(images[chunk])
            self._xp.matmul(weight, self._read_maps(maps[chunk]), out=columns)
            self._scatter(columns, images[chunk])

    def weight_gradient(self, images: Array, maps: Array, weight: Array) -> None:
        """Write the weight's gradient, given the images and the gradient of the maps."""
        total = self._weight_matrix(weight)
        for number, chunk in enumerate(self._chunks()):
            columns = self._gather(images[chunk]).transpose(0, 2, 1)
            partial = self._weight_partial if number else total
            self._xp.matmul(self._read_maps(maps[chunk]), columns, out=partial)
            if number:
                total += partial

    # -- chunks and scratch -----------------------------------------------------------------

    def _images_at_once(self, itemsize: int) -> int:
        on_gpu = self._xp is not np
        image_bytes = self._column_size * self._map_size * itemsize
        fitting = (_GPU_CHUNK_BYTES if on_gpu else _CHUNK_BYTES) // image_bytes
        if on_gpu:
            return max(1, min(self._batch, fitting))
        small = _SMALL_POINTWISE_MAP if self._window.is_pointwise else _SMALL_MAP
        several = min(self._batch, fitting, _CHUNK_IMAGES)
        return several if several >= _WORTHWHILE_IMAGES and self._map_size <= small else 1

    def _chunks(self) -> Iterator[slice]:
        for start in range(0, self._batch, self._chunk):
            yield slice(start, min(start + self._chunk, self._batch))

    def _take_scratch(self, run: Run, dtype: DType) -> None:
        chunk = self._chunk
        self._is_direct = chunk == 1 and not any(self._window.pad)
        if not self._is_direct:
            size = self._channels * shape_size(self._padded) * chunk
            self._padded_scratch = run.scratch((size,), dtype)
        if not self._window.is_pointwise:
            size = self._column_size * self._map_size * chunk
            self._column_scratch = run.scratch((size,), dtype)
        if chunk > 1:
            self._map_scratch = run.scratch((self._filters * self._map_size * chunk,), dtype)
        if self._batch > chunk:
            groups = self._groups
            shape = (groups, self._filters // groups, self._column_size // groups)
            self._weight_partial = run.scratch(shape, dtype)

    # -- images to columns and back: both have the batch last ---------------------------------

    def _gather(self, images: Array) -> Array:
        """Return the images' windows as columns (groups, column, outputs · images)."""
        source = self._image_buffer(images)
        if not self._is_direct:
            source[...] = 0
            source[(slice(None), *self._interior)] = self._xp.moveaxis(images, 0, -1)
        if self._window.is_pointwise:
            return self._as_matrix(source)
        columns = self._column_buffer(len(images))
        self._xp.copyto(columns, self._windows(source))
        return self._as_matrix(columns)

    def _column_target(self, images: Array) -> Array:
        """Return the array for the gradient of the columns, which ``_scatter`` then sums."""
        if self._window.is_pointwise:
            return self._as_matrix(self._image_buffer(images))
        return self._as_matrix(self._column_buffer(len(images)))

    def _scatter(self, columns: Array, images: Array) -> None:
        """Sum the columns into the images that their windows were copied from."""
        target = self._image_buffer(images)
        if not self._window.is_pointwise:
            columns = columns.reshape(-1, *self._window.kernel, *self._counts, len(images))
            target[...] = 0
            # Windows overlap, so the inverse of ``_gather``'s single strided copy would be a sum
            # with repeated targets; for one kernel position, all targets differ.
            for position in self._window.positions():
                slices = self._window.padded_slices(position, self._counts)
                seen = target[(slice(None), *slices)]
                seen += columns[(slice(None), *position)]
        if not self._is_direct:
            images[...] = self._xp.moveaxis(target[(slice(None), *self._interior)], -1, 0)

    def _windows(self, source: Array) -> Array:
        """Return the windows of a padded image as a view (C, *kernel, *counts, images).

        Windows share elements, so the view must only be read.
        """
        channel, *steps, image = source.strides
        window = self._window
        return self._xp.lib.stride_tricks.as_strided(
            source,
            (self._channels, *window.kernel, *self._counts, source.shape[-1]),
            (
                channel,
                *(step * d for step, d in zip(steps, window.dilate, strict=True)),
                *(step * s for step, s in zip(steps, window.stride, strict=True)),
                image,
            ),
        )

    def _image_buffer(self, images: Array) -> Array:
        """Return memory for padded images; a single image without padding is used directly."""
        if self._is_direct:
            return images[0][..., None]
        shape = (self._channels, *self._padded, len(images))
        return self._padded_scratch[: shape_size(shape)].reshape(shape)

    def _column_buffer(self, images: int) -> Array:
        shape = (self._channels, *self._window.kernel, *self._counts, images)
        return self._column_scratch[: shape_size(shape)].reshape(shape)

    # -- matrices ---------------------------------------------------------------------------

    def _read_maps(self, maps: Array) -> Array:
        """Return maps as matrices (groups, F / groups, outputs · images)."""
        if self._chunk == 1:
            return self._map_matrix(maps)
        buffer = self._map_buffer(maps)
        self._xp.copyto(buffer, self._xp.moveaxis(maps, 0, -1))
        return self._as_matrix(buffer)

    def _map_buffer(self, maps: Array) -> Array:
        shape = (self._filters, *self._counts, len(maps))
        return self._map_scratch[: shape_size(shape)].reshape(shape)

    def _map_matrix(self, maps: Array) -> Array:
        return maps.reshape(self._groups, -1, self._map_size)

    def _as_matrix(self, array: Array) -> Array:
        return array.reshape(self._groups, -1, self._map_size * array.shape[-1])

    def _weight_matrix(self, weight: Array) -> Array:
        return weight.reshape(self._groups, self._filters // self._groups, -1)
