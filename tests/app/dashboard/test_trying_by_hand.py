"""Predicting in the browser, and running the same calls as shown."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

import core as mx
from app.cli.demo.tour import LENET
from app.client import Client
from app.client.local_server import running_server
from oracle.shared import SHARED
from served.awkward_models import save
from served.browser import SEVEN, browsing, draw, faults_of, look
from served.keys import add_key
from served.pictures import picture
from served.processes import ENVIRONMENT

pytestmark = pytest.mark.slow

SIDE = 48
CAPTCHA = SHARED / "checkpoints" / "lenet_miraclewkf"


@dataclass(frozen=True)
class Desk:
    """A page of a user who has logged in to a server with keys, and who also has a shell."""

    page: Page
    url: str
    key: str
    client: Client

    def open(self, module: str) -> Page:
        """Open the page where a module is tried."""
        self.page.goto(f"{self.url}/#/modules/{module}/try")
        expect(self.page.get_by_role("button", name="Predict")).to_be_visible()
        return self.page

    def predict(self, answer_with: str | None = None) -> Any:
        """Press the button and return what the server answered."""
        if answer_with is not None:
            self.page.get_by_label("Answer with").select_option(answer_with)
        self.page.evaluate("() => { window.answer = new Promise(tell => window.tell = tell) }")
        self.page.get_by_role("button", name="Predict").click()
        answer = self.page.evaluate("() => window.answer")
        assert "outputs" in answer, answer
        expect(self.page.get_by_role("region", name="Answer")).to_contain_text("in the server")
        return answer["outputs"]

    def repeat(self, folder: Path) -> tuple[Any, Any]:
        """Run the displayed calls as they are; return what curl and Python printed."""
        save_file = self.page.get_by_role("link", name=re.compile("^Save "))
        if save_file.count():
            with self.page.expect_download() as download:
                save_file.click()
            download.value.save_as(folder / download.value.suggested_filename)
        environment = os.environ | {"MODSERVE_KEY": self.key}
        shown = {name: self.page.get_by_label(name, exact=True).inner_text() for name in CALLS}
        assert not any(self.key in text for text in shown.values())
        got = [
            subprocess.run(
                [*CALLS[name], text],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for name, text in shown.items()
        ]
        return json.loads(got[0])["outputs"], ast.literal_eval(got[1])


KEEP_ANSWERS = """const own = fetch;
window.fetch = async (...asked) => {
  const answer = await own(...asked);
  if (String(asked[0]).includes('/predict')) window.tell?.(await answer.clone().json());
  return answer;
}"""
"""Passes answers on to ``Desk.predict``, since the browser discards those to uploaded files."""

CALLS = {"curl": ["sh", "-c"], "Python": [sys.executable, "-c"]}


@pytest.fixture(scope="module")
def desk(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    key = add_key(folder, "desk", "admin")
    with (
        running_server(folder, environment=ENVIRONMENT) as server,
        Client(server.url, key=key) as client,
        browsing(chromium, server.url, key) as context,
    ):
        page = context.new_page()
        page.add_init_script(KEEP_ANSWERS)
        yield Desk(page, server.url, key, client)


def test_a_digit_can_be_drawn(desk: Desk, tmp_path: Path, axe: str, screenshots: Path) -> None:
    desk.client.create_module("lenet", LENET.read_text())
    desk.client.bind("lenet", [{"name": "data", "shape": [2, 1, 28, 28]}])
    desk.client.init_params("lenet", initializer="xavier", seed=1)
    desk.client.set_labels("lenet", "softmax_output", [f"it's {n}" for n in range(10)])
    page = desk.open("lenet")
    faults = faults_of(page, desk.url)
    page.get_by_role("button", name="Predict").click()
    expect(page.get_by_role("alert")).to_contain_text("data: draw something")
    draw(page, SEVEN)
    outputs = desk.predict("3")
    best = outputs["softmax_output"][0]
    rows = page.get_by_role("region", name="Answer").locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text(f"{best[0]['label']}{best[0]['score']:.4f}")
    assert desk.repeat(tmp_path) == (outputs, outputs)
    look(page, axe, screenshots, "try-digit")
    outputs = desk.predict("")
    data = json.loads(
        re.search(r"-d '(.*)'", page.get_by_label("curl", exact=True).inner_text(), re.S)[1]
    )  # type: ignore[index]
    drawn = np.array(data["inputs"]["data"])
    assert drawn.shape == (1, 1, 28, 28)
    assert drawn[0, 0, 7, 14] == 1  # inside the upper stroke
    assert drawn[0, 0, 25].max() == 0
    expected = desk.client.predict("lenet", data=drawn.astype("f"))["softmax_output"]
    np.testing.assert_allclose(outputs["softmax_output"]["data"], expected, rtol=1e-5)
    assert faults == []


def detector() -> mx.sym.Symbol:
    """Return a net whose output looks like MultiBoxDetection's."""
    x = mx.sym.Convolution(
        mx.sym.Variable("data"), kernel=(3, 3), stride=(16, 16), num_filter=4, name="conv"
    )
    anchors = mx.sym.contrib.MultiBoxPrior(x, sizes=(0.3,), ratios=(1, 2))
    scores = mx.sym.Convolution(x, kernel=(1, 1), num_filter=3 * 2, name="scores")
    scores = mx.sym.softmax(mx.sym.Reshape(scores, shape=(0, 3, -1)), axis=1)
    edges = mx.sym.Convolution(x, kernel=(1, 1), num_filter=4 * 2, name="edges")
    return mx.sym.contrib.MultiBoxDetection(
        scores, mx.sym.Flatten(edges), anchors, name="boxes", nms_threshold=0.3
    )


