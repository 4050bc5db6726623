"""Loops and branches over subgraphs, for ``foreach``, ``while_loop`` and ``cond`` of symbols.

A body is compiled once, with separate arrays for what changes between iterations. A training pass
keeps the states at the start of each iteration, but not its intermediate values: the backward pass
recomputes each iteration before differentiating it. So memory grows with the
states only, and training costs one more forward pass of the body. Random numbers are drawn again
from where they were, and what operators update in forward is updated again from the values that it
had; operators written in Python (``Custom``) are called once more, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..errors import AttributeValueError
from ..types import Array, DType, Shape, is_floating, to_dtype
from .attributes import attribute
from .iteration import BackwardLoop, Loop, bodies_of, random_position, rerun
from .operator import ALL, Operator, Reads, Run
from .registry import declares_attributes, register
from .subgraph import Body, Dtypes, Knowledge, Shapes, Spec, Subgraph

__all__ = ["Cond", "Foreach", "WhileLoop"]

Locations = tuple[int, ...]


@declares_attributes
class _ControlFlow(Operator):
    """Base of loops and branches.

    The last, hidden output is empty: its array identifies one use of the operator in a plan, so
    that ``backward`` finds the tape that ``forward`` wrote.
    """

    variadic: ClassVar[str | None] = "num_args"
    may_widen: ClassVar[bool] = False
    uses_random: ClassVar[bool] = True
    backward_reads_mode: ClassVar[bool] = True

    num_args: int = attribute(minimum=1, doc="number of inputs, the graphs included")
    num_outputs: int = attribute(minimum=1, doc="number of outputs of the body")
    subgraphs: tuple[Subgraph, ...] = attribute((), is_graphs=True)

    def nested_graphs(self) -> tuple[Subgraph, ...]:
        return self.subgraphs

    def updated_inputs(self) -> tuple[int, ...]:
        pairs = zip(self.subgraphs, self._graph_inputs(), strict=True)
        found = {locations[i] for graph, locations in pairs for i in graph.updated_inputs}
        return tuple(sorted(found))

    def _graph_inputs(self) -> Sequence[Locations]:
        """Return, for each input of each graph, the index of the operator's input that it reads."""
        raise AssertionError(f"{self.names[0]} does not say what its graphs read")

    def _input_count(self) -> int:
        return self.num_args - len(self.graph_names)

    def input_names(self) -> tuple[str, ...]:
        return tuple(f"data{index}" for index in range(self._input_count()))

    def output_names(self) -> tuple[str, ...]:
        count = self.num_outputs
        shown = ("output",) if count == 1 else tuple(f"output{index}" for index in range(count))
        return (*shown, "use")

    def visible_outputs(self) -> int:
        return self.num_outputs

    def stored_outputs(self) -> int:
        return self.num_outputs

    def backward_reads(self) -> Reads:
        return Reads(inputs=(ALL,), outputs=(self.num_outputs,))

    def _check_graphs(self) -> None:
        if len(self.subgraphs) != len(self.graph_names):
            raise AttributeValueError(
                f"has {len(self.subgraphs)} subgraphs, expected {len(self.graph_names)} "
                f"({', '.join(self.graph_names)}); the functions of mx.sym.contrib make them"
            )

    def _check_outputs(self, graph: int, expected: int) -> None:
        found = self.subgraphs[graph].output_count
        if found != expected:
            raise AttributeValueError(
                f"its subgraph {self.graph_names[graph]!r} has {found} outputs, expected {expected}"
            )

    def _check_inputs(self, graph: int, name: str, locations: Locations) -> None:
        """Check an attribute that maps each input of a graph to an input of the operator."""
        needed = len(self.subgraphs[graph].input_names)
        if len(locations) != needed:
            raise AttributeValueError(
                f"{name} has {len(locations)} entries for the {needed} inputs of its subgraph "
                f"{self.graph_names[graph]!r}"
            )
        _check_locations(name, locations, self._input_count())

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        rules = Shapes(self.expect)
        found_in, found_out = self._infer(rules, inputs, outputs[:-1])
        return found_in, [*found_out, self.expect("use", outputs[-1], (1,))]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        rules = Dtypes(self.expect_dtype)
        found_in, found_out = self._infer(rules, inputs, outputs[:-1])
        return found_in, [*found_out, to_dtype("uint8")]

    def _infer(
        self, rules: Knowledge[Any], inputs: list[Any], outputs: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Repeat the inference of each graph until nothing changes (a fixed point)."""
        while True:
            found_in, found_out = self._infer_once(rules, list(inputs), list(outputs))
            pairs = zip((*found_in, *found_out), (*inputs, *outputs), strict=True)
            # NumPy considers dtype("float64") and None equal.
            if all(new == old and (new is None) is (old is None) for new, old in pairs):
                return found_in, found_out
            inputs, outputs = found_in, found_out

    def _infer_once(
        self, rules: Knowledge[Any], inputs: list[Any], outputs: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Infer what is unknown about inputs and visible outputs."""
        raise AssertionError(f"{self.names[0]} has no inference")


@register("_foreach")
class Foreach(_ControlFlow):
    """Run a body for every slice of the data along axis 0; states pass from one run to the next.

    Inputs are the data, the initial states, and all other inputs of the body. Outputs are the
    body's outputs of all runs, stacked along axis 0, and the last states.
    """

    graph_names: ClassVar[tuple[str, ...]] = ("fn",)

    num_out_data: int = attribute(minimum=0, doc="number of outputs that are stacked")
    in_state_locs: Locations = attribute(doc="which inputs of the body are states")
    in_data_locs: Locations = attribute(doc="which inputs of the body are slices of data")
    remain_locs: Locations = attribute(doc="which inputs of the body are the rest")

    def __post_init__(self) -> None:
        self._check_graphs()
        self._check_outputs(0, self.num_outputs)
        if self.num_outputs - self.num_out_data != len(self.in_state_locs):
            raise AttributeValueError(
                f"num_outputs is {self.num_outputs}, expected num_out_data ({self.num_out_data}) "
                f"and one for each of the {len(self.in_state_locs)} states of in_state_locs"
            )
        if not self.in_data_locs:
            raise AttributeValueError("in_data_locs is empty; a loop needs data to go through")
        needed = len(self.subgraphs[0].input_names)
        if not len(self._locations) == needed == self._input_count():
            raise AttributeValueError(
                f"num_args is {self.num_args}, its locations have {len(self._locations)} entries "
                f"and its subgraph 'fn' has {needed} inputs; expected as many, and num_args "
                "one more"
            )
        _check_locations("in_data_locs, in_state_locs, remain_locs", self._locations, needed)

    @property
    def _locations(self) -> Locations:
        """For each input of the operator, the index of the body's input."""
        return (*self.in_data_locs, *self.in_state_locs, *self.remain_locs)

    def _graph_inputs(self) -> Sequence[Locations]:
        indices = {location: index for index, location in enumerate(self._locations)}
        return [tuple(indices[location] for location in range(len(indices)))]

    def _infer_once(
        self, rules: Knowledge[Any], inputs: list[Any], outputs: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        count, stacked = len(self.in_data_locs), self.num_out_data
        length = rules.length([*inputs[:count], *outputs[:stacked]])
        within: list[Any] = [None] * len(inputs)
        for index, location in enumerate(self._locations):
            value = inputs[index]
            within[location] = rules.unstacked(value) if index < count else value
        without = [*map(rules.unstacked, outputs[:stacked]), *outputs[stacked:]]
        rules.unite(within, self.in_state_locs, without, stacked)
        within, without = rules.infer(self.subgraphs[0], within, without)
        rules.unite(within, self.in_state_locs, without, stacked)
        return (
            [
                rules.sliced(length, within[location], inputs[index])
                if index < count
                else within[location]
                for index, location in enumerate(self._locations)
            ],
            [*(rules.stacked(length, value) for value in without[:stacked]), *without[stacked:]],
        )

    def _body(
        self, run: Run, inputs: Sequence[Array], in_grads: Sequence[Array | None] | None = None
    ) -> Body:
        count, moving = len(self.in_data_locs), len(self.in_data_locs) + len(self.in_state_locs)
        given: list[Array | Spec] = [()] * len(inputs)
        wanted: list[Array | bool] = [False] * len(inputs)
        for index, location in enumerate(self._locations):
            source = inputs[index]
            # As in MXNet, which has no arrays without axes, slices of a vector have shape (1,).
            shape = (source.shape[1:] or (1,)) if index < count else source.shape
            given[location] = (shape, source.dtype) if index < moving else source
            if in_grads is None:
                continue
            gradient = in_grads[index]
            if index < count:
                wanted[location] = gradient is not None
            elif index < moving:
                # Even if the initial state's is unwanted: it leads to the iterations before.
                wanted[location] = is_floating(source.dtype)
            elif gradient is not None:
                wanted[location] = gradient
        return bodies_of(run).body(self.subgraphs[0], given, () if in_grads is None else wanted)

    def prepare(
        self, run: Run, inputs: Sequence[Array], in_grads: Sequence[Array | None] | None
    ) -> None:
        self._body(run, inputs, in_grads)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        body = self._body(run, inputs)
        count, stacked = len(self.in_data_locs), self.num_out_data
        loop = Loop(run, body, self.in_state_locs, outputs[-1])
        data = list(zip(self.in_data_locs, inputs[:count], strict=True))
        loop.begin(inputs[count : count + len(self.in_state_locs)])
        for step in range(inputs[0].shape[0]):
            for location, array in data:
                body.inputs[location][...] = array[step]
            loop.step(outputs[:stacked], step)
        loop.end(outputs[stacked:-1])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        count, stacked, states = len(self.in_data_locs), self.num_out_data, len(self.in_state_locs)
        # The body adds its gradients to these in every iteration.
        _zero(in_grads[count + states :])
        body = self._body(run, inputs, in_grads)
        loop = BackwardLoop(run, body, self.in_state_locs, outputs[-1], out_grads[stacked:-1])
        data = list(zip(self.in_data_locs, inputs, in_grads, strict=False))
        for step in reversed(range(inputs[0].shape[0])):
            for location, array, _ in data:
                body.inputs[location][...] = array[step]
            loop.step(out_grads[:stacked], step)
            for location, _, target in data:
                found = body.gradients[location]
                if target is not None and found is not None:
                    target[step] = found.reshape(target.shape[1:])
        loop.end(in_grads[count : count + states])


@register("_while_loop")
class WhileLoop(_ControlFlow):
    """Run a body on loop variables as long as a condition on them holds.

    Outputs are the body's outputs of all runs, stacked along axis 0 and padded with zeros to
    ``max_iterations``, and the last loop variables.
    """

    graph_names: ClassVar[tuple[str, ...]] = ("cond", "func")

    num_out_data: int = attribute(minimum=0, doc="number of outputs that are stacked")
    max_iterations: int = attribute(
        minimum=1, maximum=2**31 - 1, doc="how many runs there are at most"
    )
    cond_input_locs: Locations = attribute(doc="which inputs the condition reads")
    func_input_locs: Locations = attribute(doc="which inputs the body reads")
    func_var_locs: Locations = attribute(doc="which inputs of the body are loop variables")

    def __post_init__(self) -> None:
        self._check_graphs()
        self._check_outputs(0, 1)
        self._check_outputs(1, self.num_outputs)
        if self.num_outputs - self.num_out_data != len(self.func_var_locs):
            raise AttributeValueError(
                f"num_outputs is {self.num_outputs}, expected num_out_data ({self.num_out_data}) "
                f"and one for each of the {len(self.func_var_locs)} variables of func_var_locs"
            )
        self._check_inputs(0, "cond_input_locs", self.cond_input_locs)
        self._check_inputs(1, "func_input_locs", self.func_input_locs)
        _check_locations("func_var_locs", self.func_var_locs, len(self.func_input_locs))

    @property
    def _variables(self) -> Locations:
        """For each loop variable, the index of the operator's input with its initial value."""
        return tuple(self.func_input_locs[location] for location in self.func_var_locs)

    def _graph_inputs(self) -> Sequence[Locations]:
        return self.cond_input_locs, self.func_input_locs

    def _infer_once(
        self, rules: Knowledge[Any], inputs: list[Any], outputs: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        stacked = self.num_out_data
        without = [*map(rules.unstacked, outputs[:stacked]), *outputs[stacked:]]
        rules.unite(inputs, self._variables, without, stacked)
        rules.infer_part(self.subgraphs[0], inputs, self.cond_input_locs, [rules.truth])
        without = rules.infer_part(self.subgraphs[1], inputs, self.func_input_locs, without)
        rules.unite(inputs, self._variables, without, stacked)
        length = rules.length([*outputs[:stacked]], self.max_iterations)
        return (
            inputs,
            [*(rules.stacked(length, value) for value in without[:stacked]), *without[stacked:]],
        )

    def _body(
        self, run: Run, inputs: Sequence[Array], in_grads: Sequence[Array | None] | None = None
    ) -> Body:
        given: list[Array | Spec] = [inputs[location] for location in self.func_input_locs]
        wanted = [] if in_grads is None else _wanted(in_grads, self.func_input_locs)
        for position in self.func_var_locs:
            given[position] = _spec(inputs[self.func_input_locs[position]])
            if in_grads is not None:
                wanted[position] = is_floating(inputs[self.func_input_locs[position]].dtype)
        return bodies_of(run).body(self.subgraphs[1], given, wanted)

    def prepare(
        self, run: Run, inputs: Sequence[Array], in_grads: Sequence[Array | None] | None
    ) -> None:
        self._body(run, inputs, in_grads)
        if in_grads is None:
            self._condition(run, inputs)

    def _condition(self, run: Run, inputs: Sequence[Array]) -> tuple[Body, list[tuple[int, int]]]:
        """Return the condition, and pairs of its inputs and the loop variables they read."""
        variables = {location: index for index, location in enumerate(self._variables)}
        given: list[Array | Spec] = []
        moving: list[tuple[int, int]] = []
        for position, location in enumerate(self.cond_input_locs):
            given.append(inputs[location])
            if location in variables:
                given[-1] = _spec(inputs[location])
                moving.append((position, variables[location]))
        return bodies_of(run).body(self.subgraphs[0], given), moving

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        stacked, body = self.num_out_data, self._body(run, inputs)
        condition, moving = self._condition(run, inputs)
        loop = Loop(run, body, self.func_var_locs, outputs[-1])
        loop.begin([inputs[location] for location in self._variables])
        step = 0
        while step < self.max_iterations:
            for position, variable in moving:
                condition.inputs[position][...] = loop.states[variable]
            if not _truth(condition):
                break
            loop.step(outputs[:stacked], step)
            step += 1
        for output in outputs[:stacked]:
            output[step:] = 0
        loop.end(outputs[stacked:-1])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        _zero(in_grads)
        stacked, body = self.num_out_data, self._body(run, inputs, in_grads)
        loop = BackwardLoop(run, body, self.func_var_locs, outputs[-1], out_grads[stacked:-1])
        for step in reversed(range(loop.tape.length)):
            loop.step(out_grads[:stacked], step)
        loop.end([in_grads[location] for location in self._variables])


@register("_cond")
class Cond(_ControlFlow):
    """Compute one of two graphs, chosen by a condition; the other does not run.

    An input that only the other graph reads gets a gradient of zeros.
    """

    graph_names: ClassVar[tuple[str, ...]] = ("cond", "then_branch", "else_branch")

    cond_input_locs: Locations = attribute(doc="which inputs the condition reads")
    then_input_locs: Locations = attribute(doc="which inputs the graph for true reads")
    else_input_locs: Locations = attribute(doc="which inputs the graph for false reads")

    def __post_init__(self) -> None:
        self._check_graphs()
        self._check_outputs(0, 1)
        for graph, (name, locations) in enumerate(self._locations()):
            if graph:
                self._check_outputs(graph, self.num_outputs)
            self._check_inputs(graph, name, locations)

    def _locations(self) -> tuple[tuple[str, Locations], ...]:
        """For each graph, the attribute with the inputs of the operator that it reads."""
        return (
            ("cond_input_locs", self.cond_input_locs),
            ("then_input_locs", self.then_input_locs),
            ("else_input_locs", self.else_input_locs),
        )

    def _graph_inputs(self) -> Sequence[Locations]:
        return self.cond_input_locs, self.then_input_locs, self.else_input_locs

    def _infer_once(
        self, rules: Knowledge[Any], inputs: list[Any], outputs: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        rules.infer_part(self.subgraphs[0], inputs, self.cond_input_locs, [rules.truth])
        outputs = rules.infer_part(self.subgraphs[1], inputs, self.then_input_locs, outputs)
        outputs = rules.infer_part(self.subgraphs[2], inputs, self.else_input_locs, outputs)
        return inputs, outputs

    def _branch(
        self,
        run: Run,
        choice: int,
        inputs: Sequence[Array],
        in_grads: Sequence[Array | None] | None = None,
    ) -> Body:
        locations = self._locations()[choice][1]
        return bodies_of(run).body(
            self.subgraphs[choice],
            [inputs[location] for location in locations],
            () if in_grads is None else _wanted(in_grads, locations),
        )

    def prepare(
        self, run: Run, inputs: Sequence[Array], in_grads: Sequence[Array | None] | None
    ) -> None:
        for choice in (1, 2) if in_grads is not None else (0, 1, 2):
            self._branch(run, choice, inputs, in_grads)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        choice = 1 if _truth(self._branch(run, 0, inputs)) else 2
        branch = self._branch(run, choice, inputs)
        if bodies_of(run).has_backward:
            tape = bodies_of(run).tape(outputs[-1])
            tape.begin()
            tape.choice = choice
            tape.record(branch.updated, random_position(run, branch))
        branch.forward()
        for output, found in zip(outputs, branch.outputs, strict=False):
            output[...] = found

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        tape = bodies_of(run).tape(outputs[-1])
        _zero(in_grads)
        branch = self._branch(run, tape.choice, inputs, in_grads)
        rerun(run, branch, tape.random[0], tape.states(0))
        branch.backward(out_grads[:-1])


def _truth(condition: Body) -> bool:
    condition.forward()
    return bool(condition.outputs[0].reshape(-1)[0].item())


def _spec(array: Array) -> Spec:
    return array.shape, array.dtype


def _wanted(in_grads: Sequence[Array | None], locations: Locations) -> list[Array | bool]:
    """Return for each input of a graph the array to which its gradient is added."""
    found = [in_grads[location] for location in locations]
    return [False if gradient is None else gradient for gradient in found]


def _zero(gradients: Sequence[Array | None]) -> None:
    for gradient in gradients:
        if gradient is not None:
            gradient.fill(0)


def _check_locations(name: str, locations: Locations, count: int) -> None:
    if not all(0 <= location < count for location in locations):
        raise AttributeValueError(
            f"{name}: {list(locations)[:20]}; expected numbers from 0 to {count - 1}"
        )
    if len(set(locations)) != len(locations):
        raise AttributeValueError(f"{name}: {list(locations)[:20]} repeats a number")
