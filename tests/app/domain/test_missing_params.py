"""Why a file lacks the parameters of a symbol."""

from __future__ import annotations

import pytest

from app.domain.missing_params import why_missing


@pytest.mark.parametrize(
    ("missing", "extra", "said"),
    [
        (
            ["bn_moving_mean", "bn_moving_var"],
            ["bn_running_mean", "bn_running_var"],
            "the file has 'bn_running_mean' where the symbol has 'bn_moving_mean', and 1 more so",
        ),
        (
            ["bn_running_var"],
            ["bn_moving_var"],
            "the file has 'bn_moving_var' where the symbol has 'bn_running_var': rename",
        ),
        (["conv0_weight"], ["features.0.weight", "output.bias"], "gluon's save_parameters wrote"),
        (["conv0_weight"], ["0.weight"], "gluon's save_parameters wrote"),
        (["a_moving_mean", "a_moving_var"], [], "they are the moving statistics of batch norms"),
        (["fc_weight"], [], "name it in data_names"),
        (["fc_weight"], ["conv_weight"], "as conv_weight, so it may be of another net"),
    ],
)
def test_the_names_tell_why(missing: list[str], extra: list[str], said: str) -> None:
    assert said in why_missing(missing, extra)
