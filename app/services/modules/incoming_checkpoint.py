"""A whole checkpoint that is received in one request, in temporary files."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

from app.domain.checkpoint import CheckpointTag
from app.domain.model_names import parse_params_name, stored_name
from app.domain.names import check_name_of_file
from app.errors.tree import Invalid, TooLarge
from app.files.checkpoint_files import MANIFEST
from app.services.modules.uploads import Upload

__all__ = ["IncomingCheckpoint", "check_file_name"]

_ARCHIVE = "archive"
_KINDS = ("symbol", "params", "states", _ARCHIVE)
_OF_MXNET = (".json", ".params", ".states", ".buckets")
_SYMBOL_OF_KEY = re.compile(r"symbols\[(.+)\]", re.DOTALL)
_KEY_IN_NAME = re.compile(r".+-([0-9]+)-symbol\.json", re.DOTALL)
_FORM_BYTES = 1 << 20
"""RateLimiter for the parts of a form other than its files."""


def check_file_name(name: str) -> None:
    """Raise Invalid for a name that an uploaded file of a checkpoint must not have."""
    if check_name_of_file(name) == MANIFEST:
        raise Invalid("file", name, "any other name; the server writes the manifest")
    if not name.endswith(_OF_MXNET):
        expected = f"a file of MXNet's, whose name ends with {', '.join(_OF_MXNET)}"
        raise Invalid("file", name, expected)


class IncomingCheckpoint:
    """Opens an upload for each file; the end of the ``with`` block removes them all.

    Attributes:
        files: the uploads, by the names under which they are stored: those that the files have
            at the client, where they can be names of files.
    """

    def __init__(self, directory: Path, *, max_bytes: int, max_symbol_bytes: int) -> None:
        """Prepare.

        Args:
            directory: for the temporary files; on the file system of the checkpoints, which
                hard-link them.
            max_bytes: limit on all files together.
            max_symbol_bytes: limit on each symbol, which is read into memory.
        """
        self.files: dict[str, Upload] = {}
        self._parts: dict[str, str] = {}
        self._params_label = ""
        self._has_keys_in_names = False
        self._directory = directory
        self.max_bytes = max_bytes
        self._max_symbol_bytes = max_symbol_bytes
        self._stack = ExitStack()

    def __enter__(self) -> IncomingCheckpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def expect(self, size: int | None) -> None:
        """Refuse a request by its announced length, before any of it is read."""
        limit = self.max_bytes + _FORM_BYTES
        if size is not None and size > limit:
            setting = "MODSERVE_MAX_CHECKPOINT_BYTES"
            raise TooLarge("the checkpoint, in bytes", got=size, limit=limit, setting=setting)

    def open(self, part: str, file: str) -> Upload:
        """Open the upload of one file.

        Args:
            part: its name in the form: ``symbol``, ``symbols[20]`` for a bucket, ``params`` or
                ``states``; or ``archive`` for a whole model. If there are several of ``symbol``,
                they are of buckets, with the keys in their file names, as ``BucketingModule``
                writes them.
            file: what the client calls the file, which is only a label; see ``stored_name``.

        Raises:
            Invalid: an unknown part, or a duplicate.
        """
        kind = "symbol" if _SYMBOL_OF_KEY.fullmatch(part) else part
        if kind not in _KINDS:
            expected = "symbol, symbols[BUCKET_KEY], params, states or archive as a file's part"
            raise Invalid(part or "part", file, expected)
        if part == "params":
            self._params_label = file
        file = _ARCHIVE if part == _ARCHIVE else stored_name(kind, file)
        if part == "symbol":
            part = self._part_of_symbol(file)
        if part in self._parts or file in self.files:
            raise Invalid(part, file, "each part and each file once")
        left = self.max_bytes - sum(upload.size for upload in self.files.values())
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
        """Return the part that a symbol is; a second one makes both of them symbols of buckets."""
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
        """Return the path of the archive; None if there is none. Raise Invalid if it came with
        other files."""
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
            Invalid: there are optimizer states without parameters.
        """
        if "params" not in self._parts and "states" in self._parts:
            raise Invalid("params", "nothing", "the parameters that the states belong to")
        return "params" in self._parts

    def params(self) -> Path | None:
        """Return the temporary path of the parameters; None if there are none."""
        if not self.has_params:
            return None
        upload = self.files[self._parts["params"]]
        upload.finish()
        return upload.path

    def symbol(self) -> bytes | None:
        """Return the symbol; None if there is none."""
        return self._read("symbol")

    def symbols(self) -> dict[str, bytes]:
        """Return the symbols of buckets, by bucket key."""
        found = {}
        for part in self._parts:
            if (key := _SYMBOL_OF_KEY.fullmatch(part)) and (text := self._read(part)) is not None:
                found[key[1]] = text
        return found

    def tag(self, epoch: str | None = None, default: int | None = None) -> CheckpointTag:
        """Return the tag: the given epoch, or else that in the name of the parameters' file.

        Args:
            epoch: the epoch that the form gives, if any.
            default: for when neither has an epoch.

        Raises:
            Invalid: the epoch is malformed, or there is none at all.
        """
        if epoch is not None:
            return CheckpointTag.parse(epoch)
        name = self._params_label
        found = parse_params_name(name)
        if found is None or found.epoch is None:
            if default is not None:
                return CheckpointTag(default)
            expected = "an epoch, because the name is not like net-0010.params"
            hint = "say it in the field epoch of the form, for example epoch=10"
            raise Invalid("epoch", f"file {name!r}", expected, hint)
        return CheckpointTag(found.epoch)

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
