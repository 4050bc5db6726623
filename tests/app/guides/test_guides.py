"""Guides and README: their commands work when pasted and print what is shown."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

import core as mx
from app.cli.demo.tour import LENET, MNIST
from app.client import Client
from app.client.local_server import ServerProcess, running_server
from app.guides.reading import guide_names
from oracle import golden_file
from oracle.networks import make_parameters
from oracle.shared import SHARED
from oracle.topics.models import make_inputs
from served import lenet
from served.archives import MANIFEST, files_of_model, write_archive
from served.guide_blocks import Block, blocks_of, difference
from served.guide_shells import Shells, open_shells
from served.processes import ENVIRONMENT
from served.programs import program

ROOT = Path(__file__).parents[3]
GUIDES = ROOT / "app" / "guides"

SHORTER: Mapping[str, list[tuple[str, str]]] = {
    "README": [('"epochs": 12', '"epochs": 1')],
    "lenet": [('"epochs": 12', '"epochs": 1'), ("/12/", "/1/"), ("lenet-0012", "lenet-0001")],
    "word-language-model": [
        ("encoded[:cut]", "encoded[: cut // 10]"),
        ("encoded[cut:]", "encoded[cut : cut + 200]"),
        ("num_epoch=4", "num_epoch=1"),
    ],
    "utterances": [("epochs=30", "epochs=2")],
    "jobs": [('"epochs": 40', '"epochs": 2')],
    "python": [
        ("num_epoch=12", "num_epoch=1"),
        ('mnist["train_images"]', 'mnist["train_images"][:640]'),
        ('mnist["train_labels"]', 'mnist["train_labels"][:640]'),
    ],
    "command-line": [("--epochs 3", "--epochs 1")],
}
"""Replacements in the text of guides that make long trainings short."""

BY_HAND = {
    "README": "installs, starts a server that goes on running, or runs the tests",
    "operations": "installs, starts a server that goes on running, or needs Docker",
    "keys": "starts a server that goes on running, with certificates",
    "production": "needs Docker, or a cluster",
}
"""Guides with blocks that tests do not run, and why."""


def write_few_digits(folder: Path) -> Path:
    """Write 640 of the 4,000 digits under the full dataset's name; return the file."""
    with np.load(MNIST) as archive:
        parts = {
            name: archive[name][: 640 if name.startswith("train") else None] for name in archive
        }
    np.savez(folder / MNIST.name, **parts)
    return folder / MNIST.name


def bring_repository(client: Client, folder: Path) -> None:
    """Write the files of the repository that the README uses, and a model of the reader's own."""
    data = folder / "app" / "cli" / "demo" / "data"
    data.mkdir(parents=True)
    write_few_digits(data)
    shutil.copy(LENET, data)
    bring_model(client, data)


def bring_model(client: Client, folder: Path) -> None:
    """Write a model that guides assume their reader to have."""
    module = mx.mod.Module(mx.sym.load(str(LENET)))
    module.bind([("data", (1, 1, 28, 28))], [("softmax_label", (1,))])
    module.init_params(mx.init.Xavier())
    module.save_checkpoint(str(folder / "my"), 10)


def bring_models(client: Client, folder: Path) -> None:
    bring_model(client, folder)
    bring_archive(client, folder)
    net = mx.gluon.model_zoo.vision.squeezenet1_0(classes=10)
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros((1, 3, 224, 224)))
    net.save_parameters(str(folder / "squeezenet.params"))


def bring_digits(client: Client, folder: Path) -> None:
    """Write the files that a reader of the LeNet guide has."""
    shutil.copy(MNIST, folder)
    shutil.copy(LENET, folder)
    digits, _ = lenet.digits(3)
    np.save(folder / "digits.npy", digits)


def train_lenet(client: Client, folder: Path) -> None:
    """Write those files, and create the guide's module ``lenet``, with versions 11 and 12."""
    bring_digits(client, folder)
    client.put_dataset("mnist", write_few_digits(folder))
    client.create_module("lenet", LENET.read_text())
    client.bind("lenet", [{"name": "data", "shape": [64, 1, 28, 28]}])
    client.init_params("lenet", "xavier", seed=7)
    for version in (11, 12):
        client.save_checkpoint("lenet", version)


def save_lenet(client: Client, folder: Path) -> None:
    bring_digits(client, folder)
    module = mx.mod.Module(mx.sym.load(str(LENET)))
    module.bind([("data", (1, 1, 28, 28))], [("softmax_label", (1,))])
    module.init_params(mx.init.Xavier())
    module.save_checkpoint(str(folder / "lenet"), 12)


def bring_archive(client: Client, folder: Path) -> None:
    manifest = {**MANIFEST, "model": {**MANIFEST["model"], "modelName": "squeezenet"}}
    write_archive(folder / "squeezenet.mar", files_of_model(), manifest)


