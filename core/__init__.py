"""modserve's engine: MXNet's symbolic API on NumPy and CuPy.

    import core as mx

runs code written for MXNet 1.9.1's Module API.
"""

from __future__ import annotations

from . import attribute as attribute
from . import (
    autograd,
    base,
    callback,
    context,
    contrib,
    gluon,
    image,
    initializer,
    io,
    kvstore,
    libinfo,
    lr_scheduler,
    metric,
    model,
    module,
    monitor,
    ndarray,
    onnx,
    operator,
    optimizer,
    profiler,
    recordio,
    rnn,
    runtime,
    symbol,
    visualization,
)
from . import image as img
from . import initializer as init
from . import kvstore as kv
from . import module as mod
from . import monitor as mon
from . import name as name
from . import ndarray as nd
from . import symbol as sym
from . import visualization as viz
from .attribute import AttrScope
from .compat import (
    engine,
    executor_manager,
    library,
    log,
    misc,
    symbol_doc,
    test_utils,
    util,
)
from .compat.paths import install as _install_paths
from .context import Context, cpu, cpu_pinned, current_context, gpu, num_gpus
from .errors import MXNetError
from .executor import Executor
from .libinfo import __version__
from .ndarray import random as random
from .ndarray import random as rnd
from .ndarray import waitall
from .ndarray.np_shape import is_np_shape, np_shape, set_np_shape, use_np_shape

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
    "library",
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
    "onnx",
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

_install_paths(__name__)
