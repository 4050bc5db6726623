"""Reading by index."""

from __future__ import annotations

from oracle.case import Case, integers, normal, values

_OUTSIDE = values([[-1.0, 7.0], [1.7, 4.0], [0.0, 2.0]])

CASES = (
    Case(
        # MXNet gives this gradient only as row_sparse: see the topic sparse_steps.
        "sparse_embedding",
        "_contrib_SparseEmbedding",
        {"input_dim": 5, "output_dim": 3},
        {"data": _OUTSIDE, "weight": (5, 3)},
        grads=False,
    ),
    Case(
        "embedding",
        "Embedding",
        {"input_dim": 5, "output_dim": 3},
        {"data": integers(2, 4, high=5), "weight": (5, 3)},
        grads=("weight",),
    ),
    Case(
        "embedding_outside",
        "Embedding",
        {"input_dim": 5, "output_dim": 2},
        {"data": _OUTSIDE, "weight": (5, 2)},
        grads=("weight",),
    ),
    Case(
        "embedding_int32",
        "Embedding",
        {"input_dim": 5, "output_dim": 3},
        {"data": integers(6, high=5, dtype="int32"), "weight": (5, 3)},
        grads=("weight",),
    ),
    Case(
        "embedding_float64",
        "Embedding",
        {"input_dim": 5, "output_dim": 3, "dtype": "float64"},
        {"data": integers(3, high=5), "weight": normal(5, 3, dtype="float64")},
        grads=("weight",),
    ),
    Case(
        "embedding_float16",
        "Embedding",
        {"input_dim": 4, "output_dim": 3, "dtype": "float16"},
        {"data": integers(3, high=4), "weight": normal(4, 3, dtype="float16")},
        grads=("weight",),
    ),
    *(
        Case(
            f"take_{mode}", "take", {"mode": mode}, {"a": (5, 3), "indices": _OUTSIDE}, grads=("a",)
        )
        for mode in ("clip", "wrap")
    ),
    Case(
        "take_raise",
        "take",
        {"mode": "raise"},
        {"a": (5, 3), "indices": integers(4, high=5)},
        grads=("a",),
    ),
    Case(
        "take_axis",
        "take",
        {"axis": 1},
        {"a": (2, 4, 3), "indices": integers(2, 2, high=4)},
        grads=("a",),
    ),
    Case(
        "take_last",
        "take",
        {"axis": -1},
        {"a": (2, 4), "indices": integers(5, high=4)},
        grads=("a",),
    ),
    Case(
        "take_vector",
        "take",
        {},
        {"a": (4,), "indices": integers(2, 3, high=4, dtype="int32")},
        grads=("a",),
    ),
    Case(
        "take_last_wrap",
        "take",
        {"axis": -1, "mode": "wrap"},
        {"a": (2, 4), "indices": integers(5, low=-4, high=8)},
        grads=("a",),
    ),
    Case(
        "batch_take",
        "batch_take",
        {},
        {"a": (4, 3), "indices": integers(4, low=0, high=3, dtype="int32")},
        train=False,
    ),
    Case("pick", "pick", {}, {"data": (4, 3), "index": integers(4, high=3)}, grads=("data",)),
    Case(
        "pick_outside",
        "pick",
        {},
        {"data": (4, 3), "index": values([-1.0, 5.0, 1.6, 0.0])},
        grads=("data",),
    ),
    Case(
        "pick_wrap",
        "pick",
        {"mode": "wrap"},
        {"data": (4, 3), "index": values([-1.0, 5.0, 1.0, 0.0])},
        grads=("data",),
    ),
    Case(
        "pick_kept",
        "pick",
        {"axis": 0, "keepdims": True},
        {"data": (4, 3), "index": integers(3, high=4)},
        grads=("data",),
    ),
    Case(
        "pick_middle",
        "pick",
        {"axis": 1},
        {"data": (2, 3, 4), "index": integers(2, 4, high=3)},
        grads=("data",),
    ),
    Case(
        "pick_index_kept",
        "pick",
        {"axis": 1},
        {"data": (4, 3), "index": integers(4, 1, high=3)},
        grads=("data",),
    ),
    Case(
        "pick_index_kept_out_kept",
        "pick",
        {"axis": 1, "keepdims": True},
        {"data": (4, 3), "index": integers(4, 1, high=3)},
        grads=("data",),
    ),
    Case(
        "pick_float16",
        "pick",
        {},
        {"data": normal(4, 3, dtype="float16"), "index": integers(4, high=3)},
        grads=("data",),
    ),
    Case(
        "pick_vector", "pick", {"axis": 0}, {"data": (4,), "index": values([2.0])}, grads=("data",)
    ),
    Case("one_hot", "one_hot", {"depth": 5}, {"indices": integers(2, 3, high=5)}, grads=False),
    Case(
        "one_hot_values",
        "one_hot",
        {"depth": 3, "on_value": 22.4, "off_value": 0.5},
        {"indices": values([0.0, 2.0, -1.0, 3.0, 1.6])},
        grads=False,
    ),
    Case(
        "one_hot_int",
        "one_hot",
        {"depth": 3, "on_value": 22.4, "dtype": "int32"},
        {"indices": integers(4, high=3, dtype="int32")},
        grads=False,
    ),
    Case(
        "one_hot_wrapped",
        "one_hot",
        {"depth": 3, "on_value": 300, "off_value": -1, "dtype": "uint8"},
        {"indices": integers(4, high=3, dtype="int32")},
        grads=False,
    ),
    Case(
        "one_hot_gradient", "one_hot", {"depth": 3}, {"indices": integers(4, high=3)}, numeric=False
    ),
    Case(
        "gather_nd",
        "gather_nd",
        {},
        {"data": (4, 3), "indices": values([[0, 1, 3], [2, 0, 1]])},
        grads=("data",),
    ),
    Case(
        "gather_nd_rows",
        "gather_nd",
        {},
        {"data": (4, 3), "indices": values([[0, 3, 0]])},
        grads=("data",),
    ),
    Case(
        "gather_nd_negative",
        "gather_nd",
        {},
        {"data": (4, 3), "indices": values([[0, -1], [-3, 1]])},
        train=False,
    ),
    Case(
        "gather_nd_two",
        "gather_nd",
        {},
        {"data": (2, 3, 4), "indices": integers(2, 2, 3, high=2)},
        grads=("data",),
    ),
    Case(
        "gather_nd_int",
        "gather_nd",
        {},
        {"data": normal(3, 4, dtype="float64"), "indices": integers(1, 5, high=3, dtype="int32")},
        grads=("data",),
    ),
    Case(
        "scatter_nd",
        "scatter_nd",
        {"shape": (2, 3)},
        {"data": (3,), "indices": values([[0, 1, 0], [2, 0, 1]])},
        grads=("data",),
    ),
    Case(
        "scatter_nd_rows",
        "scatter_nd",
        {"shape": (4, 2)},
        {"data": (2, 2), "indices": values([[2, 0]])},
        grads=("data",),
    ),
    Case(
        "gather_nd_gradient",
        "_backward_gather_nd",
        {"shape": (2, 3)},
        {"data": (3,), "indices": values([[0, 1, 0], [2, 0, 2]])},
        grads=False,
    ),
)
