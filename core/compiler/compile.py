"""The compiler pipeline: all passes in order, with the verifier between them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Set

from ..kernels.kernel import KernelTable
from ..kernels.kernel import kernels as all_kernels
from .channel_shuffle import ChannelShuffle, recognize_channel_shuffles
from .concat_in_place import concat_in_place
from .decompose import decompose
from .fuse import fuse
from .fuse_quantized import fuse_quantized
from .fuse_training import fuse_local_responses, fuse_norms
from .gradient import append_gradients
from .hoist_pooling import hoist_poolings
from .ir import Program, Step
from .layout import choose_kernels
from .maxima_first import pool_before_activations
from .memory import Lifetime, MemoryPlan, assign_inplace, lifetimes, plan_memory
from .primitives import Primitive
from .rematerialization import NO_REMATERIALIZATION, Rematerialization, forced_steps, rematerialize
from .reroll import reroll
from .rewrite import fold_views, simplify
from .silu import Silu, recognize_silu
from .storage_plan import StoragePlan
from .trace import Graph, SpecOf, trace
from .upcast import has_half, upcast
from .verify import verify_memory, verify_program

__all__ = ["CompileOptions", "Compiled", "compile_graph"]


@dataclasses.dataclass(frozen=True)
class CompileOptions:
    """How much the compiler does.

    Attributes:
        rewrite: drop and fuse steps. Without it every node of the graph has its own step, so that
            every value can be inspected.
        plan: let values share memory.
        check_kernels: keep what is needed to run every kernel's reference beside it, and check
            every operator's inference a second time.
        table: the registered kernels; None to run the references only.
        rematerialization: what the backward pass recomputes instead of keeping it.
        in_bfloat16: let plans without a backward pass multiply in bfloat16, where that is faster,
            what the graph has in float32.
    """

    rewrite: bool = True
    plan: bool = True
    check_kernels: bool = False
    table: KernelTable | None = all_kernels
    rematerialization: Rematerialization = NO_REMATERIALIZATION
    in_bfloat16: bool = False


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A program that is ready to be lowered.

    Attributes:
        program: the steps.
        lives: when each planned value is alive.
        memory: addresses; None if values do not share memory.
    """

    program: Program
    lives: Mapping[int, Lifetime]
    memory: MemoryPlan | None


def compile_graph(
    graph: Graph,
    spec_of: SpecOf,
    requests: Mapping[int, str],
    *,
    is_train: bool,
    backend: str,
    strided: Set[int] = frozenset(),
    constants: Set[int] = frozenset(),
    storage: StoragePlan | None = None,
    options: CompileOptions | None = None,
) -> Compiled:
    """Compile a graph.

    Args:
        graph: what to compute.
        spec_of: inferred shape and dtype of every entry.
        requests: ``"write"`` or ``"add"`` by position of the argument; empty for a plan without
            a backward pass.
        is_train: mode of the operators.
        backend: name of the backend it will run on.
        strided: positions of arguments whose arrays are not C-contiguous.
        constants: positions of arguments that have a version, so that what kernels compute from
            them can be cached.
        storage: what is kept sparse; None if nothing is.
        options: which passes to run.

    Raises:
        GraphError: a gradient is requested through an operator that has none.
    """
    options = options or CompileOptions()
    program = trace(graph, spec_of, is_train=is_train, storage=storage)
    # From here on these are ids of values: ``trace`` gives each variable its position as its id.
    program.strided = frozenset(strided)
    # Before any pass replaces steps: these are the steps of the graph's nodes, in order, but for
    # the dense copies that ``trace`` has put between them.
    of_nodes = [step for step in program.steps if not isinstance(step.op, Primitive)]
    forced = {of_nodes[position] for position in forced_steps(graph)}
    if options.rewrite:
        if not requests:
            decompose(program)
        _recognize(program, forced, options.table, backend, has_backward=bool(requests))
    if requests:
        append_gradients(program, requests, pass_on=options.rewrite)
    verify_program(program, requests, after="gradient", operators=options.check_kernels)
    if options.rewrite:
        _rewrite(program, requests, options.rematerialization, forced)
        constants = _fuse(program, requests, constants, options, backend)
    if options.table is not None and choose_kernels(
        program,
        options.table,
        backend,
        constants,
        keep_reference=options.check_kernels,
        in_bfloat16=options.in_bfloat16,
    ):
        verify_program(program, requests, after="choose_kernels")
    if not options.plan:
        # A step that ran in place would overwrite a value that a monitor is still to see.
        return Compiled(program, lifetimes(program), None)
    if options.rewrite and concat_in_place(program):
        verify_program(program, requests, after="concat_in_place")
    assign_inplace(program)
    verify_program(program, requests, after="assign_inplace")
    lives = lifetimes(program)
    memory = plan_memory(lives)
    verify_memory(lives, memory)
    return Compiled(program, lives, memory)


def _recognize(
    program: Program,
    forced: set[Step],
    table: KernelTable | None,
    backend: str,
    *,
    has_backward: bool,
) -> None:
    """Replace groups of steps by the operator they amount to.

    This precedes the backward pass, whose steps would read values between the steps of a group.
    """
    reroll(program, forced)
    simplify(program)
    hoist_poolings(program)
    pool_before_activations(program, has_backward=has_backward)
    known = table.kinds(backend) if table is not None else frozenset()
    for operator, find in ((ChannelShuffle, recognize_channel_shuffles), (Silu, recognize_silu)):
        if operator.kind in known:
            find(program)


def _rewrite(
    program: Program,
    requests: Mapping[int, str],
    policy: Rematerialization,
    forced: set[Step],
) -> None:
    """Apply rematerialization, and turn steps that only reshape into views."""
    if requests and rematerialize(program, policy, forced):
        verify_program(program, requests, after="rematerialize")
    # Before fusion, because a view between two steps keeps them from being fused.
    if fold_views(program):
        verify_program(program, requests, after="fold_views")


def _fuse(
    program: Program,
    requests: Mapping[int, str],
    constants: Set[int],
    options: CompileOptions,
    backend: str,
) -> Set[int]:
    """Fuse steps that one kernel can run together; return the constants including new ones."""
    if options.table is None or not options.table.has_any(backend):
        return constants
    if has_half(program) and not options.table.traits(backend).stores_half:
        # Before fusion, which folds batch norms only into float32 convolutions.
        constants = upcast(program, constants)
        verify_program(program, requests, after="upcast", operators=options.check_kernels)
    kernels = options.table.kinds(backend)
    # A tuple, because ``or`` would skip the passes that follow the first success.
    fused = (
        fuse(program, kernels, constants),
        fuse_quantized(program, kernels),
        fuse_norms(program, kernels),
        fuse_local_responses(program, kernels),
    )
    if any(fused):
        verify_program(program, requests, after="fuse")
    return constants
