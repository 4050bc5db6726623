"""Checking that a block gives the same results hybridized."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.testing.hybridization import check_gluon_hybridize_consistency


class _Other(mx.gluon.nn.Dense):  # type: ignore[misc]
    """Computes something else once hybridized."""

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        return super().hybrid_forward(F, x, *args, **kwargs) + (F is mx.sym)


def test_blocks_are_compared_hybridized_and_not() -> None:
    mx.random.seed(1)
    data = mx.nd.random.normal(shape=(2, 3))
    check_gluon_hybridize_consistency(
        lambda prefix: mx.gluon.nn.Dense(4, "tanh", prefix=prefix), [data]
    )
    check_gluon_hybridize_consistency(
        lambda prefix: mx.gluon.nn.Activation("relu", prefix=prefix),
        [data],
        numpy_func=lambda x: np.maximum(x, 0),
    )
    for test_grad in (False, True):
        with pytest.raises(AssertionError, match="exceeds tolerance"):
            check_gluon_hybridize_consistency(
                lambda prefix: _Other(4, prefix=prefix), [data], test_grad=test_grad
            )
    with pytest.raises(AssertionError, match="exceeds tolerance"):
        check_gluon_hybridize_consistency(
            lambda prefix: mx.gluon.nn.Activation("relu", prefix=prefix), [data], np.tanh
        )
