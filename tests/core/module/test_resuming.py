"""Training started in MXNet continues here as it does there."""

from __future__ import annotations

from pathlib import Path

import pytest

import core as mx
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.resuming import OPTIMIZERS, go_on


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_resumed_training_matches_mxnet(name: str, tmp_path: Path) -> None:
    golden = golden_file.topic("resuming")
    files = {key: golden[key] for key in golden if key.startswith(f"{name}/file/")}
    assert any(key.endswith(".states") for key in files)
    for key, content in files.items():
        (tmp_path / Path(key).name).write_bytes(content.tobytes())
    for key, value in go_on(mx, name, tmp_path).items():
        assert_close(f"{name} {key}", value, golden[f"{name}/end/{key}"], tolerance=1e-5)
