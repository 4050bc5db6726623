"""Multi-head attention on interleaved projections."""

from __future__ import annotations

from oracle.case import Case, uniform

_HEADS = {"heads": 2}

CASES = (
    Case(
        "self_scores",
        "_contrib_interleaved_matmul_selfatt_qk",
        _HEADS,
        {"queries_keys_values": (4, 3, 24)},
    ),
    Case(
        "self_values",
        "_contrib_interleaved_matmul_selfatt_valatt",
        _HEADS,
        {"queries_keys_values": (4, 3, 24), "attention": uniform(6, 4, 4)},
    ),
    Case(
        "cross_scores",
        "_contrib_interleaved_matmul_encdec_qk",
        _HEADS,
        {"queries": (4, 3, 8), "keys_values": (5, 3, 16)},
    ),
    Case(
        "cross_values",
        "_contrib_interleaved_matmul_encdec_valatt",
        _HEADS,
        {"keys_values": (5, 3, 16), "attention": uniform(6, 4, 5)},
    ),
)
