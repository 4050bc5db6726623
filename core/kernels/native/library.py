"""Loading the compiled kernels."""

from __future__ import annotations

import ctypes
import functools
import logging
import zlib
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_float, c_int, c_long, c_uint, c_void_p
from pathlib import Path
from typing import Any

from ...config import config
from ...types import Array
from ..onednn import library as onednn_library
from ..onednn.kernel import present
from .structures import (
    Alignment,
    Boxes,
    DeformablePsroi,
    DenseLayer,
    Follows,
    ImageTaps,
    Lines,
    Maps,
    Matrices,
    MatrixVector,
    PixelShuffle,
    Problem,
    RecurrentSizes,
    RecurrentTensors,
    Regions,
    Resizing,
    RroiAlignment,
    Sampling,
    SamplingWindow,
    Softmax,
    SoftmaxGradient,
    SuppressionLimit,
    Systems,
    Targets,
    Windows,
)

__all__ = [
    "Library",
    "in_turn",
    "is_available",
    "library",
    "loaded",
    "pointer",
    "threads",
]

_log = logging.getLogger(__name__)

_FILE = Path(__file__).with_name("libnative.so")


_PROBLEM, _MAPS, _FOLLOWS = POINTER(Problem), POINTER(Maps), POINTER(Follows)
_LINES, _DENSE = POINTER(Lines), POINTER(DenseLayer)
_SAMPLING, _WINDOW = POINTER(Sampling), POINTER(SamplingWindow)
_BOXES, _LIMIT = POINTER(Boxes), POINTER(SuppressionLimit)
_REGIONS, _MOVED = POINTER(Regions), POINTER(DeformablePsroi)
_ROTATED = POINTER(RroiAlignment)
_RESIZING, _TAPS = POINTER(Resizing), POINTER(ImageTaps)
_ALIGNMENT, _TARGETS = POINTER(Alignment), POINTER(Targets)
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "native_is_supported": (c_int, ()),
    "native_source": (c_uint, ()),
    "winograd_transform_weights": (None, (*[c_long] * 3, c_int, *[c_void_p] * 2)),
    "winograd_convolve_scratch": (c_long, (_PROBLEM,)),
    "winograd_convolve": (None, (_PROBLEM, *[c_void_p] * 4, c_float, *[c_void_p] * 2)),
    "winograd_weight_grad_scratch": (c_long, (_PROBLEM, c_int)),
    "winograd_weight_grad": (None, (_PROBLEM, *[c_void_p] * 5, c_int)),
    "winograd_1d_transform_weights": (None, (*[c_long] * 3, *[c_void_p] * 2)),
    "winograd_1d_convolve_scratch": (c_long, (_LINES,)),
    "winograd_1d_convolve": (None, (_LINES, *[c_void_p] * 4, c_float, *[c_void_p] * 2)),
    "chain_run": (c_int, (c_void_p,)),
    "gemm_scratch": (c_long, (_DENSE,)),
    "gemm_forward": (None, (_DENSE,)),
    "gemm_backward": (None, (_DENSE,)),
    "gemv": (None, (POINTER(MatrixVector),)),
    "update": (None, (c_void_p, c_int, c_long, *[c_void_p] * 5, c_long)),
    "softmax": (None, (POINTER(Softmax),)),
    "softmax_gradient": (None, (POINTER(SoftmaxGradient),)),
    "recurrent": (None, (POINTER(RecurrentTensors),)),
    "recurrent_scratch": (c_long, (POINTER(RecurrentSizes),)),
    "batch_norm_scratch": (c_long, (_MAPS,)),
    "batch_norm_forward": (None, (_MAPS, *[c_void_p] * 3, c_float, _FOLLOWS, *[c_void_p] * 5)),
    "batch_norm_backward": (None, (_MAPS, *[c_void_p] * 5, _FOLLOWS, *[c_void_p] * 5)),
    "sampling_near_bytes": (c_long, (_SAMPLING,)),
    "sampling_scratch": (c_long, (_SAMPLING,)),
    "sampling_pull_scratch": (c_long, (_SAMPLING,)),
    "sampling_find_grid": (None, (_SAMPLING, *[c_void_p] * 2)),
    "sampling_find_window": (None, (_SAMPLING, _WINDOW, *[c_void_p] * 2)),
    "sampling_read": (None, (_SAMPLING, *[c_void_p] * 5)),
    "sampling_spread": (None, (_SAMPLING, *[c_void_p] * 5)),
    "sampling_pull": (None, (_SAMPLING, *[c_void_p] * 8)),
    "roi_pool_scratch": (c_long, (_REGIONS,)),
    "roi_pool": (None, (_REGIONS, *[c_void_p] * 7)),
    "roi_pool_backward": (None, (_REGIONS, *[c_void_p] * 4)),
    "psroi_pool": (None, (_REGIONS, *[c_void_p] * 5)),
    "psroi_pool_backward": (None, (_REGIONS, *[c_void_p] * 5)),
    "half_from_float": (None, (c_long, *[c_void_p] * 2, c_long)),
    "half_to_float": (None, (c_long, *[c_void_p] * 2, c_long)),
    "nms_scratch": (c_long, (c_long,)),
    "suppress": (None, (c_long, _BOXES, _LIMIT, c_long, *[c_void_p] * 2)),
    "rroi_align_scratch": (c_long, (_ROTATED,)),
    "rroi_align": (None, (_ROTATED, *[c_void_p] * 5)),
    "lu_scratch": (c_long, (POINTER(Matrices),)),
    "lu_invert": (c_int, (POINTER(Matrices), *[c_void_p] * 3)),
    "lu_determine": (None, (POINTER(Matrices), *[c_void_p] * 4)),
    "triangular_scratch": (c_long, (POINTER(Systems),)),
    "triangular_solve": (None, (POINTER(Systems), *[c_void_p] * 4)),
    "im2col": (None, (POINTER(Windows), *[c_void_p] * 2)),
    "col2im": (None, (POINTER(Windows), *[c_void_p] * 2)),
    "deformable_psroi_samples": (c_long, ()),
    "deformable_psroi": (None, (_MOVED, *[c_void_p] * 6)),
    "deformable_psroi_spread": (None, (_MOVED, *[c_void_p] * 6)),
    "deformable_psroi_pull": (None, (_MOVED, *[c_void_p] * 7)),
    "leading": (None, (*[c_long] * 3, c_int, *[c_void_p] * 3, c_long)),
    "embedding": (None, (*[c_long] * 3, c_int, *[c_void_p] * 3, c_long)),
    "pixel_shuffle": (None, (POINTER(PixelShuffle), *[c_void_p] * 3)),
    "concatenate": (None, (c_long, c_long, *[c_void_p] * 3, c_long)),
    "resize_scratch": (c_long, (_RESIZING,)),
    "resize_images": (None, (_RESIZING, c_void_p, _TAPS, _TAPS, *[c_void_p] * 2)),
    "ctc_scratch": (c_long, (_ALIGNMENT,)),
    "shuffle": (None, (*[c_long] * 2, *[c_void_p] * 2)),
    "special_forward": (None, (c_int, c_long, *[c_void_p] * 2, c_long)),
    "special_backward": (None, (c_int, c_long, *[c_void_p] * 3, c_long)),
    "piecewise_forward": (None, (c_int, c_long, *[c_float] * 2, *[c_void_p] * 2, c_long)),
    "piecewise_backward": (None, (c_int, c_long, *[c_float] * 2, *[c_void_p] * 3, c_long)),
    "ctc_loss": (None, (_ALIGNMENT, _TARGETS, *[c_void_p] * 4)),
}
"""Result type and parameter types of the C functions."""


