"""Which instance has the states of a sequence: the one that computed its first part."""

from __future__ import annotations

from collections import OrderedDict

from app.domain.module import ModuleRecord
from app.domain.sequence import SequencePart
from app.services.instances import Instance, Instances

__all__ = ["SequencePlaces"]

_MOST_SEQUENCES = 1 << 16


class SequencePlaces:
    """Instances by sequence, of modules with more than one; those used last at the end."""

    def __init__(self, instances: Instances) -> None:
        self._instances = instances
        self._places: OrderedDict[tuple[str, str], Instance] = OrderedDict()

    def choose(
        self, record: ModuleRecord, version: str, key: str, part: SequencePart
    ) -> Instance | None:
        """Return the instance that a part is asked of; see ``Instances.choose``.

        A sequence that no instance is known to have is asked for at home, which says that it is
        lost, or goes on with it where it began when the home was alone.
        """
        there = self._instances.of(record)
        known = self._places.get((record.name, part.sequence_id))
        if known is not None and known in there:
            return known
        if part.is_start:
            return self._instances.choose(record, version, key)
        return there[0] if there else None

    def note(self, record: ModuleRecord, part: SequencePart, instance: Instance) -> None:
        """Note that an instance has computed a part."""
        self.forget(record, part)
        if not part.is_end:
            self._places[record.name, part.sequence_id] = instance
            if len(self._places) > _MOST_SEQUENCES:
                self._places.popitem(last=False)

    def forget(self, record: ModuleRecord, part: SequencePart) -> None:
        """Note that no instance has the states of a sequence any more."""
        self._places.pop((record.name, part.sequence_id), None)
