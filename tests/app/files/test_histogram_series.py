"""Histograms over time: counts, retention, and the limit on file size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.domain.named_arrays import NamedArray
from app.errors.tree import Damaged, NotFound
from app.files import histogram_series
from app.files.histogram_series import (
    BINS,
    HistogramWriter,
    histogram_of,
    histograms_path,
    read_histograms,
)
from app.files.metric_series import series_path

WEIGHT, GRADIENT = NamedArray("parameter", "fc:weight"), NamedArray("gradient", "fc:weight")


def random(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("f")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return histograms_path(series_path(tmp_path, 7))


def write(path: Path, steps: range, before: tuple[int, int] = (0, 0)) -> None:
    writer = HistogramWriter(path, [WEIGHT, GRADIENT], before)
    for step in steps:
        made = [histogram_of([random(step, 9)]), histogram_of([random(step + 1000, 5)])]
        writer.add(step // 4, step % 4, made)
    writer.close()


def test_elements_are_counted_as_by_numpy() -> None:
    one, other = random(1, 40, 50), random(2, 1000)
    one[0, :3] = np.nan, np.inf, -np.inf
    found = histogram_of([one, other])
    finite = np.concatenate([one[np.isfinite(one)], other])
    counts, edges = np.histogram(finite, BINS)
    assert found["counts"].tolist() == counts.tolist()
    assert (found["low"], found["high"]) == (edges[0].astype("f"), edges[-1].astype("f"))
    assert found["nonfinite"] == 3


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    "ends",
    [(1.0, float(np.nextafter(np.float32(1), np.float32(2)))), (-3e38, 3e38), (0.0, 1e-45)],
    ids=["close", "far", "tiny"],
)
def test_edges_may_be_any_numbers(ends: tuple[float, float], dtype: str) -> None:
    found = histogram_of([np.array([ends[0], ends[1], ends[1]], dtype)])
    assert (found["counts"][0], found["counts"][-1], found["counts"].sum()) == (1, 2, 3)
    assert (found["low"], found["high"]) == (np.float32(ends[0]), np.float32(ends[1]))


def test_values_beyond_float32_count_as_not_finite() -> None:
    found = histogram_of([np.array([1.0, 1e300])])
    assert (found["counts"].sum(), found["nonfinite"]) == (1, 1)


@pytest.mark.parametrize(
    ("values", "count", "nonfinite"),
    [([], 0, 0), ([np.nan], 0, 1), ([2.0, 2.0, np.inf], 2, 1)],
)
def test_empty_and_constant_arrays(values: list[float], count: int, nonfinite: int) -> None:
    found = histogram_of([np.array(values, "f")])
    assert (found["counts"].sum(), found["nonfinite"]) == (count, nonfinite)
    assert found["low"] == found["high"] == (2.0 if count else 0.0)


def test_what_was_written_is_read_back(path: Path) -> None:
    write(path, range(10))
    found = read_histograms(path, GRADIENT, 100)
    assert found.arrays == [WEIGHT, GRADIENT]
    assert found.total == 10
    assert list(zip(found.epochs, found.batches, strict=True))[-1] == (2, 1)
    assert found.counts.shape == (10, BINS)
    for step, low in enumerate(found.lows):
        assert low == random(step + 1000, 5).min()
    assert read_histograms(path, None, 100).array == WEIGHT
    few = read_histograms(path, WEIGHT, 4)
    assert few.total == 10
    assert len(few.epochs) == 4
    assert few.lows.tolist() == [random(step, 9).min() for step in (0, 3, 6, 9)]


def test_a_resumed_fit_shows_no_batch_twice(path: Path) -> None:
    write(path, range(10))
    write(path, range(6, 12), before=(1, 2))
    found = read_histograms(path, WEIGHT, 100)
    assert found.lows.tolist() == [random(step, 9).min() for step in range(12)]


def test_a_file_grows_only_to_its_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histogram_series, "_MOST_BYTES", 20 * 300)
    writer = HistogramWriter(path, [WEIGHT, GRADIENT], (0, 0))
    for step in range(1000):
        if writer.begin_batch():
            writer.add(0, step, [histogram_of([random(step, 9)])] * 2)
            writer.flush()
            assert path.stat().st_size < 23 * 300
    writer.close()
    batches = read_histograms(path, WEIGHT, 1000).batches
    assert len(batches) > 8
    assert batches[0] == 0
    assert len(set(np.diff(batches).tolist())) == 1  # evenly spaced to the end
    assert batches[-1] > 1000 - 2 * np.diff(batches)[0]


def test_missing_series_are_reported(path: Path) -> None:
    with pytest.raises(NotFound, match="with a monitor"):
        read_histograms(path, None, 10)
    write(path, range(0))
    assert read_histograms(path, None, 10).total == 0
    with pytest.raises(NotFound, match="parameter fc:weight, gradient fc:weight"):
        read_histograms(path, NamedArray("parameter", "fc"), 10)


@pytest.mark.parametrize("name", ["fc_weight", "output:fc"])
def test_a_file_naming_unknown_arrays_is_damaged(path: Path, name: str) -> None:
    write(path, range(3))
    header, _, records = path.read_bytes().partition(b"\n")
    path.write_bytes(header.replace(b"parameter:fc:weight", name.encode()) + b"\n" + records)
    with pytest.raises(Damaged, match=name):
        read_histograms(path, None, 10)