class Library:
    """The C functions, documented in the C files."""

    native_is_supported: Callable[[], int]
    native_source: Callable[[], int]
    winograd_transform_weights: Callable[..., None]
    winograd_convolve_scratch: Callable[..., int]
    winograd_convolve: Callable[..., None]
    winograd_weight_grad_scratch: Callable[..., int]
    winograd_weight_grad: Callable[..., None]
    winograd_1d_transform_weights: Callable[..., None]
    winograd_1d_convolve_scratch: Callable[..., int]
    winograd_1d_convolve: Callable[..., None]
    chain_run: Callable[..., int]
    gemm_scratch: Callable[..., int]
    gemm_forward: Callable[..., None]
    gemm_backward: Callable[..., None]
    gemv: Callable[..., None]
    update: Callable[..., None]
    softmax: Callable[..., None]
    softmax_gradient: Callable[..., None]
    recurrent: Callable[..., None]
    recurrent_scratch: Callable[..., int]
    batch_norm_scratch: Callable[..., int]
    batch_norm_forward: Callable[..., None]
    batch_norm_backward: Callable[..., None]
    sampling_near_bytes: Callable[..., int]
    sampling_scratch: Callable[..., int]
    sampling_pull_scratch: Callable[..., int]
    sampling_find_grid: Callable[..., None]
    sampling_find_window: Callable[..., None]
    sampling_read: Callable[..., None]
    sampling_spread: Callable[..., None]
    sampling_pull: Callable[..., None]
    roi_pool_scratch: Callable[..., int]
    roi_pool: Callable[..., None]
    roi_pool_backward: Callable[..., None]
    psroi_pool: Callable[..., None]
    psroi_pool_backward: Callable[..., None]
    half_from_float: Callable[..., None]
    half_to_float: Callable[..., None]
    nms_scratch: Callable[[int], int]
    suppress: Callable[..., None]
    rroi_align_scratch: Callable[..., int]
    rroi_align: Callable[..., None]
    lu_scratch: Callable[..., int]
    lu_invert: Callable[..., int]
    lu_determine: Callable[..., None]
    triangular_scratch: Callable[..., int]
    triangular_solve: Callable[..., None]
    im2col: Callable[..., None]
    col2im: Callable[..., None]
    deformable_psroi_samples: Callable[[], int]
    deformable_psroi: Callable[..., None]
    deformable_psroi_spread: Callable[..., None]
    deformable_psroi_pull: Callable[..., None]
    leading: Callable[..., None]
    embedding: Callable[..., None]
    pixel_shuffle: Callable[..., None]
    concatenate: Callable[..., None]
    resize_scratch: Callable[..., int]
    resize_images: Callable[..., None]
    ctc_scratch: Callable[..., int]
    ctc_loss: Callable[..., None]
    shuffle: Callable[..., None]
    special_forward: Callable[..., None]
    special_backward: Callable[..., None]
    piecewise_forward: Callable[..., None]
    piecewise_backward: Callable[..., None]

    def __init__(self, path: Path) -> None:
        functions = ctypes.CDLL(str(path))
        # Without these types, ctypes would pass addresses and sizes as integers of 32 bits.
        for name, (result, parameters) in _SIGNATURES.items():
            function = getattr(functions, name)
            function.argtypes, function.restype = parameters, result
            setattr(self, name, function)


