"""modserve's engine: MXNet's symbolic world on NumPy and CuPy.

    import core as mx

runs code written for MXNet 1.9.1's Module API.
"""

from __future__ import annotations

from core import attribute as attribute
from core import (
    autograd,
    base,
    callback,
    context,
    contrib,
    engine,
    executor_manager,
    gluon,
    image,
    initializer,
    io,
    kvstore,
    libinfo,
    log,
    lr_scheduler,
    metric,
    misc,
    model,
    module,
    monitor,
    ndarray,
    operator,
    optimizer,
    profiler,
    recordio,
    rnn,
    runtime,
    symbol,
    symbol_doc,
    test_utils,
    util,
    visualization,
)
from core import image as img
from core import initializer as init
from core import kvstore as kv
from core import module as mod
from core import monitor as mon
from core import name as name
from core import ndarray as nd
from core import symbol as sym
from core import visualization as viz
from core.attribute import AttrScope
from core.context import Context, cpu, cpu_pinned, current_context, gpu, num_gpus
from core.errors import MXNetError
from core.executor import Executor
from core.libinfo import __version__
from core.ndarray import random as random
from core.ndarray import random as rnd
from core.ndarray import waitall
from core.ndarray.np_shape import is_np_shape, np_shape, set_np_shape, use_np_shape

__all__ = [
    "AttrScope",
    "Context",
    "Executor",
    "MXNetError",
    "__version__",
    "attribute",
    "autograd",
    "base",
    "callback",
    "context",
    "contrib",
    "cpu",
    "cpu_pinned",
    "current_context",
    "engine",
    "executor_manager",
    "gluon",
    "gpu",
    "image",
    "img",
    "init",
    "initializer",
    "io",
    "is_np_shape",
    "kv",
    "kvstore",
    "libinfo",
    "log",
    "lr_scheduler",
    "metric",
    "misc",
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
    "runtime",
    "set_np_shape",
    "sym",
    "symbol",
    "symbol_doc",
    "test_utils",
    "use_np_shape",
    "util",
    "visualization",
    "viz",
    "waitall",
]
