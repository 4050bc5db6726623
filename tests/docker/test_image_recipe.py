"""The image's recipe and locks, checked without a container engine; test_image.py runs it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
RECIPE = (DOCKER / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = {"cpu": ("postgres", "onnx"), "gpu": ("postgres", "onnx", "gpu")}
PYTHONS = [
    one.removeprefix("Programming Language :: Python :: ")
    for one in PROJECT["project"]["classifiers"]
    if re.fullmatch(r"Programming Language :: Python :: 3\.[0-9]+", one)
]
PINNED = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>\S+?)(?: ; (?P<marker>.+?))? \\")
HASHED = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")


def wanted(variant: str) -> list[Requirement]:
    """Return the requirements of an image according to pyproject."""
    if variant == "build":
        return [Requirement(one) for one in PROJECT["build-system"]["requires"]]
    project = PROJECT["project"]
    extras = [one for name in EXTRAS[variant] for one in project["optional-dependencies"][name]]
    return [Requirement(one) for one in [*project["dependencies"], *extras]]


def locked(variant: str, python: str) -> dict[str, Version]:
    """Return the versions an image on Linux x86-64 with a given Python gets."""
    found: dict[str, Version] = {}
    for line in lock_lines(variant):
        pinned = PINNED.fullmatch(line)
        if pinned is None:
            continue
        marker = Requirement(f"a ; {pinned['marker']}" if pinned["marker"] else "a").marker
        if marker is None or marker.evaluate(platform(python)):
            assert pinned["name"] not in found, f"two versions of {pinned['name']}"
            found[pinned["name"]] = Version(pinned["version"])
    return found


def lock_lines(variant: str) -> list[str]:
    return (DOCKER / f"requirements-{variant}.txt").read_text().splitlines()


def platform(python: str) -> dict[str, str]:
    return {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "extra": "",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }


def asked_by(name: str, extras: frozenset[str], python: str) -> Iterator[Requirement]:
    """Yield a package's requirements; none if it is not installed here."""
    try:
        asked = [Requirement(one) for one in requires(name) or ()]
    except PackageNotFoundError:
        return
    for one in asked:
        environments = [platform(python) | {"extra": extra} for extra in (*extras, "")]
        if one.marker is None or any(one.marker.evaluate(each) for each in environments):
            yield one


def test_the_project_declares_the_pythons_it_runs_on() -> None:
    assert {"3.11", "3.12"} <= set(PYTHONS)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("variant", ["build", "cpu", "gpu"])
def test_the_lock_satisfies_the_projects_requirements(variant: str, python: str) -> None:
    found = locked(variant, python)
    for one in wanted(variant):
        if one.marker is None or one.marker.evaluate(platform(python)):
            name = canonicalize_name(one.name)
            assert name in found, f"{name} is not in the lock: make lock"
            assert one.specifier.contains(found[name]), f"{one}, locked is {found[name]}: make lock"


@pytest.mark.parametrize("variant", ["build", "cpu", "gpu"])
def test_the_lock_satisfies_its_packages_requirements(variant: str) -> None:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = locked(variant, python)
    todo = [(canonicalize_name(one.name), frozenset(one.extras)) for one in wanted(variant)]
    seen = set()
    while todo:
        if (one := todo.pop()) in seen:
            continue
        seen.add(one)
        for asked in asked_by(*one, python):
            name = canonicalize_name(asked.name)
            assert name in found, f"{name}, which {one[0]} needs, is not in the lock: make lock"
            todo.append((name, frozenset(asked.extras)))
    assert len(seen) >= (3 if variant == "build" else 30)


@pytest.mark.parametrize("variant", ["build", "cpu", "gpu"])
def test_a_lock_pins_each_package_with_hashes_and_names_no_registry(variant: str) -> None:
    hashed: dict[str, int] = {}
    name = ""
    for line in lock_lines(variant):
        if line.lstrip().startswith("#"):
            continue
        if HASHED.fullmatch(line):
            hashed[name] += 1
            continue
        pinned = PINNED.fullmatch(line)
        assert pinned is not None, line
        name = f"{pinned['name']} {pinned['version']}"
        hashed[name] = 0
    assert hashed
    assert not [name for name, count in hashed.items() if count == 0]
    assert "://" not in "".join(lock_lines(variant))


