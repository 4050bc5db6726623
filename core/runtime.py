"""Features of this build, under the names of MXNet's build flags (``mxnet.runtime``)."""

from __future__ import annotations

from .backends import gpu_count, has_onednn
from .errors import UsageError, did_you_mean

__all__ = ["Feature", "Features", "feature_list"]

_NAMES = [
    "CUDA",
    "CUDNN",
    "NCCL",
    "CUDA_RTC",
    "TENSORRT",
    "CPU_SSE",
    "CPU_SSE2",
    "CPU_SSE3",
    "CPU_SSE4_1",
    "CPU_SSE4_2",
    "CPU_SSE4A",
    "CPU_AVX",
    "CPU_AVX2",
    "OPENMP",
    "SSE",
    "F16C",
    "JEMALLOC",
    "BLAS_OPEN",
    "BLAS_ATLAS",
    "BLAS_MKL",
    "BLAS_APPLE",
    "LAPACK",
    "MKLDNN",
    "OPENCV",
    "CAFFE",
    "PROFILER",
    "DIST_KVSTORE",
    "CXX14",
    "INT64_TENSOR_SIZE",
    "SIGNAL_HANDLER",
    "DEBUG",
    "TVM_OP",
]


class Feature:
    """A feature that a build may have.

    Attributes:
        name: MXNet's name for it.
        enabled: whether this build has it.
    """

    def __init__(self, name: str, enabled: bool) -> None:
        self.name, self.enabled = name, enabled

    def __repr__(self) -> str:
        return f"{'✔' if self.enabled else '✖'} {self.name}"


class Features(dict[str, Feature]):
    """All features by name.

    Enabled can be: ``CUDA`` (a GPU is usable), ``MKLDNN`` and ``OPENMP`` (oneDNN, which brings
    both, is installed), ``LAPACK`` (NumPy has it always) and ``PROFILER``. The others name parts of
    MXNet's own build that have no counterpart here.
    """

    def __init__(self) -> None:
        enabled = {
            "CUDA": gpu_count() > 0,
            "OPENMP": has_onednn(),
            "LAPACK": True,
            "MKLDNN": has_onednn(),
            "PROFILER": True,
        }
        super().__init__({name: Feature(name, enabled.get(name, False)) for name in _NAMES})

    def __repr__(self) -> str:
        return str(list(self.values()))

    def is_enabled(self, feature_name: str) -> bool:
        """Return whether a feature is enabled; case is ignored.

        Raises:
            UsageError: MXNet has no such feature.
        """
        name = feature_name.upper()
        if name not in self:
            raise UsageError(
                f"Feature {name!r} is unknown{did_you_mean(name, self)}; known features are: "
                f"{', '.join(self)}"
            )
        return self[name].enabled


def feature_list() -> list[Feature]:
    """Return all features."""
    return list(Features().values())
