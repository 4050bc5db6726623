"""Compression, sparse sums and lazy updates, against MXNet."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.stores import COMPRESSIONS, compressed, lazy, reduced, trained


def _compare(case_id: str, got: dict[str, np.ndarray]) -> None:
    golden = golden_file.topic("stores")
    for key, array in got.items():
        assert_close(f"{case_id} {key}", array, golden[f"{case_id}/{key}"])


@pytest.mark.parametrize("case_id", COMPRESSIONS)
def test_compressed_gradients_match_mxnets(case_id: str) -> None:
    _compare(f"compressed/{case_id}", compressed(mx, case_id))


def test_modules_train_with_compressed_gradients() -> None:
    _compare("trained", trained(mx))


def test_row_sparse_sums_match_mxnets() -> None:
    _compare("reduced", reduced(mx))


@pytest.mark.parametrize(
    "case",
    sorted(
        {
            key.removeprefix("lazy/").rsplit("/", 1)[0]
            for key in golden_file.topic("stores")
            if key.startswith("lazy/")
        }
    ),
)
def test_updates_from_row_sparse_gradients(case: str) -> None:
    _compare(f"lazy/{case}", lazy(mx, *case.split("/")))
