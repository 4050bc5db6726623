"""Japanese Vowels: utterances in buckets, and the training that reaches 95 % in MXNet.

Run in the MXNet environment to see what MXNet reaches: ``python tests/oracle/vowels.py``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

if __name__ == "__main__":
    os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from oracle import networks

__all__ = ["BATCH_SIZE", "BUCKETS", "EPOCHS", "OPTIMIZER", "Batch", "make_batches", "train"]

BUCKETS = (12, 18, 24, 30)
BATCH_SIZE = 27
EPOCHS = 30
OPTIMIZER = {"learning_rate": 0.3, "momentum": 0.9}
"""For ``sgd``; the initializer is ``Xavier()``."""

_FILE = Path(__file__).resolve().parents[2] / "app" / "guides" / "files" / "japanese_vowels.npz"


class Batch(NamedTuple):
    """Utterances of one bucket, padded with zeros; the last ``pad`` rows repeat others."""

    bucket: int
    data: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray
    pad: int


def load(part: str) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Return utterances [(length, 12)], lengths and labels of ``train`` or ``test``."""
    with np.load(_FILE) as archive:
        lengths = archive[f"{part}_lengths"]
        utterances = np.split(archive[f"{part}_frames"], np.cumsum(lengths)[:-1])
        return utterances, lengths, archive[f"{part}_labels"]


def make_batches(part: str, random: np.random.RandomState | None = None) -> Iterator[Batch]:
    """Yield the batches of one pass over ``train`` or ``test``, shuffled when given ``random``."""
    utterances, lengths, labels = load(part)
    plan: list[tuple[int, np.ndarray, int]] = []
    for low, bucket in zip((0, *BUCKETS), BUCKETS, strict=False):
        members = np.flatnonzero((lengths > low) & (lengths <= bucket))
        if random is not None:
            random.shuffle(members)
        for first in range(0, len(members), BATCH_SIZE):
            rows = members[first : first + BATCH_SIZE]
            pad = BATCH_SIZE - len(rows)
            plan.append((bucket, np.concatenate([rows, np.resize(members, pad)]), pad))
    if random is not None:
        random.shuffle(plan)
    for bucket, rows, pad in plan:
        data = np.zeros((BATCH_SIZE, bucket, 12), "float32")
        for place, row in enumerate(rows):
            data[place, : lengths[row]] = utterances[row]
        yield Batch(bucket, data, lengths[rows], labels[rows], pad)


def to_data_batch(mx: Any, batch: Batch) -> Any:
    """Return the batch as a module takes it."""
    return mx.io.DataBatch(
        data=[mx.nd.array(batch.data), mx.nd.array(batch.lengths)],
        label=[mx.nd.array(batch.labels)],
        pad=batch.pad,
        bucket_key=batch.bucket,
        provide_data=[("data", batch.data.shape), ("lengths", batch.lengths.shape)],
        provide_label=[("softmax_label", batch.labels.shape)],
    )


def train(mx: Any, seed: int, epochs: int = EPOCHS) -> float:
    """Train a BucketingModule and return its accuracy on the test set."""
    mx.random.seed(seed)
    np.random.seed(seed)
    random = np.random.RandomState(seed)
    module = mx.mod.BucketingModule(
        lambda steps: (
            networks.japanese_vowels(mx, steps),
            ("data", "lengths"),
            ("softmax_label",),
        ),
        default_bucket_key=BUCKETS[-1],
        context=mx.cpu(),
    )
    module.bind(
        [("data", (BATCH_SIZE, BUCKETS[-1], 12)), ("lengths", (BATCH_SIZE,))],
        [("softmax_label", (BATCH_SIZE,))],
    )
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="sgd", optimizer_params=OPTIMIZER)
    for _ in range(epochs):
        for batch in make_batches("train", random):
            module.forward(to_data_batch(mx, batch), is_train=True)
            module.backward()
            module.update()
    return _score(mx, module)


def _score(mx: Any, module: Any) -> float:
    right = count = 0
    for batch in make_batches("test"):
        module.forward(to_data_batch(mx, batch), is_train=False)
        kept = BATCH_SIZE - batch.pad
        answers = module.get_outputs()[0].asnumpy().argmax(axis=1)[:kept]
        right += int((answers == batch.labels[:kept]).sum())
        count += kept
    return right / count


if __name__ == "__main__":
    import mxnet

    for number in range(6):
        print(f"seed {number}: {train(mxnet, number):.3f}", flush=True)