def test_boxes_are_drawn_over_an_image(
    desk: Desk, tmp_path: Path, axe: str, screenshots: Path
) -> None:
    files = save(tmp_path, detector(), data=(1, 3, SIDE, SIDE))
    desk.client.create_from_files("eye", files)
    desk.client.bind("eye", [{"name": "data", "shape": [1, 3, SIDE, SIDE]}])
    page = desk.open("eye")
    page.get_by_label("Numbers", exact=True).select_option("0 to 1")
    photo = tmp_path / "photo.png"
    photo.write_bytes(picture(320, 200))
    with page.expect_file_chooser() as chooser:  # resets what was chosen above
        page.get_by_role("button", name="Choose a file").click()
    chooser.value.set_files(photo)
    expect(page.get_by_role("button", name="How it becomes numbers")).to_be_visible()
    assert desk.client.module("eye")["transforms"]["data"]["std"] == [255.0]
    outputs = desk.predict()
    assert outputs["boxes_output"]["shape"][2] == 6
    page.get_by_label("Score of at least").fill("0.3")
    drawing = page.get_by_role("img", name=re.compile("photo.png with [0-9]+ boxes"))
    expect(drawing).to_be_visible()
    expect(page.get_by_role("region", name="Boxes").get_by_role("row")).not_to_have_count(1)
    assert desk.repeat(tmp_path) == (outputs, outputs)
    look(page, axe, screenshots, "try-boxes")
    page.get_by_role("button", name="JSON").click()
    expect(page.get_by_text("6,912 numbers")).to_be_visible()
    outputs = desk.predict()
    assert desk.repeat(tmp_path) == (outputs, outputs)
    assert np.load(tmp_path / "example.npy").shape == (1, 3, SIDE, SIDE)


def sentences(length: int) -> str:
    """Return a net for texts of one length."""
    x = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=9, output_dim=4, name="embed")
    return str(mx.sym.FullyConnected(mx.sym.mean(x, axis=1), num_hidden=2, name="fc").tojson())


def test_texts_and_tokens_go_to_their_buckets(
    desk: Desk, tmp_path: Path, axe: str, screenshots: Path
) -> None:
    desk.client.create_bucketing_module(
        "words", {n: sentences(n) for n in (4, 8)}, 8, data_names=["data"], label_names=[]
    )
    shapes = {
        n: {"data_shapes": [{"name": "data", "shape": [2, n], "layout": "NT"}]} for n in (4, 8)
    }
    desk.client.bind(
        "words", shapes[8]["data_shapes"], for_training=False, buckets={"4": shapes[4]}
    )
    desk.client.init_params("words", seed=1)
    page = desk.open("words")
    page.get_by_label("Tokens of data").fill("1 2 3 4 5")
    expect(page.get_by_text("it goes to 8, 3 places of it padding")).to_be_visible()
    outputs = desk.predict("")
    expect(page.get_by_text("bucket 8")).to_be_visible()
    assert desk.repeat(tmp_path) == (outputs, outputs)
    page.get_by_role("button", name="Text", exact=True).click()
    (tmp_path / "vocabulary.txt").write_text("<pad>\n<unk>\nit's\na\nwhale\n")
    page.get_by_label("Vocabulary").set_input_files(tmp_path / "vocabulary.txt")
    page.get_by_label("Token for unknown words").fill("<unk>")
    page.get_by_role("button", name="Set it").click()
    page.get_by_label("Text for data").fill('it\'s a "white" whale')
    expect(page.get_by_text("it goes to 4.")).to_be_visible()
    outputs = desk.predict()
    assert desk.repeat(tmp_path) == (outputs, outputs)
    look(page, axe, screenshots, "try-text")
    text = page.get_by_label("Text for data")
    text.fill("a " * 9)
    expect(page.get_by_text("9 words are more than the 8 that fit")).to_be_visible()
    page.get_by_role("button", name="Predict").click()
    expect(page.get_by_role("alert")).to_contain_text("the text is longer than 8 words")


