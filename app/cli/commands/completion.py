"""``modserve completion``: the script for completing commands and options in a shell."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

__all__ = ["COMPLETE_VARIABLE", "completion"]

COMPLETE_VARIABLE = "_MODSERVE_COMPLETE"
"""Variable with which the script asks the command for completions."""


class Shell(StrEnum):
    """A supported shell."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Shell to complete in.")]) -> None:
    """Print what lets a shell complete: source <(modserve completion bash)."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    script = get_completion_script(
        prog_name="modserve", complete_var=COMPLETE_VARIABLE, shell=shell.value
    )
    typer.echo(script)
