"""Arrays of a dataset as batches of inputs. Expected values: NumPy."""

from __future__ import annotations

import os

import numpy as np
import pytest

from app.domain.dataset import ArrayInfo, DatasetKind, DatasetRecord
from app.domain.job_params import ArraySource, DatasetSource
from app.errors.tree import Conflict, Invalid
from app.executor.jobs.epoch_plan import PlannedBatch
from app.executor.jobs.examples import Examples, InputForm
from app.files import array_files
from app.link.job_messages import DatasetFile


@pytest.fixture
def load(tmp_path):
    """Make examples of arrays: ``load(arrays, sources, forms)``."""

    def make(arrays, sources, forms) -> Examples:
        path = tmp_path / "toy.npz"
        np.savez(path, **arrays)
        infos = tuple(
            ArrayInfo(name=name, shape=array.shape, dtype=array.dtype.name)
            for name, array in arrays.items()
        )
        record = DatasetRecord(
            name="toy", kind=DatasetKind.NPZ, arrays=infos, size=1, sha256="0" * 64
        )
        files = {"toy": DatasetFile(record=record, path=str(path))}
        return Examples(DatasetSource(dataset="toy", inputs=sources), files, forms)

    return make


def batch(rows, bucket=None) -> PlannedBatch:
    return PlannedBatch(np.array(rows), 0, bucket)


def test_images_are_scaled_and_reshaped_as_requested(load):
    images = np.arange(3 * 4 * 4, dtype=np.uint8).reshape(3, 4, 4)
    source = ArraySource(array="images", shape=(1, 4, 4), scale=1 / 255)
    examples = load({"images": images}, {"data": source}, [InputForm("data")])
    assert examples.count == 3
    assert examples.lengths is None
    (desc,) = examples.shapes(5, None)
    assert (desc.name, desc.shape, desc.dtype) == ("data", (5, 1, 4, 4), "float32")
    filled = examples.fill(batch([2, 0, 2]))["data"]
    assert filled.dtype == np.float32
    expected = (images[[2, 0, 2], None].astype(np.float32) * np.float32(1 / 255)).astype("f")
    np.testing.assert_array_equal(filled, expected)


def test_channels_last_are_moved_first(load):
    images = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    source = ArraySource(array="images", axes=(2, 0, 1))
    examples = load({"images": images}, {"data": source}, [InputForm("data")])
    assert examples.shapes(1, None)[0].shape == (1, 3, 4, 5)
    filled = examples.fill(batch([1, 0]))["data"]
    np.testing.assert_array_equal(filled, images[[1, 0]].transpose(0, 3, 1, 2))


def test_batches_of_one_size_reuse_their_memory(load):
    examples = load({"data": np.arange(6.0)}, {}, [InputForm("data")])
    first = examples.fill(batch([0, 1]))["data"]
    second = examples.fill(batch([4, 5]))["data"]
    assert np.shares_memory(first, second)
    assert second.tolist() == [4.0, 5.0]


@pytest.mark.parametrize(("layout", "axis"), [("NTC", 0), ("TNC", 1)])
def test_ragged_examples_are_padded_to_their_bucket(load, layout, axis):
    lengths = np.array([2, 0, 3], dtype=np.int32)
    frames = np.arange(10, dtype=np.float64).reshape(5, 2)
    sources = {"data": ArraySource(array="frames", lengths="lengths", padding=-1)}
    arrays = {"frames": frames, "lengths": lengths}
    examples = load(arrays, sources, [InputForm("data", layout=layout), InputForm("lengths")])
    assert examples.lengths.tolist() == [2, 0, 3]
    assert [desc.shape[axis] for desc in examples.shapes(4, 6)[:1]] == [4]
    filled = examples.fill(batch([2, 0, 1], bucket=4))
    expected = np.full((3, 4, 2), -1.0)
    expected[0, :3], expected[1, :2] = frames[2:], frames[:2]
    np.testing.assert_array_equal(np.moveaxis(filled["data"], axis, 0), expected)
    assert filled["lengths"].tolist() == [3.0, 2.0, 0.0]


