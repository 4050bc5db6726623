"""Datasets, samplers and batchify functions, where MXNet 1.9.1 is no oracle."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import UsageError
from core.gluon.data import (
    ArrayDataset,
    BatchSampler,
    DataLoader,
    IntervalSampler,
    RecordFileDataset,
    Sampler,
    SimpleDataset,
    batchify,
)


def write_records(folder: Path, count: int) -> str:
    writer = mx.recordio.MXIndexedRecordIO(str(folder / "x.idx"), str(folder / "x.rec"), "w")
    for number in range(count):
        writer.write_idx(number, f"record {number}".encode() * (number + 1))
    writer.close()
    return str(folder / "x.rec")


def test_workers_and_threads_read_the_same_records(tmp_path: Path) -> None:
    count = 60
    dataset = RecordFileDataset(write_records(tmp_path, count))
    assert len(dataset) == count
    expected = [f"record {number}".encode() * (number + 1) for number in range(count)]
    for options in ({}, {"num_workers": 2}, {"num_workers": 4, "thread_pool": True}):
        loader = DataLoader(dataset, 4, batchify_fn=batchify.AsList(), **options)
        assert [one for batch in loader for one in batch] == expected
    assert pickle.loads(pickle.dumps(dataset))[2] == expected[2]


def test_each_thread_has_its_own_file_handle(tmp_path: Path) -> None:
    dataset = RecordFileDataset(write_records(tmp_path, 2))
    files = [dataset._record]
    thread = threading.Thread(target=lambda: files.append(dataset._record))
    thread.start()
    thread.join()
    assert files[0] is dataset._record
    assert files[1] is not files[0]


def test_array_dataset_zips_its_arrays() -> None:
    images, labels = mx.nd.arange(6).reshape(3, 2), mx.nd.array([4, 5, 6])
    dataset = ArrayDataset(images, labels)
    image, label = dataset[1]
    assert image.asnumpy().tolist() == [2, 3]
    assert isinstance(label, np.float32)
    assert ArrayDataset([7, 8])[1] == 8
    with pytest.raises(UsageError, match=r"array\[0\] has length 3 while array\[1\] has 2"):
        ArrayDataset(images, [1, 2])
    with pytest.raises(UsageError, match="at least one array"):
        ArrayDataset()


def test_invalid_shards_and_samplers_are_refused() -> None:
    dataset = SimpleDataset([1, 2, 3])
    for shards, index in ((2, 2), (2, -1), (0, 0)):
        with pytest.raises(UsageError, match="is not among"):
            dataset.shard(shards, index)
    with pytest.raises(TypeError, match="Invalid sampler type"):
        dataset.sample([0, 1])  # type: ignore[arg-type]


def test_transform_passes_each_element_of_an_example() -> None:
    dataset = SimpleDataset([(1, 2), (3, 4)])
    assert dataset.transform(lambda a, b: a * b)[1] == 12
    assert dataset.transform_first(lambda a: -a)[1] == (-3, 4)
    calls: list[int] = []
    lazy = SimpleDataset([5]).transform(lambda x: calls.append(x))
    assert not calls
    assert [lazy[0], lazy[0]] == [None, None]
    assert calls == [5, 5]


def test_interval_sampler_takes_every_nth_index() -> None:
    assert list(IntervalSampler(7, 3)) == [0, 3, 6, 1, 4, 2, 5]
    assert list(mx.gluon.contrib.data.IntervalSampler(7, 3, rollover=False)) == [0, 3, 6]
    assert SimpleDataset("abcdefg").sample(IntervalSampler(7, 3))[2] == "g"
    with pytest.raises(UsageError, match="interval is 8; expected at most length, 7"):
        IntervalSampler(7, 8)


def test_undefined_methods_and_modes_are_errors() -> None:
    with pytest.raises(NotImplementedError, match="Sampler must define __iter__"):
        list(Sampler())
    with pytest.raises(ValueError, match="'keep', 'discard', or 'rollover', but got drop"):
        BatchSampler([1], 1, "drop")


def values(batch: Any) -> Any:
    if isinstance(batch, (list, tuple)):
        return [values(one) for one in batch]
    return batch.asnumpy().tolist()


def test_stack_batchify_joins_along_a_new_axis() -> None:
    stack = batchify.Stack()
    assert values(stack([1, 2])) == [1, 2]
    assert stack([1, 2]).dtype == np.int64
    assert values(stack([([1, 2], 5.0), ([3, 4], 6.0)])) == [[[1, 3], [2, 4]], [5, 6]]
    arrays = [np.ones((2, 1), "uint8"), np.zeros((2, 1), "uint8")]
    assert stack(arrays).dtype == np.uint8
    shared = batchify.Stack(use_shared_mem=True)([mx.nd.ones(2), mx.nd.zeros(2)])
    assert values(shared) == [[1, 1], [0, 0]]
    assert str(shared.context) == "cpu_shared(0)"


def test_pad_batchify_pads_to_the_longest() -> None:
    assert values(batchify.Pad()([[1, 2, 3], [4]])) == [[1, 2, 3], [4, 0, 0]]
    squares = [np.ones((2, 1), "float32"), np.ones((1, 3), "float32")]
    padded = batchify.Pad(val=-1, dtype="int32", round_to=4)(squares)
    assert padded.shape == (2, 4, 4)
    assert padded.dtype == np.int32
    assert values(padded)[1][:2] == [[1, 1, 1, -1], [-1] * 4]
    pad = batchify.Pad(use_shared_mem=True)
    with pytest.warns(UserWarning, match="discouraged for speed reasons"):
        assert str(pad([mx.nd.ones(2), mx.nd.ones(1)]).context) == "cpu_shared(0)"
    with pytest.raises(NotImplementedError, match="use Group"):
        pad([(1, 2)])


def test_append_group_and_as_list_batchify() -> None:
    append = batchify.Append()
    assert [one.shape for one in append([[1, 2, 3], mx.nd.ones((4, 5))])] == [(1, 3), (1, 4, 5)]
    plain = batchify.Append(expand=False, use_shared_mem=True)
    assert [one.shape for one in plain([[1, 2, 3], [4]])] == [(3,), (1,)]
    group = batchify.Group(batchify.Pad(), batchify.Stack(), batchify.AsList())
    padded, stacked, texts = group([([1, 2], 3, "a"), ([4], 5, "b")])
    assert (values(padded), values(stacked), texts) == ([[1, 2], [4, 0]], [3, 5], ["a", "b"])
    assert len(batchify.Group([batchify.AsList(), batchify.AsList()])([(1, 2)])) == 2
    with pytest.raises(UsageError, match="an example has 2 elements; Group has 3 functions"):
        group([(1, 2)])
    with pytest.raises(UsageError, match=r"type\(fn\[1\]\)"):
        batchify.Group(batchify.AsList(), 3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a list and 1 more"):
        batchify.Group([batchify.AsList()], batchify.AsList())
