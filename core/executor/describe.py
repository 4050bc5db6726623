"""Text of a compiled program, for ``Executor.debug_str``."""

from __future__ import annotations

from ..compiler.compile import Compiled
from ..compiler.ir import Program, Step

__all__ = ["describe_plan"]

_TOTALS = "Total {megabytes} MB allocated\nTotal 11 TempSpace resource requested\n"
"""The last lines of MXNet's text. Scripts parse the megabytes; the 11 is constant in MXNet, too."""


def describe_plan(compiled: Compiled) -> str:
    """Return a listing of the steps: what runs, which values it reads and writes, and where."""
    program = compiled.program
    lines = [
        f"{'training' if program.is_train else 'inference'} plan: {program.forward_length} forward "
        f"and {len(program.steps) - program.forward_length} backward steps"
    ]
    for index, output in enumerate(program.outputs):
        lines.append(f"\toutput[{index}]={_value(compiled, output)}")
    for position, step in enumerate(program.steps):
        lines.append(f"{position:4} {_title(step)}")
        lines += [f"\treads {_value(compiled, value)}" for value in step.reads()]
        lines += [f"\twrites {_value(compiled, value)}" for value in step.writes()]
    memory = compiled.memory
    if memory is not None:
        lines.append(
            f"{memory.nbytes} bytes in the arena; {memory.peak_live} alive at most, "
            f"{memory.unshared} without sharing"
        )
    megabytes = 0 if memory is None else memory.nbytes >> 20
    return "\n".join([*lines, _TOTALS.format(megabytes=megabytes)])


def _title(step: Step) -> str:
    kernel = "reference" if step.kernel is None else step.kernel.name
    return f"{step} by {kernel}"


def _value(compiled: Compiled, value: int) -> str:
    program = compiled.program
    found = program.values[value]
    return (
        f"%{value} {found.name} {found.shape} {found.dtype} in {_address(compiled, program, value)}"
    )


def _address(compiled: Compiled, program: Program, value: int) -> str:
    owner = program.memory(value)
    if not owner.place.is_planned:
        return f"{owner.place.value}[{owner.index}]"
    if compiled.memory is None:
        return "memory of its own"
    return f"arena+{compiled.memory.offsets[owner.id] + program.offset(value)}"
