"""Finding and loading oneDNN: a plain C library, called through ctypes.

The package ``onednn-cpu-gomp`` puts ``libdnnl.so.3`` into the environment's ``lib`` folder, for
Linux on x86-64. Elsewhere, and if it is not installed, there is no library and the operators'
references run.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
import os
import platform
import site
import sys
from collections.abc import Callable, Iterator
from ctypes import POINTER, c_char_p, c_float, c_int, c_int64, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any

from ...config import config
from ..kernel import KernelUnavailable
from ..threads import openmp_environment, thread_count
from .constants import MAJOR_VERSION, Status

__all__ = ["Library", "has_bfloat16", "is_available", "library"]

_log = logging.getLogger(__name__)

_FILE = "libdnnl.so.3"

_DIMS = POINTER(c_int64)
_HANDLE = c_void_p
_RESULT = POINTER(c_void_p)

_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "engine_create": (_RESULT, c_int, c_size_t),
    "stream_create": (_RESULT, _HANDLE, c_uint),
    "memory_desc_create_with_strides": (_RESULT, c_int, _DIMS, c_int, _DIMS),
    "memory_desc_create_with_tag": (_RESULT, c_int, _DIMS, c_int, c_int),
    "memory_desc_create_submemory": (_RESULT, _HANDLE, _DIMS, _DIMS),
    "memory_desc_permute_axes": (_RESULT, _HANDLE, POINTER(c_int)),
    "memory_desc_reshape": (_RESULT, _HANDLE, c_int, _DIMS),
    "memory_desc_clone": (_RESULT, _HANDLE),
    "memory_desc_destroy": (_HANDLE,),
    "memory_desc_query": (_HANDLE, c_int, c_void_p),
    "memory_create": (_RESULT, _HANDLE, _HANDLE, c_void_p),
    "memory_destroy": (_HANDLE,),
    "post_ops_create": (_RESULT,),
    "post_ops_append_sum": (_HANDLE, c_float, c_int, c_int),
    "post_ops_append_eltwise": (_HANDLE, c_int, c_float, c_float),
    "post_ops_append_binary": (_HANDLE, c_int, _HANDLE),
    "post_ops_destroy": (_HANDLE,),
    "primitive_attr_create": (_RESULT,),
    "primitive_attr_set_post_ops": (_HANDLE, _HANDLE),
    "primitive_attr_set_scales_mask": (_HANDLE, c_int, c_int),
    "primitive_attr_set_scratchpad_mode": (_HANDLE, c_int),
    "primitive_attr_destroy": (_HANDLE,),
    "primitive_desc_query": (_HANDLE, c_int, c_int, c_void_p),
    "primitive_desc_destroy": (_HANDLE,),
    "primitive_create": (_RESULT, _HANDLE),
    "primitive_destroy": (_HANDLE,),
}
"""Parameters of the functions used, without the prefix ``dnnl_``. All return a status."""

_GETTERS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "get_effective_cpu_isa": (c_int, ()),
    "memory_desc_get_size": (c_size_t, (_HANDLE,)),
    "primitive_desc_query_md": (_HANDLE, (_HANDLE, c_int, c_int)),
}
"""Result and parameters of the functions that return no status."""

_MAKERS: dict[str, str] = {
    "reorder": "mEmE",
    "convolution_forward": "Eiimmmmdddd",
    "convolution_backward_data": "Eimmmddddp",
    "convolution_backward_weights": "Eimmmmddddp",
    "inner_product_forward": "Eimmmm",
    "inner_product_backward_data": "Emmmp",
    "inner_product_backward_weights": "Emmmmp",
    "pooling_forward": "Eiimmddddd",
    "pooling_backward": "Eimmdddddp",
    "batch_normalization_forward": "Eimmfu",
    "batch_normalization_backward": "Eimmmfup",
    "eltwise_forward": "Eiimmff",
    "eltwise_backward": "Eimmmffp",
    "resampling_forward": "EiiFmm",
    "prelu_forward": "Eimmm",
    "prelu_backward": "Emmmmmp",
    "softmax_forward": "Eiimmi",
    "softmax_backward": "Eimmmip",
    "binary": "Eimmm",
    "reduction": "Eimmff",
    "concat": "EmiiM",
    "matmul": "Emmmm",
    "layer_normalization_forward": "Eimmmfu",
    "layer_normalization_backward": "Eimmmmfup",
    "lrn_forward": "Eiimmlfff",
    "lrn_backward": "Eimmmlfffp",
    "vanilla_rnn_forward": f"Eiii{'m' * 7}uff",
    "vanilla_rnn_backward": f"Eiii{'m' * 14}uffp",
    "lstm_forward": f"Eii{'m' * 11}u",
    "lstm_backward": f"Eii{'m' * 22}up",
    "gru_forward": f"Eii{'m' * 7}u",
    "gru_backward": f"Eii{'m' * 14}up",
    "lbr_gru_forward": f"Eii{'m' * 7}u",
    "lbr_gru_backward": f"Eii{'m' * 14}up",
}
"""Parameters of ``dnnl_*_primitive_desc_create`` between the result and the attributes: engine E,
int i, unsigned u, 64-bit l, float f, dimensions d, memory descriptor m, primitive descriptor p,
array of floats F, array of memory descriptors M."""

_LETTERS: dict[str, Any] = {
    "E": _HANDLE,
    "m": _HANDLE,
    "p": _HANDLE,
    "i": c_int,
    "u": c_uint,
    "l": c_int64,
    "f": c_float,
    "d": _DIMS,
    "F": POINTER(c_float),
    "M": POINTER(c_void_p),
}


class _Version(ctypes.Structure):
    _fields_ = (
        ("major", c_int),
        ("minor", c_int),
        ("patch", c_int),
        ("hash", c_char_p),
        ("cpu_runtime", c_uint),
        ("gpu_runtime", c_uint),
    )


class Library:
    """The loaded library with one engine, the CPU, and one in-order stream.

    Attributes:
        engine, stream: handles.
        version: for example ``"3.2.0"``.
        execute: ``dnnl_primitive_execute``, for closures that check the status themselves; to be
            called with values of C types.
        execute_address: its address, for C.
    """

    def __init__(self, path: Path) -> None:
        with openmp_environment(thread_count(config)):
            self._functions = ctypes.CDLL(str(path))
        self.version = self._read_version()
        for name, parameters in _SIGNATURES.items():
            self._declare(f"dnnl_{name}", parameters)
        for name, (result, parameters) in _GETTERS.items():
            self._declare(f"dnnl_{name}", parameters, result)
        for name, letters in _MAKERS.items():
            parameters = (_RESULT, *(_LETTERS[letter] for letter in letters), _HANDLE)
            self._declare(f"dnnl_{name}_primitive_desc_create", parameters)
        # Its parameters are not declared: callers pass C types, which saves the conversion.
        self.execute: Callable[..., int] = self._functions["dnnl_primitive_execute"]
        self.execute_address = ctypes.cast(self._functions.dnnl_primitive_execute, c_void_p).value
        # Functions of OpenMP are found here, because the loader also searches what oneDNN needs.
        self._set_threads = self._functions["omp_set_num_threads"]
        self._set_threads.restype = None
        self._end_threads_before_forks()
        self.engine = self.create("engine_create", _CPU_ENGINE, 0)
        self.stream = self.create("stream_create", self.engine, _STREAM_FLAGS)

    def call(self, name: str, *arguments: Any) -> None:
        """Call ``dnnl_<name>``.

        Raises:
            KernelUnavailable: the status is not success.
        """
        status = getattr(self._functions, f"dnnl_{name}")(*arguments)
        if status:
            raise KernelUnavailable(f"oneDNN's {name} failed: {Status(status).name.lower()}")

    def create(self, name: str, *arguments: Any) -> int:
        """Call a function that creates something; return the handle."""
        handle = c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        assert handle.value is not None
        return handle.value

    def get(self, name: str, *arguments: Any) -> Any:
        """Call a function that returns its result; None means a null handle."""
        return getattr(self._functions, f"dnnl_{name}")(*arguments)

    def destroy(self, name: str, handle: int) -> None:
        """Call a function that destroys something."""
        getattr(self._functions, f"dnnl_{name}")(handle)

    def set_threads(self, count: int) -> None:
        """Set the number of threads for primitives called from this thread."""
        self._set_threads(c_int(count))

    def on_one_thread(self, call: Callable[..., int]) -> Callable[..., int]:
        """Return a closure that runs a primitive on the calling thread only."""
        many = self.threads()
        if many == 1:
            return call
        # Values of C types, so that ctypes converts nothing at each step.
        use_one = functools.partial(self._set_threads, c_int(1))
        use_many = functools.partial(self._set_threads, c_int(many))

        def call_on_one(*arguments: Any) -> int:
            use_one()
            status = call(*arguments)
            use_many()
            return status

        return call_on_one

    @contextlib.contextmanager
    def one_thread(self) -> Iterator[None]:
        """Restrict primitives created or run in the block to the calling thread."""
        many = self.threads()
        self.set_threads(1)
        try:
            yield
        finally:
            self.set_threads(many)

    def threads(self) -> int:
        """Return the number of threads for primitives called from this thread."""
        return int(self._functions.omp_get_max_threads())

    def _end_threads_before_forks(self) -> None:
        """Have OpenMP end the threads it keeps for a thread that forks, and start others later.

        A fork copies no threads but the one that forks; in the child, kernels would wait forever
        for the others. OpenMP keeps threads for each thread that calls it.
        """
        with contextlib.suppress(AttributeError):  # libgomp before GCC 9
            end_threads = self._functions.omp_pause_resource_all
            os.register_at_fork(before=functools.partial(end_threads, _PAUSE_HARD))

    def _declare(self, name: str, parameters: tuple[Any, ...], result: Any = c_int) -> None:
        function = getattr(self._functions, name)
        function.argtypes, function.restype = parameters, result

    def _read_version(self) -> str:
        read = self._functions.dnnl_version
        read.restype = POINTER(_Version)
        version = read().contents
        if version.major != MAJOR_VERSION:
            raise OSError(f"oneDNN is version {version.major}; {MAJOR_VERSION} is needed")
        return f"{version.major}.{version.minor}.{version.patch}"


_AVX512_BF16 = 0x80
"""The bit that ``dnnl_cpu_isa_avx512_core_bf16`` and all larger instruction sets have."""
_CPU_ENGINE = 1
_PAUSE_HARD = 2
_STREAM_FLAGS = 1
"""``dnnl_cpu``; ``omp_pause_hard``; ``dnnl_stream_in_order``."""


@functools.cache
def library() -> Library | None:
    """Return the library, loaded on first use; None if there is none."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    for folder in (sys.prefix, site.getuserbase()):
        path = Path(folder, "lib", _FILE)
        if path.exists():
            try:
                return Library(path)
            except OSError as error:
                hint = "; install it (Debian, Ubuntu: apt install libgomp1)"
                _log.warning(
                    "oneDNN is not used, kernels run on NumPy, which is slow: %s%s",
                    error,
                    hint if "libgomp" in str(error) else "",
                )
                return None
    _log.info("oneDNN is not installed; convolutions run on NumPy, which is slow")
    return None


def is_available() -> bool:
    """Return whether kernels can be created."""
    return library() is not None


@functools.cache
def has_bfloat16() -> bool:
    """Return whether the processor multiplies numbers of bfloat16: AVX512-BF16, or AMX as well.

    oneDNN computes without these instructions, too, but slower than in float32.
    """
    found = library()
    return found is not None and bool(found.get("get_effective_cpu_isa") & _AVX512_BF16)
