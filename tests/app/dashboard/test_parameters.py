"""A module's parameters in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

import core as mx
from app.client import Client
from app.client.local_server import ServerProcess
from served.browser import browsing, faults_of, look

pytestmark = pytest.mark.slow

UNITS = 10
"""Units in each of the two stages."""


def network() -> Any:
    net = mx.sym.Variable("data")
    for stage in (1, 2):
        for unit in range(UNITS):
            prefix = f"stage{stage}_unit{unit}_"
            branch = mx.sym.Convolution(
                net, kernel=(3, 3), pad=(1, 1), num_filter=4, name=f"{prefix}conv"
            )
            branch = mx.sym.BatchNorm(branch, fix_gamma=False, name=f"{prefix}bn")
            net = mx.sym.Activation(branch, act_type="relu", name=f"{prefix}relu") + net
    net = mx.sym.FullyConnected(net, num_hidden=3, name="fc")
    return mx.sym.softmax(net, name="softmax")


@pytest.fixture
def page(chromium: Browser, server: ServerProcess) -> Iterator[Page]:
    with browsing(chromium, server.url) as context:
        yield context.new_page()


def create(client: Client) -> None:
    fixed = {"fixed_param_names": ["fc_bias"]}
    client.create_module("net", network().tojson(), label_names=[], **fixed)
    client.bind("net", [{"name": "data", "shape": [2, 4, 8, 8]}], for_training=False)
    client.init_params("net", "xavier", seed=1)


def test_parameters_of_two_checkpoints_are_compared(
    page: Page, client: Client, server: ServerProcess, axe: str, screenshots: Path
) -> None:
    create(client)
    before = client.params("net")
    client.save_checkpoint("net", 1)
    after = {name: value * np.float32(1.5) for name, value in before.items()}
    after["fc_weight"] = before["fc_weight"] * 3
    client.set_params("net", after)
    client.save_checkpoint("net", 2)
    faults = faults_of(page, server.url)
    page.goto(f"{server.url}/#/modules/net/parameters")
    table = page.get_by_role("region", name="Parameters, table")
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(len(after))
    expect(rows.filter(has_text="fc_bias")).to_contain_text("fc_bias fixed")
    expect(rows.filter(has_text="stage1_unit0_bn_moving_mean")).to_contain_text("not trained")
    inputs = page.get_by_role("region", name="Inputs, table").locator("tbody tr")
    expect(inputs).to_have_count(1)
    expect(inputs).to_contain_text("datadata(2, 4, 8, 8) float32")
    page.get_by_label(re.compile("^Of ")).select_option("checkpoint 2")
    page.get_by_label("Compared with").select_option("checkpoint 1")
    expect(rows.first).to_contain_text("fc_weight")
    expect(rows.first).to_contain_text("200.0%")
    expect(rows.nth(1)).to_contain_text("50.0%")
    rows.first.get_by_role("button").click()
    chart = page.get_by_role("figure", name="Values of fc_weight")
    expect(chart).to_contain_text("checkpoint 1")
    chart.get_by_text("Table").click()
    cells = chart.locator("tbody td:nth-child(3)").all_inner_texts()
    wide = after["fc_weight"].astype(np.float64)
    assert [int(one.replace(",", "")) for one in cells] == np.histogram(wide, 32)[0].tolist()
    chart.get_by_text("Table").click()
    look(page, axe, screenshots, "parameters")
    page.keyboard.press("/")
    search = page.get_by_label("Find a parameter")
    expect(search).to_be_focused()
    search.fill("unit3_conv_w")
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="Name").click()
    expect(rows.first).to_contain_text("stage1_unit3_conv_weight")
    page.get_by_role("button", name="Name").click()
    expect(rows.first).to_contain_text("stage2_unit3_conv_weight")
    expect(page).to_have_url(re.compile("sort=name"))
    broken = after | {"fc_bias": np.array([np.nan, 0, 0], np.float32)}
    client.set_params("net", broken, allow_nonfinite=True)
    page.goto(f"{server.url}/#/modules/net/parameters?sort=nan")
    expect(page.get_by_role("alert")).to_contain_text("fc_bias")
    expect(rows.first).to_contain_text("1, 0")
    assert faults == []
