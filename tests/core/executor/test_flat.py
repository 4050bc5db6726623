"""Parameters as views of one contiguous buffer."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.device import cpu
from core.executor import FlatBuffer

SHAPES = {"a": (3, 5), "b": (1,), "c": (16,), "d": (2, 2, 2)}


@given(
    st.dictionaries(
        st.text("abcdef", min_size=1, max_size=3),
        st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple),
    ),
    st.sampled_from(["float32", "float16", "float64"]),
)
def test_views_are_aligned_and_disjoint(shapes, dtype):
    flat = FlatBuffer(shapes, np.dtype(dtype), cpu())
    for number, view in enumerate(flat.views.values(), 1):
        assert view.ctypes.data % 64 == 0
        view[...] = number
    for number, (name, view) in enumerate(flat.views.items(), 1):
        assert view.shape == shapes[name]
        assert (view == number).all()
    used = sum(number * view.size for number, view in enumerate(flat.views.values(), 1))
    assert flat.data.astype(np.float64).sum() == used, "padding stays zero"


def test_an_update_of_the_buffer_changes_every_view():
    flat = FlatBuffer(SHAPES, np.dtype("float32"), cpu())
    flat.data += 1
    assert all((view == 1).all() for view in flat.views.values())


def test_adjacent_parameters_form_one_run():
    flat = FlatBuffer(SHAPES, np.dtype("float32"), cpu())
    assert flat.runs(["a", "b"]) == [(0, 32)]
    assert flat.runs(["d", "a"]) == [(0, 16), (48, 64)]
    assert flat.runs(SHAPES) == [(0, 64)]
    assert flat.runs([]) == []


def test_a_second_buffer_with_the_same_layout():
    flat = FlatBuffer(SHAPES, np.dtype("float32"), cpu())
    wide = flat.like(np.dtype("float64"))
    assert wide.views.keys() == flat.views.keys()
    assert wide.data.dtype == np.float64
    assert not wide.data.any()
