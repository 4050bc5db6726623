"""Benchmark cases: each returns a step to repeat and the number of samples per step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np

import core as mx
from app.cli.bench.models import MODELS, lstm_language_model

__all__ = ["CASES", "ENGINE", "Case"]


class Case(NamedTuple):
    """A step ready to run."""

    step: Callable[[], None]
    samples: int


_SGD = (("learning_rate", 0.05), ("momentum", 0.9))


def _batch(shape: tuple[int, ...]) -> mx.io.DataBatch:
    random = np.random.RandomState(0)
    data = mx.nd.array(random.randn(*shape).astype(np.float32))
    label = mx.nd.array(random.randint(0, 10, shape[:1]).astype(np.float32))
    return mx.io.DataBatch([data], [label])


def _module(name: str, batch: int, training: bool) -> tuple[mx.mod.Module, tuple[int, ...]]:
    build, example = MODELS[name]
    shape = (batch, *example)
    module = mx.mod.Module(build(), context=mx.cpu())
    labels = [("softmax_label", (batch,))] if training else None
    module.bind([("data", shape)], labels, for_training=training)
    module.init_params(mx.init.Xavier())
    return module, shape


def _quantized(module: mx.mod.Module, batch: mx.io.DataBatch) -> mx.mod.Module:
    symbol, arguments, auxiliary = mx.contrib.quantization.quantize_model(
        module.symbol,
        *module.get_params(),
        calib_mode="naive",
        calib_data=mx.io.NDArrayIter(batch.data, batch.label, batch_size=len(batch.data[0])),
        quantized_dtype="auto",
    )
    made = mx.mod.Module(symbol, context=mx.cpu())
    made.bind(module.data_shapes, for_training=False)
    made.set_params(arguments, dict(auxiliary))
    return made


@contextmanager
def train(name: str, batch: int) -> Iterator[Case]:
    """Forward, backward and update of one batch."""
    module, shape = _module(name, batch, training=True)
    module.init_optimizer(optimizer="sgd", optimizer_params=_SGD)
    data = _batch(shape)

    def step() -> None:
        module.forward_backward(data)
        module.update()

    yield Case(step, batch)


@contextmanager
def infer(name: str, batch: int, *, on_bytes: bool = False) -> Iterator[Case]:
    """Forward pass of one batch, outputs on the host; in float32, or quantized to int8."""
    module, shape = _module(name, batch, training=False)
    data = _batch(shape)
    if on_bytes:
        module = _quantized(module, data)

    def step() -> None:
        module.forward(data, is_train=False)
        module.get_outputs()[0].asnumpy()

    yield Case(step, batch)


@contextmanager
def train_lstm(
    batch: int = 32, vocabulary: int = 10000, *, is_unrolled: bool = False
) -> Iterator[Case]:
    """Bucketed language model: one step in each of the buckets 10 to 60; samples are tokens."""
    keys = [10, 20, 30, 40, 50, 60]

    def model(key: int) -> tuple[mx.sym.Symbol, tuple[str], tuple[str]]:
        symbol = lstm_language_model(key, vocabulary, is_unrolled=is_unrolled)
        return symbol, ("data",), ("softmax_label",)

    module = mx.mod.BucketingModule(
        model,
        default_bucket_key=max(keys),
        context=mx.cpu(),
    )

    def descriptions(name: str, key: int) -> list[mx.io.DataDesc]:
        return [mx.io.DataDesc(name, (batch, key), layout="NT")]

    module.bind(descriptions("data", max(keys)), descriptions("softmax_label", max(keys)))
    module.init_params(mx.init.Uniform(0.1))
    module.init_optimizer(optimizer="sgd", optimizer_params=(("learning_rate", 0.01),))
    random = np.random.RandomState(0)
    batches = [
        mx.io.DataBatch(
            [mx.nd.array(random.randint(0, vocabulary, (batch, key)))],
            [mx.nd.array(random.randint(0, vocabulary, (batch, key)))],
            bucket_key=key,
            provide_data=descriptions("data", key),
            provide_label=descriptions("softmax_label", key),
        )
        for key in keys
    ]

    def step() -> None:
        for one in batches:
            module.forward_backward(one)
            module.update()

    yield Case(step, batch * sum(keys))


CASES: Mapping[str, Callable[[], object]] = {
    "infer/mlp/1": partial(infer, "mlp", 1),
    "infer/lenet/1": partial(infer, "lenet", 1),
    "infer/resnet20/64": partial(infer, "resnet20", 64),
    "infer/resnet50/1": partial(infer, "resnet50", 1),
    "infer/resnet50/8": partial(infer, "resnet50", 8),
    "infer/lenet_int8/1": partial(infer, "lenet", 1, on_bytes=True),
    "infer/resnet50_int8/1": partial(infer, "resnet50", 1, on_bytes=True),
    "train/mlp/64": partial(train, "mlp", 64),
    "train/lenet/64": partial(train, "lenet", 64),
    "train/resnet18/8": partial(train, "resnet18", 8),
    "train/resnet20/64": partial(train, "resnet20", 64),
    "train/lstm/buckets": train_lstm,
    "train/lstm_unrolled/buckets": partial(train_lstm, is_unrolled=True),
}
"""Cases in this process, by name: work/network/batch."""

ENGINE: tuple[str, ...] = (
    "infer/resnet50/1",
    "infer/resnet50/8",
    "infer/lenet/1",
    "infer/mlp/1",
    "train/mlp/64",
    "train/lenet/64",
    "train/resnet20/64",
    "train/resnet18/8",
    "train/lstm/buckets",
)
"""The work on which engines are compared (``tests/benchmarks/compare_engines.py``)."""
