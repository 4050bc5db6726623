"""Padded sequences."""

from __future__ import annotations

from oracle.case import Case, normal, values

_LENGTHS = {"use_sequence_length": True}


def _given(*lengths: float, dtype: str = "float32"):
    return values(list(lengths), dtype)


CASES = (
    Case("mask_without", "SequenceMask", {}, {"data": (4, 2, 3)}),
    Case(
        "mask",
        "SequenceMask",
        _LENGTHS,
        {"data": (4, 3, 2), "sequence_length": _given(1, 4, 2)},
        grads=("data",),
    ),
    Case(
        "mask_empty",
        "SequenceMask",
        _LENGTHS,
        {"data": (3, 2), "sequence_length": _given(0, 2)},
        grads=("data",),
    ),
    Case(
        "mask_value",
        "SequenceMask",
        {**_LENGTHS, "value": -99999999.0},
        {"data": (4, 2), "sequence_length": _given(1, 3)},
        grads=("data",),
        numeric=False,
    ),
    Case(
        "mask_axis",
        "SequenceMask",
        {**_LENGTHS, "axis": 1},
        {"data": (3, 4, 2), "sequence_length": _given(1, 4, 2)},
        grads=("data",),
    ),
    Case(
        "mask_float16",
        "SequenceMask",
        _LENGTHS,
        {"data": normal(4, 2, dtype="float16"), "sequence_length": _given(1, 3, dtype="float16")},
        grads=("data",),
    ),
    Case("last_without", "SequenceLast", {}, {"data": (4, 2, 3)}),
    Case("last_without_axis", "SequenceLast", {"axis": 1}, {"data": (2, 4, 3)}),
    Case(
        "last",
        "SequenceLast",
        _LENGTHS,
        {"data": (4, 3, 2), "sequence_length": _given(1, 4, 2)},
        grads=("data",),
    ),
    Case(
        "last_axis",
        "SequenceLast",
        {**_LENGTHS, "axis": 1},
        {"data": (3, 4, 2), "sequence_length": _given(1, 4, 2)},
        grads=("data",),
    ),
    Case(
        "last_matrix",
        "SequenceLast",
        _LENGTHS,
        {"data": (4, 3), "sequence_length": _given(1, 4, 2)},
        grads=("data",),
    ),
    Case("reverse_without", "SequenceReverse", {}, {"data": (4, 2, 3)}),
    Case(
        "reverse",
        "SequenceReverse",
        _LENGTHS,
        {"data": (4, 3, 2), "sequence_length": _given(1, 4, 2)},
        grads=("data",),
    ),
    Case(
        "reverse_empty",
        "SequenceReverse",
        _LENGTHS,
        {"data": (3, 2, 2), "sequence_length": _given(0, 2)},
        grads=("data",),
    ),
    Case(
        "reverse_float64",
        "SequenceReverse",
        _LENGTHS,
        {
            "data": normal(4, 2, 2, dtype="float64"),
            "sequence_length": _given(3, 2, dtype="float64"),
        },
        grads=("data",),
    ),
)
