"""Matrix products."""

from __future__ import annotations

from oracle.case import Case, normal

_A, _B = {"transpose_a": True}, {"transpose_b": True}

CASES = (
    Case("dot", "dot", {}, {"lhs": (2, 3), "rhs": (3, 4)}),
    Case("dot_a", "dot", _A, {"lhs": (3, 2), "rhs": (3, 4)}),
    Case("dot_b", "dot", _B, {"lhs": (2, 3), "rhs": (4, 3)}),
    Case("dot_both", "dot", {**_A, **_B}, {"lhs": (3, 2), "rhs": (4, 3)}),
    Case("dot_vectors", "dot", {}, {"lhs": (5,), "rhs": (5,)}),
    Case("dot_matrix_vector", "dot", {}, {"lhs": (2, 3), "rhs": (3,)}),
    Case("dot_vector_matrix", "dot", {}, {"lhs": (3,), "rhs": (3, 4)}),
    Case("dot_tensors", "dot", {}, {"lhs": (2, 3, 4), "rhs": (4, 2, 3)}),
    Case("dot_tensors_a", "dot", _A, {"lhs": (4, 2, 3), "rhs": (4, 2, 3)}),
    Case("dot_tensors_b", "dot", _B, {"lhs": (2, 3, 4), "rhs": (2, 3, 4)}),
    Case(
        "dot_float64",
        "dot",
        {},
        {"lhs": normal(2, 3, dtype="float64"), "rhs": normal(3, 4, dtype="float64")},
    ),
    Case("batch", "batch_dot", {}, {"lhs": (2, 3, 4), "rhs": (2, 4, 5)}),
    Case("batch_a", "batch_dot", _A, {"lhs": (2, 4, 3), "rhs": (2, 4, 5)}),
    Case("batch_b", "batch_dot", _B, {"lhs": (2, 3, 4), "rhs": (2, 5, 4)}),
    Case("batch_both", "batch_dot", {**_A, **_B}, {"lhs": (2, 4, 3), "rhs": (2, 5, 4)}),
    Case("batch_four", "batch_dot", {}, {"lhs": (2, 2, 3, 4), "rhs": (2, 2, 4, 2)}),
    Case(
        "batch_float64",
        "batch_dot",
        _B,
        {"lhs": normal(2, 3, 4, dtype="float64"), "rhs": normal(2, 5, 4, dtype="float64")},
    ),
)
