"""Metrics made from names and configurations."""

import json

import pytest

from core.metric import create


@pytest.mark.parametrize("name", ["acc", "f1", "mcc", "perplexity", "pcc", "nll_loss", "loss"])
def test_a_metric_comes_back_from_its_configuration_as_json(name: str) -> None:
    """As MXNet's test_metric.py does; a configuration holds the metric's own name, too."""
    options = {"ignore_label": -1} if name == "perplexity" else {}
    metric = create(name, **options)
    again = create(json.dumps(metric.get_config()))
    assert type(again) is type(metric)
    assert again.get_config() == metric.get_config()
    renamed = create(json.dumps(create(name, name="mine", **options).get_config()))
    assert renamed.name == "mine"