@functools.cache
def library() -> Library | None:
    """Return the library, loaded on first use; None if it cannot be used.

    It is loaded after oneDNN and shares its OpenMP runtime, so that both use the same number of
    threads. The runtime reads its environment when it is loaded, for which oneDNN's ``Library``
    prepares it.
    """
    if onednn_library() is None or not config.native_kernels:
        return None
    try:
        found = Library(_FILE)
    except (OSError, AttributeError) as error:  # no file, or one without a function
        _log.info("the C kernels are not installed, oneDNN runs instead: %s", error)
        return None
    # A library left from another source would read structures that have changed since, and crash.
    source = _source(_FILE.parent)
    if source is not None and found.native_source() != source:
        _log.warning("the C kernels are not used: %s was compiled from another source", _FILE)
        return None
    return found if found.native_is_supported() else None


def _source(folder: Path) -> int | None:
    """Return the checksum of the source, as ``hatch_build.py`` computes it; None without one."""
    files = sorted((*folder.glob("*.c"), *folder.glob("*.h")))
    return zlib.crc32(b"".join(path.read_bytes() for path in files)) if files else None


def loaded() -> Library:
    """Return the library, which must be available."""
    found = library()
    assert found is not None
    return found


def is_available() -> bool:
    """Return whether the kernels can be used."""
    return library() is not None


def threads() -> int:
    """Return the number of threads used by kernels created on this thread."""
    found = onednn_library()
    return 1 if found is None else found.threads()


def pointer(array: Array | None) -> c_void_p:
    """Return the address of an array that its plan keeps alive."""
    return c_void_p(present(array).ctypes.data)


def in_turn(calls: Sequence[Callable[[], Any]]) -> Callable[[], Any]:
    """Return a closure that makes these calls in order."""
    if len(calls) == 1:
        return calls[0]

    def call() -> None:
        for each in calls:
            each()

    return call
