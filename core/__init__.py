"""modserve's engine: MXNet's symbolic world on NumPy and CuPy.

    import core as mx

runs code written for MXNet 1.9.1's Module API.
"""

from __future__ import annotations

from core import attribute as attribute
from core import (
    autograd,
    callback,
    gluon,
    initializer,
    io,
    kvstore,
    metric,
    module,
    monitor,
    ndarray,
    operator,
    optimizer,
    profiler,
    recordio,
    rnn,
    symbol,
    visualization,
)
from core import checkpoint as model
from core import device as context
from core import errors as base
from core import initializer as init
from core import kvstore as kv
from core import module as mod
from core import monitor as mon
from core import name as name
from core import ndarray as nd
from core import symbol as sym
from core import visualization as viz
from core.attribute import AttrScope
from core.device import Context, cpu, cpu_pinned, current_context, gpu
from core.errors import MXNetError
from core.executor import Executor
from core.ndarray import random as random
from core.ndarray import random as rnd
from core.ndarray import waitall
from core.ndarray.np_shape import is_np_shape, np_shape, set_np_shape, use_np_shape
from core.optimizer import lr_scheduler

__all__ = [
    "AttrScope",
    "Context",
    "Executor",
    "MXNetError",
    "attribute",
    "autograd",
    "base",
    "callback",
    "context",
    "cpu",
    "cpu_pinned",
    "current_context",
    "gluon",
    "gpu",
    "init",
    "initializer",
    "io",
    "is_np_shape",
    "kv",
    "kvstore",
    "lr_scheduler",
    "metric",
    "mod",
    "model",
    "module",
    "mon",
    "monitor",
    "name",
    "nd",
    "ndarray",
    "np_shape",
    "num_gpus",
    "operator",
    "optimizer",
    "profiler",
    "random",
    "recordio",
    "rnd",
    "rnn",
    "set_np_shape",
    "sym",
    "symbol",
    "use_np_shape",
    "visualization",
    "viz",
    "waitall",
]


def num_gpus() -> int:
    """Return the number of usable CUDA devices."""
    from core.backends import gpu_count

    return gpu_count()
