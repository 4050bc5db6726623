"""All that a fit needs to resume with identical numbers, besides parameters and optimizer states.

<module>-0003.params  .states     as MXNet writes them
state.json                        everything here
devices.ndarray                   auxiliary states of each device, if there are several: within an
                                  epoch they differ, and .params has their average
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.domain.checkpoint import CheckpointTag
from app.errors.tree import Damaged
from app.executor.modules.engine_optimizer import main_module
from app.executor.modules.hosted_module import HostedModule
from app.executor.modules.module_files import read_state, write_state
from core.device import cpu
from core.ndarray import NDArray
from core.ndarray import load as load_arrays
from core.ndarray import save as save_arrays

__all__ = ["FitSnapshot", "FitState", "read_fit"]

_DEVICES_FILE = "devices.ndarray"


@dataclass(slots=True)
class FitState:
    """A fit's position between two batches, as plain data.

    Attributes:
        epoch: epochs completed.
        batch: batches done of the current epoch.
        samples: examples seen since the job began, not counting padding.
        seconds: time that the job has taken over all attempts.
        random: position of the job's random stream.
        rolled: examples that rolled over into this epoch.
        optimizer: position of the optimizer.
        metric, loss: running sums of this epoch.
        train, validation: metrics of the last completed epoch.
        stopping: for early stopping, the best value and the number of epochs without improvement
            since.
        best: the best epoch so far: its checkpoint, metric and value.
    """

    epoch: int
    batch: int = 0
    samples: int = 0
    seconds: float = 0.0
    random: dict[str, Any] = field(default_factory=dict)
    rolled: list[int] = field(default_factory=list)
    optimizer: dict[str, Any] = field(default_factory=dict)
    metric: dict[str, Any] = field(default_factory=dict)
    loss: dict[str, Any] = field(default_factory=dict)
    train: dict[str, float | None] = field(default_factory=dict)
    validation: dict[str, float | None] = field(default_factory=dict)
    stopping: dict[str, Any] = field(default_factory=dict)
    best: dict[str, Any] = field(default_factory=dict)

    @property
    def tag(self) -> CheckpointTag:
        """The position as a checkpoint's tag."""
        return CheckpointTag(self.epoch, self.batch)


@dataclass(frozen=True, slots=True)
class FitSnapshot:
    """A copy of a fit's state that any thread can write while the fit continues."""

    state: dict[str, Any]
    devices: dict[str, NDArray]

    @classmethod
    def of(cls, state: FitState, module: HostedModule) -> FitSnapshot:
        """Copy the state, and with several devices the auxiliary states of each."""
        plain = {name: copy.deepcopy(getattr(state, name)) for name in FitState.__slots__}
        group = main_module(module.engine).executor_group
        if len(group.execs) < 2:
            return cls(plain, {})
        arrays = {
            f"{device}:{name}": array.copyto(cpu(0))
            for device, executor in enumerate(group.execs)
            for name, array in executor.aux_dict.items()
        }
        return cls(plain, arrays)

    def write(self, directory: Path) -> None:
        """Write it next to the module's files."""
        write_state(directory, self.state)
        if self.devices:
            save_arrays(str(directory / _DEVICES_FILE), self.devices)


def read_fit(module: HostedModule, directory: Path) -> FitState:
    """Read the state, and set the auxiliary states of each device.

    Raises:
        Damaged: the file is not one that ``FitSnapshot`` wrote.
    """
    try:
        state = FitState(**read_state(directory))
    except TypeError as error:
        raise Damaged(f"checkpoint {directory.name}", error, "one that a fit wrote") from None
    group = main_module(module.engine).executor_group
    devices = directory / _DEVICES_FILE
    if len(group.execs) > 1 and devices.exists():
        arrays = load_arrays(str(devices))
        assert isinstance(arrays, dict)
        for device, executor in enumerate(group.execs):
            for name, array in executor.aux_dict.items():
                arrays[f"{device}:{name}"].copyto(array)
    return state
