"""Binding of Python arguments to an operator's inputs and attributes, for ``mx.sym`` and ``mx.nd``.

An operator ``X`` is called as in MXNet: first its inputs, then its attributes in declared order,
each by position or by keyword::

    X(data, weight, bias, num_hidden, no_bias, ..., name=None)
    Y(*data, **attributes)            # any number of inputs
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from ..errors import GraphError, WrongType, did_you_mean
from ..types import to_dtype
from .attributes import attribute_fields, describe_attribute
from .operator import Operator

__all__ = [
    "Arguments",
    "argument_names",
    "operator_doc",
    "operator_signature",
    "order_inputs",
    "split_arguments",
]

A = TypeVar("A")


@dataclasses.dataclass(frozen=True)
class Arguments(Generic[A]):
    """The arguments of a call, bound to inputs and attributes.

    Attributes:
        positional: inputs of an operator with any number of inputs, given by position.
        named: inputs by name; at most one of ``positional`` and ``named`` is filled.
        attributes: raw attribute values by name, as given, including the number of inputs.
    """

    positional: tuple[A, ...]
    named: dict[str, A]
    attributes: dict[str, Any]


_names: dict[type[Operator], tuple[str, ...]] = {}


def argument_names(operator: type[Operator]) -> tuple[str, ...]:
    """Return the names of all inputs that the operator can have, in order.

    Operators whose ``input_names`` depend on required attributes, or grow with optional ones,
    declare them in ``all_inputs``; for the others they follow from the default attributes.
    """
    if operator.all_inputs or operator.variadic is not None:
        return operator.all_inputs
    if operator not in _names:
        _names[operator] = _default_names(operator)
    return _names[operator]


def _default_names(operator: type[Operator]) -> tuple[str, ...]:
    # An instance without its required attributes, and without __post_init__, which would reject it:
    # an input_names that depends on a required one then fails with AttributeError.
    probe = object.__new__(operator)
    for name, field in attribute_fields(operator).items():
        if field.default is not dataclasses.MISSING:
            object.__setattr__(probe, name, field.default)
    try:
        return probe.input_names()
    except AttributeError as error:
        raise TypeError(f"{operator.names[0]} must declare all_inputs: {error}") from error


def split_arguments(
    operator: type[Operator],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    is_array: Callable[[Any], bool],
) -> Arguments[Any]:
    """Separate the arguments of a call into inputs and attributes.

    Args:
        operator: the operator called.
        args: positional arguments: inputs, then attributes.
        kwargs: keyword arguments without those of the namespace itself (``name``, ``out``).
        is_array: distinguishes an input (Symbol, NDArray) from an attribute value.

    Raises:
        TypeError: too many, repeated or wrongly typed arguments, naming operator and argument.
    """
    inputs = argument_names(operator)
    if operator.variadic is not None:
        positional, named = _variadic_inputs(operator, args, is_array), {}
    else:
        positional, named = (
            (),
            _bind_positions(operator, (*inputs, *attribute_fields(operator)), args),
        )
    attributes: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for name, value in _without_repeats(operator, named, kwargs):
        if is_array(value):
            arrays[name] = value
        elif name not in inputs:
            # np.float32 and float are both types; only a dtype attribute turns them into names, as
            # in the functions that MXNet generates.
            attributes[name] = to_dtype(value).name if name == "dtype" else value
        elif value is not None:
            raise WrongType(
                f"{operator.names[0]}: input {name!r} is {type(value).__name__} {value!r}; "
                f"expected an array or symbol"
            )
    if positional and arrays:
        raise TypeError(
            f"{operator.names[0]} takes its inputs either by position or by keyword, not both; "
            f"got {len(positional)} by position and {', '.join(arrays)} by keyword"
        )
    if operator.variadic:
        attributes.setdefault(operator.variadic, len(positional) + len(arrays))
    return Arguments(positional, arrays, attributes)


def order_inputs(operator: Operator, arguments: Arguments[A]) -> list[A]:
    """Return the inputs in the operator's order; all are required.

    Raises:
        GraphError: an input is missing, or one is given that the operator does not have.
    """
    names = operator.input_names()
    if arguments.positional:
        if len(arguments.positional) != len(names):
            raise GraphError(
                f"{operator.names[0]} takes {len(names)} inputs, got {len(arguments.positional)}"
            )
        return list(arguments.positional)
    for name in arguments.named:
        if name not in names:
            raise GraphError(
                f"{operator.names[0]} has no input {name!r}{did_you_mean(name, names)}; "
                f"it has {', '.join(names)}"
            )
    missing = [name for name in names if name not in arguments.named]
    if missing:
        raise GraphError(f"{operator.names[0]}: input {missing[0]!r} is missing; pass it")
    return [arguments.named[name] for name in names]


def operator_signature(operator: type[Operator], trailing: Iterable[str]) -> inspect.Signature:
    """Return the signature that ``inspect.signature`` and ``help`` show for an operator.

    A required attribute that follows an optional input shows ``...`` as its default. ``trailing``
    are the namespace's own keywords, each with the default None.
    """
    parameters: list[inspect.Parameter] = []
    if operator.variadic is None:
        kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
        required: Any = ...
        parameters += [
            inspect.Parameter(name, kind, default=None) for name in argument_names(operator)
        ]
    else:
        kind, required = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
        parameters.append(inspect.Parameter("data", inspect.Parameter.VAR_POSITIONAL))
    for name, field in attribute_fields(operator).items():
        default = required if field.default is dataclasses.MISSING else field.default
        parameters.append(inspect.Parameter(name, kind, default=default))
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters += [inspect.Parameter(name, keyword, default=None) for name in trailing]
    return inspect.Signature(parameters)


def operator_doc(operator: type[Operator], kind: str) -> str:
    """Return the docstring of an operator's function; ``kind`` names its inputs' type."""
    lines = [inspect.getdoc(operator) or operator.names[0], "", "Args:"]
    if operator.variadic is not None:
        lines.append(f"    *data: any number of inputs. {kind}.")
    lines += [f"    {name}: {kind}." for name in argument_names(operator)]
    lines += [f"    {describe_attribute(operator, name)}" for name in attribute_fields(operator)]
    return "\n".join(lines)


def _variadic_inputs(
    operator: type[Operator], args: tuple[Any, ...], is_array: Callable[[Any], bool]
) -> tuple[Any, ...]:
    for position, value in enumerate(args):
        if not is_array(value):
            raise WrongType(
                f"{operator.names[0]}: positional argument {position} is "
                f"{type(value).__name__}; expected an array or symbol (pass attributes by keyword, "
                f"and a list of inputs as *inputs)"
            )
    return args


def _bind_positions(
    operator: type[Operator], names: tuple[str, ...], args: tuple[Any, ...]
) -> dict[str, Any]:
    if len(args) > len(names):
        raise TypeError(
            f"{operator.names[0]} takes at most {len(names)} positional arguments "
            f"({', '.join(names)}), got {len(args)}"
        )
    return dict(zip(names, args, strict=False))


def _without_repeats(
    operator: type[Operator], first: Mapping[str, Any], second: Mapping[str, Any]
) -> Iterable[tuple[str, Any]]:
    repeated = first.keys() & second.keys()
    if repeated:
        raise TypeError(f"{operator.names[0]} got two values for {min(repeated)!r}")
    return (*first.items(), *second.items())
