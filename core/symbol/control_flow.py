"""Loops and branches on symbols: ``mx.sym.contrib.foreach``, ``while_loop`` and ``cond``.

The nodes that a body (a Python function) composes become a subgraph of one operator. They are
marked with the attribute ``__subgraph_name__``; any other node that they read becomes an input of
the operator. ``Nested`` is a symbol, or a list or tuple of ``Nested``: MXNet's nested lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..attribute import AttrScope
from ..errors import UsageError
from .creation import var
from .cut import Cut, cut_graph
from .symbol import Symbol, group

__all__ = ["cond", "foreach", "while_loop"]

Nested: TypeAlias = Any


def foreach(
    body: Callable[[Any, Any], tuple[Nested, Nested]],
    data: Nested,
    init_states: Nested,
    name: str = "foreach",
) -> tuple[Nested, Nested]:
    """Run ``outputs, states = body(slice, states)`` for every slice of the data along axis 0.

    Args:
        body: composes one step, in which every slice and state must be used.
        data: a symbol, or nested symbols with equally many slices; ``body`` gets the same nesting.
        init_states: the states of the first step.
        name: name of the loop, made unique.

    Returns:
        the outputs of all steps stacked along axis 0, in the form ``body`` returns them, and the
        last states.

    Raises:
        UsageError: something other than symbols is given or returned, the states change nesting,
            or data or states are not used.
    """
    slices, data_form = _flatten("foreach input", data)
    firsts, state_form = _flatten("foreach states", init_states)
    unique = AttrScope.subgraph_name(name)
    with AttrScope(__subgraph_name__=unique):
        out, states = body(
            _regroup([var(_inner_name(one)) for one in slices], data_form),
            _regroup([var(_inner_name(one)) for one in firsts], state_form),
        )
        flat_out, out_form = _flatten("foreach output", out)
        flat_states, found_form = _flatten("foreach loop_vars", states)
        if found_form != state_form:
            raise UsageError("The input and output loop_vars have different format")
        inner = _separate([*flat_out, *flat_states], unique, len(flat_out))
    graph = cut_graph(group(inner), unique)
    places = {one: index for index, one in enumerate(graph.names)}
    moving = [_inner_name(one) for one in (*slices, *firsts)]
    for index, one in enumerate(moving):
        if one not in places:
            what = "data" if index < len(slices) else "state"
            raise UsageError(f"the {what} arrays have to be used in the loop body; {one!r} is not")
    rest = [one for one in graph.names if one not in moving]
    count = len(slices)
    found = Symbol._call_operator(
        "_foreach",
        graph.symbol,
        *slices,
        *firsts,
        *(graph.source(one) for one in rest),
        num_outputs=len(inner),
        num_out_data=len(flat_out),
        in_state_locs=[places[one] for one in moving[count:]],
        in_data_locs=[places[one] for one in moving[:count]],
        remain_locs=[places[one] for one in rest],
    )
    parts = list(found)
    return (
        _regroup(parts[: len(flat_out)], out_form),
        _regroup(parts[len(flat_out) :], state_form),
    )


def while_loop(
    cond: Callable[..., Symbol],
    func: Callable[..., tuple[Nested, Nested]],
    loop_vars: Nested,
    max_iterations: int | None = None,
    name: str = "while_loop",
) -> tuple[Nested, Nested]:
    """Run ``outputs, loop_vars = func(*loop_vars)`` while ``cond(*loop_vars)`` holds.

    Args:
        cond: composes a symbol of one element.
        func: composes one step; its outputs may be None.
        loop_vars: nested symbols, at least one; each must be used in ``func``.
        max_iterations: the largest number of steps, required.
        name: name of the loop, made unique.

    Returns:
        the outputs of all steps stacked along axis 0, whose length is ``max_iterations``, with
        zeros after the last step that ran, and the last ``loop_vars``.

    Raises:
        ValueError: an argument is missing or invalid, or the number of ``loop_vars`` changes.
        UsageError: something other than symbols is given or returned.
    """
    flat_vars, form = _flatten("while loop_vars", loop_vars)
    steps = _to_int(max_iterations)
    if not flat_vars:
        raise ValueError("loop_vars should contain at least one element")

    def condition(*inner: Nested) -> tuple[list[Symbol], list[Symbol]]:
        result = cond(*inner)
        if not isinstance(result, Symbol):
            raise ValueError("Return of cond must be a Symbol")
        return [], [result]

    def step(*inner: Nested) -> tuple[Nested, Nested]:
        outputs, changed = func(*inner)
        return _as_list(outputs), _as_list(changed)

    test, _, _ = _while_graph(condition, flat_vars, form, f"{name}_cond")
    graph, stacked, out_form = _while_graph(step, flat_vars, form, f"{name}_func")
    if len(graph.symbol) - stacked != len(flat_vars):
        raise ValueError("The number of loop_vars should be consistent during the loop")
    inputs, (test_places, places) = _union(flat_vars, (test, graph))
    inner = [_inner_name(one) for one in flat_vars]
    for index, one in enumerate(inner, 1):
        if one not in graph.names:
            raise ValueError(f"The {index}-th loop_var doesn't involve into the computation")
    found = Symbol._call_operator(
        "_while_loop",
        test.symbol,
        graph.symbol,
        *inputs,
        max_iterations=steps,
        cond_input_locs=test_places,
        func_input_locs=places,
        func_var_locs=[graph.names.index(one) for one in inner],
        num_out_data=stacked,
        num_outputs=len(graph.symbol),
    )
    parts = list(found)
    return _regroup(parts[:stacked], out_form), _regroup(parts[stacked:], form)


def cond(
    pred: Symbol,
    then_func: Callable[[], Nested],
    else_func: Callable[[], Nested],
    name: str = "cond",
) -> Nested:
    """Return what ``then_func()`` composes where ``pred`` is not 0, else that of ``else_func()``.

    Args:
        pred: a symbol of one element.
        then_func, else_func: compose equally many outputs of the same shapes and dtypes.
        name: name of the branch, made unique.

    Raises:
        ValueError: ``pred`` is not a single output, or the branches have different numbers.
        UsageError: something other than symbols is given or returned.
    """
    test, _ = _branch_graph(lambda: pred, f"{name}_pred")
    if len(test.symbol) != 1:
        raise ValueError("pred should always be a single output")
    chosen, form = _branch_graph(then_func, f"{name}_then")
    other, _ = _branch_graph(else_func, f"{name}_else")
    if len(chosen.symbol) != len(other.symbol):
        raise ValueError("Number of outputs differs between then-branch and else-branch")
    inputs, places = _union_by_name((test, chosen, other))
    found = Symbol._call_operator(
        "_cond",
        test.symbol,
        chosen.symbol,
        other.symbol,
        *inputs,
        cond_input_locs=places[0],
        then_input_locs=places[1],
        else_input_locs=places[2],
        num_outputs=len(chosen.symbol),
    )
    return _regroup(list(found), form)


# -- subgraphs --------------------------------------------------------------------------


def _while_graph(
    compose: Callable[..., tuple[Nested, Nested]],
    loop_vars: Sequence[Symbol],
    form: Any,
    hint: str,
) -> tuple[Cut, int, Any]:
    """Return a graph on loop variables, how many outputs come before the new ones, their form."""
    unique = AttrScope.subgraph_name(hint)
    with AttrScope(__subgraph_name__=unique):
        inner = _regroup([var(_inner_name(one)) for one in loop_vars], form)
        outputs, changed = compose(*inner)
        flat, out_form = _flatten("while output", outputs)
        flat_changed, _ = _flatten("while loop_vars", changed)
        parts = _separate([*flat, *flat_changed], unique)
    return cut_graph(group(parts), unique), len(flat), out_form


def _branch_graph(compose: Callable[[], Nested], hint: str) -> tuple[Cut, Any]:
    unique = AttrScope.subgraph_name(hint)
    with AttrScope(__subgraph_name__=unique):
        flat, form = _flatten("cond outputs", compose())
        parts = _separate(flat, unique)
    return cut_graph(group(parts), unique), form


def _separate(outputs: Sequence[Symbol], name: str, stacked: int | None = None) -> list[Symbol]:
    """Return outputs, replacing those that are inputs or come from outside by copies made inside.

    After the first ``stacked`` outputs, those with the name of one of these are replaced, too.
    """
    inputs = set(group(outputs).list_inputs())
    taken = {one.name for one in outputs[:stacked]} if stacked is not None else set()

    def is_fit(index: int, one: Symbol) -> bool:
        is_own = one.list_attr().get("__subgraph_name__", "") == name
        is_repeated = stacked is not None and index >= stacked and one.name in taken
        return is_own and one.name not in inputs and not is_repeated

    return [
        one if is_fit(index, one) else Symbol._call_operator("identity", one)
        for index, one in enumerate(outputs)
    ]


def _inner_name(symbol: Symbol) -> str:
    """Return the name of the variable that stands for a symbol inside a loop.

    The form is MXNet's, and is found in files. The hyphen keeps it apart from names of outputs that
    are cut (``Node.output_name``).
    """
    return f"{symbol.name}-{symbol.attr('_value_index')}"


def _union(
    loop_vars: Sequence[Symbol], graphs: Sequence[Cut]
) -> tuple[list[Symbol], list[list[int]]]:
    """Return the inputs of graphs on loop variables, and by graph which of them each one reads."""
    variables = {_inner_name(one): one for one in loop_vars}
    inputs: list[Symbol] = []
    known: dict[str, int] = {}
    places = []
    for graph in graphs:
        own = []
        for name in graph.names:
            # As in MXNet, what condition and body both read from outside is an input of each.
            if name not in variables:
                own.append(len(inputs))
                inputs.append(graph.source(name))
                continue
            if name not in known:
                known[name] = len(inputs)
                inputs.append(variables[name])
            own.append(known[name])
        places.append(own)
    return inputs, places


def _union_by_name(graphs: Sequence[Cut]) -> tuple[list[Symbol], list[list[int]]]:
    """Return the inputs of graphs; one that several graphs read under its own name is one."""
    inputs: list[Symbol] = []
    places = []
    for graph in graphs:
        known = {str(one.name): index for index, one in enumerate(inputs)}
        own = []
        for name in graph.names:
            own.append(known.get(name, len(inputs)))
            if name not in known:
                inputs.append(graph.source(name))
        places.append(own)
    return inputs, places


# -- nested lists -----------------------------------------------------------------------


def _flatten(what: str, nested: Nested) -> tuple[list[Symbol], Any]:
    """Return the symbols of nested lists, and the nesting, with which to nest others the same way.

    The form of a symbol is its number of outputs, 0 for a single one.
    """
    if isinstance(nested, Symbol):
        count = len(nested)
        return [nested], count if count > 1 else 0
    if not isinstance(nested, (list, tuple)):
        raise UsageError(
            f"{what} must be (nested) list of Symbol, but got {str(nested)[:80]} of type "
            f"{type(nested)}"
        )
    flat: list[Symbol] = []
    form = []
    for item in nested:
        parts, inner = _flatten(what, item)
        flat += parts
        form.append(inner)
    return flat, form


def _regroup(symbols: list[Symbol], form: Any) -> Nested:
    rest = list(symbols)
    return _take(rest, form)


def _take(rest: list[Symbol], form: Any) -> Nested:
    """Remove as many symbols from the front as a form has, and return them in that form."""
    if isinstance(form, list):
        return [_take(rest, inner) for inner in form]
    if form == 0:
        return rest.pop(0)
    taken, rest[:form] = rest[:form], []
    return taken


def _as_list(nested: Nested) -> Nested:
    if nested is None:
        return []
    return list(nested) if isinstance(nested, tuple) else nested


def _to_int(max_iterations: Any) -> int:
    if max_iterations is None:
        raise ValueError("max_iterations should be specified")
    if hasattr(max_iterations, "asscalar"):
        max_iterations = max_iterations.asscalar()
    try:
        return int(max_iterations)
    except (TypeError, ValueError):
        raise ValueError("Cannot convert max_iteration to python int") from None