def bring_old_model(client: Client, folder: Path) -> None:
    """Write a checkpoint, and the outputs MXNet 1.9.1 gave for it."""
    shutil.copyfile(golden_file.GOLDEN / "models" / "lenet-symbol.json", folder / "old-symbol.json")
    symbol = mx.sym.load(str(folder / "old-symbol.json"))
    inputs = make_inputs("lenet")
    shapes, _, _ = symbol.infer_shape(data=inputs["data"].shape)
    arguments = dict(zip(symbol.list_arguments(), shapes, strict=True))
    named = {name: one for name, one in arguments.items() if name not in ("data", "softmax_label")}
    parameters = make_parameters(named)
    arrays = {f"arg:{name}": mx.nd.array(value) for name, value in parameters.items()}
    mx.nd.save(str(folder / "old-0010.params"), arrays)
    output = golden_file.topic("models")["lenet"]
    np.savez(folder / "answers.npz", data=inputs["data"], output=output)


def bring_faces(client: Client, folder: Path) -> None:
    for number in (1, 2, 3):
        bring_checkpoint(f"mtcnn_det{number}", folder / f"det{number}", 1)


def bring_digit_reader(client: Client, folder: Path) -> None:
    bring_checkpoint("lenet_miraclewkf", folder / "digits", 10)


def bring_checkpoint(name: str, prefix: Path, epoch: int) -> None:
    """Copy a published checkpoint; skip the test where these are missing."""
    published = SHARED / "checkpoints" / name / "model"
    if not published.parent.is_dir():
        pytest.skip(f"needs the published model {name}, and there is no ../shared/checkpoints")
    for ending in ("-symbol.json", f"-{epoch:04d}.params"):
        shutil.copyfile(f"{published}{ending}", f"{prefix}{ending}")


PREPARED: Mapping[str, Callable[[Client, Path], None]] = {
    "README": bring_repository,
    "python": bring_digits,
    "production": bring_digits,
    "from-mxnet": bring_old_model,
    "from-mxnet-model-server": bring_archive,
    "fine-tuning": bring_digit_reader,
    "face-detection": bring_faces,
    "models": bring_models,
    "command-line": save_lenet,
    **dict.fromkeys(("jobs", "versions", "formats", "rest", "instances"), train_lenet),
    **dict.fromkeys(("inference-protocol", "inputs"), train_lenet),
}
OF_ITS_OWN: Mapping[str, Mapping[str, str]] = {
    "README": {},
    "keys": {},
    "production": {},
    "instances": {"MODSERVE_DEVICES": '["cpu(0)", "cpu(1)"]'},
}
"""Guides that need a server of their own, and its settings."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server shared by guides; one guide's modules are deleted before the next."""
    folder = tmp_path_factory.mktemp("guides")
    with running_server(folder, environment=ENVIRONMENT) as server:
        yield server


def path_of(guide: str) -> Path:
    return ROOT / "README.md" if guide == "README" else GUIDES / f"{guide}.md"


def run_guide(guide: str, server: ServerProcess, folder: Path, *, full: bool = False) -> None:
    """Run all blocks of a guide in order, and compare their output."""
    path = path_of(guide)
    blocks = [block for block in blocks_of(path) if not block.is_by_hand]
    replaced = [] if full else list(SHORTER.get(guide, []))
    for shown, _ in replaced:
        assert any(shown in block.text for block in blocks), f"{path.name} has no {shown!r}"
    with Client(server.url) as client:
        for one in client.modules():
            client.delete_module(one["name"])
        PREPARED.get(guide, lambda client, folder: None)(client, folder)
    with open_shells(folder, server.url, server.log.parent) as shells:
        for block in blocks:
            run_block(block, shells, f"{path}:{block.line}", replaced, full)


def run_block(
    block: Block, shells: Shells, where: str, replaced: list[tuple[str, str]], full: bool
) -> None:
    text = block.text
    for shown, shorter in replaced:
        text = text.replace(shown, shorter)
    status, printed = shells.run(block.language, text)
    assert (status != 0) == block.fails, f"{where}: status {status}\n{printed}"
    if block.shown and (full or not block.shown.only_full):
        found = difference(block.shown, printed)
        assert found is None, f"{where}: {found}"


def run_anywhere(guide: str, server: ServerProcess, folder: Path, *, full: bool = False) -> None:
    """Run a guide on the server it needs."""
    work = folder / "work"
    work.mkdir()
    own = OF_ITS_OWN.get(guide)
    if own is None:
        run_guide(guide, server, work, full=full)
        return
    with running_server(folder / "server", environment={**ENVIRONMENT, **own}) as other:
        run_guide(guide, other, work, full=full)


@pytest.mark.parametrize("guide", ["README", *guide_names()])
def test_a_guide_works_in_a_shortened_form(
    guide: str, server: ServerProcess, tmp_path: Path
) -> None:
    program("curl", "curl")
    run_anywhere(guide, server, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("guide", sorted(SHORTER))
def test_a_guide_works_as_written(guide: str, server: ServerProcess, tmp_path: Path) -> None:
    run_anywhere(guide, server, tmp_path, full=True)


def test_blocks_that_are_not_run_have_a_reason() -> None:
    names = ["README", *guide_names()]
    by_hand = {name for name in names if any(one.is_by_hand for one in blocks_of(path_of(name)))}
    assert by_hand == BY_HAND.keys()
