"""A single example without a batch axis."""

import numpy as np
import pytest

from app.domain.module import InputDesc
from app.executor.predict.single_examples import as_batch

IMAGE = InputDesc(name="image", shape=(8, 3, 5, 5))
COUNT = InputDesc(name="count", shape=(8,))
STEPS = InputDesc(name="steps", shape=(7, 8, 2), layout="TNC")


@pytest.mark.parametrize(
    ("descs", "given", "expected"),
    [
        ([IMAGE], {"image": (3, 5, 5)}, {"image": (1, 3, 5, 5)}),
        ([STEPS], {"steps": (7, 2)}, {"steps": (7, 1, 2)}),
        (
            [IMAGE, COUNT],
            {"image": (3, 5, 5), "count": (1,)},
            {"image": (1, 3, 5, 5), "count": (1,)},
        ),
        ([IMAGE, COUNT], {"image": (3, 5, 5), "count": (2,)}, {"image": (3, 5, 5), "count": (2,)}),
        ([IMAGE, STEPS], {"image": (3, 5, 5), "steps": (7, 1, 2)}, None),
        ([IMAGE], {"image": (2, 3, 5, 5)}, None),
        ([IMAGE], {"image": (5, 5)}, None),
        ([IMAGE], {"other": (3, 5, 5)}, None),
    ],
)
def test_a_batch_axis_is_added_only_if_all_inputs_lack_it(
    descs: list[InputDesc], given: dict, expected: dict | None
) -> None:
    tensors = {name: np.zeros(shape, "f") for name, shape in given.items()}
    made = as_batch(descs, tensors)
    assert {name: one.shape for name, one in made.items()} == (expected or given)
    assert (made is tensors) == (expected in (None, given))
