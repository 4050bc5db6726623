"""Versions of a module that can answer: the parameters in training, or those of a checkpoint.

A checkpoint between two epochs is a version; its number is the epoch. ``live`` is the parameters
in training, ``latest`` the one that was written last. A label is another name for a
number. A prediction that names no version is answered by the promoted one, else by ``live``; while
there is a canary, it answers a share of these predictions.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, Field

from app.domain.codec import STRICT_FIELDS
from app.errors.tree import Conflict, Invalid, NotFound

__all__ = ["LATEST", "LIVE", "Canary", "Chosen", "VersionSpec", "check_label"]

LIVE: Literal["live"] = "live"
LATEST: Literal["latest"] = "latest"

Chosen: TypeAlias = int | Literal["live", "latest"]

_MOST_EARLIER = 10
_MOST_LABELS = 32
_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A canary.

    Attributes:
        version: its number.
        weight: share of the predictions that name no version, which it answers.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    version: int
    weight: Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSpec:
    """Which versions of a module are in use.

    Attributes:
        promoted: answers predictions that name no version; None for ``live``.
        earlier: versions promoted before, the latest last; None for ``live``.
        labels: numbers by label.
        canary: answers some of the predictions that name no version.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    promoted: int | None = None
    earlier: tuple[int | None, ...] = ()
    labels: dict[str, int] = field(default_factory=dict)
    canary: Canary | None = None

    def choose(self, name: str | None, draw: float) -> Chosen:
        """Return which version answers a prediction.

        Args:
            name: the version named by the prediction, None if it names none.
            draw: a number from 0 up to 1 that decides whether the canary answers.

        Raises:
            NotFound: there is no such label.
        """
        if name is None:
            if self.canary is not None and draw < self.canary.weight:
                return self.canary.version
            return LIVE if self.promoted is None else self.promoted
        if name == LIVE:
            return LIVE
        if name == LATEST:
            return LATEST
        if _NUMBER.fullmatch(name):
            return int(name)
        if name not in self.labels:
            known = ", ".join([LIVE, LATEST, *sorted(self.labels)])
            raise NotFound("version", name, f"a version is the number of an epoch, or {known}")
        return self.labels[name]

    def promote(self, version: int | None) -> VersionSpec:
        """Return it with a version promoted."""
        if version == self.promoted:
            return self
        earlier = (*self.earlier, self.promoted)[-_MOST_EARLIER:]
        return dataclasses.replace(self, promoted=version, earlier=earlier)

    def roll_back(self) -> VersionSpec:
        """Return it with the version promoted before; raise Conflict if there was none."""
        if not self.earlier:
            raise Conflict("no version was promoted before, so there is none to roll back to")
        return dataclasses.replace(self, promoted=self.earlier[-1], earlier=self.earlier[:-1])

    def with_label(self, label: str, version: int) -> VersionSpec:
        """Return it with a label on a version, removed from the one that had it."""
        labels = {**self.labels, check_label(label): version}
        if len(labels) > _MOST_LABELS:
            raise Conflict(f"a module has at most {_MOST_LABELS} labels; delete one first")
        return dataclasses.replace(self, labels=dict(sorted(labels.items())))

    def without_label(self, label: str) -> VersionSpec:
        """Return it without a label; raise NotFound."""
        if label not in self.labels:
            raise NotFound("label", label, f"there are: {', '.join(self.labels) or 'none'}")
        labels = {name: version for name, version in self.labels.items() if name != label}
        return dataclasses.replace(self, labels=labels)

    def with_canary(self, canary: Canary | None) -> VersionSpec:
        """Return it with another canary, or without one."""
        return dataclasses.replace(self, canary=canary)

    def parts(self, version: int) -> list[str]:
        """Return how a version is used: ``promoted``, ``canary``, ``label stable``."""
        found = ["promoted"] if version == self.promoted else []
        if self.canary is not None and version == self.canary.version:
            found.append("canary")
        return found + [f"label {name}" for name, one in self.labels.items() if one == version]

    def answering(self) -> frozenset[int]:
        """Return the versions that answer predictions that name no version."""
        canary = None if self.canary is None else self.canary.version
        return frozenset(one for one in (self.promoted, canary) if one is not None)

    def in_use(self) -> frozenset[int]:
        """Return the versions in use."""
        return self.answering() | set(self.labels.values())

    def kept(self) -> frozenset[int]:
        """Return the versions whose parameters are kept: those in use, and the previously
        promoted one.
        """
        return self.in_use() | {one for one in self.earlier[-1:] if one is not None}


def check_label(label: str) -> str:
    """Return a label if it is valid; else raise Invalid."""
    if label in (LIVE, LATEST) or not _LABEL.fullmatch(label):
        expected = f"a letter and then at most 63 of A-Z a-z 0-9 . _ - ; not {LIVE} or {LATEST}"
        raise Invalid("label", label, expected)
    return label
