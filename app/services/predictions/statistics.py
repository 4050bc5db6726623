"""Statistics of predictions by module and version: plain sums, updated as each prediction ends.

Thousands end per second, so everything else is computed only on request.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from app.domain.module import ModuleRecord
from app.link.packed_frames import BatchFacts

__all__ = ["BatchStatistics", "Statistics", "VersionStatistics"]

_QUEUE_BITS = 40
"""The last bucket begins at 2**39 ns, about nine minutes."""
_MOST_VERSIONS = 64
"""Per module: a job may save thousands of checkpoints, each of which `latest` can resolve to."""


class BatchStatistics(NamedTuple):
    """Batches of one size.

    Attributes:
        size: examples in each.
        batches: their number.
        input_ns, infer_ns, output_ns: their total times.
    """

    size: int
    batches: int
    input_ns: int
    infer_ns: int
    output_ns: int


@dataclass(slots=True)
class VersionStatistics:
    """Sums over the predictions of one version of a module since the server started.

    Attributes:
        module: its name.
        version: ``live`` or the number.
        successes, failures: numbers of predictions.
        success_ns, failure_ns: total times from request to answer.
        examples: in successful predictions.
        queue_ns, input_ns, infer_ns, output_ns: total times of successful predictions on the
            executor.
        last_ended_ns: when the last one was answered, by the performance counter; 0 for none.
        queue_counts: histogram of the queue times of successful predictions; its index is the bit
            length of the time in nanoseconds.
    """

    module: str
    version: str
    successes: int = 0
    failures: int = 0
    success_ns: int = 0
    failure_ns: int = 0
    examples: int = 0
    queue_ns: int = 0
    input_ns: int = 0
    infer_ns: int = 0
    output_ns: int = 0
    last_ended_ns: int = 0
    queue_counts: list[int] = field(default_factory=lambda: [0] * (_QUEUE_BITS + 1))
    _by_size: dict[int, list[int]] = field(default_factory=dict)

    def add_success(
        self, rows: int, taken_ns: int, ended_ns: int, queue_ns: int, facts: BatchFacts
    ) -> None:
        """Count a prediction that was answered.

        Args:
            rows: number of its examples.
            taken_ns: time from request to answer.
            ended_ns: now, by the performance counter.
            queue_ns: time of that spent waiting for its batch.
            facts: of its batch; without examples if it was computed in pieces.
        """
        size, input_us, infer_us, output_us = facts
        self.successes += 1
        self.success_ns += taken_ns
        self.last_ended_ns = ended_ns
        self.examples += rows
        self.queue_ns += queue_ns
        self.input_ns += input_us * 1000
        self.infer_ns += infer_us * 1000
        self.output_ns += output_us * 1000
        self.queue_counts[min(queue_ns.bit_length(), _QUEUE_BITS)] += 1
        # Weighted by its share of the batch, so that the shares of all predictions in it add up to
        # one batch.
        sums = self._by_size.get(size or rows)
        if sums is None:
            sums = self._by_size[size or rows] = [0, 0, 0, 0]
        sums[0] += rows
        sums[1] += rows * input_us
        sums[2] += rows * infer_us
        sums[3] += rows * output_us

    def add_failure(self, taken_ns: int) -> None:
        """Count a prediction that was refused or lost."""
        self.failures += 1
        self.failure_ns += taken_ns

    def last_ended_ms(self) -> int:
        """Return when the last one was answered, in milliseconds since 1970; 0 for none."""
        if not self.last_ended_ns:
            return 0
        return (time.time_ns() - time.perf_counter_ns() + self.last_ended_ns) // 1_000_000

    def batches(self) -> list[BatchStatistics]:
        """Return the batches by size, rounded up where a part of a batch was withdrawn."""
        return [
            BatchStatistics(size, -(-rows // size), *(us * 1000 // size for us in sums))
            for size, (rows, *sums) in sorted(self._by_size.items())
        ]


class Statistics:
    """Statistics of all versions that had predictions; for each module only the latest used."""

    def __init__(self) -> None:
        self._by_name: dict[str, dict[str, VersionStatistics]] = {}
        self._answers: dict[str, dict[str, int]] = {}

    def of(self, record: ModuleRecord, version: str) -> VersionStatistics:
        """Return a version's statistics, for update; a folder model keeps them when it is replaced.

        Args:
            version: ``live`` or the number.
        """
        module = record.public_name
        versions = self._by_name.get(module)
        if versions is None:
            versions = self._by_name[module] = {}
        found = versions.get(version)
        if found is None:
            if len(versions) >= _MOST_VERSIONS:
                del versions[min(versions, key=lambda name: versions[name].last_ended_ns)]
            found = versions[version] = VersionStatistics(module, version)
        return found

    def find(self, record: ModuleRecord, version: str) -> VersionStatistics:
        """Return a version's statistics; empty ones if it had no predictions."""
        module = record.public_name
        found = self._by_name.get(module, {}).get(version)
        return found or VersionStatistics(module, version)

    def asked(self, record: ModuleRecord) -> list[str]:
        """Return the versions of a module that had predictions."""
        return list(self._by_name.get(record.public_name, ()))

    def add_answer(self, record: ModuleRecord, executor: str) -> None:
        """Count a prediction that an executor answered."""
        counts = self._answers.setdefault(record.public_name, {})
        counts[executor] = counts.get(executor, 0) + 1

    def answers(self) -> Mapping[str, Mapping[str, int]]:
        """Return how many predictions each executor answered, by module."""
        return self._answers

    def forget(self, module: str) -> None:
        """Drop the statistics of a deleted module."""
        self._by_name.pop(module, None)
        self._answers.pop(module, None)

    def __iter__(self) -> Iterator[VersionStatistics]:
        return iter([one for each in self._by_name.values() for one in each.values()])