@pytest.mark.parametrize("python", PYTHONS)
def test_both_image_variants_have_the_same_versions(python: str) -> None:
    on_cpu, on_gpu = locked("cpu", python), locked("gpu", python)
    assert {name: on_gpu.get(name) for name in on_cpu} == on_cpu


def test_the_recipe_passes_hadolint() -> None:
    tool = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    assert tool is not None, "hadolint is not installed; run make install"
    run = subprocess.run(
        [tool, str(DOCKER / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_editing_the_sources_downloads_nothing_and_no_compiler_remains() -> None:
    stages = {
        stage.splitlines()[0].split(" AS ")[-1]: stage for stage in RECIPE.split("\nFROM ")[1:]
    }
    assert "COPY core core" in stages["modserve"]
    assert not re.search(r"COPY (core|app|\.) ", stages["dependencies"])
    assert [name for name, stage in stages.items() if "gcc" in stage] == ["modserve"]
    order = [stages["common"].index(f"COPY --from={one}") for one in ("dependencies", "modserve")]
    assert order == sorted(order)
    assert RECIPE.count("--require-hashes --no-deps --only-binary :all:") == 2


def test_the_image_runs_as_an_unprivileged_user_and_with_keys() -> None:
    last = RECIPE.split("\nFROM ")[-1]
    assert "\nUSER 1000:1000\n" in last
    assert 'ENTRYPOINT ["modserve"]\nCMD ["serve"]' in last
    assert 'CMD ["modserve", "health"]' in last
    assert "--insecure" not in RECIPE


@pytest.mark.parametrize(
    ("tools", "variables", "expected"),
    [
        (("docker",), {}, ["docker", "build", "modserve:cpu", "VARIANT=cpu"]),
        (("buildah",), {}, ["buildah", "build", "--format", "docker", "--layers", "modserve:cpu"]),
        (("docker", "buildah"), {"VARIANT": "gpu"}, ["docker", "modserve:gpu", "VARIANT=gpu"]),
        (
            ("buildah",),
            {"BASE_IMAGE": "debian:a", "IMAGE": "mine:1"},
            ["buildah", "mine:1", "BASE_IMAGE=debian:a"],
        ),
        (("docker without an engine", "buildah"), {}, ["buildah", "build"]),
    ],
)
def test_make_image_uses_the_available_tool(
    tmp_path: Path, tools: tuple[str, ...], variables: dict[str, str], expected: list[str]
) -> None:
    run = make_image(tmp_path, tools, variables)
    assert run.returncode == 0, run.stderr
    words = run.stdout.split()
    assert words[0] == expected[0]
    assert [word for word in expected if word not in words] == []
    assert f"VERSION={PROJECT['project']['version']}" in words
    assert any(re.fullmatch(r"REVISION=([0-9a-f]{40}(-dirty)?|unknown)", one) for one in words)


def test_make_image_names_missing_tools(tmp_path: Path) -> None:
    run = make_image(tmp_path, (), {})
    assert run.returncode == 1
    assert "apt-get install buildah" in run.stderr


def make_image(
    folder: Path, tools: tuple[str, ...], variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Build with only some tools available, which print their arguments."""
    for tool in tools:
        name, _, fault = tool.partition(" ")
        (folder / name).write_text(
            f'#!/bin/sh\n[ "$1" != info ] || exit {int(bool(fault))}\necho {name} "$@"\n'
        )
        (folder / name).chmod(0o755)
    for name in ("sh", "dirname", "sed", "git"):
        (folder / name).symlink_to(shutil.which(name) or name)
    return subprocess.run(
        [str(DOCKER / "build.sh")],
        env={**os.environ, "PATH": str(folder), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
