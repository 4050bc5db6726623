"""Datasets in an operator's own files: read in place, never written, never removed."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.domain.dataset import DatasetKind
from app.errors.tree import Conflict, Damaged, InUse, Invalid, TooLarge
from app.services.modules.datasets import DatasetService
from app.services.operations.recovery_report import Outcome

K = DatasetKind


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The allowed folder, with a file."""
    folder = tmp_path / "operator"
    folder.mkdir()
    (folder / "data.csv").write_bytes(b"1,2\n3,4\n")
    return folder


@pytest.fixture
def datasets(bench: Any, folder: Path) -> DatasetService:
    return DatasetService(bench.store, bench.data_dir, 1 << 20, bench.clock, [folder])


def path_of(folder: Path, name: str = "data.csv") -> str:
    return str(folder / name)


def test_a_file_is_used_in_place(bench: Any, datasets: DatasetService, folder: Path) -> None:
    record = datasets.add("mine", path_of(folder), K.CSV)
    assert datasets.add("mine", path_of(folder), K.CSV) == record
    assert (record.path, record.examples) == (path_of(folder), 2)
    assert datasets.preview("mine") == {"data": [[1, 2], [3, 4]]}
    with datasets.open_file("mine")[1] as file:
        assert file.read() == b"1,2\n3,4\n"
    names = {path.name for path in (bench.data_dir / "datasets").iterdir()}
    assert names == {"mine.json", "digits.json", bench.datasets.get("digits").file_name}


def test_deleting_and_replacing_the_dataset_keeps_the_file(
    datasets: DatasetService, folder: Path
) -> None:
    datasets.add("mine", path_of(folder), K.CSV)
    with datasets.begin("mine") as upload:
        upload.write(b"7,8\n")
        datasets.commit(upload, "mine", K.CSV)
    assert datasets.get("mine").path is None
    own = datasets.path(datasets.get("mine"))
    datasets.add("mine", path_of(folder), K.CSV)
    assert not own.exists()
    datasets.delete("mine")
    assert (folder / "data.csv").read_bytes() == b"1,2\n3,4\n"


@pytest.mark.parametrize(
    "path", ["data.csv", "/etc/passwd", "{}/../outside.csv", "{}/leads-out", "{}/leads-out-too/x"]
)
def test_nothing_outside_the_folders_is_read(
    datasets: DatasetService, folder: Path, tmp_path: Path, path: str
) -> None:
    (tmp_path / "outside.csv").write_bytes(b"1\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_bytes(b"1\n")
    (folder / "leads-out").symlink_to(tmp_path / "outside.csv")
    (folder / "leads-out-too").symlink_to(tmp_path / "outside")
    with pytest.raises(Invalid, match=r"path: .*MODSERVE_DATASET_FOLDERS"):
        datasets.add("x", path.format(folder), K.CSV)


def test_paths_that_are_not_files_are_refused(datasets: DatasetService, folder: Path) -> None:
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "big.csv").write_bytes(b"1\n" * (1 << 20))
    for name, error, text in (
        ("folder", Invalid, "regular file"),
        ("pipe", Invalid, "regular file"),
        ("gone.csv", Invalid, "can be read"),
        ("big.csv", TooLarge, "the limit is"),
        ("nul\0", Invalid, "absolute path"),
    ):
        with pytest.raises(error, match=text):
            datasets.add("x", path_of(folder, name), K.CSV)
    with pytest.raises(Damaged):
        datasets.add("x", path_of(folder), K.NPZ)
    with pytest.raises(Invalid, match="name"):
        datasets.add("../x", path_of(folder), K.CSV)


def test_a_changed_file_is_not_read(datasets: DatasetService, folder: Path) -> None:
    record = datasets.add("mine", path_of(folder), K.CSV)
    file = folder / "data.csv"
    os.utime(file, (1, 1))
    assert datasets.path(record) == file, "a new time, but the same content"
    for content in (b"1,2\n3,5\n", b"1,2\n"):
        file.write_bytes(content)
        with pytest.raises(Conflict, match=r"has changed since it was added.*POST /v1/datasets"):
            datasets.preview("mine")
    file.unlink()
    with pytest.raises(Conflict, match="has changed since"):
        datasets.open_file("mine")
    file.symlink_to("/etc/passwd")
    with pytest.raises(Conflict, match="has changed since"):
        datasets.path(record)
    datasets.delete("mine")


def test_a_folder_no_longer_allowed_is_refused(
    bench: Any, datasets: DatasetService, folder: Path
) -> None:
    datasets.add("mine", path_of(folder), K.CSV)
    with pytest.raises(Conflict, match="MODSERVE_DATASET_FOLDERS"):
        bench.datasets.preview("mine")


def test_a_job_on_a_changed_file_says_so(
    bench: Any, datasets: DatasetService, folder: Path
) -> None:
    file = io.BytesIO()
    np.savez(file, data=np.zeros((4, 3), "f"), softmax_label=np.arange(4))
    (folder / "toy.npz").write_bytes(file.getvalue())
    datasets.add("toy", path_of(folder, "toy.npz"), K.NPZ)
    job = bench.fit(dataset="toy")
    with pytest.raises(InUse):
        datasets.delete("toy")
    (folder / "toy.npz").unlink()
    bench.runs._datasets = datasets
    with pytest.raises(Conflict, match="of dataset 'toy' has changed since it was added"):
        bench.runs.start_message(bench.claim())
    bench.jobs.cancel(job.id)


def test_recovery_finds_the_record_and_reports_a_missing_file(
    bench: Any, datasets: DatasetService, make_fresh: Any, folder: Path
) -> None:
    record = datasets.add("mine", path_of(folder), K.CSV)
    (folder / "data.csv").unlink()
    other = make_fresh(bench.data_dir)
    found = {(one.name, one.outcome) for one in other.recovery.run(rebuild=False).findings}
    assert {("mine", Outcome.IMPORTED), ("mine", Outcome.DAMAGED)} <= found
    assert other.datasets.get("mine").path == record.path


def test_a_missing_or_truncated_file_of_ours_is_reported(bench: Any) -> None:
    record = bench.datasets.get("digits")
    path = bench.datasets.path(record)
    path.write_bytes(b"cut")
    with pytest.raises(Damaged, match="dataset digits: got 3 bytes"):
        bench.datasets.path(record)
    path.unlink()
    with pytest.raises(Damaged, match="upload it again"):
        bench.datasets.preview("digits")
