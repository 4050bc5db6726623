"""Metrics with options, on named outputs, without padding."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import core as mx
from app.client import Client, ClientError
from app.client.local_server import ServerProcess

CLASSES = 7
ROWS = [[1, 2, 3], [4, 5], [6], [1, 2, 3, 4, 5], [5, 6], [2, 1]]


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client
        for module in client.modules():
            client.delete_module(module["name"])
        for dataset in client.datasets():
            client.delete_dataset(dataset["name"])


def language_model() -> mx.sym.Symbol:
    """Return a net that predicts the next word; sentences are padded with 0."""
    x = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=CLASSES, output_dim=4, name="embed")
    x = mx.sym.FullyConnected(mx.sym.Reshape(x, shape=(-3, 0)), num_hidden=CLASSES, name="fc")
    label = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
    return mx.sym.SoftmaxOutput(x, label, name="softmax")


def begin(client: Client, tmp_path: Path) -> dict[str, np.ndarray]:
    file = tmp_path / "words.jsonl"
    rows = ({"data": row, "softmax_label": [*row[1:], 0]} for row in ROWS)
    file.write_text("\n".join(map(json.dumps, rows)))
    client.put_dataset("words", file, kind="jsonl")
    client.create_module("words", language_model().tojson(), buckets=[3, 5])
    shapes = [[{"name": name, "shape": [2, None]}] for name in ("data", "softmax_label")]
    client.bind("words", *shapes)
    client.init_params("words", "normal", options={"sigma": 1.0}, seed=3)
    return client.params("words")


def score(client: Client, metrics: list) -> dict[str, float]:
    params = {"dataset": "words", "batch_size": 4, "metrics": metrics}
    job = client.wait(client.score("words", **params)["id"])
    assert job["status"] == "succeeded", job["error"]
    return job["result"]["metrics"]


def probabilities(params: dict[str, np.ndarray], words: np.ndarray) -> np.ndarray:
    scores = params["embed_weight"][words] @ params["fc_weight"].T + params["fc_bias"]
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def test_metrics_take_options_and_ignore_padding(client: Client, tmp_path: Path) -> None:
    params = begin(client, tmp_path)
    words = np.concatenate(ROWS)
    wanted = np.concatenate([[*row[1:], 0] for row in ROWS])
    found = probabilities(params, words)
    chosen = found[np.arange(len(words)), wanted]
    best = np.argsort(-found, axis=1)[:, :3]
    got = score(
        client,
        [
            "accuracy",
            "perplexity",
            {"name": "perplexity", "options": {"ignore_label": 0, "name": "of_words"}},
            {"name": "top_k_accuracy", "options": {"top_k": 3}, "outputs": ["softmax_output"]},
        ],
    )
    assert got == pytest.approx(
        {
            "accuracy": (found.argmax(axis=1) == wanted).mean(),
            "perplexity": np.exp(-np.log(chosen).mean()),
            "of_words": np.exp(-np.log(chosen[wanted != 0]).mean()),
            "top_k_accuracy_3(softmax_output)": (best == wanted[:, None]).any(axis=1).mean(),
            "loss": got["loss"],
        },
        rel=1e-4,
    )


def test_a_fit_computes_the_same_metrics(client: Client, tmp_path: Path) -> None:
    params = begin(client, tmp_path)
    words = np.concatenate(ROWS)
    wanted = np.concatenate([[*row[1:], 0] for row in ROWS])
    found = probabilities(params, words)
    chosen = found[np.arange(len(words)), wanted]
    job = client.fit(
        "words",
        dataset="words",
        batch_size=4,
        epochs=1,
        metrics=[{"name": "perplexity"}],
        optimizer={"name": "sgd", "options": {"learning_rate": 0.0}},
    )
    result = client.wait(job["id"])["result"]
    assert result["train"]["perplexity"] == pytest.approx(np.exp(-np.log(chosen).mean()), rel=1e-4)


@pytest.mark.parametrize(
    ("metrics", "field"),
    [
        ([{"name": "top_k_accuracy", "options": {"top_kk": 5}}], "metrics[0]"),
        ([{"name": "accurracy"}], "metrics[0]"),
        ([{"options": {}}], "metrics[0].name"),
        ([{"name": "accuracy", "option": {}}], "metrics[0].option"),
        ([3], "metrics[0]"),
        (["accuracy", {"name": "accuracy"}], "metrics"),
        ([{"name": "accuracy", "outputs": ["sofmax_output"]}], "metrics[0].outputs[0]"),
        (["accuracy", {"name": "mse", "labels": ["label"]}], "metrics[1].labels[0]"),
    ],
)
def test_invalid_metrics_are_refused(
    client: Client, tmp_path: Path, metrics: list, field: str
) -> None:
    begin(client, tmp_path)
    with pytest.raises(ClientError) as refused:
        client.score("words", dataset="words", batch_size=4, metrics=metrics)
    assert refused.value.status == 422
    assert [row["field"] for row in refused.value.problem["errors"]] == [field]
