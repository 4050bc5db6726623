"""Whether this thread records operators, and whether they run as in training."""

from __future__ import annotations

from types import TracebackType

from ..ndarray.tape import mode

__all__ = [
    "is_recording",
    "is_training",
    "pause",
    "predict_mode",
    "record",
    "set_recording",
    "set_training",
    "train_mode",
]


def is_recording() -> bool:
    """Return whether operators are recorded."""
    return mode.recording


def is_training() -> bool:
    """Return whether operators run as in training (Dropout drops, BatchNorm uses its batch)."""
    return mode.training


def set_recording(is_recording: bool) -> bool:
    """Start or stop recording; return the previous state."""
    before, mode.recording = mode.recording, bool(is_recording)
    return before


def set_training(train_mode: bool) -> bool:
    """Switch training behaviour on or off; return the previous state."""
    before, mode.training = mode.training, bool(train_mode)
    return before


class _Scope:
    """A ``with`` block that changes the modes; None leaves a mode unchanged."""

    def __init__(self, recording: bool | None, training: bool | None) -> None:
        self._wanted = recording, training
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        recording, training = self._wanted
        self._before.append((mode.recording, mode.training))
        mode.recording = mode.recording if recording is None else recording
        mode.training = mode.training if training is None else training

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        mode.recording, mode.training = self._before.pop()


def record(train_mode: bool | None = True) -> _Scope:
    """Return a ``with`` block whose operators are recorded, by default as in training."""
    return _Scope(True, train_mode)


def pause(train_mode: bool | None = False) -> _Scope:
    """Return a ``with`` block whose operators are not recorded."""
    return _Scope(False, train_mode)


def train_mode() -> _Scope:
    """Return a ``with`` block whose operators run as in training; recording stays as it is."""
    return _Scope(None, True)


def predict_mode() -> _Scope:
    """Return a ``with`` block whose operators run as in inference; recording stays as it is."""
    return _Scope(None, False)
