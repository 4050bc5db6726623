"""Facts about operators are on operators (``core/ops/README.md``), and what asks is typed."""

from __future__ import annotations

import ast
import functools
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

from core.ops.registry import canonical_names, get_operator, registered_names
from source_tree import ROOT, absolute_name, module_name, python_files

# What asks operators: passes, backends and whatever else must not know them by name or class.
ASKS_OPERATORS = [
    *python_files("core/autograd"),
    *python_files("core/backends"),
    *python_files("core/capabilities"),
    *python_files("core/checkpoint"),
    *python_files("core/contrib/quantization"),
    *python_files("core/executor"),
    *python_files("core/graph"),
    *python_files("core/module"),
    *python_files("app/executor"),
]
# Names of C functions in our library; a default of an argument that takes names of operators.
LISTS_NAMES = {"core/kernels/native/library.py", "core/contrib/quantization/net.py"}
# Fused operators hold their parts under these classes, because kernels are registered for exactly
# such pairs; quantization asks for operators that it has inserted itself.
KNOWS_CLASSES = {
    "core/contrib/quantization/graph.py": {
        *("Dequantize", "QuantizeV2", "QuantizedBatchNorm", "Requantize"),
    },
    "core/compiler/fuse.py": {"BatchNorm"},
    "core/compiler/fuse_quantized.py": {"Requantize"},
    "core/compiler/fuse_training.py": {"BatchNorm", "LRN"},
}


Rule = Callable[[Path, list[ast.AST]], Iterator[str]]


@functools.cache
def problems_with_operators() -> dict[Rule, list[str]]:
    """Return what each rule finds, after one walk through each file that asks operators."""
    rules: list[Rule] = [operators_by_name, operators_by_class, untyped_facts, untyped_operators]
    found: dict[Rule, list[str]] = {rule: [] for rule in rules}
    assert ASKS_OPERATORS
    for path in ASKS_OPERATORS:
        nodes = list(ast.walk(ast.parse(path.read_text(), str(path))))
        for rule in rules:
            found[rule] += rule(path, nodes)
    return found


def compared(nodes: list[ast.AST]) -> Iterator[ast.expr | None]:
    """Yield what is the key of a table, an element of a list, or compared with something."""
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name("__all__" | "__slots__")]):
                for one in ast.walk(node.value):
                    one.elts = []  # type: ignore[attr-defined]
            case ast.Dict():
                yield from node.keys
            case ast.Set() | ast.List() | ast.Tuple():
                yield from node.elts
            case ast.Compare():
                yield from (node.left, *node.comparators)
            case ast.MatchValue():
                yield node.value
            case ast.Call(func=ast.Attribute(attr="startswith" | "endswith")):
                yield from node.args
            case ast.Call(func=ast.Name("isinstance" | "issubclass")):
                yield from node.args[1:]
            case ast.MatchClass():
                yield node.cls


def test_operators_are_asked_and_not_listed_by_name() -> None:
    """Facts about operators are on operators (``core/ops/README.md``), not in tables of names.

    Names that are ordinary words (``sum``, ``concat``) are not looked for; libraries and fields
    have such names, too.
    """
    found = problems_with_operators()[operators_by_name]
    assert not found, "\n".join(found)


def operators_by_name(path: Path, nodes: list[ast.AST]) -> Iterator[str]:
    """Yield where a file knows operators by name."""
    if str(path.relative_to(ROOT)) in LISTS_NAMES:
        return
    for one in compared(nodes):
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            found = distinctive_names() & {one.value, *one.value.split()}
            if found:
                yield f"{path}:{one.lineno}: {found}: declare a fact on the operator"


@functools.cache
def distinctive_names() -> set[str]:
    """Return the names of operators that are not ordinary words."""
    return {name for name in registered_names() if name != name.lower() or "_" in name}


def test_operators_are_asked_for_their_kind_and_not_for_their_class() -> None:
    found = problems_with_operators()[operators_by_class]
    assert not found, "\n".join(found)


def operators_by_class(path: Path, nodes: list[ast.AST]) -> Iterator[str]:
    """Yield where a file knows operators by class."""
    module = importlib.import_module(module_name(path))
    allowed = KNOWS_CLASSES.get(str(path.relative_to(ROOT)), set())
    for one in compared(nodes):
        if isinstance(one, ast.Name) and one.id not in allowed:
            known = getattr(module, one.id, None)
            if isinstance(known, type) and known in operator_classes():
                yield f"{path}:{one.lineno}: {one.id}: ask is_of, or declare a fact"


@functools.cache
def operator_classes() -> set[type]:
    return {get_operator(name) for name in canonical_names()}


def test_facts_of_operators_are_typed() -> None:
    """``getattr(step.op, "axis", None)`` is true of whatever happens to have such an attribute."""
    found = problems_with_operators()[untyped_facts]
    assert not found, "\n".join(found)


def untyped_facts(path: Path, nodes: list[ast.AST]) -> Iterator[str]:
    """Yield where a file reads an attribute of an operator by a constant name."""
    for node in nodes:
        match node:
            case ast.Call(
                func=ast.Name("getattr" | "hasattr"),
                args=[
                    ast.Name("op" | "operator") | ast.Attribute(attr="op" | "operator"),
                    name,
                    *_,
                ],
            ):
                if isinstance(name, ast.Constant):
                    yield f"{path}:{node.lineno}: {ast.unparse(node)}: ask is_of first"


def test_operators_have_types_where_they_are_handed_on() -> None:
    """Between executor and backends an operator is of the type that its kind has."""
    found = problems_with_operators()[untyped_operators]
    assert not found, "\n".join(found)


def untyped_operators(path: Path, nodes: list[ast.AST]) -> Iterator[str]:
    """Yield where a file declares an operator as ``Any``."""
    for node in nodes:
        match node:
            case ast.arg(arg="op" | "operator" | "layer", annotation=ast.Name("Any")):
                yield f"{path}:{node.lineno}: {node.arg} is Any"
            case ast.AnnAssign(
                target=ast.Name("op" | "operator" | "layer"), annotation=ast.Name("Any")
            ):
                yield f"{path}:{node.lineno}: {ast.unparse(node)}"


def test_each_update_rule_is_called_by_operators_and_optimizers() -> None:
    """A rule that only one of the two calls is written twice, or has no reason to be shared."""
    rules = ROOT / "core/ops/update_rules.py"
    by_operators = imported_from(rules, python_files("core/ops"))
    by_optimizers = imported_from(rules, python_files("core/optimizer"))
    assert by_operators - by_optimizers == {"adam_direction"}  # AdamW is no class of MXNet's
    # The operators' rules are made of these.
    assert by_optimizers - by_operators == {"move_mean", "move_mean_square"}
    assert len(by_operators & by_optimizers) >= 15


def imported_from(source: Path, paths: list[Path]) -> set[str]:
    """Return the names of a module that files import."""
    return {
        alias.name
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and absolute_name(node, path) == module_name(source)
        for alias in node.names
    }
