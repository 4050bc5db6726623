"""``modserve run``: MXNet scripts run on the engine as under ``python``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import core

MODSERVE = str(Path(sys.executable).with_name("modserve"))
ENGINE = str(Path(core.__file__))
REPORT = """
import sys
import traceback

print([__name__, sys.argv, sys.path[0], sys.flags.optimize])
print(traceback.format_stack()[0].splitlines()[0])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A script's folder."""
    (tmp_path / "script.py").write_text(REPORT)
    return tmp_path


def run(folder: Path, *arguments: str, text: str = "", **variables: str) -> tuple[int, str, str]:
    return begin(folder, MODSERVE, "run", *arguments, text=text, **variables)


def begin(folder: Path, *command: str, text: str = "", **variables: str) -> tuple[int, str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**kept, "PYTHONDONTWRITEBYTECODE": "1", **variables},
        input=text,
        capture_output=True,
        text=True,
        timeout=240,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["script.py", "--gpus", "0", "--help", "--cpu"],
        ["script.py"],
        ["./script.py", "-m", "--"],
        ["-m", "script", "--old-numpy"],
        ["-O", "-W", "error", "script.py", "-E"],
        ["-", "of stdin"],
        ["-c", REPORT, "-x"],
        ["-Wignore", "nowhere.py"],
        ["-m", "nowhere"],
    ],
    ids=" ".join,
)
def test_arguments_and_paths_are_as_under_python(folder: Path, arguments: list[str]) -> None:
    expected = begin(folder, sys.executable, *arguments, text=REPORT)
    assert run(folder, *arguments, text=REPORT) == expected


@pytest.mark.parametrize(
    "ending",
    ["raise ValueError('what it says')", "import sys; sys.exit(7)", "import os; os.abort()"],
)
def test_exit_status_is_as_under_python(folder: Path, ending: str) -> None:
    (folder / "ends.py").write_text(f"def end():\n    {ending}\n\n\nend()\n")
    expected = begin(folder, sys.executable, "ends.py")
    assert run(folder, "ends.py") == expected
    assert expected[0] != 0


def test_mxnet_is_the_engine_whatever_is_beside_the_script(folder: Path) -> None:
    for name in ("core", "mxnet"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("OWNER = 'script'\n")
    (folder / "app").mkdir()  # one of them a namespace package
    (folder / "app" / "part.py").write_text("OWNER = 'script'\n")
    (folder / "train.py").write_text("""
import sys
sys.path.insert(0, ".")
import app.part
import core
import mxnet as mx
import mxnet.module.base_module
from mxnet.gluon import nn
from mxnet.test_utils import assert_almost_equal

assert (core.OWNER, app.part.OWNER) == ("script", "script")
assert mxnet.module.base_module is sys.modules["mxnet.module.base_module"]
assert nn.Dense.__module__.startswith("mxnet.")
print(mx.__file__, mx.gpu(1), mx.nd.ones((2,)).sum().asscalar())
""")
    assert run(folder, "-W", "error", "train.py") == (0, f"{ENGINE} gpu(1) 2.0\n", "")


WORKERS = """
import multiprocessing
import subprocess
import sys

import mxnet as mx
import numpy as np


def where(number):
    filters = {"kernel": (3, 3), "num_filter": 8, "no_bias": True}
    images, weights = mx.nd.ones((2, 3, 32, 32)), mx.nd.ones((8, 3, 3, 3))
    total = mx.nd.Convolution(images, weights, **filters).sum().asscalar()
    return mx.__file__, str(mx.gpu(number)), np.float.__name__, float(total)


if __name__ == "__main__":
    found = {where(0)}
    for method in ("spawn", "fork"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            found.add(pool.apply_async(where, (0,)).get(200))
    print(*found.pop(), *found)
    code = "import mxnet; print(mxnet.__file__, mxnet.gpu(1))"
    sys.stdout.flush()
    subprocess.run([sys.executable, "-c", code], check=True)
"""


def test_worker_processes_have_the_engine_and_the_options(folder: Path) -> None:
    (folder / "workers.py").write_text(WORKERS)
    status, printed, said = run(folder, "--cpu", "--old-numpy", "workers.py")
    assert (status, printed) == (0, f"{ENGINE} cpu(0) float 388800.0\n{ENGINE} cpu(1)\n"), said
    assert said.splitlines() == [
        "modserve run: restored names that NumPy removed, such as np.float",
        "modserve run: mx.gpu() is the CPU",
    ]


def test_pythonpath_and_sitecustomize_are_kept(folder: Path) -> None:
    own = folder / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.of_the_site = 5\n")
    (own / "helper.py").write_text("")
    code = "import helper, mxnet, sys; print(of_the_site, sys.path[1], mxnet.__name__)"
    found = run(folder, "-c", code, PYTHONPATH=str(own))
    assert found == (0, f"5 {own} mxnet\n", "")


def test_without_old_numpy_numpy_is_unchanged(folder: Path) -> None:
    code = "import numpy; print(hasattr(numpy, 'float'), hasattr(numpy, 'asscalar'))"
    assert run(folder, "-c", code) == (0, "False False\n", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-E", "script.py"], "-E"),
        (["-uI", "script.py"], "-I"),
        (["-W", "error", "-S", "script.py"], "-S"),
        (["--cpus", "script.py"], "--cpus is not an option of modserve run"),
        ([], "Missing argument"),
    ],
)
def test_isolating_and_unknown_options_are_refused(
    folder: Path, arguments: list[str], said: str
) -> None:
    status, printed, error = run(folder, *arguments)
    assert (status, printed) == (2, "")
    assert said in error
