"""Recognizing files by their first bytes, for errors about files of the wrong kind."""

from __future__ import annotations

from app.errors.quoting import brief

__all__ = ["MOST_LOOKED_AT", "PARAMS", "kind_of_file", "not_a_symbol"]

MOST_LOOKED_AT = 64
"""The first bytes of known formats."""

PARAMS = "a file of MXNet parameters (.params)"

_KINDS = (
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"PK\x03\x04", "a zip archive (.zip, .npz, .mar)"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array (.npy)"),
    (b"%PDF", "a PDF file"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"\x12\x01\x00\x00\x00\x00\x00\x00", PARAMS),  # kMXAPINDArrayListMagic, 0x112, in 8 bytes
    (b"version https://git-lfs", "a Git LFS pointer; 'git lfs pull' fetches the file itself"),
)


def kind_of_file(beginning: bytes) -> str:
    """Return a file's kind in words: ``a PNG image``, ``text that begins '…'``."""
    if not beginning:
        return "an empty file"
    for magic, kind in _KINDS:
        if beginning.startswith(magic):
            return kind
    text = beginning[:MOST_LOOKED_AT].decode(errors="ignore").strip()
    if text[:1] == "<":
        return "an HTML or XML page, perhaps from a failed download"
    if not text or not all(one.isprintable() or one.isspace() for one in text):
        return "a file of another kind"
    return f"text that begins {brief(text[:30])}"


def not_a_symbol(content: bytes, fault: str) -> tuple[str, str, str]:
    """Return what a file is that is no symbol, what is expected, and what to do.

    Args:
        content: of the file.
        fault: why it is not JSON.
    """
    expected = "a symbol as MXNet saves it: the text of a net-symbol.json"
    kind = kind_of_file(content[:MOST_LOOKED_AT])
    if content.lstrip().startswith(b"{"):
        cause = fault.removeprefix("the body is not JSON: ")
        return f"JSON that is not whole ({cause})", expected, "copy the file again"
    if kind == PARAMS:
        return kind, expected, "send it as params, and the symbol that lies beside it as symbol"
    return kind, expected, ""
