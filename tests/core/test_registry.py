"""Classes that are created by name."""

import pytest

import core as mx
from core.errors import UsageError


def test_an_option_that_is_not_there_is_told_with_those_that_are() -> None:
    wrong = r"'top_k_accuracy' has no option 'topk'; did you mean 'top_k'\?; it takes top_k, name,"
    with pytest.raises(TypeError, match=wrong) as caught:
        mx.metric.create("top_k_accuracy", topk=3)
    assert isinstance(caught.value, UsageError)
    with pytest.raises(TypeError, match="initializer 'xavier' has no option 'magnitud'"):
        mx.init.create("xavier", magnitud=2)


def test_options_that_are_passed_on_are_left_to_the_class() -> None:
    @mx.metric.register
    class Passing(mx.metric.Accuracy):
        def __init__(self, **options: object) -> None:
            super().__init__(**options)

    assert mx.metric.create("passing", name="mine").name == "mine"
