"""Dependencies between packages, read from their import statements."""

import ast
import functools
import graphlib
import importlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

from core.ops.registry import canonical_names, get_operator, registered_names

ROOT = Path(__file__).parent.parent

# Each group may import the ones to its left; names in one group may import each other.
CORE_LAYERS = [
    {"errors", "base", "types", "config", "registry", "scope", "libinfo", "cgroups", "cpus"}
    | {"garbage", "capabilities"}
    | {"compat", "compat.class_attributes", "compat.engine", "compat.library", "compat.log"}
    | {"compat.misc"},
    {"compat.profiler_functions"},
    {"profiler"},
    {"device", "context", "random", "backends", "runtime"},
    {"pixels", "vocabulary"},
    {"ops"},
    {"compat.array_names", "compat.backend_symbols"},
    {"ndarray"},
    {"graph"},
    {"executor"},
    {"autograd", "symbol", "name", "attribute", "operator"}
    | {"compat.symbol_doc", "compat.util", "compat.image_arguments", "compat.optimizer_names"},
    {"checkpoint"},
    {
        "optimizer",
        "lr_scheduler",
        "kvstore",
        "initializer",
        "metric",
        "io",
        "recordio",
        "rnn",
        "monitor",
        "callback",
        "visualization",
        "onnx_export",
        "compat.rnn_unrolling",
    },
    {"module", "gluon", "model", "image", "contrib"}
    | {"compat.executor_manager", "compat.model_stores"}
    | {"compat.group_names", "compat.module_names"}
    | {"compat.input_checks", "compat.block_names", "compat.parameter_names"},
    {"testing", "compat.test_utils", "compat.paths"},
]
DEVICE_LIBRARIES = {"cupy", "cudnn", "ctypes"}
MODULE_NAME = re.compile(r"((?:app|core)(?:\.\w+)+)(?::\w+)?")
# MXNet's users import these names; the modules behind them have better ones.
NAMED_BY_MXNET = {"core/contrib/text/utils.py", "core/gluon/utils.py"}
# Files of one concept, which a split would not make clearer: their maximum number of lines.
LONGER = {
    "core/module/module.py": 545,
    "core/ndarray/array.py": 525,
    "core/backends/onednn/quantized.py": 505,
}
# The parts of the service and the parts each may import. Services and executor, which run in
# different processes, do not import each other.
APP_ARROWS: dict[str, set[str]] = {
    "command_output": set(),
    "garbage": set(),
    "logs": set(),
    "traces": set(),
    "quoting": set(),
    "errors": {"quoting"},
    "folder_names": set(),
    "file_kinds": {"quoting"},
    "redaction": set(),
    "refusals": {"errors"},
    "version_errors": {"errors"},
    "error_table": {"errors", "folder_names", "redaction", "refusals", "version_errors"},
    "error_catalog": {"error_table"},
    "settings": {"errors", "logs", "quoting"},
    "domain": {"errors", "quoting"},
    "tensors": {"errors", "quoting"},
    "link": {"domain", "errors", "logs"},
    "files": {"domain", "errors", "quoting", "tensors"},
    "store": {"domain", "errors"},
    "services": {
        *(
            "domain",
            "error_table",
            "errors",
            "folder_names",
            "files",
            "link",
            "quoting",
            "refusals",
            "store",
            "version_errors",
        ),
    },
    "executor": {
        *("core", "domain", "error_table", "errors", "file_kinds", "files", "garbage"),
        *("link", "logs"),
        "quoting",
    },
    "exchanges": set(),
    "error_answers": {"error_table"},
    "oip": {
        *("api", "domain", "error_answers", "errors", "exchanges", "link", "services", "settings"),
        *("quoting", "tensors"),
    },
    "exports": {"core", "domain", "errors"},
    "images": {"core", "domain", "errors", "file_kinds", "files"},
    "guides": set(),
    "api": {
        *("exports", "guides", "images"),
        *("domain", "error_table", "errors", "exchanges", "link", "services", "settings"),
        *("error_answers", "error_catalog", "file_kinds", "folder_names", "quoting", "refusals"),
        *("tensors", "traces"),
    },
    "client": {"tensors"},
    "remote": {"client", "core", "tensors"},
    "model_places": set(),
    "commands": {"client", "command_output", "core", "model_places", "tensors"},
    "scripts": set(),
    "demo": {"client"},
    "bench": {"client", "core", "demo", "errors", "quoting", "tensors"},
    "doctor": {"core", "errors", "executor", "model_places", "quoting"},
    "main": {
        *("api", "errors", "executor", "files", "link", "logs", "oip", "redaction", "services"),
        *("settings", "store"),
    },
    "maintenance": {"command_output", "domain", "errors", "files", "services", "store"},
    "serving": {
        *("api", "error_answers", "errors", "exchanges", "garbage", "link", "main", "settings"),
        "traces",
    },
    "__main__": {"cli"},
    "cli": {
        "bench",
        "command_output",
        "commands",
        "demo",
        "doctor",
        "errors",
        "garbage",
        "main",
        "maintenance",
        "scripts",
        "serving",
        "settings",
    },
}


