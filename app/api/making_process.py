"""A process that makes a file: ``python -m app.api.making_process --end-fd N``.

The order arrives as JSON on the standard input, the file goes to the standard output, and finally
notes about it, or the error, to the descriptor. Its resources are limited here.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, TypeAlias

from app.api.decoding import as_host_error
from app.domain.codec import from_plain
from app.domain.image_packing import Packing
from app.domain.onnx_request import OnnxRequest
from app.errors.tree import ServiceError, TooLarge
from app.sandbox.process_limits import limit_memory

__all__ = ["main"]

_NICENESS = 5
"""Lower priority than training and predictions."""

Work: TypeAlias = Mapping[str, Any]


def main() -> None:
    """Make the file, and report how it ended."""
    parser = argparse.ArgumentParser(prog="app.api.making_process", description=__doc__)
    parser.add_argument("--end-fd", type=int, required=True, help="where the end is told")
    end_fd = parser.parse_args().end_fd
    given = json.load(sys.stdin)
    os.nice(_NICENESS)
    limit_memory(given["memory_bytes"])
    # Closed before the end is reported, because the server reads the whole file first.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as target:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # so that no library writes into it
        end = _made(given, target)
    with os.fdopen(end_fd, "w") as told:
        json.dump(end, told)


def _made(given: Mapping[str, Any], target: IO[bytes]) -> dict[str, Any]:
    try:
        return {"notes": _MAKERS[given["what"]](given["work"], target)}
    except ServiceError as error:
        fault = error
    except MemoryError:
        setting = "MODSERVE_DECODER_MEMORY_BYTES"
        limit = given["memory_bytes"]
        fault = TooLarge("memory to make the file", got=None, limit=limit, setting=setting)
    return {"error": as_host_error(fault).to_row()}


def _images(work: Work, target: IO[bytes]) -> list[str]:
    from app.sandbox.images.packing import pack_images  # here, because it loads the engine

    pack_images(Path(work["source"]), from_plain(Packing, work["packing"]), target)
    return []


def _onnx(work: Work, target: IO[bytes]) -> list[str]:
    from app.sandbox.exports.onnx_models import write_onnx  # here for the same reason

    return write_onnx(from_plain(OnnxRequest, work), target)


_MAKERS: Mapping[str, Callable[[Work, IO[bytes]], list[str]]] = {"images": _images, "onnx": _onnx}


if __name__ == "__main__":
    main()
