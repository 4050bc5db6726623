"""Models from archives of mxnet-model-server and SageMaker, unpacked into a folder's files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from app.domain.declaration import ModelDeclaration
from app.domain.labels import parse_labels
from app.domain.model_names import stored_name
from app.errors.tree import Invalid
from app.files.model_archives import ModelArchive, open_archive
from app.files.model_folders import LARGEST_SYMBOL, ModelFiles
from app.files.sagemaker_archives import is_tar, open_sagemaker_archive
from app.files.signatures import Signature, read_signature
from app.services.modules.incoming_checkpoint import IncomingCheckpoint

__all__ = ["unpack_model"]

_LONGEST_PREFIX = 100
_NEVER_RUN = (
    "its handler {!r} is Python code, which is never run: inputs go to the net, and its outputs to "
    "the client, without what the handler would do to them"
)


def unpack_model(path: Path, incoming: IncomingCheckpoint) -> ModelFiles:
    """Extract symbol and parameters from an archive, and read its metadata.

    Args:
        path: the archive.
        incoming: receives the two files.

    Returns:
        the model; its symbol has to be read from ``symbol_path``.

    Raises:
        Invalid: the file is not such an archive.
        TooLarge: a file in it exceeds its limit.
    """
    opened = (
        open_sagemaker_archive(path, incoming.max_bytes) if is_tar(path) else open_archive(path)
    )
    with opened as archive:
        prefix = _prefix(archive)
        names = {"symbol": f"{prefix}-symbol.json", "params": f"{prefix}-{archive.epoch:04}.params"}
        for part, name in names.items():
            archive.copy(part, incoming.open(part, name).write)
        labels = archive.labels
        signature = Signature()
        if archive.signature is not None:
            signature = read_signature(archive.signature)
    symbol = incoming.files[names["symbol"]]
    if symbol.finish().size > LARGEST_SYMBOL:
        raise Invalid(
            "archive", f"a symbol of {symbol.size:,} bytes", f"at most {LARGEST_SYMBOL:,}"
        )
    params = incoming.files[names["params"]]
    params.finish()
    facts = archive.facts
    never_run = [] if facts.handler is None else [_NEVER_RUN.format(facts.handler)]
    return ModelFiles(
        symbol_path=symbol.path,
        symbol="",
        params={archive.epoch: params.path},
        declaration=ModelDeclaration(inputs=signature.inputs),
        transforms=signature.transforms,
        labels={},
        classes=() if labels is None else parse_labels(labels, f"archive: {facts.taken['labels']}"),
        archive=dataclasses.replace(facts, warnings=(*never_run, *signature.warnings)),
    )


def _prefix(archive: ModelArchive) -> str:
    """Return the prefix for the names of the files: that of the archive's symbol, if it is a name
    for files."""
    name = stored_name("symbol", archive.facts.taken["symbol"])
    return name.removesuffix(".json").removesuffix("-symbol")[:_LONGEST_PREFIX]
