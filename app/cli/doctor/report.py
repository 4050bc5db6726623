"""The reports of examinations, for people and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import orjson
import typer
from rich.console import Console
from rich.markup import escape

from app.cli.doctor.examine import Finding, Model, Verdict, examine
from app.cli.doctor.machine import Machine, examine_machine
from app.errors.tree import ServiceError
from app.executor.modules.hosted_module import parse_context
from app.files.model_places import ModelPlace, find_model
from core.types import Shape

__all__ = ["run_doctor", "run_doctor_of", "run_machine_doctor"]

_STATUSES = {Verdict.GOOD: 0, Verdict.OPEN: 3, Verdict.WRONG: 1}
_MARKS = {
    Verdict.GOOD: "[green]✓[/]",
    Verdict.OPEN: "[yellow]?[/]",
    Verdict.WRONG: "[red]✗[/]",
}
_OF_MODELS = {
    Verdict.GOOD: "[bold green]It loads, binds and runs.",
    Verdict.OPEN: "[bold yellow]It loads; give what is missing to see whether it runs.",
    Verdict.WRONG: "[bold red]It cannot be used as it is.",
}
_OF_MACHINES = {
    Verdict.GOOD: "[bold green]modserve can serve here.",
    Verdict.WRONG: "[bold red]modserve cannot serve here as it is.",
}


def run_doctor(
    prefix: str,
    epoch: int,
    shapes: Sequence[str] = (),
    device: str = "cpu(0)",
    as_json: bool = False,
) -> int:
    """Examine a model and print the findings.

    Returns:
        0 if it can be used as it is, 1 if it cannot, 2 for invalid arguments, and 3 if shapes or
        parameters must be given to decide.

    Args:
        prefix, epoch: of ``prefix-symbol.json`` and ``prefix-0001.params``.
        shapes: of inputs, each ``name=1,3,224,224``.
        device: to run on.
        as_json: print JSON instead of text.
    """
    symbol, params = Path(f"{prefix}-symbol.json"), Path(f"{prefix}-{epoch:04d}.params")
    return _report_model(ModelPlace(symbol, params), shapes, device, as_json)


def run_doctor_of(
    target: str,
    shapes: Sequence[str] = (),
    device: str = "cpu(0)",
    as_json: bool = False,
) -> int:
    """Examine the model of a file, a prefix or a folder, or a symbol alone; see ``run_doctor``."""
    try:
        place = find_model(target)
    except (ValueError, OSError) as error:
        typer.echo(str(error), err=True)
        return 2
    return _report_model(place, shapes, device, as_json)


def _report_model(place: ModelPlace, shapes: Sequence[str], device: str, as_json: bool) -> int:
    try:
        given = dict(map(_parse_shape, shapes))
        model = Model(place.symbol, place.params, given, parse_context(device, "--device"))
    except (ValueError, ServiceError) as error:
        typer.echo(str(error), err=True)
        return 2
    return _report(examine(model), _OF_MODELS, as_json)


def run_machine_doctor(data_dir: Path, host: str, port: int, as_json: bool = False) -> int:
    """Examine this machine and print the findings; return 0 if all is well, else 1."""
    return _report(examine_machine(Machine(data_dir, host, port)), _OF_MACHINES, as_json)


def _report(findings: Iterable[Finding], conclusions: Mapping[Verdict, str], as_json: bool) -> int:
    found = []
    console = Console(soft_wrap=True)
    for finding in findings:
        found.append(finding)
        if not as_json:
            console.print(_line(finding))
    verdicts = {finding.verdict for finding in found}
    worst = next(one for one in (Verdict.WRONG, Verdict.OPEN, Verdict.GOOD) if one in verdicts)
    if as_json:
        document = {
            "ok": worst is Verdict.GOOD,
            "verdict": worst,
            "findings": [dataclasses.asdict(one) | {"ok": one.ok} for one in found],
        }
        typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
    else:
        console.print(conclusions[worst])
    return _STATUSES[worst]


def _line(finding: Finding) -> str:
    return f"{_MARKS[finding.verdict]} [bold]{finding.step}[/]: {escape(finding.summary)}"


def _parse_shape(text: str) -> tuple[str, Shape]:
    name, _, sizes = text.partition("=")
    try:
        shape = tuple(int(size) for size in sizes.split(","))
    except ValueError:
        shape = ()
    if not name or not shape or min(shape) < 1:
        raise ValueError(f"--shape {text!r}: expected name=1,3,224,224")
    return name, shape
