"""Tracks which instance has the states of a sequence: the one that computed its first part."""

from __future__ import annotations

from collections import OrderedDict

from app.domain.module import ModuleRecord
from app.domain.sequence import SequencePart
from app.services.predictions.instances import Instance, Instances

__all__ = ["SequencePlaces"]

_MOST_SEQUENCES = 1 << 16


class SequencePlaces:
    """Maps sequences to instances, for modules with several; evicts the least recently used."""

    def __init__(self, instances: Instances) -> None:
        self._instances = instances
        self._places: OrderedDict[tuple[str, str], Instance] = OrderedDict()

    def choose(
        self, record: ModuleRecord, version: str, key: str, part: SequencePart
    ) -> Instance | None:
        """Return the instance that is to compute a part; see ``Instances.choose``.

        An unknown sequence goes to the home instance. It continues the sequence if that began when
        there was no other instance, else it answers that the sequence is lost.
        """
        there = self._instances.of(record)
        known = self._places.get((record.name, part.sequence_id))
        if known is not None and known in there:
            return known
        if part.is_start:
            return self._instances.choose(record, version, key)
        return there[0] if there else None

    def note(self, record: ModuleRecord, part: SequencePart, instance: Instance) -> None:
        """Record that an instance has computed a part."""
        self.forget(record, part)
        if not part.is_end:
            self._places[record.name, part.sequence_id] = instance
            if len(self._places) > _MOST_SEQUENCES:
                self._places.popitem(last=False)

    def forget(self, record: ModuleRecord, part: SequencePart) -> None:
        """Record that no instance has a sequence's states any more."""
        self._places.pop((record.name, part.sequence_id), None)
