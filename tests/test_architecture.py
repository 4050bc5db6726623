"""Dependencies between packages, read from their import statements."""

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from source_tree import ROOT, absolute_name, interesting_nodes, module_name, python_files

# Each group may import the ones to its left; names in one group may import each other.
CORE_LAYERS = [
    {"errors", "base", "types", "config", "registry", "scope", "libinfo", "cgroups", "cpus"}
    | {"garbage", "capabilities"}
    | {"compat", "compat.class_attributes", "compat.engine", "compat.library", "compat.log"}
    | {"compat.misc"},
    {"compat.profiler_functions"},
    {"profiler"},
    {"device", "context", "random", "backends", "kernels", "runtime"},
    {"imgproc", "vocabulary"},
    {"ops"},
    {"compat.array_names", "compat.backend_symbols"},
    {"ndarray"},
    {"graph"},
    {"compiler"},
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
    {"module", "gluon", "model", "image", "contrib", "onnx"}
    | {"compat.executor_manager", "compat.model_stores"}
    | {"compat.device_arrays", "compat.group_names", "compat.module_names"}
    | {"compat.input_checks", "compat.block_names", "compat.parameter_names"},
    {"testing", "compat.test_utils", "compat.paths"},
]
DEVICE_LIBRARIES = {"cupy", "cudnn", "ctypes"}
MODULE_NAME = re.compile(r"((?:app|core)(?:\.\w+)+)(?::\w+)?")

# The parts of the service and the parts each may import. Services and executor, which run in
# different processes, do not import each other.
APP_ARROWS: dict[str, set[str]] = {
    "garbage": set(),
    "guides": set(),
    "logs": set(),
    "folder_names": set(),
    "errors": {"folder_names"},
    "settings": {"errors", "logs"},
    "domain": {"errors"},
    "tensors": {"errors"},
    "link": {"domain", "errors", "logs"},
    "files": {"domain", "errors", "tensors"},
    "store": {"domain", "errors"},
    "services": {"domain", "errors", "files", "folder_names", "link", "store"},
    "executor": {"core", "domain", "errors", "files", "garbage", "link", "logs"},
    "sandbox": {"core", "domain", "errors", "files", "link"},
    "api": {
        *("domain", "errors", "files", "folder_names", "guides", "link", "sandbox", "services"),
        *("settings", "tensors"),
    },
    "main": {
        *("api", "errors", "executor", "files", "link", "logs", "sandbox", "services", "settings"),
        "store",
    },
    "server": {"api", "errors", "garbage", "link", "main", "settings"},
    "client": {"tensors"},
    "remote": {"client", "core", "tensors"},
    "cli": {
        *("client", "core", "domain", "errors", "executor", "files", "garbage", "main", "server"),
        *("services", "settings", "store", "tensors"),
    },
    "__main__": {"cli"},
}


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


def layer_of(module: str) -> int | None:
    parts = module.split(".")
    if parts[0] != "core" or len(parts) < 2:
        return None
    name = ".".join(parts[1:3]) if parts[1] == "compat" else parts[1]
    return next((i for i, names in enumerate(CORE_LAYERS) if name in names), None)


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
        if top in DEVICE_LIBRARIES and not own.startswith(("core.backends", "core.kernels")):
            yield f"{path}:{line}: {top} outside core/backends and core/kernels"
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


def test_absolute_imports_are_found(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text("def f():\n    import core.ops\n    from os import getenv\n")
    nodes = [n for n in interesting_nodes(path) if isinstance(n, (ast.Import, ast.ImportFrom))]
    assert [absolute_imports(node) for node in nodes] == [["core.ops"], ["os"]]
