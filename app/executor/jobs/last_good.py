"""The state to which a fit that has diverged returns its module.

That is the fit's newest checkpoint; until there is one, a copy in memory of what it began with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.domain.checkpoint import CheckpointManifest
from app.domain.module import OptimizerSpec, ParamsSource
from app.executor.background import Waits
from app.executor.jobs.fit_state import FitState, read_fit
from app.executor.modules.engine_optimizer import (
    Parked,
    check_saved,
    load_states,
    optimizer_of,
    park_optimizer,
    unpark_optimizer,
)
from app.executor.modules.hosted_module import HostedModule
from app.executor.modules.module_files import read_values
from app.executor.modules.optimizer_specs import set_position
from core.ndarray import NDArray

__all__ = ["Beginning", "restore_fit"]


@dataclass(frozen=True, slots=True)
class Beginning:
    """A copy of what a fit begins with.

    Attributes:
        arguments, auxiliary: the parameters, by name.
        optimizer: its position and states; None without one.
        has_unsaved: whether any of this was only in memory.
    """

    arguments: Mapping[str, NDArray]
    auxiliary: Mapping[str, NDArray]
    optimizer: Parked | None
    has_unsaved: bool

    @classmethod
    def of(cls, module: HostedModule) -> Beginning:
        """Copy a module that is ready to be trained."""
        values = module.values()
        assert values is not None
        arguments, auxiliary = ({name: one.copy() for name, one in part.items()} for part in values)
        return cls(arguments, auxiliary, park_optimizer(module.engine), module.has_unsaved)

    @property
    def nbytes(self) -> int:
        """Bytes of the copy of the parameters."""
        arrays = (*self.arguments.values(), *self.auxiliary.values())
        return sum(int(one.dense().nbytes) for one in arrays if one.stype == "default")

    def restore(self, module: HostedModule) -> None:
        """Give it back to the module."""
        source = module.record.params
        assert source is not None
        module.install((self.arguments, self.auxiliary), source)
        if self.optimizer is not None:
            unpark_optimizer(module.engine, self.optimizer)
        module.has_unsaved = self.has_unsaved


def restore_fit(
    module: HostedModule,
    directory: Path,
    manifest: CheckpointManifest,
    states: bytes,
    spec: OptimizerSpec,
) -> Waits[FitState]:
    """Give a module the parameters and the optimizer of a checkpoint that a fit wrote; return the
    fit's state.

    Args:
        module: bound for training.
        directory, manifest: of the checkpoint, which is intact.
        states: the optimizer's, as they were saved.
        spec: the optimizer.

    Raises:
        Damaged, Invalid, HostError: it does not fit the module.
    """
    values = yield from read_values(module, directory, manifest)
    module.install(values, ParamsSource.CHECKPOINT)
    module.init_optimizer(spec, "optimizer.")
    weights = module.on_device().arguments
    load_states(module.engine, check_saved(module.engine, states, weights))
    state = read_fit(module, directory)
    optimizer = optimizer_of(module.engine)
    assert optimizer is not None
    set_position(optimizer, state.optimizer)
    module.has_unsaved = False
    return state
