"""The contents of a backup: every file with its size and digest.

<backup>/backup.json        this manifest; written last
<backup>/modserve.db        the database at one moment, if it is SQLite
<backup>/directory-id       of the data directory
<backup>/modules/...        as in a data directory
<backup>/datasets/...
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.domain.checkpoint import FileDigest
from app.errors.tree import Damaged, NotFound, StartError
from app.files.durable_files import digest_file, write_durably
from app.files.json_records import encode_record, read_record

__all__ = ["DATABASE", "BackupManifest", "digest_manifest", "read_backup", "write_backup"]

DATABASE = "modserve.db"
_FILE = "backup.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupManifest:
    """The manifest of a backup.

    Attributes:
        created_at: seconds since 1970.
        modserve: version of modserve that made it.
        has_database: False if the server's database is not a file, in which case the backup has no
            job history.
        modules, datasets: numbers of them.
        files: digests by path within the backup.
    """

    created_at: float
    modserve: str
    has_database: bool
    modules: int
    datasets: int
    files: Mapping[str, FileDigest]

    @property
    def size(self) -> int:
        """Size of all files together in bytes."""
        return sum(digest.size for digest in self.files.values())


def write_backup(root: Path, manifest: BackupManifest) -> None:
    """Write the manifest, after everything else."""
    write_durably(root / _FILE, encode_record(manifest))


def digest_manifest(root: Path) -> str:
    """Return the SHA-256 of a backup's manifest, which tells backups apart; raise StartError."""
    try:
        return digest_file(root / _FILE).sha256
    except (FileNotFoundError, NotADirectoryError):
        raise _not_a_backup(root) from None
    except OSError as error:
        raise StartError(f"{root / _FILE} cannot be read: {error}") from None


def read_backup(root: Path) -> BackupManifest:
    """Read the manifest and compare every file with it, byte for byte.

    Raises:
        StartError: the backup is incomplete or damaged; the message names the file.
    """
    try:
        manifest = read_record(BackupManifest, root / _FILE)
    except NotFound:
        raise _not_a_backup(root) from None
    except Damaged as error:
        raise StartError(str(error)) from None
    for name, expected in manifest.files.items():
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise StartError(f"{_FILE} names {name!r}, which is not a file of a backup")
        try:
            got = digest_file(root / name)
        except OSError as error:
            raise StartError(f"file {name} of the backup cannot be read: {error}") from None
        if got != expected:
            raise StartError(
                f"file {name} of the backup is damaged: got {got.size:,} bytes, SHA-256 "
                f"{got.sha256}; expected {expected.size:,} bytes, SHA-256 {expected.sha256}"
            )
    return manifest


def _not_a_backup(root: Path) -> StartError:
    return StartError(f"{root} is not a backup: it has no {_FILE}")
