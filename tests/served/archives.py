"""Archives of mxnet-model-server in the layout of its model-archiver."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from served.network import CLASSES, FEATURES, NETWORK
from served.params_file import write_params

__all__ = ["ARCHIVES", "MANIFEST", "files_of_model", "write_archive"]

ARCHIVES = Path(__file__).parents[1] / "data" / "archives"
"""Archives that the tools themselves wrote."""

MANIFEST: dict[str, Any] = {
    "runtime": "python",
    "model": {"modelName": "digits", "handler": "service:handle"},
    "modelServerVersion": "1.0",
    "implementationVersion": "1.0",
    "specificationVersion": "1.0",
}


def files_of_model(favourite: int = 1) -> dict[str, bytes]:
    """Return the files of a model that puts every example into one class."""
    bias = np.zeros(CLASSES, np.float32)
    bias[favourite] = 5.0
    params = {"fc_weight": np.zeros((CLASSES, FEATURES), np.float32), "fc_bias": bias}
    signature = {"inputs": [{"data_name": "data", "data_shape": [0, FEATURES]}]}
    return {
        "net-symbol.json": json.dumps(NETWORK).encode(),
        "net-0003.params": write_params(params, {}),
        "service.py": b"raise SystemExit('a handler is never run')",
        "signature.json": json.dumps(signature).encode(),
        "synset.txt": b"cat\ndog\nbird\n",
    }


def write_archive(
    path: Path, files: Mapping[str, bytes], manifest: Any = MANIFEST, place: str = "MAR-INF/"
) -> Path:
    """Write an archive, its manifest last; return its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        if manifest is not None:
            archive.writestr(f"{place}MANIFEST.json", json.dumps(manifest, indent=2))
    return path
