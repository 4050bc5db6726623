"""The project's sources, as tests that hold rules about them read them."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

__all__ = ["ROOT", "absolute_name", "interesting_nodes", "module_name", "python_files"]

ROOT = Path(__file__).parent.parent


@functools.cache
def python_files(folder: str) -> list[Path]:
    """Return the Python files of a folder of the project."""
    return sorted((ROOT / folder).rglob("*.py"))


@functools.cache
def interesting_nodes(path: Path) -> list[ast.AST]:
    """Return the imports, attributes, constants and definitions of a file, however deep.

    A walk through the whole tree takes longer than the tests that look at these.
    """
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)
    kinds = (ast.Import, ast.ImportFrom, ast.Attribute, ast.Constant, *definitions)
    tree = ast.parse(path.read_text(), str(path))
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def absolute_name(node: ast.ImportFrom, path: Path) -> str:
    """Return the absolute name of the module that a ``from`` imports."""
    if node.level == 0:
        return node.module or ""
    package = path.relative_to(ROOT).parts[: -node.level]
    return ".".join((*package, node.module) if node.module else package)


def module_name(path: Path) -> str:
    """Return the name by which a file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
