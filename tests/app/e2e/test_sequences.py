"""Sequences sent in parts to a real server match one long pass; lost state is an error."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import orjson
import pytest

from app.client import Client, ClientError
from app.client.local_server import ServerProcess, running_server
from served.processes import ENVIRONMENT, end_executor, wait_until
from served.recurrent import FEATURES, FUSED, UNROLLED, fused, links, long_pass, unrolled

STEPS, PARTS, SEQUENCES = 4, 6, 50
SYMBOLS = {"cells": unrolled(STEPS), "gru": fused("gru"), "lstm": fused("lstm")}
STATES = {"cells": UNROLLED, **FUSED}
LAYOUTS = {"cells": "NTC", "gru": "TNC", "lstm": "TNC"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("sequences")
    with running_server(folder, environment=ENVIRONMENT) as server:
        with Client(server.url) as client:
            for name in SYMBOLS:
                add(client, name, name)
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


def add(client: Client, name: str, kind: str, **serving: Any) -> None:
    """Create a module and declare its states."""
    symbol, dims = SYMBOLS[kind], {"N": 8, "T": STEPS, "C": FEATURES}
    client.create_module(name, symbol.tojson(), label_names=[], state_names=list(STATES[kind]))
    shape, layout = [dims[axis] for axis in LAYOUTS[kind]], LAYOUTS[kind]
    client.bind(name, [{"name": "data", "shape": shape, "layout": layout}], for_training=False)
    client.init_params(name, "uniform", seed=7, options={"scale": 0.7})
    client.set_serving(name, states=links(symbol, STATES[kind]), **serving)


def steps_of(number: int, kind: str, parts: int = PARTS) -> np.ndarray:
    """Return a sequence in the module's layout, as one example."""
    data = np.random.default_rng(number).normal(size=(1, parts * STEPS, FEATURES)).astype("f")
    return data if LAYOUTS[kind] == "NTC" else data.swapaxes(0, 1).copy()


def part_of(data: np.ndarray, position: int, kind: str) -> np.ndarray:
    steps = range(position * STEPS, (position + 1) * STEPS)
    return np.take(data, steps, LAYOUTS[kind].index("T"))


def refusal(client: Client, *args: Any, **options: Any) -> tuple[int, str]:
    with pytest.raises(ClientError) as error:
        client.predict_part(*args, **options)
    return error.value.status, error.value.problem["code"]


def by_query(client: Client, kind: str, name: str, part: np.ndarray, how: dict[str, bool]) -> Any:
    found = client.predict_part(kind, name, **how, data=part)
    return next(iter(found.values()))


def by_members(client: Client, kind: str, name: str, part: np.ndarray, how: dict[str, bool]) -> Any:
    flags = {f"sequence_{flag}": value for flag, value in how.items()}
    body = {"inputs": {"data": part.tolist()}, "sequence_id": name, **flags}
    answer = client.request("POST", f"/v1/modules/{kind}/predict", json=body)
    return np.array(next(iter(answer.json()["outputs"].values()))["data"], "f")


def by_infer(client: Client, kind: str, name: str, part: np.ndarray, how: dict[str, bool]) -> Any:
    """Ask as tritonclient does: numeric ids, and all three parameters each time."""
    parameters = {"sequence_id": int(name), "binary_data_output": True}
    parameters |= {f"sequence_{flag}": value for flag, value in how.items()}
    shown = {"name": "data", "shape": part.shape, "datatype": "FP32"}
    shown["parameters"] = {"binary_data_size": part.nbytes}
    header = orjson.dumps({"parameters": parameters, "inputs": [shown]})
    answer = client.request(
        "POST",
        f"/v2/models/{kind}/infer",
        content=header + part.tobytes(),
        headers={"Inference-Header-Content-Length": str(len(header))},
    )
    length = int(answer.headers["inference-header-content-length"])
    first = orjson.loads(answer.content[:length])["outputs"][0]
    count = int(np.prod(first["shape"]))
    return np.frombuffer(answer.content, "f", count, length).reshape(first["shape"])


WAYS = {"query": by_query, "members": by_members, "infer": by_infer}


@pytest.mark.parametrize("kind", SYMBOLS)
def test_fifty_concurrent_sequences_each_match_one_long_pass(
    server: ServerProcess, client: Client, kind: str
) -> None:
    ways, together = list(WAYS.values()), threading.Barrier(SEQUENCES)

    def feed(number: int) -> np.ndarray:
        try:
            with Client(server.url) as own:
                return feed_all(own, number)
        except BaseException:
            together.abort()  # so that the others do not wait until the timeout
            raise

    def feed_all(own: Client, number: int) -> np.ndarray:
        data, found = steps_of(number, kind), []
        for position in range(PARTS):
            together.wait(60)
            how = {"start": position == 0, "end": position == PARTS - 1}
            way = ways[(number + position) % len(ways)]
            part = np.ascontiguousarray(part_of(data, position, kind))
            found.append(way(own, kind, str(1000 + number), part, how))
        return np.concatenate(found, LAYOUTS[kind].index("T"))

    with ThreadPoolExecutor(SEQUENCES) as pool:
        under_way = [pool.submit(feed, number) for number in range(SEQUENCES)]
    errors = [one.exception() for one in under_way]
    broken = threading.BrokenBarrierError
    assert [one for one in errors if one is not None and not isinstance(one, broken)] == []
    found = [one.result() for one in under_way]
    data = np.concatenate([steps_of(n, kind) for n in range(SEQUENCES)], LAYOUTS[kind].index("N"))
    symbol = unrolled(STEPS * PARTS) if kind == "cells" else SYMBOLS[kind]
    wanted = long_pass(symbol, client.params(kind), data)
    together_found = np.concatenate(found, LAYOUTS[kind].index("N"))
    np.testing.assert_allclose(together_found, wanted, rtol=0, atol=1e-6)
    assert np.abs(wanted).max() > 0.1


