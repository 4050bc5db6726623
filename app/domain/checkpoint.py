"""A checkpoint: its position in the training, its files and their digests.

The position is (epoch, batch): epochs completed, and batches done of the next one. A
checkpoint between two epochs has batch 0 and is a version that can be served; its tag is the
epoch (``3``). One taken within an epoch has the tag ``3.120``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import ConfigDict

from app.domain.codec import STRICT_FIELDS, canonical_json
from app.errors.tree import Invalid

__all__ = [
    "MANIFEST_FORMAT",
    "BestPolicy",
    "CheckpointManifest",
    "CheckpointTag",
    "FileDigest",
    "best_tags",
    "is_better",
    "prefix_of",
]

MANIFEST_FORMAT = 1

_MXNET_FILE = re.compile(r"(.+)-(?:symbol\.json|[0-9]{4}\.(?:params|states))")
_TAG = re.compile(r"(0|[1-9][0-9]{0,8})(?:\.([1-9][0-9]{0,8}))?")


class CheckpointTag(NamedTuple):
    """Position of a checkpoint in its training; its text is its name in paths."""

    epoch: int
    batch: int = 0

    def __str__(self) -> str:
        return f"{self.epoch}.{self.batch}" if self.batch else str(self.epoch)

    @classmethod
    def parse(cls, text: object, field: str = "epoch") -> CheckpointTag:
        """Read ``3`` or ``3.120``; raise Invalid for this field on anything else."""
        found = _TAG.fullmatch(str(text))
        if found is None:
            raise Invalid(field, text, "an epoch like 3, or epoch.batch like 3.120")
        return cls(int(found[1]), int(found[2] or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDigest:
    """Size in bytes and SHA-256 (hexadecimal) of one file."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BestPolicy:
    """Which checkpoints of a job are its best, which are exempt from pruning.

    Attributes:
        part: whether metrics of training or validation decide.
        metric: name of the metric.
        mode: whether the minimum or the maximum is the best.
        count: how many are kept.
    """

    part: Literal["train", "validation"]
    metric: str
    mode: Literal["min", "max"]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointManifest:
    """The content of ``manifest.json``. It is written last: if it exists, the files are complete.

    Attributes:
        module: name of the module it belongs to.
        epoch: epochs completed.
        batch: batches done of the next epoch; 0 between epochs.
        prefix: the files are named as MXNet names them, ``prefix-symbol.json`` and so on.
        files: digest of every file except the manifest, by name.
        created_at: seconds since 1970.
        job_id, attempt: the job that wrote it; None when saved by a call or uploaded.
        metrics: values of the metrics at that time, by name.
        keep_best: of the job that wrote it; None if it keeps none.
    """

    format: int = MANIFEST_FORMAT
    module: str
    epoch: int
    batch: int = 0
    prefix: str
    files: Mapping[str, FileDigest]
    created_at: float
    job_id: int | None = None
    attempt: int | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    keep_best: BestPolicy | None = None

    @property
    def tag(self) -> CheckpointTag:
        """Its position as a tag."""
        return CheckpointTag(self.epoch, self.batch)

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(digest.size for digest in self.files.values())

    @property
    def etag(self) -> str:
        """A strong ETag, including quotes: it changes whenever a file does."""
        rows = sorted((name, digest.sha256) for name, digest in self.files.items())
        return f'"{self.tag}-{hashlib.sha256(canonical_json(rows).encode()).hexdigest()[:32]}"'


def is_better(
    value: float | None, best: float | None, mode: Literal["min", "max"], min_delta: float = 0.0
) -> bool:
    """Return whether a metric's value is better than the best before it, by more than a delta."""
    if value is None or best is None:
        return value is not None
    gain = best - value if mode == "min" else value - best
    return gain > min_delta


def best_tags(manifests: Iterable[CheckpointManifest]) -> set[CheckpointTag]:
    """Return the best checkpoints of each job that keeps its best, the earlier ones of ties."""
    kept: set[CheckpointTag] = set()
    by_job: dict[int | None, list[tuple[float, CheckpointTag, BestPolicy]]] = {}
    for manifest in manifests:
        policy = manifest.keep_best
        if policy is None or manifest.batch:
            continue
        value = manifest.metrics.get(policy.part, {}).get(policy.metric)
        if value is not None:
            rank = value if policy.mode == "min" else -value
            by_job.setdefault(manifest.job_id, []).append((rank, manifest.tag, policy))
    for rows in by_job.values():
        rows.sort(key=lambda row: row[:2])
        kept.update(tag for _, tag, policy in rows[: rows[0][2].count])
    return kept


def prefix_of(names: Iterable[str]) -> str | None:
    """Return the prefix of MXNet's file names, None if no name is of that kind."""
    for name in sorted(names):
        if found := _MXNET_FILE.fullmatch(name):
            return found[1]
    return None
