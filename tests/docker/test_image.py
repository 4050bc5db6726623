"""The image is built and run: it predicts and trains, and after a kill everything is still there.

Left out unless asked for (``make image-test``): it takes minutes, and needs root and Debian's
buildah, podman, runc and mmdebstrap. The environment variable ``MODSERVE_TEST_CONTAINERS`` may name
a folder that keeps the base image and the layers for the next run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import core as mx
from app.cli.demo.tour import LENET
from app.client import Client, ClientError
from served import lenet
from served.image_engine import Container, Engine, missing_programs
from served.processes import wait_until

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/modserve:cpu"
KEY = re.compile(r"msk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")
SHAPES = [{"name": "data", "shape": [8, 1, 28, 28]}]
GIB = 2**30

pytestmark = [
    pytest.mark.image,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(missing_programs()), reason=f"needs {missing_programs()}"),
]


@pytest.fixture(scope="module")
def figures() -> Iterator[dict[str, str]]:
    """Measurements, printed at the end."""
    found: dict[str, str] = {}
    yield found
    print("\n" + "\n".join(f"{name}: {value}" for name, value in found.items()))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    kept = os.environ.get("MODSERVE_TEST_CONTAINERS")
    engine = Engine(Path(kept) if kept else tmp_path_factory.mktemp("containers"))
    engine.bootstrap()
    yield engine
    engine.end()
    if kept is None:
        engine.clear()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that are committed or about to be."""
    folder = tmp_path_factory.mktemp("source")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        if name.startswith(("app/", "core/", "docker/")) or "/" not in name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def image(engine: Engine, source: Path, figures: dict[str, str]) -> str:
    begin = time.monotonic()
    engine.build(source)
    figures["first build"] = f"{time.monotonic() - begin:.0f} s"
    figures["image"] = f"{engine.image_bytes(IMAGE) / 1e6:.0f} MB"
    return IMAGE


def test_an_edit_does_not_download_anything_again(
    engine: Engine, source: Path, image: str, figures: dict[str, str]
) -> None:
    edited = source / "app" / "errors" / "redaction.py"
    edited.write_text(edited.read_text() + "\n")
    begin = time.monotonic()
    said = engine.build(source)
    figures["build after an edit"] = f"{time.monotonic() - begin:.0f} s"
    assert "Downloading" not in said
    assert "apt-get" not in "".join(said.split("Using cache")[-1:])


@contextmanager
def ready(container: Container, key: str) -> Iterator[Client]:
    """Yield a client once the server is ready."""

    def is_ready() -> bool:
        try:
            return client.request("GET", "/readyz").status_code == 200
        except Exception:
            state = container.engine.podman(
                "inspect", "--format", "{{.State.Running}}", container.name
            )
            assert state.strip() == "true", container.logs()
            return False

    with Client(container.url, key=key) as client:
        wait_until(is_ready, "a server that is ready", 120)
        yield client


def test_a_container_is_used_killed_and_restarted(
    engine: Engine, image: str, tmp_path: Path, figures: dict[str, str]
) -> None:
    volume = f"story-{os.getpid()}"
    first = engine.run(image, volume, {})
    wait_until(lambda: bool(KEY.findall(first.logs())), "the key in the logs", 120)
    (key,) = KEY.findall(first.logs())
    with ready(first, key) as client:
        figures["start to ready"] = f"{time.monotonic() - first.begin:.1f} s"
        check_safety(first)
        expected = upload(client, tmp_path, figures)
        before = train(client, tmp_path)
        job = lenet.fit(client, "lenet", dataset="few", epochs=400, seed=7)
        wait_until(lambda: client.job(job)["status"] == "running", "a running job", 120)
        first.kill()

    second = engine.run(image, volume, {})
    with ready(second, key) as client:
        figures["start to ready, second"] = f"{time.monotonic() - second.begin:.1f} s"
        assert KEY.findall(second.logs()) == []
        assert {one["name"] for one in client.modules()} == {"my", "lenet"}
        np.testing.assert_array_equal(predicted(client, "my"), expected)
        wait_until(lambda: client.job(job)["status"] == "running", "the job goes on", 120)
        client.cancel(job)
        assert client.wait(job)["status"] == "cancelled"
        assert before <= {one["tag"] for one in client.checkpoints("lenet")}
    second.check_health()
    assert second.stop() == 0


