"""A module with buckets that computes on a server (``mx.mod.BucketingModule``, remotely)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.client import Client
from app.remote.graph import Graph
from app.remote.module import device_options
from app.remote.on_server import OnServer
from app.remote.served_module import ServedModule
from app.remote.session import Session
from core.device import Context
from core.errors import UsageError
from core.module import BucketingModule
from core.module.bucketing_module import SymGen

__all__ = ["RemoteBucketingModule"]


class RemoteBucketingModule(OnServer, BucketingModule):
    """A bucketing module that computes on a server; see ``RemoteModule``.

    The symbols of all buckets are sent to the server with the first ``bind``, so their keys must be
    known by then: those given here and, in ``fit``, the ``buckets`` of the iterator.

    Args:
        sym_gen, default_bucket_key, logger, fixed_param_names, state_names, compression_params: as
            for ``BucketingModule``.
        context, server, name, executor: as for ``RemoteModule``.
        bucket_keys: keys of the buckets besides the default one.
    """

    def __init__(
        self,
        sym_gen: SymGen,
        default_bucket_key: Any = None,
        logger: Any = logging,
        context: Context | Sequence[Context] | None = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        compression_params: Mapping[str, Any] | None = None,
        *,
        server: Client | str,
        name: str | None = None,
        executor: str | None = None,
        bucket_keys: Iterable[Any] = (),
    ) -> None:
        self._server, self._wanted_name = server, name
        self._options = device_options(context, executor, compression_params)
        self._keys = {_key_text(key): key for key in bucket_keys}
        self._served: Session | None = None
        super().__init__(
            sym_gen,
            default_bucket_key,
            logger=logger,
            fixed_param_names=fixed_param_names,
            state_names=state_names,
        )
        self._keys[_key_text(default_bucket_key)] = default_bucket_key

    def fit(self, train_data: Any, *args: Any, **options: Any) -> None:
        """Train over an iterator; see ``BaseModule.fit``."""
        self._add_keys(getattr(train_data, "buckets", ()))
        super().fit(train_data, *args, **options)

    def bind(self, data_shapes: Sequence[Any], *args: Any, **options: Any) -> None:
        """Bind the default bucket with these shapes."""
        if self._served is None:
            self._served = Session(self._server, self._wanted_name, self._body())
        super().bind(data_shapes, *args, **options)

    # -- inside -----------------------------------------------------------------------------

    def _add_keys(self, keys: Iterable[Any]) -> None:
        if self._served is None:
            self._keys |= {_key_text(key): key for key in keys}

    def _body(self) -> dict[str, Any]:
        symbols = {text: self._sym_gen(key)[0] for text, key in self._keys.items()}
        return {
            "symbols": {text: json.loads(symbol.tojson()) for text, symbol in symbols.items()},
            "default_bucket_key": _key_text(self._default_bucket_key),
            **self._graph_of(self._default_bucket_key).names(),
            **self._options,
        }

    def _graph_of(self, bucket_key: Any) -> Graph:
        generated = self._generate(bucket_key)
        return Graph(*generated, self._state_names, self._fixed_param_names)

    # The buckets of this one do all that a BucketingModule asks of a Module.
    def _new_module(self, bucket_key: Any) -> ServedModule:  # type: ignore[override]
        text = _key_text(bucket_key)
        if self._served is not None and text not in self._keys:
            raise UsageError(
                f"bucket {bucket_key!r} was not sent to the server, which has "
                f"{', '.join(self._keys)}; name it in bucket_keys"
            )
        return ServedModule(self._graph_of(bucket_key), self._served, text, self.logger)


def _key_text(key: Any) -> str:
    """Return a bucket's key in the server's notation."""
    return json.dumps(key, separators=(",", ":"))
