"""``FeedForward``, the predecessor of ``Module``, against MXNet 1.9.1."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.feed_forward import CASES, make_model, run_case

DATA = np.random.RandomState(0).normal(size=(10, 12)).astype("float32")
LABELS = (np.arange(10) % 4).astype("float32")

WARNED = "Please use mxnet.mod.Module"


@pytest.mark.parametrize("case_id", CASES)
def test_training_matches_mxnet(case_id: str) -> None:
    golden, results = golden_file.case("feed_forward", case_id), run_case(mx, case_id)
    assert results.keys() == golden.keys()
    for key, got in results.items():
        assert_close(f"{case_id} {key}", got, golden[key], tolerance=1e-5)


def test_it_warns_of_deprecation() -> None:
    with pytest.warns(DeprecationWarning, match=WARNED):
        mx.model.FeedForward(mx.sym.Variable("data"))


def test_checkpoints_are_saved_and_loaded(tmp_path: Path) -> None:
    model = make_model(mx, {})
    model.fit(DATA, LABELS)
    model.save(str(tmp_path / "m"))
    with pytest.warns(DeprecationWarning, match=WARNED):
        again = mx.model.FeedForward.load(str(tmp_path / "m"), 3, mx.cpu(), num_epoch=4)
    assert again.begin_epoch == 3
    np.testing.assert_array_equal(again.predict(DATA), model.predict(DATA))
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict(DATA), model.predict(DATA))


def test_predict_follows_changed_parameters_and_batch_sizes() -> None:
    model = make_model(mx, {})
    before = model.predict(DATA)
    model.fit(DATA, LABELS)
    after = model.predict(DATA)
    assert not np.allclose(before, after)
    np.testing.assert_allclose(model.predict(DATA[:2]), after[:2], rtol=1e-5)


def test_create_builds_and_trains() -> None:
    epochs = []
    with pytest.warns(DeprecationWarning, match=WARNED):
        model = mx.model.FeedForward.create(
            make_model(mx, {}).symbol,
            DATA,
            LABELS,
            num_epoch=2,
            learning_rate=0.1,
            initializer=mx.init.Xavier(),
            epoch_end_callback=lambda epoch, symbol, arguments, auxiliary: epochs.append(epoch),
        )
    assert epochs == [0, 1]
    assert model.predict(DATA).shape == (10, 4)


def test_extra_parameters_are_dropped_where_allowed() -> None:
    extra = {"fc0_bias": mx.nd.ones((16,)), "other": mx.nd.ones((1,))}
    with pytest.warns(DeprecationWarning, match=WARNED):
        model = mx.model.FeedForward(
            make_model(mx, {}).symbol, arg_params=extra, allow_extra_params=True
        )
    assert list(model.arg_params) == ["fc0_bias"]


def test_a_symbol_function_serves_buckets() -> None:
    def symbol(length: int) -> Any:
        words = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=9, output_dim=4, name="words")
        out = mx.sym.FullyConnected(mx.sym.sum(words, axis=1), num_hidden=3, name="out")
        return mx.sym.SoftmaxOutput(out, name="softmax")

    class Sentences(mx.io.DataIter):
        default_bucket_key = 6
        provide_data = (mx.io.DataDesc("data", (2, 6)),)
        provide_label = (mx.io.DataDesc("softmax_label", (2,)),)

        def __iter__(self) -> Any:
            for length in (6, 4, 5):
                yield mx.io.DataBatch(
                    [mx.nd.ones((2, length))],
                    [mx.nd.array([0, 2])],
                    bucket_key=length,
                    provide_data=[mx.io.DataDesc("data", (2, length))],
                    provide_label=self.provide_label,
                )

    with pytest.warns(DeprecationWarning, match=WARNED):
        model = mx.model.FeedForward(symbol, num_epoch=2, learning_rate=0.1)
    counts: list[int] = []
    model.fit(Sentences(2), batch_end_callback=lambda param: counts.append(param.nbatch))
    assert counts == [1, 2, 3] * 2
    assert set(model.arg_params) == {"words_weight", "out_weight", "out_bias"}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda model: model.fit(DATA), ValueError, "y must be specified"),
        (lambda model: model.fit(DATA, [0] * 10), TypeError, "y must be ndarray"),
        (lambda model: model.fit(DATA, LABELS[:9]), ValueError, "not equal: 10 and 9"),
        (lambda model: model.fit(DATA, DATA), ValueError, "Label must be 1D or 2D"),
        (lambda model: model.fit([1.0], LABELS), TypeError, "X must be DataIter"),
        (lambda model: model.fit(DATA, LABELS, eval_data=DATA), TypeError, "pair"),
        (lambda model: model.fit(DATA, LABELS, eval_data=(None, 1)), ValueError, "data is NONE"),
        (lambda model: model.predict("x"), TypeError, "X must be DataIter"),
    ],
)
def test_invalid_arguments_are_refused(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(make_model(mx, {}))


def test_missing_num_epoch_or_parameters_are_refused(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match=WARNED):
        model = mx.model.FeedForward(make_model(mx, {}).symbol)
    with pytest.raises(ValueError, match="num_epoch is None"):
        model.fit(DATA, LABELS)
    with pytest.raises(AssertionError, match="epoch is None"):
        model.save(str(tmp_path / "m"))
    with pytest.raises(AssertionError, match="call fit"):
        model.predict(DATA)
    with (
        pytest.warns(DeprecationWarning, match=WARNED),
        pytest.raises(AssertionError, match="expected a Symbol"),
    ):
        mx.model.FeedForward("lenet")
    twice = mx.sym.Variable("data") + mx.sym.Variable("data")
    with (
        pytest.warns(DeprecationWarning, match=WARNED),
        pytest.raises(ValueError, match="named 'data'"),
    ):
        mx.model.FeedForward(twice)


def test_an_epoch_size_needs_batches() -> None:
    class Empty(mx.io.DataIter):
        provide_data = (mx.io.DataDesc("data", (2, 12)),)
        provide_label = (mx.io.DataDesc("softmax_label", (2,)),)

        def next(self) -> Any:
            raise StopIteration

    with pytest.raises(AssertionError, match="have no batch; epoch_size is 3"):
        make_model(mx, {"epoch_size": 3}).fit(Empty(2))
