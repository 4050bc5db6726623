"""The engine suite: its cases, how it runs, and the memory of its largest network."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import orjson
import pytest

import core as mx
from app.cli.bench import run_suite
from app.cli.bench.cases import ENGINE
from app.cli.bench.models import MODELS
from app.cli.bench.report import ALL_CASES, SUITES

COMPARE = Path(__file__).parents[3] / "benchmarks" / "compare_engines.py"


def test_suites_name_known_cases_and_the_script_compares_all():
    for names in SUITES.values():
        assert set(names) <= set(ALL_CASES)
    spec = importlib.util.spec_from_file_location("compare_engines", COMPARE)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert tuple(script.PEER_CASES) == ENGINE


def test_a_suite_runs_each_case_in_a_process_of_its_own(monkeypatch, capsys):
    monkeypatch.setitem(SUITES, "tiny", ("infer/mlp/1", "infer/lenet/1"))
    assert run_suite("tiny", 0.01, as_json=True) == 0
    cases = orjson.loads(capsys.readouterr().out)["cases"]
    assert list(cases) == ["infer/mlp/1", "infer/lenet/1"]
    assert all(row["median_ms"] > 0 for row in cases.values())


def two_largest_live(lives):
    """Return the largest total size in bytes of two values that are alive at the same step."""
    return max(
        sum(sorted(life.nbytes for life in lives if life.start <= step <= life.stop)[-2:])
        for step in {life.start for life in lives}
    )


def transformed_weights(program):
    """Return the size in bytes of the weights that kernels keep as 4 x 4 values for each 3 x 3."""
    steps = [s for s in program.steps if s.kernel and s.kernel.name == "winograd:convolution"]
    weights = [program.values[step.inputs[1]] for step in steps]
    return sum(np.prod(one.shape) * one.dtype.itemsize for one in weights)


@pytest.mark.parametrize("batch", [1, 8])
def test_memory_of_resnet_50(batch):
    build, example = MODELS["resnet50"]
    module = mx.mod.Module(build(), context=mx.cpu())
    module.bind([("data", (batch, *example))], for_training=False)
    module.init_params(mx.init.Xavier())
    executor = module._exec_group.execs[0]
    data = mx.io.DataBatch([mx.nd.zeros((batch, *example))])
    module.forward(data, is_train=False)
    first = executor.memory_report()
    (plan,) = executor._plans.values()
    assert first.arena <= 1.3 * two_largest_live(list(plan.compiled.lives.values()))
    # Parameters exist once for the module and once in the kernels' layout, not a third time.
    transformed = transformed_weights(plan.compiled.program)
    wanted = first.arguments + first.auxiliaries + (16 / 9 - 1) * transformed
    assert first.kept <= 1.02 * wanted
    assert transformed <= 0.15 * first.arguments
    half = mx.io.DataBatch([mx.nd.zeros((max(1, batch // 2), *example))])
    module.forward(half, is_train=False)
    again = module._exec_group.execs[0].memory_report()
    assert (again.arena, again.kept) == (first.arena, first.kept), "batch sizes share memory"
    assert np.isfinite(module.get_outputs()[0].asnumpy()).all()
