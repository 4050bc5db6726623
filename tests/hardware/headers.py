"""NVIDIA's libraries, called as their own headers declare them.

This file declares none of their functions: argument types and constants are read from the headers
beside the libraries, so that a call that does not fit is refused before it is made.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["CallError", "Library", "find_file", "parse_constants", "parse_functions"]

_COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*|__dv\([^)]*\)", re.DOTALL)
_FUNCTION = re.compile(r"\b((?:cudnn|cublasLt|cuda)[A-Z]\w*)\s*\(([^()]*)\)\s*;")
_ENUM = re.compile(r"\benum(?:\s+\w+)*\s*\{([^}]*)\}\s*(\w*)")
_NAMED_ENUM = re.compile(r"\benum(?:\s+\w+)*\s+(\w+)\s*\{")
_MACRO = re.compile(r"^#define\s+(\w+)\s+\(?(0x[0-9a-fA-F]+|\d+)[uUlL]*\)?\s*$", re.MULTILINE)
_DIRECTIVE = re.compile(r"^\s*#.*$", re.MULTILINE)
_SIZES: dict[str, Any] = {
    "size_t": ctypes.c_size_t,
    "double": ctypes.c_double,
    "float": ctypes.c_float,
    "uint64_t": ctypes.c_uint64,
    "unsigned long long": ctypes.c_uint64,
    "int64_t": ctypes.c_int64,
    "int": ctypes.c_int,
    "int32_t": ctypes.c_int,
    "uint32_t": ctypes.c_uint,
    "unsigned int": ctypes.c_uint,
    "unsigned": ctypes.c_uint,
}


class CallError(RuntimeError):
    """A call to a library returned a status other than success."""


def _folders() -> Iterator[Path]:
    for place in dict.fromkeys(sys.path):
        yield from sorted(Path(place or ".").glob("nvidia/*/"))
    yield from (Path("/usr/local/cuda"), Path("/usr/local/cuda/targets/x86_64-linux"), Path("/usr"))


def find_file(kind: str, pattern: str) -> Path:
    """Return the first file of a kind (``include`` or ``lib``) in wheels, then in the system."""
    for folder in _folders():
        for name in (kind, f"{kind}64"):
            found = sorted((folder / name).glob(pattern))
            if found:
                return found[-1]
    raise FileNotFoundError(f"no {pattern} in {kind} of nvidia's wheels, nor in /usr/local/cuda")


def parse_constants(text: str) -> dict[str, int]:
    """Return the members of all enums, and integer macros."""
    plain = _COMMENTS.sub("", text)
    found = {name: int(value, 0) for name, value in _MACRO.findall(plain)}
    for body, _ in _ENUM.findall(plain):
        following = 0
        for member in _DIRECTIVE.sub("", body).split(","):
            words, _, value = member.partition("=")
            if not words.strip():
                continue
            try:
                following = _value_of(value, found) if value else following
            except ValueError:
                continue  # an expression our calls do not need
            found[words.split()[0]] = following
            following += 1
    return found


def _value_of(expression: str, known: dict[str, int]) -> int:
    value = 0
    for term in (one.strip(" \t\n()") for one in expression.split("|")):
        value |= known[term] if term in known else int(term.rstrip("uUlL"), 0)
    return value


def parse_functions(text: str) -> dict[str, list[Any]]:
    """Return the argument types of each function as ctypes types."""
    plain = _COMMENTS.sub("", text)
    enums = {name for _, name in _ENUM.findall(plain)} | set(_NAMED_ENUM.findall(plain))
    found = {}
    for name, arguments in _FUNCTION.findall(plain):
        listed = [] if arguments.strip() in ("", "void") else arguments.split(",")
        found[name] = [_type_of(" ".join(one.split()), enums) for one in listed]
    return found


def _type_of(declared: str, enums: set[str]) -> Any:
    if "*" in declared or "[" in declared:
        return ctypes.c_void_p
    words = [word for word in declared.split() if word not in ("const", "enum", "struct")]
    for length in (len(words), len(words) - 1):
        name = " ".join(words[:length])
        if name in _SIZES:
            return _SIZES[name]
        if name in enums:
            return ctypes.c_int
    return ctypes.c_void_p  # an opaque handle


class Library:
    """A shared library whose functions raise where they fail.

    Args:
        file: pattern of its file name.
        headers: names of the headers that declare its functions and constants.
    """

    def __init__(self, file: str, *headers: str) -> None:
        text = "\n".join(find_file("include", name).read_text(errors="replace") for name in headers)
        self.path = find_file("lib", file)
        self.constants = parse_constants(text)
        self._types = parse_functions(text)
        self._loaded = ctypes.CDLL(str(self.path), mode=ctypes.RTLD_GLOBAL)

    def __getitem__(self, constant: str) -> int:
        return self.constants[constant]

    def status(self, name: str, *arguments: Any) -> int:
        """Call a function; return its status."""
        types = self._types[name]
        if len(types) != len(arguments):
            raise TypeError(f"{name} takes {len(types)} arguments, got {len(arguments)}")
        function = getattr(self._loaded, name)
        function.argtypes = types
        return int(function(*arguments))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; raise CallError unless it succeeds."""
        status = self.status(name, *arguments)
        if status:
            raise CallError(f"{name}: {self.name_of(name, status)}")

    def name_of(self, function: str, status: int) -> str:
        """Return the name of a status."""
        prefix = "cudaError" if function.startswith("cuda") else "_STATUS_"
        named = (name for name, value in self.constants.items() if value == status)
        return next((name for name in named if prefix in name), str(status))

    def made(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """Call a function that writes a handle to its first argument; return the handle."""
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle

    def size(self, name: str, *arguments: Any) -> int:
        """Call a function that writes a size to its last argument; return the size."""
        size = ctypes.c_size_t()
        self.call(name, *arguments, ctypes.byref(size))
        return size.value

    def lacks(self, functions: tuple[str, ...]) -> list[str]:
        """Return the functions missing from the headers or the library."""
        return [
            one for one in functions if one not in self._types or not hasattr(self._loaded, one)
        ]
