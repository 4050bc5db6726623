"""Rules for the sources that a linter does not know: length, names, state and inheritance."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

from source_tree import ROOT, interesting_nodes, python_files

# MXNet's users import these names; the modules behind them have better ones.
NAMED_BY_MXNET = {
    *("core/contrib/text/utils.py", "core/gluon/utils.py", "core/io/utils.py"),
    "core/ndarray/utils.py",
}
LONG = 500


@pytest.mark.filterwarnings("default")
def test_long_files_are_told_of() -> None:
    """A hint, not a rule: a file of one concept may be longer."""
    for path in (*python_files("core"), *python_files("app")):
        count = len(path.read_text().splitlines())
        if count > LONG:
            warnings.warn(f"{path.relative_to(ROOT)} has {count} lines: one concept?", stacklevel=1)


def test_no_module_is_called_utils() -> None:
    names = {str(path.relative_to(ROOT)) for path in python_files("core") + python_files("app")}
    assert {name for name in names if name.endswith("/utils.py")} == NAMED_BY_MXNET


# These set variables for OpenMP, for tests, and for scripts that use mx.util.
SETS_ENVIRONMENT = {"kernels/threads.py", "testing/surroundings.py", "compat/util.py"}


def test_core_reads_the_environment_in_one_place() -> None:
    elsewhere = [
        f"{path}:{node.lineno}: read it in core/config.py"
        for path in python_files("core")
        if str(path.relative_to(ROOT / "core")) not in {"config.py", *SETS_ENVIRONMENT}
        for node in interesting_nodes(path)
        if reads_environment(node)
    ]
    assert not elsewhere, "\n".join(elsewhere)


def reads_environment(node: ast.AST) -> bool:
    """Return whether this is ``os.environ`` or ``os.getenv``, or imports one of them."""
    named = {node.attr} if isinstance(node, ast.Attribute) else set()
    if isinstance(node, ast.ImportFrom) and node.module == "os":
        named = {alias.name for alias in node.names}
    return not named.isdisjoint({"environ", "getenv"})


def test_reading_the_environment_is_found(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text("import os\nfrom os import getenv\nos.environ\n")
    found = [node.lineno for node in interesting_nodes(path) if reads_environment(node)]
    assert found == [2, 3]


@pytest.mark.parametrize("package", ["core", "app"])
def test_names_in_all_exist(package: str) -> None:
    for path in python_files(package):
        tree = ast.parse(path.read_text())
        assigned = [
            node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
        ]
        for value in assigned:
            if not isinstance(value, (ast.List, ast.Tuple)):
                continue
            listed = {item.value for item in value.elts if isinstance(item, ast.Constant)}
            defined = {name for node in module_level(tree) for name in defined_names(node)}
            # A module with __getattr__ may make its names on demand.
            if "__getattr__" not in defined:
                missing = sorted(listed - defined)
                assert missing == [], f"{path}: names in __all__ that the module does not define"


def module_level(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below this one that are not inside a function, class or lambda."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield from module_level(child)


def defined_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id


def test_no_state_is_kept_by_the_identity_of_an_object() -> None:
    """Another object may get the id of one that is gone."""
    found = [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for part in ("kvstore", "module", "optimizer")
        for path in python_files(f"core/{part}")
        for node in ast.walk(ast.parse(path.read_text(), str(path)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "id"
    ]
    assert not found, "\n".join(found)


# Values that are computed or opened at first use and then kept.
KEPT_AFTER_FIRST_USE = {
    ("app/executor/modules/hosted_module.py", "inference"),
    ("app/executor/predict/predictor.py", "quick_rows"),
    ("app/executor/predict/predictor.py", "rows_are_independent"),
    ("core/gluon/data/dataset.py", "_record"),
}
WRITES = {"bump", "lose", "dense_for_write", "assign_dense"}


@pytest.mark.parametrize("package", ["core", "app"])
def test_properties_do_not_write(package: str) -> None:
    """Reading an attribute changes nothing: neither state nor what is known to be up to date."""
    kept = set()
    for path in python_files(package):
        for node in ast.walk(ast.parse(path.read_text(), str(path))):
            if not isinstance(node, ast.ClassDef):
                continue
            methods = {one.name: one for one in node.body if is_method(one)}
            for name, getter in properties(node).items():
                written = written_by(getter, methods)
                where = str(path.relative_to(ROOT)), name
                if written is not None and where in KEPT_AFTER_FIRST_USE:
                    kept.add(where)
                elif written is not None:
                    line = f"{path}:{written.lineno}"
                    pytest.fail(f"{line}: reading {name} writes: {ast.unparse(written)}")
    assert kept == {one for one in KEPT_AFTER_FIRST_USE if one[0].startswith(package)}


def is_method(node: ast.AST) -> TypeGuard[ast.FunctionDef]:
    """Return whether this is a method without decorators."""
    return isinstance(node, ast.FunctionDef) and not node.decorator_list


def properties(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    """Return the getters of a class by name."""
    return {
        one.name: one
        for one in node.body
        if isinstance(one, ast.FunctionDef)
        and any(isinstance(by, ast.Name) and by.id == "property" for by in one.decorator_list)
    }


def written_by(
    function: ast.FunctionDef, methods: dict[str, ast.FunctionDef]
) -> ast.Attribute | ast.Subscript | ast.Call | None:
    """Return what a function writes, itself or by methods of the same object; None if nothing."""
    for node in ast.walk(function):
        if is_write(node):
            return node
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name("self"), attr=name)) if name in methods:
                others = {key: one for key, one in methods.items() if key != name}
                if (found := written_by(methods[name], others)) is not None:
                    return found
    return None


def is_write(node: ast.AST) -> TypeGuard[ast.Attribute | ast.Subscript | ast.Call]:
    """Return whether this assigns to an attribute, or to an element of one, or tells of a write."""
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            return True
        case ast.Subscript(value=ast.Attribute(), ctx=ast.Store() | ast.Del()):
            return True
        case ast.Call(func=ast.Attribute(attr=attr)):
            return attr in WRITES
    return False


ENGINE = [
    *("autograd", "backends", "capabilities", "executor", "graph", "kvstore", "module", "ndarray"),
    *("optimizer", "symbol"),
]
# The methods that MXNet's symbols have for operators.
NAMES_MIXED_IN = {"SymbolMethods"}


def test_inheritance_does_not_split_files() -> None:
    """No class is a part of the only class that inherits it, in another file, as a mix-in is.

    Such a part can be an object that the other one has. The names that old scripts use are mixed in
    from ``core/compat``.
    """
    defined: dict[str, Path] = {}
    inherited: dict[str, set[Path]] = {}
    used: set[str] = set()
    for path in (path for part in ENGINE for path in python_files(f"core/{part}")):
        for node in ast.walk(ast.parse(path.read_text(), str(path))):
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base).split("[")[0] for base in node.bases}
                if not bases & {"Protocol", "NamedTuple", "enum.Enum"}:
                    defined[node.name] = path
                for base in bases:
                    inherited.setdefault(base, set()).add(path)
            elif isinstance(node, ast.Call):
                used.update(one.id for one in (node.func, *node.args) if isinstance(one, ast.Name))
    parts = {
        name
        for name, path in defined.items()
        if len(inherited.get(name, ())) == 1 and path not in inherited[name] and name not in used
    }
    assert parts == NAMES_MIXED_IN


MXNETS_PRIVATE_NAMES = {
    *("_arg_params", "_aux_params", "_curr_bucket_key", "_curr_module", "_params_dirty"),
    *("_sync_params_from_devices", "_total_exec_bytes"),
}


def test_private_names_of_mxnet_are_in_compat() -> None:
    found = [
        f"{path}:{node.lineno}: {name}"
        for path in python_files("core")
        if "compat" not in path.parts
        for node in interesting_nodes(path)
        for name in (getattr(node, "attr", None), getattr(node, "name", None))
        if name in MXNETS_PRIVATE_NAMES
    ]
    assert not found, "\n".join(found)
