"""``mx.sym`` and its submodules have a function for every operator."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import core as mx
from core.ops import get_operator
from core.ops.registry import registered_names
from core.ops.signature import argument_names


def test_every_operator_is_a_function_with_a_signature() -> None:
    modules = {
        "": (mx.sym, mx.sym.op),
        "_contrib_": (mx.sym.contrib,),
        "_linalg_": (mx.sym.linalg,),
        "_sparse_": (mx.sym.sparse,),
        "_image_": (mx.sym.image,),
    }
    for name in registered_names():
        if name.startswith(("_np_", "_npi_", "_npx_")):
            continue
        prefix = next((p for p in modules if p and name.startswith(p)), "")
        internal = name.startswith("_") and not prefix
        if internal and name.startswith("_random_") and name.endswith("_like"):
            continue
        for module in (mx.sym._internal,) if internal else modules[prefix]:
            function = getattr(module, name.removeprefix(prefix))
            assert name.removeprefix(prefix) in dir(module)
            if module is mx.sym and not hasattr(function, "__signature__"):
                assert name in ("pow", "maximum", "minimum", "hypot")
                continue
            assert function.__module__ == module.__name__
            assert function.__doc__.startswith(inspect.getdoc(get_operator(name)) or name)
            assert list(inspect.signature(function).parameters)[-3:] == ["name", "attr", "out"]


def test_every_operator_describes_its_inputs() -> None:
    for name in registered_names():
        operator = get_operator(name)
        assert operator.variadic is not None or isinstance(argument_names(operator), tuple)


def test_functions_are_created_once() -> None:
    assert mx.sym.FullyConnected is mx.sym.FullyConnected
    assert mx.sym.FullyConnected is not mx.sym.op.FullyConnected
    with pytest.raises(AttributeError, match=r"'core\.symbol' has no attribute '_plus_scalar'"):
        _ = mx.sym._plus_scalar
    with pytest.raises(AttributeError, match=r"did you mean 'FullyConnected'"):
        _ = mx.sym.FulyConnected


def test_automatic_names_come_from_the_function() -> None:
    a, b = mx.sym.var("a"), mx.sym.var("b")
    with mx.name.NameManager():
        assert [
            mx.sym._internal._Plus(a, b).name,
            mx.sym._internal._PlusScalar(a, scalar=1).name,
            mx.sym.Flatten(a).name,
            mx.sym.flatten(a).name,
            mx.sym.ElementWiseSum(a, b).name,
        ] == ["_plus0", "_plusscalar0", "flatten0", "flatten1", "elementwisesum0"]


@pytest.mark.parametrize(
    ("make", "attrs"),
    [
        (lambda: mx.sym.zeros((0, 4)), {"shape": "(0, 4)", "dtype": "float32"}),
        (lambda: mx.sym.ones(3, dtype="int32"), {"shape": "3", "dtype": "int32"}),
        (lambda: mx.sym.full((2, 3), 5), {"shape": "(2, 3)", "dtype": "float32", "value": "5.0"}),
        (
            lambda: mx.sym.arange(0, 10, infer_range=True),
            {
                "dtype": "float32",
                "infer_range": "True",
                "repeat": "1",
                "start": "0",
                "step": "1.0",
                "stop": "10",
            },
        ),
        (lambda: mx.sym.eye(3, k=1), {"N": "3", "M": "0", "k": "1", "dtype": "float32"}),
        (
            lambda: mx.sym.linspace(0, 1, 5, name="l"),
            {"start": "0", "stop": "1", "num": "5", "endpoint": "True", "dtype": "float32"},
        ),
        (
            lambda: mx.sym.split_v2(mx.sym.var("x"), (2, 3), axis=1),
            {"indices": "[0, 2, 3]", "axis": "1", "squeeze_axis": "False", "sections": "0"},
        ),
        (
            lambda: mx.sym.var("x").split_v2(2),
            {"indices": "[]", "axis": "0", "squeeze_axis": "False", "sections": "2"},
        ),
    ],
)
def test_creation_and_split_attributes(make: Any, attrs: dict[str, str]) -> None:
    assert make().list_attr() == attrs


def test_invalid_splits_are_refused() -> None:
    with pytest.raises(ValueError, match="int or tuple of ints"):
        mx.sym.split_v2(mx.sym.var("x"), "2")
