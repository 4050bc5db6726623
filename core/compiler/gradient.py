"""Reverse-mode differentiation: appends the backward pass to a program.

Steps are visited in reverse; each computes the gradients of its inputs from those of its outputs. A
gradient with several contributions is accumulated as they arrive, so that at most one of them is
pending. ``grad_req`` is implemented here: the gradient of an argument is written directly into its
array if it has a single contribution, and accumulated there if it has several or the request is
``add``. If the request is ``rows``, each contribution is added to a ``Rows`` container; operators
that can produce rows write into it directly. Gradients produced as rows are passed on as rows for
as long as the operators that receive them accept rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Set

from ..capabilities.layers import FULLY_CONNECTED
from ..errors import GraphError
from ..ops import ALL, Operator
from ..ops.joining import Concat
from .ir import Place, Program, Slots, Step
from .primitives import Accumulate, Copy, KeepRows, SumRows, ToDense, Zeros
from .sparse_step import SparseStep

__all__ = ["append_gradients"]

_ACCUMULATE, _COPY, _ZEROS = Accumulate(), Copy(), Zeros()
_TO_DENSE, _SUM_ROWS, _KEEP_ROWS = ToDense(), SumRows(), KeepRows()

_FEWEST_SHARED = 4
"""Fewest layers sharing a weight for which concatenating their rows pays off, as in a decoder that
is fed its own outputs, which ``roll`` leaves as it is: 2 layers of 650 units train in 0.84 of the
time."""


def append_gradients(
    program: Program, requests: Mapping[int, str], *, pass_on: bool = True
) -> None:
    """Append the backward pass.

    Args:
        program: a traced forward pass.
        requests: ``"write"``, ``"add"`` or ``"rows"`` by position of the argument; other arguments
            get no gradient.
        pass_on: use views for gradients that an operator passes on unchanged, and compute the
            gradient of a shared weight by one product. Without it every node has its own backward
            step, as monitors need.

    Raises:
        GraphError: an operator without a gradient is on the path; names the node.
    """
    _Backward(program, requests, pass_on).build()
    kept = {index for index, request in requests.items() if request == "rows"}
    _drop_unread(program, kept)


class _Backward:
    def __init__(self, program: Program, requests: Mapping[int, str], pass_on: bool) -> None:
        self._program = program
        self._pass_on = pass_on
        self._requests = requests
        self._gradients: dict[int, int] = {}
        self._needed = _values_needing_gradients(program, requests)
        self._shared = _shared_layers(program, self._needed) if pass_on else {}
        self._rows: dict[tuple[int, ...], int] = {}
        """The concatenation of several matrices along their rows, by the ids of the matrices."""
        self._dense: dict[int, int] = {}
        """Dense copies of gradients that are kept as rows, by the id of the gradient."""

    def build(self) -> None:
        program = self._program
        forward = list(program.steps)
        self._seed()
        for step in reversed(forward):
            self._differentiate(step)
            if step in self._shared:
                self._close(step, self._shared[step])
        for index, request in self._requests.items():
            if index not in self._gradients and request == "write":
                self._emit(_ZEROS, program.values[index].name, (), self._new_bound(index))
                self._gradients[index] = program.values[-1].id
        program.gradients = {
            index: self._gradients[index] for index in self._requests if index in self._gradients
        }

    def _seed(self) -> None:
        """Create the head gradients that the caller provides.

        The gradients of equal heads are summed, whereas MXNet uses the last one only.
        """
        program = self._program
        for index, head in enumerate(program.outputs):
            value = program.values[head]
            if head not in self._needed:
                program.head_gradients.append(None)
                continue
            name = f"{value.name}_head_grad"
            given = program.new_value(name, value.shape, value.dtype, Place.HEAD_GRADIENT, index)
            program.head_gradients.append(given.id)
            self._contribute(head, given.id)

    def _differentiate(self, step: Step) -> None:
        op = step.op
        wanted = [
            index
            for index in op.gradient_inputs(len(step.inputs))
            if step.inputs[index] in self._needed
        ]
        if not wanted:
            return
        reads = op.backward_reads()
        arrived = [self._gradients.get(_id(output)) for output in step.outputs]
        # A loss, which ignores gradients of its outputs, is differentiated even if none arrives.
        if reads.out_grads and all(gradient is None for gradient in arrived):
            return
        if not self._takes(step, arrived):
            arrived = [None if one is None else self._as_dense(one) for one in arrived]
        if step in self._shared:
            # Weight and bias wait for the other layers; see ``_close``.
            self._shared[step].rows.append((_id(step.inputs[0]), _id(arrived[0])))
            wanted = [index for index in wanted if index == 0]
        gradients = self._passed(step, wanted, arrived)
        computed = [index for index in wanted if index not in gradients]
        if computed:
            gradients.update(self._computed(step, computed, arrived))
        for index in wanted:
            self._contribute(_id(step.inputs[index]), gradients[index])

    def _passed(self, step: Step, wanted: list[int], arrived: list[int | None]) -> dict[int, int]:
        """Return, by input, the gradients that are merely views of the outputs' gradients."""
        program, op = self._program, step.op
        # ``ToDense``, for example, has no backward and can only pass its gradient on.
        if not self._pass_on and op.has_backward():
            return {}
        pairs = op.passes_gradient()
        # A loss may be the identity forwards, as MakeLoss in inference, but ignores what arrives.
        if op.is_identity(program.is_train) and op.backward_reads().out_grads:
            pairs = ((0, 0),)
        views: dict[int, int] = {}
        asked = set(wanted)  # a sum may have as many inputs as its file names
        for output, index in pairs:
            gradient = arrived[output]
            if index not in asked or gradient is None:
                continue
            like = program.values[_id(step.inputs[index])]
            if program.values[gradient].dtype == like.dtype:
                views[index] = program.new_view(gradient, like, f"{step.node}_backward").id
        return views

    def _computed(self, step: Step, wanted: list[int], arrived: list[int | None]) -> dict[int, int]:
        """Append the backward step of a step; return, by input, the gradients that it writes."""
        op = step.op
        if not op.has_backward():
            raise GraphError(
                f"{op.names[0]} {step.node!r} has no gradient, but the gradient of an argument "
                "depends on it; set grad_req of that argument to 'null' or put BlockGrad behind "
                "the node"
            )
        reads = op.backward_reads()
        targets = self._targets(step, wanted, arrived)
        inputs = _selected(step.inputs, reads.inputs)
        self._program.steps.append(
            Step(
                op,
                step.node,
                inputs=inputs,
                outputs=_selected(step.outputs, reads.outputs),
                out_grads=self._completed(step, arrived) if reads.out_grads else _none(arrived),
                in_grads=tuple(targets),
                source=step,
                # It can update only the states it reads, those of ``Operator.updates_backwards``.
                updates=tuple(state for state in step.updates if state in inputs),
            )
        )
        return {index: _id(targets[index]) for index in wanted}

    def _close(self, layer: Step, shared: _Shared) -> None:
        """Append the gradients of weight and bias once all layers that share them are done."""
        shared.open -= 1
        if shared.open or not shared.rows:
            return
        rows, grads = zip(*shared.rows, strict=True)
        data, grad = self._joined(layer, rows), self._joined(layer, grads)
        like = self._program.values[grad]
        output = self._program.new_value(f"{layer.node}_joined", like.shape, like.dtype)
        # This forward step never runs: it only describes what the backward step differentiates.
        source = Step(layer.op, layer.node, (data, *layer.inputs[1:]), (output.id,))
        wanted = [i for i, value in enumerate(source.inputs) if i and value in self._needed]
        gradients = self._computed(source, wanted, [grad])
        for index in wanted:
            self._contribute(_id(source.inputs[index]), gradients[index])

    def _joined(self, layer: Step, rows: tuple[int, ...]) -> int:
        """Return the concatenation of several matrices along their rows."""
        if rows not in self._rows:
            like = self._program.values[rows[0]]
            shape = (len(rows) * like.shape[0], like.shape[1])
            joined = self._program.new_value(f"{layer.node}_rows", shape, like.dtype)
            self._emit(Concat(num_args=len(rows), dim=0), layer.node, rows, joined.id)
            self._rows[rows] = joined.id
        return self._rows[rows]

    def _completed(self, step: Step, arrived: list[int | None]) -> Slots:
        """Return the outputs' gradients, zeros for visible outputs that no result depends on."""
        completed = list(arrived)
        for index in range(step.op.visible_outputs()):
            if completed[index] is None:
                like = self._program.values[_id(step.outputs[index])]
                zeros = self._program.new_value(f"{like.name}_grad", like.shape, like.dtype)
                self._emit(_ZEROS, step.node, (), zeros.id)
                completed[index] = zeros.id
        return tuple(completed)

    def _targets(
        self, step: Step, wanted: list[int], arrived: list[int | None]
    ) -> list[int | None]:
        """Return the values into which a step writes its contributions, by input."""
        targets: list[int | None] = [None] * len(step.inputs)
        every = step.op.needs_every_gradient()
        by_rows, only_rows = self._given_as_rows(step, arrived)
        for index in step.op.gradient_inputs(len(step.inputs)) if every else wanted:
            value, name = _id(step.inputs[index]), f"{step.node}_backward{index}"
            # Registered at once: if the step has the value as a second input, the contribution to
            # that one must go elsewhere.
            if index in wanted and self._is_written(value, index in by_rows, index in only_rows):
                targets[index] = self._gradients[value] = self._new_bound(value)
                continue
            like = self._program.values[value]
            if index in only_rows:
                new = self._program.new_sparse(name, like.shape, like.dtype, "row_sparse")
            else:
                new = self._program.new_value(name, like.shape, like.dtype)
            targets[index] = new.id
        return targets

    def _is_written(self, value: int, by_rows: bool, only_rows: bool) -> bool:
        """Return whether a contribution is computed directly into the argument's gradient array."""
        request = self._requests.get(value)
        if request == "rows":
            return by_rows
        return request == "write" and value not in self._gradients and not only_rows

    def _contribute(self, value: int, gradient: int) -> None:
        """Register a contribution: a separate value, a view, or one already written in place."""
        if self._program.values[gradient].place is Place.GRADIENT:
            return
        known = self._gradients.get(value)
        request = self._requests.get(value)
        name = f"{self._program.values[value].name}_grad"
        if request == "rows":
            self._gradients[value] = self._new_bound(value)
            self._emit(_KEEP_ROWS, name, (gradient,), self._gradients[value])
            return
        if request is not None:
            gradient = self._as_dense(gradient)
        if request is None:
            self._gradients[value] = gradient if known is None else self._add(name, known, gradient)
            return
        if known is None:
            known = self._new_bound(value)
            if request == "write":
                # Only for a view: what a step computes, it has written there in the first place.
                self._emit(_COPY, name, (gradient,), known)
                self._gradients[value] = known
                return
            # With "add", the first sum reads what the caller has left in the array.
        self._gradients[value] = self._add(name, known, gradient, base=known)

    def _add(self, name: str, known: int, gradient: int, base: int | None = None) -> int:
        like = self._program.values[known]
        if self._is_sparse(known) and self._is_sparse(gradient):
            both = self._program.new_sparse(name, like.shape, like.dtype, like.stype)
            self._emit(_SUM_ROWS, name, (known, gradient), both.id)
            return both.id
        known, gradient = self._as_dense(known), self._as_dense(gradient)
        like = self._program.values[known]
        total = self._program.new_value(name, like.shape, like.dtype, like.place, like.index)
        if base is None:
            total.place, total.index = Place.ARENA, -1
        else:
            total.base = base
        self._emit(_ACCUMULATE, name, (known, gradient), total.id)
        return total.id

    # -- gradients that are kept as rows ------------------------------------------------------

    def _is_sparse(self, gradient: int) -> bool:
        return self._program.values[gradient].place is Place.SPARSE

    def _takes(self, step: Step, arrived: list[int | None]) -> bool:
        """Return whether a step's backward accepts the output gradients as they are stored."""
        stypes = {self._program.values[one].stype for one in arrived if one is not None}
        if isinstance(step.op, SparseStep):
            return stypes <= step.op.kernel.gradients.keys()
        return stypes <= {"default"}

    def _given_as_rows(self, step: Step, arrived: list[int | None]) -> tuple[set[int], set[int]]:
        """Return the inputs whose gradients a step can produce as rows, and those where it must."""
        if not isinstance(step.op, SparseStep):
            return set(step.op.row_gradients()), set()
        stype = "default" if arrived[0] is None else self._program.values[arrived[0]].stype
        kinds = step.op.kernel.gradients[stype]
        rows = {index for index, kind in enumerate(kinds) if kind == "row_sparse"}
        return rows, rows

    def _as_dense(self, gradient: int) -> int:
        """Return a dense copy of a gradient that is kept as rows, and any other unchanged."""
        if not self._is_sparse(gradient):
            return gradient
        if gradient not in self._dense:
            like = self._program.values[gradient]
            copy = self._program.new_value(like.name, like.shape, like.dtype)
            self._emit(_TO_DENSE, like.name, (gradient,), copy.id)
            self._dense[gradient] = copy.id
        return self._dense[gradient]

    def _new_bound(self, argument: int) -> int:
        like = self._program.values[argument]
        name = f"{like.name}_grad"
        return self._program.new_value(name, like.shape, like.dtype, Place.GRADIENT, argument).id

    def _emit(self, op: Operator, node: str, inputs: Slots, output: int) -> None:
        self._program.steps.append(Step(op, node, inputs, (output,)))


