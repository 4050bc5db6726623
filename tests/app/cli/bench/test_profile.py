"""``modserve bench --profile``."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from app.cli.main import app


def test_tables_are_printed_and_a_trace_is_written(tmp_path: Path) -> None:
    arguments = ["bench", "train/mlp/64", "--seconds", "0.01", "--profile", "--traces"]
    result = CliRunner().invoke(app, [*arguments, str(tmp_path / "traces")])
    assert result.exit_code == 0, result.output
    for shown in ("operator", "kernel", "_backward_FullyConnected", "SGD.update", "median"):
        assert shown in result.output
    events = json.loads((tmp_path / "traces" / "train-mlp-64.json").read_text())["traceEvents"]
    assert sum(event["name"] == "SoftmaxOutput" for event in events) == 10