def check_safety(container: Container) -> None:
    """Check the user, what it may write, the memory limit, and that requests need a key."""
    with Client(container.url, key="") as stranger, pytest.raises(ClientError) as refused:
        stranger.modules()
    assert refused.value.status == 401
    assert container.call("id", "-u").strip() == "1000"
    for word in ("gcc", "cc", "as", "ld"):
        assert container.call("sh", "-c", f"command -v {word}", is_checked=False).strip() == ""
    assert "Read-only file system" in container.call("touch", "/opt/x", is_checked=False)
    assert container.call("stat", "-c", "%a", "/var/lib/modserve/keys.json").strip() == "600"
    code = (
        "import ctypes; from pathlib import Path; from core.backends import native, onednn;"
        " from core.cpus import available_cpus; from core.device import cpu;"
        " from app.executor.modules.memory_limits import default_budget;"
        " ctypes.CDLL(str(Path(native.__file__).parent / 'libnative.so'));"
        " print(available_cpus(), default_budget(cpu()), onednn.is_available())"
    )
    assert container.call("python", "-c", code).split() == ["1", str(int(2 * GIB * 0.7)), "True"]


def upload(client: Client, folder: Path, figures: dict[str, str]) -> np.ndarray:
    """Upload a model saved by a script; return the server's predictions, checked against ours."""
    module = mx.mod.Module(mx.sym.load(str(LENET)))
    module.bind([("data", (8, 1, 28, 28))], [("softmax_label", (8,))])
    module.init_params(mx.init.Xavier())
    module.save_checkpoint(str(folder / "my"), 10)
    client.create_from_files("my", [folder / "my-symbol.json", folder / "my-0010.params"])
    client.bind("my", SHAPES, for_training=False)
    begin = time.monotonic()
    answer = predicted(client, "my")
    figures["first prediction"] = f"{(time.monotonic() - begin) * 1e3:.0f} ms"
    digits = mx.io.NDArrayIter(lenet.digits(8)[0], batch_size=8)
    np.testing.assert_allclose(answer, module.predict(digits).asnumpy(), rtol=1e-4, atol=1e-5)
    return answer


def predicted(client: Client, name: str) -> np.ndarray:
    return client.predict(name, data=lenet.digits(8)[0])["softmax_output"]


def train(client: Client, folder: Path) -> set[str]:
    """Train LeNet; return the resulting checkpoints."""
    client.put_dataset("few", lenet.few_digits(folder, 640))
    lenet.create(client, "lenet")
    assert client.wait(lenet.fit(client, "lenet", dataset="few"))["status"] == "succeeded"
    return {one["tag"] for one in client.checkpoints("lenet")}


def test_a_published_model_and_a_supplied_key(engine: Engine, image: str, shared_dir: Path) -> None:
    golden = shared_dir / "checkpoints" / "lenet_miraclewkf"
    (key,) = KEY.findall(engine.once(image, "keys", "generate"))
    container = engine.run(image, f"secret-{os.getpid()}", {"MODSERVE_API_KEY": key})
    with ready(container, key) as client:
        assert KEY.findall(container.logs()) == []
        client.create_from_files("digits", sorted(golden.glob("model-*")))
        inputs, outputs = np.load(golden / "inputs.npz"), np.load(golden / "outputs.npz")
        shape = list(inputs["data"].shape)
        client.bind("digits", [{"name": "data", "shape": shape}], for_training=False)
        (answer,) = client.predict("digits", data=inputs["data"]).values()
        np.testing.assert_allclose(answer, outputs[outputs.files[0]], rtol=1e-4, atol=1e-5)
    assert container.stop() == 0
