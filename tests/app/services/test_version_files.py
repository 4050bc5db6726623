"""Where a version's files are found while versions are changed."""

from __future__ import annotations

import pytest

from app.domain.checkpoint import CheckpointTag
from app.domain.versions import VersionSpec
from app.files.checkpoint_files import read_manifest, write_checkpoint
from app.services import version_files
from app.services.version_files import VersionFiles
from app.version_errors import VersionDamaged


@pytest.fixture
def files(bench) -> VersionFiles:
    """Of module ``a``, whose version 0 is promoted and kept."""
    with write_checkpoint(bench.checkpoints.root("a"), CheckpointTag(0), module="a") as writer:
        (writer.directory / "a-0000.params").write_bytes(b"w")
    files = VersionFiles(bench.checkpoints)
    files.keep(promoted(bench), 0)
    return files


def promoted(bench):
    return bench.modules.get("a").evolve(versions=VersionSpec(promoted=0))


def test_a_version_that_is_kept_has_files_of_its_own(bench, files) -> None:
    place = files.find(promoted(bench), 0)
    assert place.directory.parent == bench.checkpoints.versions_root("a")


def test_one_let_go_while_it_is_looked_for_is_found_all_the_same(
    bench, files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prediction has the record of the moment it came in; the version is let go after that."""

    def read(directory):
        monkeypatch.setattr(version_files, "read_manifest", read_manifest)
        files.sweep(bench.modules.get("a"))
        return read_manifest(directory)

    monkeypatch.setattr(version_files, "read_manifest", read)
    place = files.find(promoted(bench), 0)
    assert place.directory.parent == bench.checkpoints.root("a")


def test_one_whose_files_are_gone_is_told_with_the_part_it_has(bench, files) -> None:
    files.sweep(bench.modules.get("a"))
    bench.checkpoints.delete("a", CheckpointTag(0))
    with pytest.raises(VersionDamaged, match=r"in use .promoted.*are missing"):
        files.find(promoted(bench), 0)
