"""The copy of the parameters that the engine keeps on the host for scripts.

On a CPU the arrays that the module computes with are on the host already, so the copy is freed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.executor.modules.engine_optimizer import Engine, main_module
from app.executor.predict.predictor import Parameters
from core.device import Context
from core.ndarray import NDArray

__all__ = ["Values", "host_values", "release_host_copy"]

Values = tuple[Mapping[str, NDArray], Mapping[str, NDArray]]
"""Arguments and auxiliary states by name."""


def release_host_copy(engine: Engine, contexts: Sequence[Context]) -> None:
    """Free the copy of a module on one CPU; the engine makes another one when it is asked for."""
    if _is_one_cpu(contexts):
        main_module(engine).release_params()


def host_values(engine: Engine, contexts: Sequence[Context], on_device: Parameters) -> Values:
    """Return the parameters in memory of the host: of a module on one CPU its own arrays."""
    are_dense = all(one.stype == "default" for one in on_device.arguments.values())
    if _is_one_cpu(contexts) and are_dense:
        return dict(on_device.arguments), dict(on_device.auxiliary)
    return engine.get_params()


def _is_one_cpu(contexts: Sequence[Context]) -> bool:
    return len(contexts) == 1 and contexts[0].device_type == "cpu"