def test_the_order_of_parts_is_kept(client: Client) -> None:
    part = part_of(steps_of(1, "cells"), 0, "cells")
    assert refusal(client, "cells", "a", data=part) == (409, "sequence_lost")
    client.predict_part("cells", "a", start=True, data=part)
    assert refusal(client, "cells", "a", start=True, data=part) == (409, "conflict")
    client.predict_part("cells", "a", data=part)
    client.predict_part("cells", "a", end=True, data=part)
    assert refusal(client, "cells", "a", data=part) == (409, "sequence_lost")
    assert refusal(client, "cells", "a", end=True, data=part) == (409, "sequence_lost")


def test_a_sequence_lost_with_its_executor_never_restarts_silently(client: Client) -> None:
    data = steps_of(2, "cells")
    whole = []
    for position in range(PARTS):
        how = {"start": position == 0, "end": position == PARTS - 1}
        whole.append(client.predict_part("cells", 7, **how, data=part_of(data, position, "cells")))
    for position in range(3):
        part = part_of(data, position, "cells")
        client.predict_part("cells", 7, start=position == 0, data=part)
    end_executor(client)
    for _ in range(2):
        part = part_of(data, 3, "cells")
        assert refusal(client, "cells", 7, data=part) == (409, "sequence_lost")
    for position in range(PARTS):
        part = part_of(data, position, "cells")
        again = client.predict_part("cells", 7, start=position == 0, data=part)
        for name, value in whole[position].items():
            np.testing.assert_array_equal(again[name], value)
    client.predict_part("cells", 7, end=True, data=part)


def test_idle_sequences_expire_and_their_number_is_limited(client: Client) -> None:
    add(client, "short", "cells", max_sequences=2)
    part = part_of(steps_of(3, "cells"), 0, "cells")
    client.predict_part("short", "a", start=True, data=part)
    client.predict_part("short", "b", start=True, data=part)
    assert refusal(client, "short", "c", start=True, data=part) == (503, "unavailable")

    client.set_serving("short", max_sequence_idle_seconds=0.5)
    wait_until(lambda: begins(client, "c", part), "room for another sequence")
    assert refusal(client, "short", "a", data=part) == (409, "sequence_lost")


def begins(client: Client, sequence: str, part: np.ndarray) -> bool:
    try:
        client.predict_part("short", sequence, start=True, data=part)
    except ClientError as error:
        if error.status != 503:
            raise
        return False
    return True


@pytest.mark.parametrize(
    ("states", "field"),
    [
        ([{"state": "x", "output": "next_h0_output"}], "states[0].state"),
        ([{"state": "h0", "output": "next_h0"}], "states[0].output"),
        ([{"state": "h0", "output": "next_h0_output"}] * 2, "states[1].state"),
        ([{"state": "h0", "output": "next_h0_output"}], "states"),
        ([{"state": "h0"}], "states[0].output"),
    ],
)
def test_invalid_state_declarations_are_refused(
    client: Client, states: list[dict[str, str]], field: str
) -> None:
    before = client.serving("cells")
    with pytest.raises(ClientError) as error:
        client.set_serving("cells", states=states)
    assert error.value.status == 422
    assert error.value.problem["errors"][0]["field"] == field
    assert client.serving("cells") == before


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"sequence_start": True}, "sequence_start"),
        ({"sequence_end": True, "sequence_id": 0}, "sequence_end"),
        ({"sequence_id": -1}, "sequence_id"),
        ({"sequence_id": "a" * 129}, "sequence_id"),
        ({"sequence_id": "a", "sequence_start": 1}, "sequence_start"),
    ],
)
def test_malformed_parts_are_refused(
    server: ServerProcess, members: dict[str, Any], field: str
) -> None:
    part = part_of(steps_of(1, "cells"), 0, "cells").tolist()
    body = {"inputs": {"data": part}, **members}
    answer = httpx.post(f"{server.url}/v1/modules/cells/predict", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"].startswith(field)
    header = {"parameters": members, "inputs": [{"name": "data", "datatype": "FP32"}]}
    header["inputs"][0] |= {"shape": [1, STEPS, FEATURES], "data": part}
    answer = httpx.post(f"{server.url}/v2/models/cells/infer", json=header)
    assert answer.status_code == 400
    assert field in answer.json()["error"]


def test_a_module_without_states_refuses_sequences(client: Client) -> None:
    add(client, "plain", "cells")
    client.set_serving("plain", states=[])
    part = part_of(steps_of(1, "cells"), 0, "cells")
    assert refusal(client, "plain", "a", start=True, data=part) == (422, "invalid")
