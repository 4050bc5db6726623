"""Post-training quantization of networks (``mx.contrib.quantization``).

``quantize_model`` takes a symbol and its parameters and returns those of a network that computes
with int8 and uint8; ``quantize_net`` does so with a block. The loss of accuracy is smallest if the
ranges of its tensors are known; calibration with data (``calib_mode``) determines them.
"""

from __future__ import annotations

from .calibration import combine_histogram
from .model import calib_graph, quantize_graph, quantize_model, quantize_model_mkldnn
from .net import quantize_net, quantize_net_v2

__all__ = [
    "calib_graph",
    "combine_histogram",
    "quantize_graph",
    "quantize_model",
    "quantize_model_mkldnn",
    "quantize_net",
    "quantize_net_v2",
]
