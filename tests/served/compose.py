"""docker/compose.yaml, as Compose reads it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

__all__ = ["COMPOSE", "read_compose"]

COMPOSE = Path(__file__).parents[2] / "docker" / "compose.yaml"
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def read_compose(**variables: str) -> dict[str, Any]:
    """Return the file with its variables filled in.

    Args:
        variables: environment variables of the shell that runs Compose; others take their defaults.
    """
    parsed: dict[str, Any] = _filled(yaml.safe_load(COMPOSE.read_text()), variables)
    return parsed


def _filled(value: Any, variables: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(one, variables) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, variables) for one in value]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: variables.get(found[1]) or found[2], value)
    return value
