"""Batches from files, and RecordIO files, against MXNet 1.9.1."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.files import CASES, batches, packed, recordio


def _compare(case_id: str, got: dict[str, np.ndarray]) -> None:
    golden = golden_file.topic("files")
    expected = {key for key in golden if key.startswith(f"{case_id}/")}
    assert {f"{case_id}/{key}" for key in got} == expected
    for key, array in got.items():
        assert_close(f"{case_id} {key}", array, golden[f"{case_id}/{key}"])


@pytest.mark.parametrize("case_id", CASES)
def test_batches_match_mxnets(case_id: str) -> None:
    _compare(case_id, batches(mx, case_id))


def test_records_are_written_byte_for_byte() -> None:
    _compare("recordio", recordio(mx))
    _compare("packed", packed(mx))