@dataclasses.dataclass
class _Shared:
    """Layers with the same parameters: how many remain to be differentiated, and the data and
    output gradients of those already visited."""

    open: int
    rows: list[tuple[int, int]] = dataclasses.field(default_factory=list)


def _shared_layers(program: Program, needed: set[int]) -> dict[Step, _Shared]:
    """Return the fully connected layers that share a trained weight, with inputs of one shape."""
    groups: dict[object, list[Step]] = {}
    for step in program.steps:
        if step.op.kind is FULLY_CONNECTED and step.inputs[1] in needed:
            shape = program.values[_id(step.inputs[0])].shape
            if len(shape) == 2:
                groups.setdefault((step.op, shape, step.inputs[1:]), []).append(step)
    shared: dict[Step, _Shared] = {}
    for layers in groups.values():
        if len(layers) >= _FEWEST_SHARED:
            shared.update(dict.fromkeys(layers, _Shared(len(layers))))
    return shared


def _values_needing_gradients(program: Program, requests: Mapping[int, str]) -> set[int]:
    needed = set(requests)
    for step in program.steps:
        wanted = step.op.gradient_inputs(len(step.inputs))
        if any(step.inputs[index] in needed for index in wanted):
            needed.update(step.writes())
    return needed


def _selected(slots: Slots, indices: tuple[int, ...]) -> Slots:
    if ALL in indices:
        return slots
    return tuple(slot if index in indices else None for index, slot in enumerate(slots))


def _none(slots: list[int | None]) -> Slots:
    return (None,) * len(slots)


def _id(slot: int | None) -> int:
    assert slot is not None
    return slot


def _drop_unread(program: Program, kept_rows: Set[int]) -> None:
    """Eliminate dead backward steps, such as those for the head gradient of a loss layer."""
    live = {program.data(gradient) for gradient in program.gradients.values()}
    live.update(
        value.id
        for value in program.values
        if value.place is Place.GRADIENT and value.index in kept_rows
    )
    kept: list[Step] = []
    for step in reversed(program.backward_steps):
        written = [gradient for gradient in step.writes() if gradient in live]
        if not written:
            continue
        if step.is_backward and not step.op.needs_every_gradient():
            step.in_grads = tuple(g if g in live else None for g in step.in_grads)
        # The data, because no step writes a view.
        live.update(program.data(value) for value in step.reads())
        kept.append(step)
    program.replace_steps(program.forward_steps, kept[::-1])
    program.head_gradients = [
        given if given is not None and given in live else None for given in program.head_gradients
    ]
