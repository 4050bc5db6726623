"""Certificates for tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["make_pair"]


def make_pair(folder: Path, name: str, *options: str) -> tuple[Path, Path]:
    """Make a self-signed certificate for localhost."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}-key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *(options or ("-nodes",)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key
