"""Which version answers, and what happens to the others."""

from __future__ import annotations

import pytest

from app.domain.versions import LATEST, LIVE, Canary, VersionSpec, check_label
from app.errors.tree import Conflict, Invalid, NotFound


def test_the_default_is_the_promoted_version_else_live() -> None:
    assert VersionSpec().choose(None, 0.0) == LIVE
    assert VersionSpec(promoted=3).choose(None, 0.0) == 3


@pytest.mark.parametrize(
    ("name", "chosen"), [("live", LIVE), ("latest", LATEST), ("0", 0), ("12", 12), ("stable", 7)]
)
def test_a_named_version_is_used_whatever_is_promoted(name: str, chosen: object) -> None:
    canary = Canary(version=9, weight=1.0)
    spec = VersionSpec(promoted=3, labels={"stable": 7}, canary=canary)
    assert spec.choose(name, 0.0) == chosen


@pytest.mark.parametrize("name", ["beta", "-1", "03", "1.5", "1e3", "9999999999"])
def test_an_unknown_version_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(NotFound, match="latest, stable"):
        VersionSpec(labels={"stable": 7}).choose(name, 0.0)


def test_the_canary_gets_its_share() -> None:
    spec = VersionSpec(promoted=3, canary=Canary(version=4, weight=0.25))
    chosen = [spec.choose(None, draw / 100) for draw in range(100)]
    assert (chosen.count(4), chosen.count(3)) == (25, 75)
    none = VersionSpec(promoted=3, canary=Canary(version=4, weight=0.0))
    assert none.choose(None, 0.0) == 3


def test_rolling_back_undoes_each_promotion_down_to_the_first() -> None:
    spec = VersionSpec().promote(1).promote(2).promote(2).promote(None)
    found = []
    while spec.earlier:
        spec = spec.roll_back()
        found.append(spec.promoted)
    assert found == [2, 1, None]
    with pytest.raises(Conflict, match="none to roll back to"):
        spec.roll_back()


def test_promotion_history_is_bounded() -> None:
    spec = VersionSpec()
    for version in range(100):
        spec = spec.promote(version)
    assert spec.earlier == tuple(range(89, 99))


def test_versions_in_use_are_kept_and_so_is_the_previous_one() -> None:
    spec = VersionSpec(labels={"stable": 7}).promote(1).promote(2)
    spec = spec.with_canary(Canary(version=5, weight=0.5))
    assert spec.in_use() == {2, 5, 7}
    assert spec.kept() == {1, 2, 5, 7}
    assert spec.with_canary(None).promote(None).kept() == {2, 7}


def test_roles_are_named() -> None:
    spec = VersionSpec(promoted=3, canary=Canary(version=3, weight=1.0))
    spec = spec.with_label("stable", 3).with_label("old", 1)
    assert spec.parts(3) == ["promoted", "canary", "label stable"]
    assert spec.parts(4) == []


def test_a_label_can_be_moved_and_removed() -> None:
    spec = VersionSpec().with_label("stable", 3).with_label("stable", 4)
    assert spec.labels == {"stable": 4}
    assert spec.without_label("stable").labels == {}
    with pytest.raises(NotFound, match="there are: stable"):
        spec.without_label("other")


def test_the_number_of_labels_is_limited() -> None:
    spec = VersionSpec()
    for number in range(32):
        spec = spec.with_label(f"label{number}", number)
    with pytest.raises(Conflict, match="at most 32"):
        spec.with_label("one_more", 1)


@pytest.mark.parametrize("label", ["live", "latest", "3", "", "a b", "é", "x" * 65])
def test_a_label_cannot_be_a_number_or_a_reserved_name(label: str) -> None:
    with pytest.raises(Invalid):
        check_label(label)
