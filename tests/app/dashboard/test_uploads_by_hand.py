"""Uploading models from a folder and training them, using only a browser."""

from __future__ import annotations

import base64
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

import core as mx
from app.cli.demo.tour import LENET, MNIST
from app.client import Client
from app.client.local_server import ServerProcess
from served.archives import files_of_model, write_archive
from served.awkward_models import HIDDEN, reader, save
from served.browser import SEVEN, browsing, draw, faults_of, look, serious

pytestmark = pytest.mark.slow

LABELS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]

DROP = """files => {
  const transfer = new DataTransfer();
  for (const {name, content} of files) {
    const bytes = Uint8Array.from(atob(content), one => one.charCodeAt(0));
    transfer.items.add(new File([bytes], name));
  }
  document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: transfer, bubbles: true}));
}"""


@pytest.fixture(scope="module")
def old_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as users have them: LeNet, parameters of two epochs, and unrelated files."""
    folder = tmp_path_factory.mktemp("old")
    module = mx.mod.Module(mx.sym.load(str(LENET)))
    module.bind([("data", (2, 1, 28, 28))], [("softmax_label", (2,))])
    mx.random.seed(3)
    module.init_params(mx.init.Xavier())
    for epoch in (2, 10):
        module.save_checkpoint(str(folder / "digits"), epoch)
    (folder / "synset.txt").write_text("\n".join(LABELS))
    (folder / "README").write_text("trained long ago")
    return folder


@pytest.fixture(scope="module")
def context(chromium: Browser, server: ServerProcess) -> Iterator[BrowserContext]:
    with browsing(chromium, server.url) as context:
        yield context


@pytest.fixture
def page(context: BrowserContext, server: ServerProcess) -> Iterator[Page]:
    page = context.new_page()
    page.goto(f"{server.url}/#/upload")
    yield page
    page.close()


def choose(page: Page, *files: Path) -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose files").click()
    chooser.value.set_files(files)


def upload(page: Page) -> None:
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.get_by_text("What was found")).to_be_visible()


def test_a_folder_of_old_files_is_served_and_fine_tuned(
    page: Page, client: Client, server: ServerProcess, old_files: Path, axe: str, screenshots: Path
) -> None:
    faults = faults_of(page, server.url)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose a folder").click()
    chooser.value.set_files(old_files)
    expect(page.get_by_label("Parameters")).to_have_value("0")
    expect(page.get_by_role("cell", name="digits-0010.params")).to_be_visible()
    expect(page.get_by_text("belong to no model: README")).to_be_visible()
    look(page, axe, screenshots, "upload")
    page.keyboard.press("Enter")  # the button is focused
    expect(page.get_by_label("Shape of data")).to_have_value("1, 1, 28, 28")
    expect(page.get_by_label("softmax_label is")).to_have_value("label")
    page.get_by_label("Shape of data").fill("4, 1, 28, 28")
    expect(page.get_by_label("Shape of softmax_label")).to_have_value("4")
    look(page, axe, screenshots, "setup")
    page.get_by_role("button", name="Bind").click()
    expect(page.get_by_text("it answers softmax_output (4, 10)")).to_be_visible()
    assert client.labels("digits", "softmax_output") == LABELS
    page.get_by_role("link", name="Try it").click()
    draw(page, SEVEN)
    page.get_by_role("button", name="Predict").click()
    answer = page.get_by_role("region", name="Answer")
    expect(answer.get_by_role("row")).to_have_count(6)  # including the column headings
    expect(answer.get_by_role("cell", name=re.compile("|".join(LABELS)))).to_have_count(5)
    page.goto(f"{server.url}/#/modules/digits")
    page.get_by_role("link", name="Train", exact=True).click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Upload a file").click()
    chooser.value.set_files(MNIST)
    expect(page.get_by_label("Shape of an example of data")).to_have_value("1, 28, 28")
    page.get_by_label("Score it after every epoch").check()
    expect(page.get_by_label("Array for data, validation")).to_have_value("test_images")
    page.get_by_label("Epochs").fill("1")
    page.get_by_label("Batch size").fill("64")
    look(page, axe, screenshots, "train")
    assert faults == []
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page).to_have_url(re.compile("#/jobs/[0-9]+$"))
    expect(page.get_by_text("succeeded").first).to_be_visible(timeout=60_000)
    result = client.job(int(page.url.rpartition("/")[2]))["result"]
    assert result["validation"]["accuracy"] > 0.5


def test_bucket_symbols_become_one_model(page: Page, client: Client, tmp_path: Path) -> None:
    weight = mx.sym.Variable("fc_weight", shape=(2, 1))
    for key in (5, 10):
        data = mx.sym.slice_axis(mx.sym.Variable("data"), axis=1, begin=0, end=key)
        mean = mx.sym.mean(data, axis=1, keepdims=True)
        net = mx.sym.FullyConnected(mean, weight, num_hidden=2, no_bias=True, name="fc")
        net.save(str(tmp_path / f"means-{key}-symbol.json"))
    mx.nd.save(str(tmp_path / "means-0001.params"), {"arg:fc_weight": mx.nd.ones((2, 1))})
    choose(page, *tmp_path.iterdir())
    expect(page.get_by_role("cell", name="means-5-symbol.json")).to_be_visible()
    expect(page.get_by_role("cell", name="means-10-symbol.json")).to_be_visible()
    upload(page)
    made = client.module("means")
    assert (made["kind"], sorted(made["bucket_keys"])) == ("bucketing", ["10", "5"])
    client.delete_module("means")


def test_refusals_are_shown_at_their_field(
    page: Page, client: Client, old_files: Path, screenshots: Path
) -> None:
    client.create_module("digits", LENET.read_text())
    client.put_dataset("mnist", MNIST)
    choose(page, *old_files.glob("digits*"))
    page.get_by_role("button", name="Upload", exact=True).click()
    field = page.get_by_label("Name")
    expect(field).to_have_accessible_description(re.compile("module 'digits' exists already"))
    field.fill("of others")
    page.keyboard.press("Enter")
    expect(field).to_have_accessible_description(re.compile("Got of others; expected 1 to 128"))
    page.screenshot(path=screenshots / "refused-name.png")
    field.fill("other")
    upload(page)
    page.get_by_label("Shape of data").fill("1, 1, 20, 20")
    page.get_by_role("button", name="Bind").click()
    expect(page.get_by_role("row").filter(has=page.get_by_label("Shape of data"))).to_contain_text(
        "weight"
    )
    page.get_by_role("link", name="Train", exact=True).click()
    page.get_by_label("Dataset", exact=True).select_option("mnist")
    page.get_by_label("Shape of an example of data").fill("1, 28, 27")
    page.get_by_label("Learning rate").fill("fast")
    page.get_by_role("button", name="Train", exact=True).click()
    rate = page.get_by_label("Learning rate")
    expect(rate).to_have_accessible_description(re.compile("Got fast; expected"))
    rate.fill("0.1")
    page.get_by_role("button", name="Train", exact=True).click()
    row = page.get_by_role("row").filter(has=page.get_by_label("Array for data, training"))
    expect(row).to_contain_text("Got [1, 28, 27]; expected the elements of an example")
    page.screenshot(path=screenshots / "refused-fit.png", full_page=True)


def test_dropped_files_with_roles_assigned_by_hand(
    page: Page, client: Client, tmp_path: Path, screenshots: Path
) -> None:
    files = save(
        tmp_path,
        reader(),
        data=(2, 1, 8, 8),
        l0_init_h=(2, HIDDEN),
        l0_init_c=(2, HIDDEN),
        label=(2, 3),
    )
    expect(page.get_by_text("Drop the files")).to_be_visible()
    page.evaluate(
        DROP,
        [
            {"name": one.name, "content": base64.b64encode(one.read_bytes()).decode()}
            for one in files
        ],
    )
    upload(page)
    warnings = page.get_by_role("list", name="Warnings")
    expect(warnings).to_contain_text("label: its shape does not follow")
    expect(page.get_by_label("l0_init_h is")).to_have_value("state")
    page.screenshot(path=screenshots / "roles.png")
    for state in ("l0_init_h", "l0_init_c"):
        page.get_by_label(f"{state} is").select_option("data")
    page.get_by_role("button", name="Use these roles").click()
    expect(page.get_by_label("Shape of l0_init_c")).to_be_visible()
    assert client.module("net")["data_names"] == ["data", "l0_init_h", "l0_init_c"]


def test_models_of_the_same_name_in_separate_folders(
    page: Page, client: Client, old_files: Path, tmp_path: Path
) -> None:
    for folder, epoch in (("eyes", 10), ("ears", 2)):
        (tmp_path / folder).mkdir()
        for old, new in (("symbol.json", "symbol.json"), (f"{epoch:04d}.params",) * 2):
            shutil.copy(old_files / f"digits-{old}", tmp_path / folder / f"model-{new}")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose a folder").click()
    chooser.value.set_files(tmp_path)
    models = page.get_by_role("combobox", name="Model")
    expect(models.get_by_role("option")).to_have_text(
        [re.compile(f"{one}/model-symbol.json") for one in ("ears", "eyes")]
    )
    models.select_option(index=1)
    expect(page.get_by_label("Name")).to_have_value("eyes")
    expect(page.get_by_role("cell", name="model-0010.params")).to_be_visible()
    upload(page)
    assert client.module("eyes")["checkpoint"] == "10"


def test_every_open_value_has_a_field(page: Page, client: Client, tmp_path: Path) -> None:
    x = mx.sym.FullyConnected(mx.sym.Variable("left"), num_hidden=2, name="fc")
    x = mx.sym.broadcast_add(x, mx.sym.Variable("right"))
    (tmp_path / "sums-symbol.json").write_text(x.tojson())
    choose(page, tmp_path / "sums-symbol.json")
    expect(page.get_by_text("There is no file of parameters")).to_be_visible()
    upload(page)
    expect(page.get_by_text("still open")).to_have_count(2)
    page.get_by_role("button", name="Bind").click()
    for name in ("left", "right"):
        row = page.get_by_role("row").filter(has=page.get_by_label(f"Shape of {name}"))
        expect(row).to_contain_text(f"no shape of '{name}'")
        page.get_by_label(f"Shape of {name}").fill("3, 2")
    page.get_by_role("button", name="Bind").click()
    expect(page.get_by_text(re.compile(r"it answers .* \(3, 2\)"))).to_be_visible()
    assert client.module("sums")["stage"] == "bound"


def test_an_archive_is_unpacked_by_the_server(
    page: Page, client: Client, tmp_path: Path, screenshots: Path
) -> None:
    choose(page, write_archive(tmp_path / "pets.mar", files_of_model()))
    upload(page)
    expect(page.get_by_text("its handler service:handle is never run here")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="synset.txt")).to_contain_text("labels")
    page.screenshot(path=screenshots / "archive.png", full_page=True)
    assert client.module("pets")["stage"] == "initialized"


def test_files_with_other_names_become_one_model(
    page: Page, client: Client, tmp_path: Path, old_files: Path
) -> None:
    copy = shutil.copy(old_files / "digits-symbol.json", tmp_path / "digits-symbol (1).json")
    params = shutil.copy(old_files / "digits-0010.params", tmp_path / "params")
    choose(page, Path(copy), Path(params))
    upload(page)
    assert client.module("digits")["checkpoint"] == "0"


def test_an_archive_of_sagemaker_is_unpacked_by_the_server(
    page: Page, client: Client, tmp_path: Path, old_files: Path
) -> None:
    with tarfile.open(tmp_path / "birds.tar.gz", "w:gz") as archive:
        for name in ("digits-symbol.json", "digits-0010.params"):
            archive.add(old_files / name, name)
    choose(page, tmp_path / "birds.tar.gz")
    upload(page)
    assert client.module("birds")["checkpoint"] == "10"


def test_an_upload_can_be_cancelled(page: Page, client: Client, old_files: Path) -> None:
    page.route("**/v1/modules", lambda route: None)
    choose(page, *old_files.glob("digits*"))
    button = page.get_by_role("button", name="Upload", exact=True)
    button.click()
    expect(page.get_by_role("progressbar", name="Upload")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(button).to_be_visible()
    assert client.modules() == []


def test_a_new_last_layer_is_trained_in_its_own_module(
    page: Page, client: Client, server: ServerProcess, old_files: Path, tmp_path: Path
) -> None:
    shutil.copy(MNIST, tmp_path / "digits.npz")
    client.put_dataset("digits", tmp_path / "digits.npz")
    client.create_from_files(
        "base", [*old_files.glob("*-symbol.json"), *old_files.glob("*10.params")]
    )
    page.goto(f"{server.url}/#/modules/base/train")
    page.get_by_label("Dataset", exact=True).select_option("digits")
    page.get_by_label("a new last layer").check()
    expect(page.get_by_label("Cut the old one after")).to_have_value("t3_output")
    page.get_by_label("Classes", exact=True).fill("10")
    page.get_by_label("Train only the new layer").check()
    page.get_by_label("Epochs").fill("1")
    page.get_by_label("Shape of an example of data").fill("1, 28, 28")
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page).to_have_url(re.compile("#/jobs/[0-9]+$"))
    job = int(page.url.rpartition("/")[2])
    assert client.wait(job)["status"] == "succeeded"
    tuned = client.module("base-tuned")
    assert "c1_weight" in tuned["fixed_param_names"]
    assert tuned["origin"]["head"]["num_hidden"] == 10


def test_labels_are_saved_unless_they_have_changed_in_the_meantime(
    page: Page, client: Client, server: ServerProcess, axe: str, screenshots: Path
) -> None:
    client.create_module("pets", LENET.read_text())
    client.bind("pets", [{"name": "data", "shape": [1, 1, 28, 28]}])
    page.goto(f"{server.url}/#/modules/pets")
    page.get_by_role("button", name="Edit labels of softmax_output").click()
    field = page.get_by_label("Labels of softmax_output, one per line")
    field.fill("\n".join(LABELS[:9]))
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("9 labels")
    page.screenshot(path=screenshots / "labels.png")
    assert serious(page, axe) == []
    field.fill("\n".join(LABELS) + "\n")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("has labels")).to_be_visible()
    assert client.labels("pets", "softmax_output") == LABELS
    page.get_by_role("button", name="Edit labels of softmax_output").click()
    expect(field).to_have_value("\n".join(LABELS))
    client.set_labels("pets", "softmax_output", LABELS[::-1])
    field.fill("\n".join(LABELS))
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Load what is there now").click()
    expect(field).to_have_value("\n".join(LABELS[::-1]))
    assert client.labels("pets", "softmax_output") == LABELS[::-1]
