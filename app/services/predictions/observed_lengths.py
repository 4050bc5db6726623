"""Counts the lengths of predictions' inputs, and plans the buckets that would pad them least."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

from app.domain.bucket_lengths import LengthInput, length_input
from app.domain.bucket_plan import choose_boundaries, merge_rare, padded_total
from app.domain.module import ModuleRecord, require
from app.errors.tree import Conflict, NotFound, ServiceError
from app.files.length_counts import LengthCountFiles, LengthCounts
from app.link.signatures import Target
from app.services.modules.modules import ModuleService
from app.services.operations.background_tasks import cancel_tasks, in_thread

__all__ = ["BucketPlan", "ObservedLengths"]

_log = logging.getLogger(__name__)

_EVERY_SECONDS = 3.0
_MOST_LENGTHS = 256
_FEWEST_BUCKETS = 2
_MOST_EXAMPLES = 1 << 24
"""Beyond this many counted examples all counts are halved, so that recent ones weigh more."""


@dataclass(frozen=True, slots=True)
class BucketPlan:
    """The buckets that are bound, and those that would pad the least.

    Attributes:
        length: the input whose length chooses the bucket, and the lengths bound now.
        planned: the lengths to bind, ascending.
        counts: examples by length, up to that of the largest bucket.
        steps, steps_bound, steps_planned: of these examples in total: without padding, padded to
            the bound buckets, and padded to the planned ones.
    """

    length: LengthInput
    planned: tuple[int, ...]
    counts: Mapping[int, int]
    steps: int
    steps_bound: int
    steps_planned: int


class ObservedLengths:
    """Counts lengths in memory, and periodically adds the counts to the files."""

    def __init__(self, modules: ModuleService, files: LengthCountFiles) -> None:
        self._modules = modules
        self._files = files
        self._new: dict[Target, int] = {}
        self._lock = Lock()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Add the counts to the files every few seconds, until ``stop``."""
        await in_thread(self._remove_orphans)
        self._task = asyncio.create_task(self._run(), name="count lengths")

    async def stop(self) -> None:
        """Stop, and add the remaining counts to the files."""
        task, self._task = self._task, None
        if task is not None:
            await cancel_tasks([task])
        await self.flush()

    def note(self, target: Target) -> None:
        """Count a prediction that was answered."""
        self._new[target] = self._new.get(target, 0) + 1

    async def flush(self) -> None:
        """Add the counts to the files now."""
        new, self._new = self._new, {}
        if new:
            await in_thread(self._add_all, new)

    async def plan(self, module: str, most: int) -> BucketPlan:
        """Return the buckets, at most ``most``, that pad the lengths seen so far the least.

        The longest bound bucket stays, so that no input that fits now is refused, and so does the
        default one. The others are chosen among the lengths that the module has symbols for. At
        least two remain, because a single one would not tell which axis varies.

        Raises:
            NotFound, WrongStage: there is no such module, or it is not bound.
            Conflict: its bucket keys are not lengths.
        """
        await self.flush()
        return await in_thread(self._plan, module, most)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            await self.flush()

    def _add_all(self, new: Mapping[Target, int]) -> None:
        by_module: dict[str, dict[Target, int]] = {}
        for target, times in new.items():
            by_module.setdefault(target.module, {})[target] = times
        for module, asked in by_module.items():
            try:
                with self._lock:
                    self._add(module, asked)
            except (ServiceError, OSError) as error:
                _log.warning("lengths of module %s are not counted: %s", module, error)

    def _plan(self, module: str, most: int) -> BucketPlan:
        record = self._modules.get(module)
        require(record, "bind_bucket")
        length = length_input(record)
        if length is None:
            raise Conflict(
                f"module {module!r} has no buckets to plan: its bucket keys are not lengths of an "
                "axis of an input; create a module of kind bucketing whose keys are"
            )
        known = self._read(record, length)
        longest = length.bound[-1]
        counts = {one: count for one, count in known.items() if one <= longest}
        keys = {int(key) for key in record.symbols if key.isdecimal() and int(key) <= longest}
        fixed = {longest, int(record.default_bucket_key)}
        planned = choose_boundaries(counts, keys, most, fixed)
        if len(planned) < _FEWEST_BUCKETS:
            planned = length.bound[-_FEWEST_BUCKETS:]
        return BucketPlan(
            length=length,
            planned=planned,
            counts=counts,
            steps=sum(one * count for one, count in counts.items()),
            steps_bound=padded_total(counts, length.bound),
            steps_planned=padded_total(counts, planned),
        )

    def _add(self, module: str, asked: Mapping[Target, int]) -> None:
        record = self._modules.get(module)
        length = length_input(record)
        if length is None:
            return
        counts = Counter(self._read(record, length))
        for target, times in asked.items():
            for name, _, shape, _ in target.inputs.rows:
                if name == length.name:
                    counts[shape[length.axis]] += times * shape[length.batch_axis]
        if counts.total() > _MOST_EXAMPLES:
            counts = Counter({one: count // 2 for one, count in counts.items() if count > 1})
        kept = tuple(sorted(merge_rare(counts, _MOST_LENGTHS).items()))
        self._files.write(
            module,
            LengthCounts(module_id=record.id, input=length.name, axis=length.axis, counts=kept),
        )

    def _read(self, record: ModuleRecord, length: LengthInput) -> dict[int, int]:
        """Return the counts; none if they are of another input or axis, or of an earlier module of
        this name."""
        known = self._files.read(record.name)
        if known is None or known.module_id != record.id:
            return {}
        is_same = (known.input, known.axis) == (length.name, length.axis)
        return dict(known.counts) if is_same else {}

    def _remove_orphans(self) -> None:
        for module in self._files.names():
            try:
                self._modules.get(module)
            except NotFound:
                self._files.delete(module)
