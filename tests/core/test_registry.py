"""Creating registered classes by name."""

import pytest

import core as mx
from core.errors import UsageError


def test_an_unknown_option_lists_the_known_ones() -> None:
    wrong = r"'top_k_accuracy' has no option 'topk'; did you mean 'top_k'\?; it takes top_k, name,"
    with pytest.raises(TypeError, match=wrong) as caught:
        mx.metric.create("top_k_accuracy", topk=3)
    assert isinstance(caught.value, UsageError)
    with pytest.raises(TypeError, match="initializer 'xavier' has no option 'magnitud'"):
        mx.init.create("xavier", magnitud=2)


def test_a_class_that_takes_any_option_gets_all_of_them() -> None:
    @mx.metric.register
    class Passing(mx.metric.Accuracy):
        def __init__(self, **options: object) -> None:
            super().__init__(**options)

    assert mx.metric.create("passing", name="mine").name == "mine"
