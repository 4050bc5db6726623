"""Building the image with buildah and running it with podman, in separate storage."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Container", "Engine", "missing_programs"]

_NEEDED = ("buildah", "podman", "mmdebstrap", "runc")
_BASE = "localhost/base:bookworm"
_PACKAGES = "python3,python3-venv,ca-certificates"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096")
"""Lower than this machine's: podman's own are higher than some machines let root set."""
_CERTIFICATES = Path("/etc/ssl/certs")


def missing_programs() -> list[str]:
    """Return the programs missing for building and running an image as root."""
    return [name for name in _NEEDED if shutil.which(name) is None]


class Engine:
    """Images and containers in one folder, without a daemon."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        conf = folder / "storage.conf"
        driver = os.environ.get("STORAGE_DRIVER", "overlay")
        conf.write_text(
            f'[storage]\ndriver = "{driver}"\ngraphroot = "{folder}/storage"\n'
            f'runroot = "{folder}/run"\n'
        )
        self._environment = {
            **os.environ,
            "CONTAINERS_STORAGE_CONF": str(conf),
            "BUILDAH_ISOLATION": "chroot",
            "BASE_IMAGE": _BASE,
        }

    def call(self, *words: str, is_checked: bool = True) -> str:
        """Run a program and return what it printed."""
        done = subprocess.run(
            words, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 or not is_checked, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def podman(self, *words: str, is_checked: bool = True) -> str:
        """Run podman, with runc as the runtime where both cgroup versions are mounted."""
        return self.call("podman", "--runtime", "runc", *words, is_checked=is_checked)

    def bootstrap(self) -> None:
        """Make a base image from Debian packages, without any image registry."""
        if self.call("buildah", "images", "--quiet", "--filter", f"reference={_BASE}").strip():
            return
        archive = self.folder / "base.tar"
        self.call("mmdebstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", archive)
        container = self.call("buildah", "from", "scratch").strip()
        self.call("buildah", "add", "--quiet", container, str(archive), "/")
        self.call("buildah", "config", "--env", f"PATH={_PATH}", container)
        self.call("buildah", "commit", "--quiet", "--rm", "--format", "docker", container, _BASE)
        archive.unlink()

    def build(self, source: Path) -> str:
        """Build the image of a source tree like ``make image``; return the output."""
        conf = self.folder / "pip.conf"
        told = {"cert": os.environ.get("PIP_CERT"), "index-url": os.environ.get("PIP_INDEX_URL")}
        rows = [f"{name} = {value}\n" for name, value in told.items() if value]
        conf.write_text("".join(["[global]\n", *rows]))
        mounts = [f"{conf}:/etc/pip.conf:ro", f"{_CERTIFICATES}:{_CERTIFICATES}:ro"]
        options = [word for mount in mounts for word in ("--volume", mount)]
        return self.call(str(source / "docker" / "build.sh"), *options)

    def image_bytes(self, image: str) -> int:
        """Return the size of an image."""
        return int(json.loads(self.podman("image", "inspect", image))[0]["Size"])

    def run(self, image: str, volume: str, environment: Mapping[str, str]) -> Container:
        """Start a hardened container on the machine's network."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        told = {**environment, "MODSERVE_PORT": str(port)}
        variables = [word for pair in told.items() for word in ("--env", "=".join(pair))]
        name = f"modserve-{uuid.uuid4().hex[:12]}"
        begin = time.monotonic()
        self.podman(
            *(
                "run",
                "--detach",
                "--name",
                name,
                "--read-only",
                "--tmpfs",
                "/tmp",
                "--network",
                "host",
            ),
            *("--cap-drop", "all", "--security-opt", "no-new-privileges"),
            *_LIMITS,
            *("--memory", "2g", "--cpus", "1", "--volume", f"{volume}:/var/lib/modserve"),
            *(*variables, image),
        )
        return Container(self, name, f"http://127.0.0.1:{port}", begin)

    def once(self, image: str, *words: str) -> str:
        """Run a command of the image; return its output."""
        return self.podman("run", "--rm", "--network", "host", *_LIMITS, image, *words)

    def end(self) -> None:
        """Remove all containers and volumes."""
        self.podman("rm", "--all", "--force", "--volumes", is_checked=False)
        self.podman("volume", "rm", "--all", "--force", is_checked=False)

    def clear(self) -> None:
        """Remove all images, too."""
        self.end()
        self.call("buildah", "rm", "--all", is_checked=False)
        self.call("buildah", "rmi", "--all", "--force", is_checked=False)
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True)
class Container:
    """A running container; ``begin`` is its start on the monotonic clock."""

    engine: Engine
    name: str
    url: str
    begin: float

    def logs(self) -> str:
        """Return its output so far."""
        return self.engine.podman("logs", self.name)

    def call(self, *words: str, is_checked: bool = True) -> str:
        """Run a command in it."""
        return self.engine.podman("exec", self.name, *words, is_checked=is_checked)

    def check_health(self) -> None:
        """Run the image's health check, as an engine does periodically."""
        self.engine.podman("healthcheck", "run", self.name)

    def kill(self) -> None:
        """Kill it, like a machine that loses power."""
        self.engine.podman("kill", "--signal", "KILL", self.name)
        self.engine.podman("wait", self.name)
        self.engine.podman("rm", self.name)

    def stop(self) -> int:
        """Stop it cleanly; return its exit status."""
        self.engine.podman("stop", "--time", "60", self.name)
        return int(self.engine.podman("wait", self.name).split()[-1])
