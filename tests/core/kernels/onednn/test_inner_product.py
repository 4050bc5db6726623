"""Fully connected layers on oneDNN."""

from __future__ import annotations

import numpy as np

import core as mx
from core.kernels.native import is_available

HIDDEN, FEATURES = 1024, 1040


def test_all_batch_sizes_share_one_copy_of_large_weights() -> None:
    layer = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=HIDDEN, name="fc")
    module = mx.mod.Module(layer, label_names=None)
    module.bind([("data", (1, FEATURES))], for_training=False)
    generator = np.random.default_rng(0)
    weight = generator.normal(size=(HIDDEN, FEATURES)).astype(np.float32)
    bias = generator.normal(size=HIDDEN).astype(np.float32)
    module.set_params({"fc_weight": mx.nd.array(weight), "fc_bias": mx.nd.array(bias)}, {})
    kept = {}
    for rows in (1, 3, 8, 16, 33, 64, 200):
        data = generator.normal(size=(rows, FEATURES)).astype(np.float32)
        module.forward(mx.io.DataBatch([mx.nd.array(data)]), is_train=False)
        expected = data.astype(np.float64) @ weight.T + bias
        np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), expected, atol=5e-4)
        kept[rows] = module._exec_group.execs[0].memory_report().kept
    if is_available():
        assert kept.pop(1) == 0, "a single row needs no copy"
    assert len(set(kept.values())) == 1, "bytes of weights in the layouts of kernels"
