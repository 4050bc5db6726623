"""A job's metric series: appended, truncated where a fit resumes, down-sampled when read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.errors.tree import Damaged, NotFound
from app.files.metric_series import SeriesWriter, read_series, series_names, series_path

NAMES = ["accuracy", "loss"]


def write(path: Path, start: int, end: int, before: tuple[int, int], per_epoch: int = 4) -> None:
    writer = SeriesWriter(path, NAMES, before)
    for step in range(start, end):
        writer.add(step // per_epoch, step % per_epoch, [None, float(step)])
    writer.close()


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    path = series_path(tmp_path, 7)
    write(path, 0, 10, (0, 0))
    assert series_names(path) == NAMES
    series = read_series(path, "loss", 100)
    assert series.total == 10
    assert series.values.tolist() == list(range(10))
    assert series.steps.tolist() == list(range(10))
    assert list(zip(series.epochs, series.batches, strict=True))[-1] == (2, 1)
    assert np.isnan(read_series(path, "accuracy", 100).values).all()


@pytest.mark.parametrize(("before", "kept"), [((0, 0), 0), ((1, 2), 6), ((2, 0), 8), ((9, 0), 10)])
def test_a_resumed_fit_shows_no_batch_twice(
    tmp_path: Path, before: tuple[int, int], kept: int
) -> None:
    path = series_path(tmp_path, 7)
    write(path, 0, 10, (0, 0))
    with path.open("ab") as file:
        file.write(b"cut off")
    write(path, kept, 12, before)
    assert read_series(path, "loss", 100).values.tolist() == list(range(12))
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_writes_of_a_dead_attempt_are_lost(tmp_path: Path) -> None:
    path = series_path(tmp_path, 7)
    zombie = SeriesWriter(path, NAMES, (0, 0))
    write(path, 0, 3, (0, 0))
    zombie.add(0, 9, [0.0, 9.0])
    zombie.close()
    assert read_series(path, "loss", 100).total == 3


def test_down_sampling_keeps_extremes(tmp_path: Path) -> None:
    path = series_path(tmp_path, 7)
    writer = SeriesWriter(path, ["loss"], (0, 0))
    values = np.sin(np.arange(5000) / 50)
    values[[1234, 4321]] = 7.0, -7.0
    values[100:160] = np.nan
    for step, value in enumerate(values):
        writer.add(0, step, [value])
    writer.close()
    series = read_series(path, "loss", 100)
    assert len(series.values) <= 100
    assert series.total == 5000
    assert {7.0, -7.0} <= set(series.values.tolist())
    assert (np.diff(series.steps) > 0).all()
    np.testing.assert_array_equal(series.values, values[series.steps])


def test_missing_series_are_reported(tmp_path: Path) -> None:
    path = series_path(tmp_path, 7)
    with pytest.raises(NotFound, match="a fit writes one"):
        read_series(path, "loss", 10)
    write(path, 0, 1, (0, 0))
    with pytest.raises(NotFound, match="accuracy, loss"):
        read_series(path, "acc", 10)
    path.write_bytes(b"\x00nonsense")
    with pytest.raises(Damaged):
        read_series(path, "loss", 10)


def test_a_series_can_be_closed_on_a_full_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = series_path(tmp_path, 7)
    writer = SeriesWriter(path, NAMES, (0, 0))
    writer._file.close()
    with Path("/dev/full").open("ab") as full:
        writer._file = full
        writer.add(0, 0, [None, 1.0])
        writer.close()
        assert full.closed
    assert "could not be written" in caplog.text
