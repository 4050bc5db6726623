"""Finding a version's files while versions change."""

from __future__ import annotations

import pytest

from app.domain.checkpoint import CheckpointTag
from app.domain.versions import VersionSpec
from app.errors.versions import VersionDamaged
from app.files.checkpoint_files import read_manifest, write_checkpoint
from app.services.modules import version_files
from app.services.modules.version_files import VersionFiles


@pytest.fixture
def files(bench) -> VersionFiles:
    """Files of module ``a``, whose version 0 is promoted and kept."""
    with write_checkpoint(bench.checkpoints.root("a"), CheckpointTag(0), module="a") as writer:
        (writer.directory / "a-0000.params").write_bytes(b"w")
    files = VersionFiles(bench.checkpoints)
    files.keep(promoted(bench), 0)
    return files


def promoted(bench):
    return bench.modules.get("a").evolve(versions=VersionSpec(promoted=0))


def test_a_kept_version_has_its_own_files(bench, files) -> None:
    place = files.find(promoted(bench), 0)
    assert place.directory.parent == bench.checkpoints.versions_root("a")


def test_a_version_released_during_the_lookup_is_still_found(
    bench, files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prediction uses the record from when it arrived; the version is released afterwards."""

    def read(directory):
        monkeypatch.setattr(version_files, "read_manifest", read_manifest)
        files.sweep(bench.modules.get("a"))
        return read_manifest(directory)

    monkeypatch.setattr(version_files, "read_manifest", read)
    place = files.find(promoted(bench), 0)
    assert place.directory.parent == bench.checkpoints.root("a")


def test_a_version_with_missing_files_is_reported_with_its_role(bench, files) -> None:
    files.sweep(bench.modules.get("a"))
    bench.checkpoints.delete("a", CheckpointTag(0))
    with pytest.raises(VersionDamaged, match=r"in use .promoted.*are missing"):
        files.find(promoted(bench), 0)