def test_a_text_that_is_cut_is_said_to_be(desk: Desk) -> None:
    desk.client.create_module("cut", sentences(4), label_names=[])
    desk.client.bind("cut", [{"name": "data", "shape": [1, 4]}], for_training=False)
    desk.client.init_params("cut", seed=1)
    tokens = {"type": "text", "vocabulary": ["a", "b"]}
    desk.client.set_transform("cut", "data", **tokens, longer="cut")
    page = desk.open("cut")
    text = page.get_by_label("Text for data")
    text.fill("b b b b a a")
    expect(page.get_by_text("the answer is that of the first 4 only")).to_be_visible()
    whole = desk.predict()
    text.fill("b b b b")
    expect(page.get_by_text("first 4 only")).to_be_hidden()
    assert desk.predict() == whole


def test_errors_in_pasted_json_are_shown(desk: Desk, screenshots: Path) -> None:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    desk.client.create_module("sums", x.tojson(), label_names=[])
    page = desk.page
    page.goto(f"{desk.url}/#/modules/sums")
    expect(page.get_by_text("not set up")).to_be_visible()
    page.goto(f"{desk.url}/#/modules/sums/try")
    page.get_by_role("link", name="Set it up").click()
    page.get_by_label("Shape of data").fill("2, 4")
    page.get_by_role("button", name="Bind").click()
    expect(page.get_by_text("it answers fc_output (2, 3)")).to_be_visible()
    page.goto(f"{desk.url}/#/modules/sums/try")
    expect(page.get_by_role("link", name="Train it")).to_be_visible()
    desk.client.init_params("sums", seed=1)
    page.reload()
    field = page.get_by_label("Examples of data, as JSON")
    assert np.array(json.loads(field.input_value())).shape == (1, 4)
    field.fill("[[1, 2, 3]]")
    page.get_by_role("button", name="Predict").click()
    expect(page.get_by_role("alert").first).to_contain_text("(1, 3)")
    page.screenshot(path=screenshots / "try-refused.png")
    field.fill("[[1, 2, 3")
    page.get_by_role("button", name="Predict").click()
    expect(page.get_by_text("data: the text is not JSON")).to_be_visible()
    field.fill("[[1, 2, 3, 4], [0, 0, 0, 0]]")
    outputs = desk.predict()
    assert outputs["fc_output"]["data"][1] == [0, 0, 0]
    expect(page.get_by_role("region", name="Numbers").get_by_role("row")).to_have_count(3)


CHOOSE_AT_ONCE = """async (values) => {
  const button = [...document.querySelectorAll("button")].find((one) => one.textContent === "JSON");
  button.click();
  for (let turn = 0; turn < 100 && !document.querySelector("textarea"); turn += 1) await null;
  const files = new DataTransfer();
  files.items.add(new File([new Uint8Array(values)], "digits.npy"));
  const form = document.querySelector("textarea").closest("form");
  const field = form.querySelector("input[type=file]");
  field.files = files.files;
  field.dispatchEvent(new Event("change", { bubbles: true }));
}"""
"""Chooses a file before the browser has painted the form that asks for it."""


def test_an_address_with_a_stray_percent_sign_is_shown_as_invalid(desk: Desk) -> None:
    desk.page.goto(f"{desk.url}/#/modules/100%")
    expect(desk.page.get_by_text("Module 100%")).to_be_visible()


def test_a_file_chosen_immediately_is_the_one_sent(desk: Desk, tmp_path: Path) -> None:
    data = mx.sym.Variable("data", shape=(0, 1, SIDE, SIDE))
    desk.client.create_module("twice", (data * 2).tojson(), label_names=[])
    desk.client.bind("twice", [{"name": "data", "shape": [1, 1, SIDE, SIDE]}])
    desk.client.init_params("twice", seed=1)
    page = desk.open("twice")
    np.save(tmp_path / "digits.npy", np.ones((3, 1, SIDE, SIDE), np.float32))
    page.evaluate(CHOOSE_AT_ONCE, list((tmp_path / "digits.npy").read_bytes()))
    (answered,) = desk.predict("").values()
    np.testing.assert_array_equal(answered["data"], np.full((3, 1, SIDE, SIDE), 2))


@pytest.mark.skipif(not CAPTCHA.exists(), reason="the published checkpoints are not here")
def test_a_published_model_predicts_as_in_mxnet(desk: Desk, tmp_path: Path) -> None:
    page = desk.page
    page.goto(f"{desk.url}/#/upload")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose a folder").click()
    chooser.value.set_files(CAPTCHA)
    page.get_by_label("Name").fill("published")
    page.get_by_role("button", name="Upload", exact=True).click()
    page.get_by_role("button", name="Bind").click()
    page.get_by_role("link", name="Try it").click()
    with np.load(CAPTCHA / "inputs.npz") as inputs, np.load(CAPTCHA / "outputs.npz") as expected:
        np.save(tmp_path / "digits.npy", inputs["data"])
        scores = expected[expected.files[0]]
    page.get_by_role("button", name="JSON").click()
    page.get_by_label("Or a file").set_input_files(tmp_path / "digits.npy")
    outputs = desk.predict("")
    # The server may run the first examples singly and later ones together, which rounds otherwise.
    for answer in (outputs, *desk.repeat(tmp_path)):
        np.testing.assert_allclose(answer["softmax_output"]["data"], scores, atol=1e-4)