@functools.cache
def python_files(folder: str) -> list[Path]:
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


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, module) of every import, those inside functions and TYPE_CHECKING included."""
    for node in interesting_nodes(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            module = absolute_name(node, path)
            yield node.lineno, module
            if module in ("core", "core.compat", "app"):
                for alias in node.names:
                    yield node.lineno, f"{module}.{alias.name}"


def absolute_name(node: ast.ImportFrom, path: Path) -> str:
    """Return the absolute name of the module that a ``from`` imports."""
    if node.level == 0:
        return node.module or ""
    package = path.relative_to(ROOT).parts[: -node.level]
    return ".".join((*package, node.module) if node.module else package)


def layer_of(module: str) -> int | None:
    parts = module.split(".")
    if parts[0] != "core" or len(parts) < 2:
        return None
    name = ".".join(parts[1:3]) if parts[1] == "compat" else parts[1]
    return next((i for i, names in enumerate(CORE_LAYERS) if name in names), None)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_core_imports_only_layers_to_the_left() -> None:
    wrong = [problem for path in python_files("core") for problem in wrong_imports(path)]
    assert not wrong, "\n".join(wrong)


def wrong_imports(path: Path) -> Iterator[str]:
    """Yield what a file of core imports against the rules."""
    own = module_name(path)
    own_layer = layer_of(own)
    if own != "core" and own_layer is None:
        yield f"{own}: add it to CORE_LAYERS"
    for line, module in imports(path):
        top = module.split(".")[0]
        if top == "app":
            yield f"{path}:{line}: core imports app"
        if top in DEVICE_LIBRARIES and not own.startswith("core.backends"):
            yield f"{path}:{line}: {top} outside core/backends"
        layer = layer_of(module)
        if own_layer is not None and layer is not None and layer > own_layer:
            yield f"{path}:{line}: {own} imports {module}, which is to its right"


def test_core_works_under_another_name() -> None:
    """Scripts may install core as ``mxnet``, so it imports itself by relative names only."""
    absolute = [
        f"{path}:{node.lineno}: write a relative import"
        for path in python_files("core")
        for node in interesting_nodes(path)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for module in absolute_imports(node)
        if module.split(".")[0] == "core"
    ]
    assert not absolute, "\n".join(absolute)


def absolute_imports(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the modules that a statement names absolutely."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if node.level == 0 else []


def imported_modules(path: Path, known: set[str]) -> Iterator[str]:
    """Yield our own modules that a file imports, also inside functions and under TYPE_CHECKING."""
    for node in interesting_nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            package = absolute_name(node, path)
            for alias in node.names:
                module = f"{package}.{alias.name}"
                if found := next((name for name in (module, package) if name in known), None):
                    yield found


def packages_of(module: str) -> set[str]:
    """Return the packages whose ``__init__`` runs before a module does."""
    parts = module.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts))}


def import_arrows(files: dict[str, Path]) -> dict[str, set[str]]:
    """Return, for each module, those that must have run before it (see the test's docstring)."""
    arrows = {}
    known = set(files)
    for module, path in files.items():
        imported = set(imported_modules(path, known))
        implicit = {package for name in imported for package in packages_of(name)}
        arrows[module] = (imported | implicit - packages_of(module)) & files.keys() - {module}
    return arrows


@pytest.mark.parametrize("package", ["core", "app"])
def test_there_are_no_import_cycles(package: str) -> None:
    """No module waits for itself, whichever of them is imported first.

    Importing ``a.b.c`` runs ``a/__init__`` and ``a/b/__init__`` first, so these count as imported,
    too. Packages that the importing module itself is in do not count: they have begun to run before
    it did. So a package may gather the names of its parts, and its parts may import each other; but
    what such a part imports from elsewhere may not import anything of the package.
    """
    arrows = import_arrows({module_name(path): path for path in python_files(package)})
    try:
        graphlib.TopologicalSorter(arrows).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(reversed(error.args[1]))}")


