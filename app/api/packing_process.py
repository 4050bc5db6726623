"""A process that makes many images a dataset: ``python -m app.api.packing_process --faults-fd N``.

What is to be done comes as JSON by the standard input, the npz file goes to the standard output,
and what is wrong with the images to the descriptor. What hostile images cost is limited here.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from app.api.decoding import as_host_error
from app.api.process_limits import limit_memory
from app.domain.codec import from_plain
from app.domain.image_packing import Packing
from app.errors import ServiceError, TooLarge
from app.images.packing import pack_images

__all__ = ["main"]

_NICENESS = 5
"""Training and predictions come first."""


def main() -> None:
    """Do it, and end with 0, or with 1 where the images are at fault."""
    parser = argparse.ArgumentParser(prog="app.api.packing_process", description=__doc__)
    parser.add_argument("--faults-fd", type=int, required=True, help="where faults are told")
    faults_fd = parser.parse_args().faults_fd
    work = json.load(sys.stdin)
    os.nice(_NICENESS)
    limit_memory(work["memory_bytes"])
    try:
        packing = from_plain(Packing, work["packing"])
        with os.fdopen(sys.stdout.fileno(), "wb", closefd=False) as target:
            pack_images(Path(work["source"]), packing, target)
        return
    except ServiceError as error:
        fault = error
    except MemoryError:
        what, setting = "memory to decode an image", "MODSERVE_DECODER_MEMORY_BYTES"
        fault = TooLarge(what, got=None, limit=work["memory_bytes"], setting=setting)
    os.close(sys.stdout.fileno())
    with os.fdopen(faults_fd, "w") as faults:
        json.dump(as_host_error(fault).to_row(), faults)
    os._exit(1)  # the standard output, closed above, is not to be flushed


if __name__ == "__main__":
    main()
