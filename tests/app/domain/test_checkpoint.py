"""Checkpoint tags and manifests."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.checkpoint import CheckpointManifest, CheckpointTag, FileDigest
from app.domain.codec import from_plain, to_plain
from app.errors.tree import Invalid

MANIFEST = CheckpointManifest(
    module="lenet",
    epoch=3,
    batch=120,
    prefix="lenet",
    files={"a": FileDigest(size=5, sha256="aa"), "b": FileDigest(size=7, sha256="bb")},
    created_at=1.5,
    metrics={"accuracy": 0.9},
)


@given(st.integers(0, 999_999_999), st.integers(0, 999_999_999))
def test_a_tag_is_read_back_as_written(epoch: int, batch: int) -> None:
    tag = CheckpointTag(epoch, batch)
    assert CheckpointTag.parse(str(tag)) == tag


@pytest.mark.parametrize(
    "text", ["", "-1", "03", "3.", "3.0", "3.01", "1e3", "3.1.2", " 3", "٣", "9" * 10, None, 1.0]
)
def test_malformed_tags_are_refused(text: object) -> None:
    with pytest.raises(Invalid, match=r"an epoch like 3, or epoch.batch like 3.120"):
        CheckpointTag.parse(text)


def test_tags_are_ordered_by_training_progress() -> None:
    tags = ["2", "2.5", "2.40", "3", "10", "10.1"]
    parsed = [CheckpointTag.parse(text) for text in tags]
    assert sorted(reversed(parsed)) == parsed


def test_a_manifest_is_read_back_as_written() -> None:
    assert from_plain(CheckpointManifest, to_plain(MANIFEST)) == MANIFEST
    assert str(MANIFEST.tag) == "3.120"
    assert MANIFEST.size == 12


def test_the_etag_changes_only_with_a_file() -> None:
    same = dataclasses.replace(MANIFEST, files=dict(reversed(MANIFEST.files.items())), created_at=9)
    assert same.etag == MANIFEST.etag
    files = {**MANIFEST.files, "b": FileDigest(size=7, sha256="bc")}
    others = [
        dataclasses.replace(MANIFEST, files=files),
        dataclasses.replace(MANIFEST, files={"a": MANIFEST.files["a"]}),
        dataclasses.replace(MANIFEST, batch=0),
    ]
    assert len({one.etag for one in [MANIFEST, *others]}) == 4
