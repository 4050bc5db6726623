"""The files of a whole checkpoint that come in one request: temporary until they are taken over."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

from app.domain.checkpoint import CheckpointTag
from app.domain.names import check_name
from app.errors import Invalid, TooLarge
from app.files.checkpoint_files import MANIFEST
from app.files.model_archives import ARCHIVE_SUFFIXES
from app.services.uploads import Upload

__all__ = ["IncomingCheckpoint", "check_file_name"]

_ARCHIVE = "archive"
_SUFFIXES = {
    "symbol": (".json",),
    "params": (".params",),
    "states": (".states",),
    _ARCHIVE: ARCHIVE_SUFFIXES,
}
_OF_MXNET = (".json", ".params", ".states", ".buckets")
_SYMBOL_OF_KEY = re.compile(r"symbols\[(.+)\]", re.DOTALL)
_KEY_IN_NAME = re.compile(r".+-([0-9]+)-symbol\.json", re.DOTALL)
_EPOCH = re.compile(r".*-([0-9]{4,9})\.params", re.DOTALL)
_FORM_BYTES = 1 << 20
"""What a form has beside its files."""


def check_file_name(name: str) -> None:
    """Raise Invalid for what can be no name of an uploaded file of a checkpoint."""
    if check_name(name, "file") == MANIFEST:
        raise Invalid("file", name, "any other name; the server writes the manifest")
    if not name.endswith(_OF_MXNET):
        expected = f"a file of MXNet's, whose name ends with {', '.join(_OF_MXNET)}"
        raise Invalid("file", name, expected)


class IncomingCheckpoint:
    """Opens an upload for each file; all of them are removed at the end of a ``with``.

    Attributes:
        files: by the name that each has on the client's disk, as MXNet wrote it.
    """

    def __init__(self, directory: Path, *, max_bytes: int, max_symbol_bytes: int) -> None:
        """Prepare.

        Args:
            directory: where the temporary files lie; on the file system of the checkpoints.
            max_bytes: of all files together.
            max_symbol_bytes: of each symbol, which is read into memory.
        """
        self.files: dict[str, Upload] = {}
        self._parts: dict[str, str] = {}
        self._has_keys_in_names = False
        self._directory = directory
        self._max_bytes = max_bytes
        self._max_symbol_bytes = max_symbol_bytes
        self._stack = ExitStack()

    def __enter__(self) -> IncomingCheckpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def expect(self, size: int | None) -> None:
        """Refuse a request by the length it announces, before any of it is read."""
        limit = self._max_bytes + _FORM_BYTES
        if size is not None and size > limit:
            setting = "MODSERVE_MAX_CHECKPOINT_BYTES"
            raise TooLarge("the checkpoint, in bytes", got=size, limit=limit, setting=setting)

    def open(self, part: str, file: str) -> Upload:
        """Open the upload of one file.

        Args:
            part: what it is: ``symbol``, ``symbols[20]`` of a bucket, ``params`` or ``states``; or
                an ``archive`` with all of a model. Several of ``symbol`` are of the buckets whose
                keys their names have, as ``BucketingModule`` writes them.
            file: its name.

        Raises:
            Invalid: another part, one that came before, or a name that is none.
        """
        kind = "symbol" if _SYMBOL_OF_KEY.fullmatch(part) else part
        suffixes = _SUFFIXES.get(kind)
        if suffixes is None:
            expected = "symbol, symbols[BUCKET_KEY], params, states or archive as a file's part"
            raise Invalid(part or "part", file, expected)
        check_name(file, part)
        if part == "symbol":
            part = self._part_of_symbol(file)
        if not file.endswith(suffixes):
            expected = f"a file whose name ends with {' or '.join(suffixes)}"
            called = f"with curl -F '{part}=@FILE;filename=net{suffixes[0]}'"
            hint = f"if it is one, send it by such a name; {called}"
            raise Invalid(part, file, expected, hint)
        if part in self._parts or file in self.files:
            raise Invalid(part, file, "each part and each file once")
        left = self._max_bytes - sum(upload.size for upload in self.files.values())
        limit, setting = left, "MODSERVE_MAX_CHECKPOINT_BYTES"
        if kind == "symbol" and self._max_symbol_bytes < left:
            limit, setting = self._max_symbol_bytes, "MODSERVE_MAX_BODY_BYTES"
        upload = self._stack.enter_context(
            Upload(self._directory / file, limit=limit, what=f"file {file!r}", setting=setting)
        )
        self._parts[part] = file
        self.files[file] = upload
        return upload

    def _part_of_symbol(self, file: str) -> str:
        """Return the part of a symbol; the second that comes makes both those of buckets."""
        if "symbol" in self._parts:
            self._has_keys_in_names = True
            first = self._parts.pop("symbol")
            self._parts[_part_by_name(first)] = first
        return _part_by_name(file) if self._has_keys_in_names else "symbol"

    @property
    def has_archive(self) -> bool:
        """Return whether there is an archive."""
        return _ARCHIVE in self._parts

    def archive(self) -> Path | None:
        """Return where the archive lies, None if there is none."""
        if not self.has_archive:
            return None
        if len(self._parts) > 1:
            other = next(part for part in self._parts if part != _ARCHIVE)
            raise Invalid(other, self._parts[other], "no other file beside an archive")
        upload = self.files[self._parts[_ARCHIVE]]
        upload.finish()
        return upload.path

    @property
    def has_params(self) -> bool:
        """Return whether there are parameters.

        Raises:
            Invalid: there are none, and yet an optimizer's states.
        """
        if "params" not in self._parts and "states" in self._parts:
            raise Invalid("params", "nothing", "the parameters that the states belong to")
        return "params" in self._parts

    def params(self) -> Path | None:
        """Return the path of the parameters while they are here, None if there are none."""
        if not self.has_params:
            return None
        upload = self.files[self._parts["params"]]
        upload.finish()
        return upload.path

    def symbol(self) -> bytes | None:
        """Return the symbol, None if there is none."""
        return self._read("symbol")

    def symbols(self) -> dict[str, bytes]:
        """Return the symbols by the bucket key that was given."""
        found = {}
        for part in self._parts:
            if (key := _SYMBOL_OF_KEY.fullmatch(part)) and (text := self._read(part)) is not None:
                found[key[1]] = text
        return found

    def tag(self, epoch: str | None = None, default: int | None = None) -> CheckpointTag:
        """Return the tag: the epoch stated, else the one in the name of the parameters' file.

        Args:
            epoch: as a form states it.
            default: where neither says one.

        Raises:
            Invalid: the epoch is none, or neither says one and there is no default.
        """
        if epoch is not None:
            return CheckpointTag.parse(epoch)
        name = self._parts.get("params", "")
        found = _EPOCH.fullmatch(name)
        if found is None:
            if default is not None:
                return CheckpointTag(default)
            expected = "an epoch, for the name is not like net-0010.params"
            hint = "say it in the field epoch of the form, for example epoch=10"
            raise Invalid("epoch", f"file {name!r}", expected, hint)
        return CheckpointTag(int(found[1]))

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each file by its name."""
        return {name: upload.finish().sha256 for name, upload in self.files.items()}

    def _read(self, part: str) -> bytes | None:
        if part not in self._parts:
            return None
        upload = self.files[self._parts[part]]
        upload.finish()
        return upload.path.read_bytes()


def _part_by_name(file: str) -> str:
    found = _KEY_IN_NAME.fullmatch(file)
    if found is None:
        expected = "one symbol, or several named as net-10-symbol.json, by their bucket keys"
        raise Invalid("symbol", file, expected, "or send each as symbols[KEY]")
    return f"symbols[{int(found[1])}]"
