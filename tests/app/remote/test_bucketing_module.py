"""A bucketing module on a server, used by the code for a local one."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import core as mx
from app.client.local_server import ServerProcess, running_server
from app.remote import RemoteBucketingModule
from core.cpus import available_cpus

BATCH, WORDS = 4, 12
BUCKETS = [4, 7, 9]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    # As many threads as this process, since they decide how sums are split.
    threads = os.environ.get("OMP_NUM_THREADS", str(available_cpus()))
    folder = tmp_path_factory.mktemp("remote") / "var"
    with running_server(folder, environment={"MODSERVE_THREADS": threads}) as one:
        yield one


def language_model(steps: int) -> Any:
    stack = mx.rnn.LSTMCell(8, prefix="lstm_")
    embedded = mx.sym.Embedding(
        mx.sym.Variable("data"), input_dim=WORDS, output_dim=6, name="embed"
    )
    outputs, _ = stack.unroll(steps, embedded, layout="NTC", merge_outputs=True)
    scores = mx.sym.FullyConnected(
        mx.sym.Reshape(outputs, shape=(-1, 8)), num_hidden=WORDS, name="scores"
    )
    labels = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
    return mx.sym.SoftmaxOutput(scores, labels, name="softmax"), ("data",), ("softmax_label",)


def sentences() -> Any:
    state = np.random.RandomState(2)
    rows = [state.randint(1, WORDS, state.choice(BUCKETS)).tolist() for _ in range(60)]
    return mx.rnn.BucketSentenceIter(rows, BATCH, buckets=BUCKETS, invalid_label=0)


def script(make: Callable[..., Any]) -> dict[str, Any]:
    random.seed(4)
    np.random.seed(4)
    mx.random.seed(4)
    train = sentences()
    module = make(language_model, train.default_bucket_key, context=mx.cpu())
    perplexity = mx.metric.Perplexity(0)
    module.fit(
        train,
        eval_metric=perplexity,
        optimizer="sgd",
        optimizer_params={"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-4},
        initializer=mx.init.Xavier(),
        num_epoch=2,
    )
    train.reset()
    scores = module.score(train, mx.metric.Perplexity(0))
    return {
        "score": scores,
        **{name: one.asnumpy() for name, one in module.get_params()[0].items()},
    }


def test_one_script_gives_the_same_locally_and_remotely(server: ServerProcess) -> None:
    made: list[RemoteBucketingModule] = []

    def remote(*args: Any, **options: Any) -> RemoteBucketingModule:
        made.append(RemoteBucketingModule(*args, server=server.url, **options))
        return made[-1]

    here, there = script(mx.mod.BucketingModule), script(remote)
    assert here.keys() == there.keys()
    for name, value in here.items():
        np.testing.assert_equal(there[name], value, err_msg=name)
    (module,) = made
    assert set(module.client.buckets(module.name)) == {str(key) for key in BUCKETS}
    module.close()


def test_buckets_not_sent_to_the_server_are_refused(server: ServerProcess) -> None:
    with RemoteBucketingModule(language_model, 9, server=server.url, bucket_keys=[7]) as module:
        with pytest.raises(mx.base.MXNetError, match="only after bind"):
            print(module.name)
        module.bind([("data", (BATCH, 9))], [("softmax_label", (BATCH, 9))])
        module.init_params()
        module.switch_bucket(7, [("data", (BATCH, 7))], [("softmax_label", (BATCH, 7))])
        with pytest.raises(mx.base.MXNetError, match="bucket_keys"):
            module.switch_bucket(4, [("data", (BATCH, 4))], [("softmax_label", (BATCH, 4))])
