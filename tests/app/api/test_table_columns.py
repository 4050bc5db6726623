"""Columns of csv files as inputs, and classes that are named by texts.

Expected parameters: those of the same fit on arrays that NumPy made of the same numbers.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import core as mx

from .conftest import post

SPECIES = ["setosa", "versicolor", "virginica"]
FLOWERS = np.random.RandomState(5).rand(24, 2).astype("f").round(2)
FIRST = [float(f"{one:.2f}") for one in FLOWERS[0]]
KINDS = np.arange(24) * 7 % 3
FIT = {
    "epochs": 2,
    "batch_size": 4,
    "seed": 3,
    "optimizer": {"name": "sgd", "options": {"learning_rate": 0.1}},
}
COLUMNS = {"data": ["sepal", "petal"], "softmax_label": "species"}


def table(kinds: Any = KINDS, flowers: Any = FLOWERS, note: str = "") -> bytes:
    """Return a csv file, as Excel writes it."""
    head = "sepal,species,petal" + ",note" * bool(note)
    rows = [
        f"{sepal:.2f},{SPECIES[kind]},{petal:.2f}" + f",{note}" * bool(note)
        for (sepal, petal), kind in zip(flowers, kinds, strict=True)
    ]
    return b"\xef\xbb\xbf" + "\r\n".join([head, *rows, ""]).encode()


async def put(api: httpx.AsyncClient, name: str, content: bytes, kind: str = "csv") -> Any:
    answer = await api.put(f"/v1/datasets/{name}?kind={kind}", content=content)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def refused(api: httpx.AsyncClient, path: str, body: Any) -> dict[str, str]:
    """Return the only fault of a request that is refused."""
    answer = await api.post(path, json=body)
    assert answer.status_code == 422, answer.text
    (fault,) = answer.json()["errors"]
    return fault


async def ended(api: httpx.AsyncClient, path: str, body: Any) -> dict[str, Any]:
    """Run a job; return its final state."""
    job = await post(api, path, body, 202)
    url = f"/v1/jobs/{job['id']}"
    async with api.stream("GET", f"{url}/events", headers={"Accept": "text/event-stream"}) as all_:
        async for _ in all_.aiter_lines():  # the stream ends with the job
            pass
    job = (await api.get(url)).json()
    assert job["status"] == "succeeded", job["error"]
    return job


async def params(api: httpx.AsyncClient, name: str) -> dict[str, np.ndarray]:
    answer = await api.get(f"/v1/modules/{name}/params", headers={"Accept": "application/x-npz"})
    with np.load(io.BytesIO(answer.content)) as archive:
        return dict(archive)


@pytest.fixture
async def iris(api: httpx.AsyncClient) -> httpx.AsyncClient:
    """A client with the table, and with two equal modules, of which ``iris`` is to be trained."""
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    symbol = mx.sym.SoftmaxOutput(x, name="softmax").tojson()
    for name in ("iris", "twin"):
        await post(api, "/v1/modules", {"name": name, "symbol": symbol}, 201)
    await put(api, "flowers", table())
    return api


@pytest.mark.parametrize(
    "inputs",
    [
        COLUMNS,
        {"data": {"columns": ["sepal", "petal"]}, "softmax_label": {"array": "species"}},
        {"data": {"all_but": ["species"]}, "softmax_label": "species"},
        {"data": {"all_but": "species"}, "softmax_label": "species"},
    ],
    ids=["list", "columns", "all but", "all but one"],
)
async def test_columns_train_as_arrays_do(iris: httpx.AsyncClient, inputs: Any) -> None:
    job = await ended(iris, "/v1/modules/iris/fit", {"dataset": "flowers", "inputs": inputs, **FIT})
    assert job["params"]["inputs"]["data"]["columns"] == ["sepal", "petal"]
    assert job["params"]["classes"] == {"species": SPECIES}
    stream = io.BytesIO()
    np.savez(stream, data=FLOWERS, softmax_label=KINDS)
    await put(iris, "arrays", stream.getvalue(), "npz")
    await ended(iris, "/v1/modules/twin/fit", {"dataset": "arrays", **FIT})
    found, expected = await params(iris, "iris"), await params(iris, "twin")
    assert found.keys() == expected.keys() == {"fc_weight", "fc_bias"}
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


async def test_predictions_answer_with_the_names_of_classes(iris: httpx.AsyncClient) -> None:
    await ended(iris, "/v1/modules/iris/fit", {"dataset": "flowers", "inputs": COLUMNS, **FIT})
    body = {"data": FLOWERS[:3].tolist()}
    plain = await post(iris, "/v1/modules/iris/predict", body)
    best = np.argmax(plain["outputs"]["softmax_output"]["data"], axis=1)
    ranked = await post(iris, "/v1/modules/iris/predict?top_k=1", body)
    rows = ranked["outputs"]["softmax_output"]
    assert [SPECIES[place] for place in best] == [best_of["label"] for (best_of,) in rows]
    assert (await iris.get("/v1/modules/iris/labels/softmax_output")).json() == SPECIES


async def test_other_data_is_numbered_by_the_training(iris: httpx.AsyncClient) -> None:
    """A file without one of the classes would number the others anew."""
    some = KINDS != 0
    await put(iris, "some", table(KINDS[some], FLOWERS[some]))
    stream = io.BytesIO()
    np.savez(stream, data=FLOWERS[some], softmax_label=KINDS[some])
    await put(iris, "arrays", stream.getvalue(), "npz")
    held = {"dataset": "some", "inputs": COLUMNS}
    fit = {"dataset": "flowers", "inputs": COLUMNS, "validation": held, **FIT}
    job = await ended(iris, "/v1/modules/iris/fit", fit)
    assert job["params"]["validation"]["classes"] == {"species": SPECIES}
    ask = {"batch_size": 4, "metrics": ["accuracy", "ce"]}
    expected = await ended(iris, "/v1/modules/iris/score", {"dataset": "arrays", **ask})
    scored = await ended(iris, "/v1/modules/iris/score", {**held, **ask})
    assert scored["result"]["metrics"] == expected["result"]["metrics"]
    assert job["result"]["validation"]["accuracy"] == scored["result"]["metrics"]["accuracy"]
    again = await ended(
        iris, "/v1/modules/iris/fit", {**held, **FIT, "epochs": 4, "begin_epoch": 3}
    )
    assert again["params"]["classes"] == {"species": SPECIES}


async def test_numbers_of_classes_can_be_chosen(iris: httpx.AsyncClient) -> None:
    order = {"species": SPECIES[::-1]}
    body = {"dataset": "flowers", "inputs": COLUMNS, "classes": order}
    preview = await post(iris, "/v1/modules/iris/fit/preview", body)
    text = SPECIES[KINDS[0]]
    assert preview["inputs"]["softmax_label"]["example"] == SPECIES[::-1].index(text)
    await ended(iris, "/v1/modules/iris/fit", {**body, **FIT})
    assert (await iris.get("/v1/modules/iris/labels/softmax_output")).json() == SPECIES[::-1]


async def test_the_first_example_is_previewed(iris: httpx.AsyncClient) -> None:
    path, body = "/v1/modules/iris/fit/preview", {"dataset": "flowers", "inputs": COLUMNS}
    label = {
        "names": ["species"],
        "shape": [],
        "dtype": "float32",
        "example": KINDS[0],
        "classes": SPECIES,
        "text": SPECIES[KINDS[0]],
    }
    data = {"names": ["sepal", "petal"], "shape": [2], "dtype": "float32", "classes": []}
    assert await post(iris, path, body) == {
        "inputs": {
            "data": data | {"example": FIRST, "text": None},
            "softmax_label": label,
        }
    }
    bind = {"data_shapes": [{"name": "data", "shape": [4, 1, 2], "dtype": "float64"}]}
    bind["label_shapes"] = [{"name": "softmax_label", "shape": [4], "dtype": "float64"}]
    await post(iris, "/v1/modules/iris/bind", bind)
    scaled = {"data": {"all_but": "species", "scale": 0.5}, "softmax_label": "species"}
    found = (await post(iris, path, body | {"inputs": scaled}))["inputs"]["data"]
    assert (found["dtype"], found["shape"]) == ("float64", [1, 2])
    np.testing.assert_allclose(found["example"], [FLOWERS[0] / 2], rtol=1e-6)
    assert (await iris.get("/v1/jobs")).json()["items"] == []


async def test_joined_examples_are_previewed(iris: httpx.AsyncClient) -> None:
    stream = io.BytesIO()
    np.savez(stream, data=np.arange(5.0), data_lengths=np.array([3, 2]), softmax_label=[1, 0])
    await put(iris, "ragged", stream.getvalue(), "npz")
    found = await post(iris, "/v1/modules/iris/fit/preview", {"dataset": "ragged"})
    assert found["inputs"]["data"]["example"] == [0, 1, 2]


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"inputs": {"data": ["sepal", "leaf"]}}, "inputs.data.columns", "petal"),
        ({"inputs": {"data": ["sepal", "sepal"]}}, "inputs.data.columns", "each column once"),
        ({"inputs": {"data": []}}, "inputs.data", "none of them"),
        ({"inputs": {"data": {"all_but": ["kind"]}}}, "inputs.data.all_but", "species"),
        (
            {"inputs": {"data": {"array": "sepal", "columns": ["petal"]}}},
            "inputs.data",
            "several of them",
        ),
        (
            {"inputs": {"data": {"all_but": []}}},
            "inputs.data",
            '"classes": {"species": ["setosa", "versicolor", "virginica"]}',
        ),
        ({"classes": {"species": SPECIES[:2]}}, "classes.species", "'virginica' too"),
        ({"classes": {"species": [*SPECIES, "setosa"]}}, "classes.species", "each class once"),
        ({"classes": {"sepal": SPECIES}}, "classes.sepal", "columns of texts only"),
    ],
)
async def test_what_is_wrong_is_named(
    iris: httpx.AsyncClient, change: Any, field: str, said: str
) -> None:
    body = {"dataset": "flowers", "inputs": COLUMNS, **change}
    for path, whole in (("fit/preview", body), ("fit", {**body, **FIT})):
        fault = await refused(iris, f"/v1/modules/iris/{path}", whole)
        assert fault["field"] == field
        assert said in f"{fault['got']} {fault['expected']} {fault['hint']}"


async def test_texts_as_data_need_numbers(iris: httpx.AsyncClient) -> None:
    """Nothing would give them the same numbers again."""
    inputs = {"data": ["sepal", "species"], "softmax_label": "species"}
    body = {"dataset": "flowers", "inputs": inputs, "classes": {"species": SPECIES}}
    found = (await post(iris, "/v1/modules/iris/fit/preview", body))["inputs"]["data"]
    assert found["example"] == [FIRST[0], KINDS[0]]
    await ended(iris, "/v1/modules/iris/fit", {**body, **FIT})


async def test_classes_that_the_labels_do_not_have_are_refused(iris: httpx.AsyncClient) -> None:
    score = {"dataset": "flowers", "inputs": COLUMNS, "batch_size": 4}
    await post(iris, "/v1/modules/iris/params/init", {"seed": 1}, 409)
    await ended(iris, "/v1/modules/iris/fit", {"dataset": "flowers", "inputs": COLUMNS, **FIT})
    labels = "/v1/modules/iris/labels/softmax_output"
    await iris.put(labels, json=["setosa", "virginica", "other"])
    for path, body in (("fit", {**score, **FIT, "epochs": 9, "begin_epoch": 5}), ("score", score)):
        fault = await refused(iris, f"/v1/modules/iris/{path}", body)
        assert fault["field"] == "inputs.softmax_label"
        assert "'versicolor' are not among these" in fault["hint"]
    await iris.delete(labels)
    fault = await refused(iris, "/v1/modules/iris/score", score)
    assert "has no labels" in fault["expected"]
    scored = await ended(iris, "/v1/modules/iris/score", score | {"classes": {"species": SPECIES}})
    assert scored["result"]["samples"] == 24


async def test_free_texts_are_left_out_or_refused(iris: httpx.AsyncClient, tmp_path: Path) -> None:
    rows = "".join(f"{n},{SPECIES[n % 3]},note {n}\n" for n in range(1200))
    made = await put(iris, "notes", f"sepal,species,note\n{rows}".encode())
    assert [one["dtype"] for one in made["arrays"]] == ["float64", "int64", "str"]
    path = "/v1/modules/iris/fit/preview"
    fault = await refused(
        iris, path, {"dataset": "notes", "inputs": {"data": {"all_but": "species"}}}
    )
    assert "note, a column of free texts" in fault["got"]
    inputs = {"data": {"all_but": ["species", "note"]}, "softmax_label": "species"}
    found = await post(iris, path, {"dataset": "notes", "inputs": inputs})
    assert found["inputs"]["data"]["example"] == [0]


async def test_a_file_without_names_has_no_columns(iris: httpx.AsyncClient) -> None:
    await put(iris, "plain", b"1,2,0\n3,4,1\n")
    body = {"dataset": "plain", "inputs": {"data": ["a", "b"]}}
    fault = await refused(iris, "/v1/modules/iris/fit/preview", body)
    assert "have the names in its first line" in fault["hint"]


async def test_jobs_behind_a_fit_use_its_classes(iris: httpx.AsyncClient) -> None:
    """Its labels are not yet there when they are submitted."""
    some = KINDS != 0
    await put(iris, "some", table(KINDS[some], FLOWERS[some]))
    fit = {"dataset": "flowers", "inputs": COLUMNS, **FIT, "epochs": 500}
    first = await post(iris, "/v1/modules/iris/fit", fit, 202)
    held = {"dataset": "some", "inputs": COLUMNS}
    body = {**held, **FIT, "epochs": 501, "begin_epoch": 500}
    for path, whole in (("fit", body), ("score", {**held, "batch_size": 4})):
        job = await post(iris, f"/v1/modules/iris/{path}", whole, 202)
        assert job["params"]["classes"] == {"species": SPECIES}
    await post(iris, f"/v1/jobs/{first['id']}/cancel")


async def test_tables_are_predicted(iris: httpx.AsyncClient) -> None:
    """Without their labels, whose texts nobody needs to number."""
    await ended(iris, "/v1/modules/iris/fit", {"dataset": "flowers", "inputs": COLUMNS, **FIT})
    await iris.delete("/v1/modules/iris/labels/softmax_output")
    inputs = {"data": {"all_but": "species"}}
    body = {"dataset": "flowers", "inputs": inputs, "batch_size": 5, "output": "answers"}
    await ended(iris, "/v1/modules/iris/predict_dataset", body)
    answer = await iris.get("/v1/datasets/answers/file")
    with np.load(io.BytesIO(answer.content)) as archive:
        found = archive["output0"]
    direct = await post(iris, "/v1/modules/iris/predict", {"data": FLOWERS.tolist()})
    np.testing.assert_allclose(found, direct["outputs"]["softmax_output"]["data"], rtol=1e-5)
