"""Initializers: exact values where deterministic, statistics where random."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

__all__ = ["DISPATCH", "DUMPS", "EXACT", "LEGACY", "STATISTICS", "record"]

Make = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class InitCase:
    """One initializer applied to one array."""

    make: Make
    name: str = "fc_weight"
    shape: tuple[int, ...] = (3, 4)
    attrs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    legacy: bool = False

    def run(self, mx: Any) -> np.ndarray:
        """Return what the initializer writes over an array of -9."""
        array = mx.nd.full(self.shape, -9.0)
        desc = self.name if self.legacy else mx.init.InitDesc(self.name, attrs=dict(self.attrs))
        self.make(mx)(desc, array)
        return np.asarray(array.asnumpy())


def _fused(mode: str, inner: Make, **options: Any) -> Make:
    return lambda mx: mx.init.FusedRNN(inner(mx), 2, 2, mode, **options)


def _half(mx: Any) -> Any:
    return mx.init.Constant(0.5)


EXACT: dict[str, InitCase] = {
    "zero": InitCase(lambda mx: mx.init.Zero()),
    "one": InitCase(lambda mx: mx.init.One()),
    "constant": InitCase(lambda mx: mx.init.Constant(2.5)),
    "bilinear_even": InitCase(lambda mx: mx.init.Bilinear(), shape=(2, 1, 4, 4)),
    "bilinear_odd": InitCase(lambda mx: mx.init.Bilinear(), shape=(1, 2, 5, 5)),
    "bilinear_oblong": InitCase(lambda mx: mx.init.Bilinear(), shape=(1, 1, 3, 4)),
    "lstm_bias": InitCase(lambda mx: mx.init.LSTMBias(), shape=(12,)),
    "lstm_bias_forget": InitCase(lambda mx: mx.init.LSTMBias(forget_bias=3.0), shape=(8,)),
    "lstm_bias_as_attribute": InitCase(
        lambda mx: mx.init.Uniform(),
        name="lstm_i2h_bias",
        shape=(8,),
        attrs={"__init__": '["lstmbias", {"forget_bias": 2.0}]'},
    ),
    "fused_lstm": InitCase(_fused("lstm", _half), "rnn_weight", (104,)),
    "fused_lstm_both": InitCase(
        _fused("lstm", _half, bidirectional=True, forget_bias=4.0), "rnn_weight", (240,)
    ),
    "fused_gru": InitCase(_fused("gru", _half), "rnn_weight", (78,)),
    "fused_rnn_tanh": InitCase(_fused("rnn_tanh", _half), "rnn_weight", (26,)),
    "fused_global": InitCase(
        lambda mx: mx.init.One(),
        "lstm_parameters",
        (104,),
        attrs={
            "__init__": '["fusedrnn", {"init": null, "num_hidden": 2, "num_layers": 2, '
            '"mode": "lstm", "bidirectional": false, "forget_bias": 1.5}]'
        },
    ),
}

_NAMES = (
    "fc_weight",
    "fc_bias",
    "bn_gamma",
    "bn_beta",
    "data_min",
    "data_max",
    "weight",
    "upsampling0_weight",
    "stn_loc_weight",
)
DISPATCH: dict[str, InitCase] = {
    **{name: InitCase(lambda mx: mx.init.Constant(7.0), name, (1, 1, 2, 2)) for name in _NAMES},
    **{
        f"as {text}": InitCase(
            lambda mx: mx.init.Constant(7.0), "any_name", (2, 2), attrs={"__init__": text}
        )
        for text in ("zeros", "ones", "zero", '["constant", {"value": 3.0}]', '["one", {}]')
    },
    **{
        f"mixed {name}": InitCase(
            lambda mx: mx.init.Mixed(["fc1.*", ".*"], [mx.init.Constant(1.5), mx.init.One()]), name
        )
        for name in ("fc1_weight", "fc2_weight", "fc1_bias")
    },
    "load": InitCase(
        lambda mx: mx.init.Load({"arg:fc_weight": mx.nd.full((3, 4), 6.0)}, mx.init.One())
    ),
    "load_default": InitCase(
        lambda mx: mx.init.Load({"arg:fc_weight": mx.nd.full((3, 4), 6.0)}, mx.init.One()),
        "fc2_weight",
    ),
}

_LEGACY_NAMES = (
    "fc_weight",
    "fc_bias",
    "bn_gamma",
    "bn_beta",
    "bn_moving_mean",
    "bn_moving_var",
    "bn_moving_inv_var",
    "bn_moving_avg",
    "data_min",
    "data_max",
    "upsampling0_weight",
    "stn_loc_fc_weight",
)
LEGACY: dict[str, InitCase] = {
    **{
        name: InitCase(lambda mx: mx.init.Constant(7.0), name, (1, 1, 4, 4), legacy=True)
        for name in _LEGACY_NAMES
    },
    "stn_loc_bias": InitCase(lambda mx: mx.init.One(), "stn_loc_bias", (6,), legacy=True),
}
"""Plain strings in the place of ``InitDesc``; MXNet warns and goes by other rules."""

_MATRIX, _KERNEL = (200, 250), (64, 32, 5, 5)


def _random_cases() -> dict[str, InitCase]:
    cases = {
        "uniform": InitCase(lambda mx: mx.init.Uniform(), shape=_MATRIX),
        "uniform_scale": InitCase(lambda mx: mx.init.Uniform(0.3), shape=_MATRIX),
        "normal": InitCase(lambda mx: mx.init.Normal(), shape=_MATRIX),
        "normal_sigma": InitCase(lambda mx: mx.init.Normal(0.4), shape=_MATRIX),
    }
    for shape, label in ((_MATRIX, "matrix"), (_KERNEL, "kernel")):
        cases[f"msra_{label}"] = InitCase(lambda mx: mx.init.MSRAPrelu(), shape=shape)
        cases[f"msra_options_{label}"] = InitCase(
            lambda mx: mx.init.MSRAPrelu(factor_type="in", slope=0.1), shape=shape
        )
        for rnd_type in ("uniform", "gaussian"):
            for factor in ("avg", "in", "out"):
                options = {"rnd_type": rnd_type, "factor_type": factor, "magnitude": 2.34}
                cases[f"xavier_{rnd_type}_{factor}_{label}"] = InitCase(
                    lambda mx, options=options: mx.init.Xavier(**options), shape=shape
                )
        cases[f"xavier_default_{label}"] = InitCase(lambda mx: mx.init.Xavier(), shape=shape)
    return cases


STATISTICS = _random_cases()

ORTHOGONAL: dict[str, InitCase] = {
    "wide": InitCase(lambda mx: mx.init.Orthogonal(), shape=(5, 12)),
    "kernel": InitCase(lambda mx: mx.init.Orthogonal(scale=1.0), shape=(4, 3, 2, 2)),
    "normal": InitCase(lambda mx: mx.init.Orthogonal(rand_type="normal"), shape=(6, 6)),
}

DUMPS: dict[str, Make] = {
    "zero": lambda mx: mx.init.Zero(),
    "one": lambda mx: mx.init.One(),
    "constant": lambda mx: mx.init.Constant(1.5),
    "uniform": lambda mx: mx.init.Uniform(0.3),
    "normal": lambda mx: mx.init.Normal(0.2),
    "orthogonal": lambda mx: mx.init.Orthogonal(),
    "xavier": lambda mx: mx.init.Xavier(factor_type="in", magnitude=2.34),
    "msra": lambda mx: mx.init.MSRAPrelu(),
    "bilinear": lambda mx: mx.init.Bilinear(),
    "lstm_bias": lambda mx: mx.init.LSTMBias(2.0),
    "fused": _fused("lstm", lambda mx: mx.init.Xavier()),
    "fused_global": lambda mx: mx.init.FusedRNN(None, 4, 1, "gru"),
}


def statistics(array: np.ndarray) -> np.ndarray:
    """Return mean, standard deviation and largest magnitude."""
    wide = array.astype("float64")
    return np.array([wide.mean(), wide.std(), np.abs(wide).max()])


def gram(array: np.ndarray) -> np.ndarray:
    """Return the inner products of all rows, the first axis against the rest."""
    rows = array.reshape(len(array), -1).astype("float64")
    return np.asarray(rows @ rows.T)


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return the results of all cases."""
    mx.random.seed(5)
    np.random.seed(5)
    return {
        **{f"exact/{key}": case.run(mx) for key, case in EXACT.items()},
        **{f"dispatch/{key}": case.run(mx) for key, case in DISPATCH.items()},
        **{f"legacy/{key}": case.run(mx) for key, case in LEGACY.items()},
        **{f"statistics/{key}": statistics(case.run(mx)) for key, case in STATISTICS.items()},
        **{f"orthogonal/{key}": gram(case.run(mx)) for key, case in ORTHOGONAL.items()},
        **{f"dumps/{key}": np.array(make(mx).dumps()) for key, make in DUMPS.items()},
    }
