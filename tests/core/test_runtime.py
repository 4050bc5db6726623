"""Features of this build; names and errors are MXNet 1.9.1's."""

from __future__ import annotations

import pytest

import core as mx
from core.errors import MXNetError


def test_features_are_listed_and_checked() -> None:
    features = mx.runtime.Features()
    assert features.is_enabled("CUDA") is features.is_enabled("cuda") is (mx.num_gpus() > 0)
    assert features.is_enabled("LAPACK")
    assert not features.is_enabled("TENSORRT")
    assert repr(features["LAPACK"]) == "✔ LAPACK"
    assert repr(features).endswith("✖ DEBUG, ✖ TVM_OP]")
    assert [one.name for one in mx.runtime.feature_list()] == list(features)
    with pytest.raises(RuntimeError, match="Feature 'CUDNNN' is unknown; did you mean 'CUDNN'"):
        features.is_enabled("cudnnn")
    assert issubclass(MXNetError, RuntimeError)
