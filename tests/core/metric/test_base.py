"""Creating metrics from names and configurations."""

import json

import pytest

from core.metric import create


@pytest.mark.parametrize("name", ["acc", "f1", "mcc", "perplexity", "pcc", "nll_loss", "loss"])
def test_a_metric_is_restored_from_its_json_configuration(name: str) -> None:
    """As in MXNet's test_metric.py; a configuration includes the metric's own name."""
    options = {"ignore_label": -1} if name == "perplexity" else {}
    metric = create(name, **options)
    again = create(json.dumps(metric.get_config()))
    assert type(again) is type(metric)
    assert again.get_config() == metric.get_config()
    renamed = create(json.dumps(create(name, name="mine", **options).get_config()))
    assert renamed.name == "mine"
