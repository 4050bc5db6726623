"""NDArrayIter: names, last batch, copies and errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import core as mx


def rows(iterator: mx.io.NDArrayIter) -> list[list[float]]:
    return [one.data[0].asnumpy()[:, 0].tolist() for one in iterator]


DATA = np.arange(10, dtype=np.float32).reshape(10, 1)


def test_pad_fills_from_the_start() -> None:
    iterator = mx.io.NDArrayIter(DATA, batch_size=4)
    batches = list(iterator)
    assert [one.pad for one in batches] == [0, 0, 2]
    assert batches[-1].data[0].asnumpy()[:, 0].tolist() == [8, 9, 0, 1]


def test_pad_wraps_around_when_larger_than_the_data() -> None:
    (only,) = list(mx.io.NDArrayIter(DATA[:3], batch_size=8))
    assert only.data[0].asnumpy()[:, 0].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert only.pad == 5


def test_discard_drops_the_last_partial_batch() -> None:
    assert rows(mx.io.NDArrayIter(DATA, batch_size=4, last_batch_handle="discard")) == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ]


def test_roll_over_keeps_the_rest_for_the_next_epoch() -> None:
    iterator = mx.io.NDArrayIter(DATA, np.arange(10), 4, last_batch_handle="roll_over")
    assert rows(iterator) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    iterator.reset()
    first = next(iterator)
    assert first.data[0].asnumpy()[:, 0].tolist() == [8, 9, 0, 1]
    assert first.label[0].asnumpy().tolist() == [8, 9, 0, 1]
    assert next(iterator).data[0].asnumpy()[:, 0].tolist() == [2, 3, 4, 5]
    iterator.hard_reset()
    assert next(iterator).data[0].asnumpy()[:, 0].tolist() == [0, 1, 2, 3]


def test_shuffle_keeps_data_and_labels_together() -> None:
    np.random.seed(5)
    iterator = mx.io.NDArrayIter(DATA, DATA[:, 0] * 10, batch_size=5, shuffle=True)
    seen = []
    for one in iterator:
        values = one.data[0].asnumpy()[:, 0]
        np.testing.assert_array_equal(one.label[0].asnumpy(), values * 10)
        seen += values.tolist()
    assert sorted(seen) == list(range(10))
    assert seen != list(range(10))


@pytest.mark.parametrize("layout", ["NCHW", "TN"])
@pytest.mark.parametrize("last_batch_handle", ["pad", "discard", "roll_over"])
@pytest.mark.parametrize("wrap", [lambda one: one, mx.io.PrefetchingIter])
def test_changing_a_batch_in_place_leaves_the_data_set_as_it_was(
    layout: str, last_batch_handle: str, wrap: Callable[[mx.io.DataIter], mx.io.DataIter]
) -> None:
    source = mx.nd.array(np.full((5, 5), 8.0))
    iterator = wrap(
        mx.io.NDArrayIter(source, source, 2, last_batch_handle=last_batch_handle, layout=layout)
    )
    for _ in range(3):
        iterator.reset()
        for batch in iterator:
            for one in (*batch.data, *batch.label):
                assert (one.asnumpy() == 8).all()
                one /= 8
    assert (source.asnumpy() == 8).all()


def test_names_and_descriptions() -> None:
    iterator = mx.io.NDArrayIter({"b": DATA, "a": DATA}, [DATA[:, 0], DATA[:, 0]], batch_size=2)
    assert [d.name for d in iterator.provide_data] == ["a", "b"]
    assert [d.name for d in iterator.provide_label] == ["_0_softmax_label", "_1_softmax_label"]
    assert iterator.provide_data[0].shape == (2, 1)


def test_batch_axis_follows_the_layout() -> None:
    data = np.arange(12, dtype=np.float32).reshape(2, 6)
    iterator = mx.io.NDArrayIter(data, batch_size=4, layout="TN")
    first, second = list(iterator)
    assert first.data[0].asnumpy().tolist() == data[:, :4].tolist()
    assert second.data[0].asnumpy().tolist() == data[:, [4, 5, 0, 1]].tolist()
    assert iterator.provide_data[0].shape == (2, 4)


def test_nested_lists_become_arrays() -> None:
    iterator = mx.io.NDArrayIter({"b": [[1, 2], [3, 4]], "a": DATA[:2]}, batch_size=2)
    assert [tuple(desc) for desc in iterator.provide_data] == [("a", (2, 1)), ("b", (2, 2))]
    assert next(iterator).data[1].asnumpy().tolist() == [[1, 2], [3, 4]]


def test_resize_iter_wraps_around() -> None:
    iterator = mx.io.ResizeIter(mx.io.NDArrayIter(DATA, batch_size=5), 3)
    assert [one.data[0].asnumpy()[0, 0] for one in iterator] == [0, 5, 0]
    iterator.reset()
    assert len(list(iterator)) == 3


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: mx.io.NDArrayIter(DATA, DATA[:5]), ValueError, "has 5 examples, 'data' has 10"),
        (lambda: mx.io.NDArrayIter([]), ValueError, "no data arrays"),
        (lambda: mx.io.NDArrayIter("x"), TypeError, "data is str"),
        (lambda: mx.io.NDArrayIter({"a": "x"}), TypeError, "'a' is str"),
        (lambda: mx.io.NDArrayIter({"a": [[1], [2, 3]]}), TypeError, "'a' is list"),
        (lambda: mx.io.NDArrayIter({"a": 3}), ValueError, r"'a' has shape \(\), .* no axis 0"),
        (lambda: mx.io.NDArrayIter(DATA, last_batch_handle="keep"), ValueError, "'keep'"),
        (lambda: mx.io.DataBatch(mx.nd.zeros((2,))), TypeError, "expected a list"),
    ],
)
def test_errors_name_what_is_wrong(make: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()  # type: ignore[operator]


def test_descriptions_unpack_and_know_their_batch_axis() -> None:
    name, shape = mx.io.DataDesc("x", [2, 3])
    assert (name, shape) == ("x", (2, 3))
    assert mx.io.DataDesc.get_batch_axis("TNC") == 1
    assert mx.io.DataDesc.get_batch_axis("TC") == -1
    assert mx.io.DataDesc.get_batch_axis(None) == 0
    (listed,) = mx.io.DataDesc.get_list([("x", (2,))], [("x", np.float64)])
    assert listed.dtype is np.float64


@pytest.mark.parametrize("last_batch_handle", ["pad", "roll_over"])
def test_csr_data_needs_last_batch_discard(last_batch_handle: str) -> None:
    matrix = mx.nd.array([[0, 1], [2, 0], [3, 4]]).tostype("csr")
    with pytest.raises(NotImplementedError, match="last_batch_handle='discard'"):
        mx.io.NDArrayIter({"rows": matrix}, batch_size=2, last_batch_handle=last_batch_handle)
    (batch,) = mx.io.NDArrayIter(matrix, batch_size=2, last_batch_handle="discard")
    assert batch.data[0].asnumpy().tolist() == [[0, 1], [2, 0]]


def test_shuffling_csr_keeps_the_storage_type() -> None:
    dense = np.float32([[0, 1, 0], [2, 0, 3], [0, 0, 0], [4, 5, 6], [7, 0, 0]])
    np.random.seed(3)
    matrix = mx.nd.array(dense).tostype("csr")
    iterator = mx.io.NDArrayIter(matrix, dense[:, 0], 5, shuffle=True, last_batch_handle="discard")
    (batch,) = iterator
    (rows,), (labels,) = batch.data, batch.label
    rows.check_format()
    assert labels.asnumpy().tolist() != dense[:, 0].tolist()
    assert rows.asnumpy()[:, 0].tolist() == labels.asnumpy().tolist()
    assert sorted(rows.asnumpy().tolist()) == sorted(dense.tolist())


@pytest.mark.parametrize(
    ("last_batch_handle", "expected"),
    [
        ("pad", [[[0, 1], [2, 3], [4, 5, 6, 0]]] * 2),
        ("discard", [[[0, 1], [2, 3]]] * 2),
        ("roll_over", [[[0, 1], [2, 3]], [[4, 0], [1, 2], [3, 4]]]),
    ],
)
def test_there_may_be_more_labels_than_data(last_batch_handle: str, expected: list) -> None:
    """Batches match MXNet 1.9.1's; the extra labels end up in a padded batch."""
    iterator = mx.io.NDArrayIter(DATA[:5], np.arange(7), 2, last_batch_handle=last_batch_handle)
    passes = []
    for _ in range(2):
        passes.append([batch.label[0].asnumpy().tolist() for batch in iterator])
        iterator.reset()
    assert passes == expected
    shuffled = mx.io.NDArrayIter(DATA[:5], np.arange(7), 5, shuffle=True)
    (batch,) = shuffled
    assert batch.data[0].asnumpy().ravel().tolist() == batch.label[0].asnumpy().tolist()


def test_labels_can_be_replaced_by_named_ones() -> None:
    data = mx.io.NDArrayIter(np.ones((4, 2)), np.zeros(4), 2)
    data.label = mx.io._init_data(np.arange(4), allow_empty=True, default_name="svm_label")
    assert [desc.name for desc in data.provide_label] == ["svm_label"]
    assert data.next().label[0].asnumpy().tolist() == [0, 1]
    assert mx.io._init_data(None, allow_empty=True, default_name="x") == []
    with pytest.raises(AssertionError, match="x has no arrays"):
        mx.io._init_data([], allow_empty=False, default_name="x")
    with pytest.raises(TypeError, match="expected an NDArray"):
        mx.io._init_data("abc", allow_empty=False, default_name="x")


def test_an_iterator_may_have_no_labels() -> None:
    class Noise(mx.io.DataIter):
        def iter_next(self) -> bool:
            return True

        def getdata(self) -> list[mx.nd.NDArray]:
            return [mx.nd.ones((2, 3))]

    batch = Noise().next()
    assert batch.data[0].shape == (2, 3)
    assert (batch.label, batch.pad, batch.index) == (None, None, None)
    assert str(mx.io.DataBatch(None)) == "DataBatch: data shapes: None label shapes: None"
