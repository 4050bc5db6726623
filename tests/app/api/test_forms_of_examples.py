"""Arrays whose examples differ in layout or scale from what the module is bound for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from app.client import Client, ClientError
from app.client.local_server import ServerProcess

SIDE = 5
SGD = {"name": "sgd", "options": {"learning_rate": 0.1}}


@pytest.fixture
def client(server: ServerProcess, tmp_path: Path) -> Iterator[Client]:
    """A client, a module bound for three-channel images, and such images in every layout."""
    x = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=4, name="conv")
    x = mx.sym.FullyConnected(x, num_hidden=3, name="fc")
    first = np.random.RandomState(2).rand(12, 3, SIDE, SIDE + 1).astype("f")
    arrays = {
        "first": first,
        "last": first.transpose(0, 2, 3, 1),
        "flat": first.reshape(12, -1),
        "deep": first[:, None],
        "other": first.transpose(0, 1, 3, 2),
        "softmax_label": np.arange(12) % 3,
    }
    np.savez(tmp_path / "pictures.npz", **arrays)
    with Client(server.url) as client:
        client.put_dataset("pictures", tmp_path / "pictures.npz")
        client.create_module("eye", mx.sym.SoftmaxOutput(x, name="softmax").tojson())
        label = [{"name": "softmax_label", "shape": [4]}]
        client.bind("eye", [{"name": "data", "shape": [4, 3, SIDE, SIDE + 1]}], label)
        client.init_params("eye", "xavier", seed=1)
        yield client
        client.delete_module("eye")
        client.delete_dataset("pictures")


def score(client: Client, **source: Any) -> tuple[dict[str, Any], dict[str, float]]:
    """Return how an input was interpreted, and the loss."""
    job = client.score(
        "eye", dataset="pictures", inputs={"data": source}, batch_size=4, metrics=["ce"]
    )
    ended = client.wait(job["id"])
    assert ended["status"] == "succeeded", ended["error"]
    return ended["params"]["inputs"]["data"], ended["result"]["metrics"]


def test_without_a_form_examples_are_taken_as_bound(client: Client) -> None:
    taken, loss = score(client, array="first")
    assert (taken["shape"], taken["axes"]) == (None, None)
    for array, form in (
        ("last", {"axes": [2, 0, 1]}),
        ("flat", {"shape": [3, SIDE, SIDE + 1]}),
        ("deep", {"shape": [3, SIDE, SIDE + 1]}),
    ):
        taken, same = score(client, array=array)
        assert taken == {**taken, **form}
        assert same == loss
    assert score(client, array="last", axes=[2, 0, 1])[1] == loss


def test_a_different_number_of_labels_is_refused_at_once(client: Client, tmp_path: Path) -> None:
    np.savez(tmp_path / "few.npz", data=np.zeros((8, 3, 5, 6)), softmax_label=np.zeros(7))
    client.put_dataset("few", tmp_path / "few.npz")
    with pytest.raises(ClientError) as refused:
        client.fit("eye", dataset="few", epochs=1, batch_size=4, optimizer=SGD)
    (row,) = refused.value.problem["errors"]
    assert (row["field"], row["got"]) == ("inputs.softmax_label", "an array of 7 examples")
    client.delete_dataset("few")


@pytest.mark.parametrize(
    ("source", "field", "said"),
    [
        ({"array": "last", "shape": [3, SIDE, SIDE + 1]}, "shape", '"axes": [2, 0, 1]'),
        ({"array": "last", "axes": [0, 1]}, "axes", "each axis of an example of shape (5, 6, 3)"),
        (
            {"array": "last", "axes": [2, 0, 1], "shape": [90]},
            "axes",
            "no axes together with shape",
        ),
    ],
)
def test_forms_that_would_scramble_the_data_are_refused(
    client: Client, source: dict[str, Any], field: str, said: str
) -> None:
    with pytest.raises(ClientError) as refused:
        score(client, **source)
    (row,) = refused.value.problem["errors"]
    assert row["field"] == f"inputs.data.{field}"
    assert said in row["expected"] + row["hint"]
