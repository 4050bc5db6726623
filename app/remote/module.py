"""A module that computes on a server (``mx.mod.Module``, remotely)."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from app.client import Client
from app.remote.graph import Graph
from app.remote.on_server import OnServer
from app.remote.served_module import ServedModule
from app.remote.session import Session
from core.checkpoint import load_checkpoint
from core.device import Context
from core.symbol import Symbol

__all__ = ["RemoteModule", "device_options"]


class RemoteModule(OnServer, ServedModule):
    """A module that is bound, trained and used on a server, through the calls of ``mx.mod.Module``.

    ``fit``, ``score``, ``predict`` and the caller's own loops run here and compute there.
    Parameters are initialized here, with this process's random numbers, and metrics are computed
    here. Passes and updates are sent without waiting for earlier ones. A call that fails on the
    server raises ``ClientError`` from the next call that waits; ``set_params`` recovers from it.

    Args:
        symbol, data_names, label_names, logger, fixed_param_names, state_names,
        compression_params: as for ``Module``.
        context: devices of the server; None for those of its executor.
        server: a client of the server, or its URL.
        name: of the module on the server, where it stays after ``close``; a module without a name
            is deleted.
        executor: that hosts it; None for the server's first one.

    Raises:
        ValueError: a name is not an argument of the symbol.
        ClientError: the server refuses the module, or already has one of this name.
    """

    def __init__(
        self,
        symbol: Symbol,
        data_names: Sequence[str] | None = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",),
        logger: Any = logging,
        context: Context | Sequence[Context] | None = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        compression_params: Mapping[str, Any] | None = None,
        *,
        server: Client | str,
        name: str | None = None,
        executor: str | None = None,
    ) -> None:
        graph = Graph(symbol, data_names, label_names, state_names, fixed_param_names)
        options = device_options(context, executor, compression_params)
        body = {"symbol": json.loads(symbol.tojson()), **graph.names(), **options}
        super().__init__(graph, Session(server, name, body), logger=logger)

    @classmethod
    def load(
        cls, prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any
    ) -> Self:
        """Return a module from ``prefix-symbol.json`` and ``prefix-NNNN.params``.

        With ``load_optimizer_states``, the next ``init_optimizer`` loads ``prefix-NNNN.states``
        too.
        """
        symbol, arguments, auxiliary = load_checkpoint(prefix, epoch)
        states = None
        if load_optimizer_states:
            states = Path(f"{prefix}-{epoch:04d}.states").read_bytes()
        module = cls(symbol, **kwargs)
        parameters = module._parameters
        parameters.known, parameters.loaded = True, (arguments, auxiliary)
        parameters.loaded_states = states
        return module


def device_options(
    context: Context | Sequence[Context] | None,
    executor: str | None,
    compression_params: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the devices and executor as ``POST /v1/modules`` takes them."""
    contexts = [context] if isinstance(context, Context) else list(context or ())
    return {
        "contexts": [str(one) for one in contexts],
        "executor": executor,
        "compression_params": dict(compression_params) if compression_params else None,
    }
