"""The report of an examination, for people and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import orjson
import typer
from rich.console import Console
from rich.markup import escape

from app.doctor.examine import Finding, Model, examine
from app.errors import ServiceError
from app.executor.modules.hosted_module import parse_context
from core.types import Shape

__all__ = ["run_doctor"]


def run_doctor(
    prefix: str,
    epoch: int,
    shapes: Sequence[str] = (),
    device: str = "cpu(0)",
    as_json: bool = False,
) -> int:
    """Examine a model and print what is found; return 0 if it can be used as it is.

    Args:
        prefix, epoch: of ``prefix-symbol.json`` and ``prefix-0001.params``.
        shapes: of inputs, each ``name=1,3,224,224``.
        device: to run on.
        as_json: print JSON instead of text.
    """
    try:
        given = dict(map(_parse_shape, shapes))
        model = Model(prefix, epoch, given, parse_context(device, "--device"))
    except (ValueError, ServiceError) as error:
        typer.echo(str(error), err=True)
        return 2
    findings = []
    console = Console(soft_wrap=True)
    for finding in examine(model):
        findings.append(finding)
        if not as_json:
            console.print(_line(finding))
    is_fit = all(finding.ok for finding in findings)
    if as_json:
        document = {"ok": is_fit, "findings": [dataclasses.asdict(one) for one in findings]}
        typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
    else:
        verdict = "[bold green]It loads, binds and runs." if is_fit else "[bold red]It is not fit."
        console.print(verdict)
    return 0 if is_fit else 1


def _line(finding: Finding) -> str:
    mark = "[green]ok[/]  " if finding.ok else "[red]wrong[/]"
    return f"{mark} [bold]{finding.step}[/]: {escape(finding.summary)}"


def _parse_shape(text: str) -> tuple[str, Shape]:
    name, _, sizes = text.partition("=")
    try:
        shape = tuple(int(size) for size in sizes.split(","))
    except ValueError:
        shape = ()
    if not name or not shape or min(shape) < 1:
        raise ValueError(f"--shape {text!r}: expected name=1,3,224,224")
    return name, shape
