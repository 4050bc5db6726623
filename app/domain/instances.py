"""The executors that serve a module, and its replicas on them.

The first instance is the module itself, on the executor of its record, its home: training, changes
of parameters, checkpoints and steps are done there. The others are replicas, which only have
versions.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence

from app.domain.codec import canonical_json, to_plain
from app.domain.module import ModuleRecord
from app.domain.serving import ServingSpec
from app.domain.versions import VersionSpec
from app.errors.tree import Invalid

__all__ = ["as_replica", "check_instances", "module_of", "replica_name", "serving_executors"]

_MARK = "@"
"""Cannot occur in names that clients choose."""
_DIGEST_LETTERS = 16


def serving_executors(record: ModuleRecord, names: Sequence[str]) -> tuple[str, ...]:
    """Return the executors of a module's instances, its home first; fewer if the server has fewer.

    Args:
        record: the module.
        names: the executors of this server.
    """
    home = record.executor
    if home not in names:
        return ()
    others = [one for one in names if one != home and _kind(one) == _kind(home)]
    # Spread by name, so that they are the same after a restart.
    others.sort(key=lambda one: hashlib.sha256(f"{record.name} {one}".encode()).digest())
    return (home, *others[: record.serving.instances - 1])


def check_instances(home: str, instances: int, names: Sequence[str]) -> None:
    """Raise Invalid if this server has fewer executors than a module is to have instances."""
    alike = [one for one in names if _kind(one) == _kind(home)]
    if 1 < instances > len(alike):
        expected = (
            f"at most {len(alike)}, because an instance needs an executor of its own, and of "
        )
        expected += f"its kind this server has {', '.join(alike)}"
        hint = "start it with more devices in MODSERVE_DEVICES"
        raise Invalid("instances", instances, expected, hint)


def replica_name(record: ModuleRecord) -> str:
    """Return the name of a module's replicas on their executors.

    It depends on everything that affects predictions except parameters, so that a replica never
    answers for a module that has since been bound or created again.
    """
    parts = [
        *(record.id, record.kind.value, dict(record.symbols), record.default_bucket_key),
        *(record.data_names, record.label_names, record.state_names, to_plain(record.bind)),
    ]
    digest = hashlib.sha256(canonical_json(parts).encode()).hexdigest()
    return f"{record.name}{_MARK}{digest[:_DIGEST_LETTERS]}"


def module_of(name: str) -> str:
    """Return the module to which a name on an executor belongs, which may be a replica's."""
    return name.partition(_MARK)[0]


def as_replica(record: ModuleRecord, name: str, executor: str) -> ModuleRecord:
    """Return a module's replica for another executor: bound for inference, without parameters."""
    assert record.bind is not None
    bind = dataclasses.replace(record.bind, for_training=False, inputs_need_grad=False)
    return record.evolve(
        name=name,
        executor=executor,
        contexts=(executor,),
        compression_params=None,
        origin=None,
        folder=None,
        serving=ServingSpec(),
        transforms={},
        labels={},
        versions=VersionSpec(),
        bind=bind,
        init=None,
        optimizer=None,
        params=None,
        checkpoint=None,
        durable=True,
        lost=False,
        saved_states=False,
    )


def _kind(executor: str) -> str:
    return executor.partition("(")[0]