def test_the_init_of_a_package_on_the_way_counts_as_imported(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text("import far.near.one")
    files = {
        "far": tmp_path / "far.py",
        "far.near": tmp_path / "near.py",
        "far.near.one": tmp_path / "one.py",
        "far.part": tmp_path / "part.py",
        "part": tmp_path / "part.py",
    }
    for path in files.values():
        path.touch()
    arrows = import_arrows(files)
    assert arrows["part"] == {"far", "far.near", "far.near.one"}
    assert arrows["far.part"] == {"far.near", "far.near.one"}


def part_of(module: str) -> str | None:
    """Return the part of the service that a module belongs to; ``core`` is one."""
    parts = module.split(".")
    if parts[0] == "core":
        return "core"
    return parts[1] if parts[0] == "app" and len(parts) > 1 else None


def named_in_strings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, module) of strings that name one of our modules, as for ``-m``."""
    for node in interesting_nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = MODULE_NAME.fullmatch(node.value)
            if named and (ROOT / named[1].replace(".", "/")).with_suffix(".py").exists():
                yield node.lineno, named[1]


def test_parts_of_the_service_import_only_what_they_may() -> None:
    forbidden = [
        f"{path}:{line}: {own} imports or names {module}"
        for path in python_files("app")
        if (own := part_of(module_name(path))) is not None  # None for app/__init__.py
        for line, module in [*imports(path), *named_in_strings(path)]
        if part_of(module) not in (None, own, *APP_ARROWS[own])
    ]
    assert not forbidden, "\n".join(forbidden)


MODULES_OF_CORE_AFTER_IMPORTS = """
import importlib, sys
loaded = {}
for package in sys.argv[1:]:
    importlib.import_module(package)
    loaded[package] = [name for name in sys.modules if name.split(".")[0] == "core"]
print(loaded)
"""


def test_the_api_process_and_clients_do_not_load_the_engine() -> None:
    # One process imports all, as that takes more than a second; the smallest package comes first.
    packages = ["app.client", "app.services", "app.api", "app.main"]
    command = [sys.executable, "-c", MODULES_OF_CORE_AFTER_IMPORTS, *packages]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ast.literal_eval(run.stdout) == {package: [] for package in packages}


def test_domain_does_no_io() -> None:
    forbidden = {"fastapi", "starlette", "sqlalchemy", "httpx", "asyncio", "socket", "os", "core"}
    paths = python_files("app/domain")
    assert paths
    found = [
        f"{path}:{line}: the domain imports {module}"
        for path in paths
        for line, module in imports(path)
        if module.split(".")[0] in forbidden
    ]
    assert not found, "\n".join(found)


def test_files_are_short() -> None:
    too_long = []
    for path in (*python_files("core"), *python_files("app")):
        name = str(path.relative_to(ROOT))
        count, allowed = len(path.read_text().splitlines()), LONGER.get(name, 500)
        if count > allowed:
            too_long.append(f"{name}: {count} lines of at most {allowed}: split it by concept")
    assert not too_long, "\n".join(too_long)


def test_no_module_is_called_utils() -> None:
    names = {str(path.relative_to(ROOT)) for path in python_files("core") + python_files("app")}
    assert {name for name in names if name.endswith("/utils.py")} == NAMED_BY_MXNET


# These set variables for OpenMP, for tests, and for scripts that use mx.util.
SETS_ENVIRONMENT = {"backends/threads.py", "testing/surroundings.py", "compat/util.py"}


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


def test_rules_find_violations(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text("def f():\n    import core.ops\n    from os import getenv\n    os.environ\n")
    nodes = interesting_nodes(path)
    assert [node.lineno for node in nodes if reads_environment(node)] == [3, 4]
    named = [
        absolute_imports(one) for one in nodes if isinstance(one, (ast.Import, ast.ImportFrom))
    ]
    assert named == [["core.ops"], ["os"]]


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
LISTS_NAMES = {"core/backends/native/library.py", "core/contrib/quantization/net.py"}
# Fused operators hold their parts under these classes, because kernels are registered for exactly
# such pairs; quantization asks for operators that it has inserted itself.
KNOWS_CLASSES = {
    "core/contrib/quantization/graph.py": {
        *("Dequantize", "QuantizeV2", "QuantizedBatchNorm", "Requantize"),
    },
    "core/executor/fuse.py": {"BatchNorm"},
    "core/executor/fuse_bytes.py": {"Requantize"},
    "core/executor/fuse_training.py": {"BatchNorm", "LRN"},
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
