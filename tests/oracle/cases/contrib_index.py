"""Element indices, and rows by index."""

from __future__ import annotations

from oracle.case import Case, values

CASES = (
    Case("all", "_contrib_index_array", {}, {"data": (2, 3)}, grads=False),
    Case("some", "_contrib_index_array", {"axes": (2, 0)}, {"data": (2, 3, 2)}, grads=False),
    Case(
        "copy",
        "_contrib_index_copy",
        {},
        {"old_tensor": (4, 3), "index_vector": values([2, 0], "int64"), "new_tensor": (2, 3)},
        grads=("old_tensor", "new_tensor"),
    ),
    Case(
        "copy_numbers",
        "_contrib_index_copy",
        {},
        {"old_tensor": (4,), "index_vector": values([3]), "new_tensor": (1,)},
        grads=("old_tensor", "new_tensor"),
    ),
)