def test_without_a_bucket_the_longest_example_decides(load):
    arrays = {"x": np.zeros(7), "n": np.array([3, 4])}
    examples = load(arrays, {"data": ArraySource(array="x", lengths="n")}, [InputForm("data")])
    assert examples.shapes(2, None)[0].shape == (2, 4)


@pytest.mark.parametrize(
    ("arrays", "sources", "field"),
    [
        ({"data": np.zeros((3, 2)), "label": np.zeros(4)}, {}, "inputs.label"),
        ({"data": np.zeros((0, 2)), "label": np.zeros(0)}, {}, "dataset"),
        ({"data": np.zeros(3)}, {}, "inputs.label.array"),
        ({"data": np.zeros(()), "label": np.zeros(1)}, {}, "inputs.data"),
        (
            {"data": np.zeros(3), "label": np.zeros(2), "n": np.array([1.5, 1.5])},
            {"data": ArraySource(array="data", lengths="n")},
            "inputs.data.lengths",
        ),
        (
            {"data": np.zeros(3), "label": np.zeros(2), "n": np.array([-1, 4])},
            {"data": ArraySource(array="data", lengths="n")},
            "inputs.data.lengths",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused(load, arrays, sources, field):
    with pytest.raises(Invalid) as refusal:
        load(arrays, sources, [InputForm("data"), InputForm("label")])
    assert refusal.value.field_errors()[0].field == field


@pytest.fixture(params=["npy", "npz"])
def in_place(request, tmp_path, monkeypatch):
    """Make a large file of an operator, and examples of it."""
    monkeypatch.setattr(array_files, "_LARGE_BYTES", 1)
    path = tmp_path / f"data.{request.param}"
    data = np.random.default_rng(1).random((4096, 3))
    (np.save if request.param == "npy" else np.savez)(path, **{ARRAY[request.param]: data})
    infos = (ArrayInfo(name="data", shape=data.shape, dtype="float64"),)
    record = DatasetRecord(
        name="toy",
        kind=DatasetKind(request.param),
        arrays=infos,
        size=1,
        sha256="0" * 64,
        path=str(path),
    )
    files = {"toy": DatasetFile(record=record, path=str(path))}
    source = DatasetSource(dataset="toy", inputs={"data": ArraySource(array="data", shape=(3, 1))})
    return path, data, Examples(source, files, [InputForm("data", dtype="float64")])


ARRAY = {"npy": "arr", "npz": "data"}
"""What NumPy's functions call the array."""


def test_files_of_others_are_read_row_by_row(in_place):
    _, data, examples = in_place
    rows = [4095, 7, 8, 9, 7, 0]
    np.testing.assert_array_equal(examples.fill(batch(rows))["data"], data[rows][:, :, None])
    assert examples.nbytes() < data.nbytes


def test_a_file_truncated_meanwhile_ends_only_its_job(in_place):
    """A map of the file would end the process, which no test could report."""
    path, _, examples = in_place
    os.truncate(path, 4096)
    with pytest.raises(Conflict, match="was changed while a job read it"):
        examples.fill(batch([0, 4095]))


def test_a_file_written_to_meanwhile_is_refused(in_place):
    path, _, examples = in_place
    with path.open("r+b") as file:
        file.seek(-8, os.SEEK_END)
        file.write(b"12345678")
    os.utime(path, ns=(1, 1))  # the clock of the file system may be too coarse for a test
    with pytest.raises(Conflict, match="was changed while a job read it"):
        examples.fill(batch([0]))


def test_files_in_fortran_order_are_read_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(array_files, "_LARGE_BYTES", 1)
    data = np.asfortranarray(np.random.default_rng(1).random((9, 3)))
    np.save(tmp_path / "data.npy", data)
    loaded = array_files.load_npy(tmp_path / "data.npy", ["data"], is_ours=False)["data"]
    os.truncate(tmp_path / "data.npy", 1)
    np.testing.assert_array_equal(loaded, data)
