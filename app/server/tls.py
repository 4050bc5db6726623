"""TLS with a certificate and its key; problems with either are reported in one line."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from app.errors.tree import StartError
from app.settings import Settings

__all__ = ["tls_options"]


def tls_options(settings: Settings) -> dict[str, Any]:
    """Return uvicorn's TLS options, empty if the server speaks plain HTTP.

    Raises:
        StartError: a file is missing, not PEM or encrypted, or the two do not match.
    """
    if settings.tls_cert is None:
        if settings.tls_key is not None:
            raise StartError("--tls-key is given without --tls-cert; give both or neither")
        return {}
    certificate, key = settings.tls_cert, settings.tls_key or settings.tls_cert
    for path in (certificate, key):
        _check_readable(path)
    _check_pair(certificate, key)
    return {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}


def _check_readable(path: Path) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise StartError(f"the TLS file {path} cannot be read: {error.strerror}") from None


def _check_pair(certificate: Path, key: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, _no_password)
    except _Encrypted:
        raise StartError(
            f"the TLS key {key} is encrypted; give one without a password, readable by the server "
            "alone: openssl pkey -in ENCRYPTED -out PLAIN"
        ) from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise StartError(f"the TLS key {key} does not match {certificate}") from None
        raise StartError(
            f"{certificate} and {key} are no certificate and key in PEM"
            f" ({error.reason or 'nothing found'}); expected BEGIN CERTIFICATE, BEGIN PRIVATE KEY"
        ) from None


class _Encrypted(Exception):
    pass


def _no_password() -> str:
    # Without a function OpenSSL would ask on the terminal, and the start would wait for an answer.
    raise _Encrypted
