"""The tour as lines for a shell."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["curl_lines"]


def curl_lines(
    url: str,
    name: str,
    *,
    dataset: Path,
    symbol: Path,
    digit: Path,
    bind: Mapping[str, Any],
    fit: Mapping[str, Any],
) -> list[str]:
    """Return shell commands that create a module on a server, train it and predict with it.

    Args:
        url: of the server.
        name: of the module that they create.
        dataset: npz file with the examples; ``fit`` calls it ``fit["dataset"]``.
        symbol: JSON file with the network, in the same folder.
        digit: npy file to predict.
        bind: body of ``bind``.
        fit: body of ``fit``, with the number of ``epochs``, each of which is saved.
    """
    module = f"{url}/v1/modules/{name}"
    create = f'{{"name": "{name}", "symbol": '
    return [
        f"cd {shlex.quote(str(dataset.parent))}",
        f"curl -T {dataset.name} '{url}/v1/datasets/{fit['dataset']}?kind=npz'",
        f"curl {url}/v1/modules -d '{create}'\"$(cat {symbol.name})\"'}}'",
        f"curl {module}/bind -d {_body(bind)}",
        f"curl {module}/params/init -d {_body({'initializer': 'xavier', 'seed': 7})}",
        f"job=$(curl {module}/fit -d {_body(fit)} | sed 's/{{\"id\":\\([0-9]*\\).*/\\1/')",
        f"curl -N {url}/v1/jobs/$job/events",
        f"curl {module}/checkpoints -d {_body({'epoch': fit['epochs'] + 1})}",
        f"curl {module}/checkpoints",
        f"curl {module}/predict --data-binary @{shlex.quote(str(digit))}",
    ]


def _body(value: Mapping[str, Any]) -> str:
    return shlex.quote(json.dumps(value))
