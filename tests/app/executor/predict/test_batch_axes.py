"""Finding the batch axis of an output."""

import pytest

from app.executor.predict.batch_axes import NO_AXIS, batch_axis


@pytest.mark.parametrize(
    ("first", "second", "axis"),
    [
        ((2, 7), (3, 7), 0),
        ((7, 2, 5), (7, 3, 5), 1),
        ((40, 27), (60, 27), NO_AXIS),
        ((2, 2), (3, 3), NO_AXIS),
        ((2, 4), (3, 6), NO_AXIS),
        ((1,), (1,), NO_AXIS),
        ((), (), NO_AXIS),
        ((2,), (3, 1), NO_AXIS),
    ],
)
def test_the_batch_axis_is_the_only_one_that_grows(first: tuple, second: tuple, axis: int) -> None:
    assert batch_axis(first, second) == axis
