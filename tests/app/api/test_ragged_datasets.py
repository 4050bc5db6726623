"""Training on examples of different lengths, in the formats people have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import core as mx
from app.client import Client, ClientError
from app.client.local_server import ServerProcess

ROWS = [([1, 2, 3], 0), ([4, 5], 1), ([6], 0), ([1, 7, 2, 3, 4], 1), ([5, 6], 1), ([2, 1], 0)]
FIT = {"epochs": 2, "batch_size": 2, "optimizer": {"name": "sgd"}}


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    """A client, and a module that accepts words of up to five letters."""
    x = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=9, output_dim=4, name="embed")
    x = mx.sym.FullyConnected(mx.sym.sum(x, axis=1), num_hidden=2, name="fc")
    symbol = mx.sym.SoftmaxOutput(x, name="softmax").tojson()
    with Client(server.url) as client:
        client.create_module("words", symbol, buckets=[3, 5])
        yield client
        for module in client.modules():
            client.delete_module(module["name"])
        for dataset in client.datasets():
            client.delete_dataset(dataset["name"])


def write_lines(path: Path) -> Path:
    lines = (json.dumps({"data": data, "softmax_label": label}) for data, label in ROWS)
    path.write_text("\n".join(lines))
    return path


def write_npz(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)
    return path


FLAT = {
    "data": np.concatenate([data for data, _ in ROWS]),
    "softmax_label": np.array([label for _, label in ROWS]),
}


def lists_of(rows: list[list[int]]) -> np.ndarray:
    lists = np.empty(len(rows), object)
    lists[:] = rows
    return lists


@pytest.mark.parametrize("form", ["jsonl", "npz", "lists in npz"])
def test_lengths_are_found_without_being_declared(
    client: Client, tmp_path: Path, form: str
) -> None:
    if form == "jsonl":
        file = write_lines(tmp_path / "words.jsonl")
    elif form == "lists in npz":
        arrays = FLAT | {"data": lists_of([data for data, _ in ROWS])}
        file = write_npz(tmp_path / "words.npz", **arrays)
    else:
        lengths = np.array([len(data) for data, _ in ROWS])
        file = write_npz(tmp_path / "words.npz", **FLAT, data_lengths=lengths)
    dataset = client.put_dataset("words", file, kind=form.split()[-1])
    assert dataset["examples"] == len(ROWS)
    job = client.wait(client.fit("words", dataset="words", **FIT)["id"])
    assert job["status"] == "succeeded", job["error"]
    assert job["result"]["samples"] == 2 * len(ROWS)


def test_a_wrong_format_is_answered_with_the_right_one(client: Client, tmp_path: Path) -> None:
    client.put_dataset("words", write_npz(tmp_path / "words.npz", **FLAT), kind="npz")
    inputs = {"softmax_label": "softmax_label"}
    with pytest.raises(ClientError) as refused:
        client.fit("words", dataset="words", inputs=inputs, **FIT)
    (row,) = refused.value.problem["errors"]
    assert (refused.value.status, row["field"]) == (422, "inputs.softmax_label")
    assert '{"data": {"array": "data", "lengths": "data_lengths"}}' in row["hint"]
