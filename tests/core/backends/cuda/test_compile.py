"""All kernels compile for the devices that modserve supports, without spilling registers."""

from __future__ import annotations

import itertools
import re

import pytest

from core.backends.cuda import launch
from core.backends.cuda.pointwise import _CLASSES

from .nvrtc import compile_for, library

pytestmark = pytest.mark.skipif(library() is None, reason="needs the wheel nvidia-cuda-nvrtc")

_ARCHITECTURES = (75, 80, 90, 100)
_TYPES = ("float", "half16", "brain16")

_MACROS: dict[str, list[str]] = {
    "batch_norm.cu": [f"FOLLOWS={name}" for name in ("NOTHING", "RELU", "KEEPING_RELU", "CLIP")],
    "optimizers.cu": [
        *("RULE=Descent", "RULE=MomentumDescent", "RULE=NesterovDescent", "RULE=SignDescent"),
        *("RULE=Adam", "RULE=AdaGrad", "RULE=RootMeanSquare", "RULE=CenteredRootMeanSquare"),
        "RULE=FollowTheLeader",
    ],
    "pointwise.cu": [f"FUNCTION={name}" for name in (*_CLASSES.values(), "Relu", "KeepingRelu")],
    "pooling.cu": [f"POOL={name}" for name in ("MAX", "AVERAGE", "SUM", "NORM")],
    "softmax.cu": [f"ROW=BY_{name}" for name in ("THREAD", "WARP", "BLOCK")],
}
"""What each file is compiled with, besides the type of elements."""


def test_every_file_is_listed() -> None:
    assert set(_MACROS) == {path.name for path in launch.SOURCES.glob("*.cu")}


@pytest.mark.parametrize("architecture", _ARCHITECTURES)
@pytest.mark.parametrize("source", _MACROS)
def test_compiles_without_spills(source: str, architecture: int) -> None:
    # One type on most devices, and all with indices of 64 bits on one.
    kinds = _TYPES if architecture == 90 else _TYPES[:1]
    wides: tuple[tuple[str, ...], ...] = ((), ("WIDE",)) if architecture == 90 else ((),)
    for macro, kind, wide in itertools.product(_MACROS[source], kinds, wides):
        macros = (f"T={kind}", macro, *wide)
        log = compile_for(architecture, launch.code_of(source, *macros), launch.OPTIONS)
        assert "registers" in log
        for spilled in re.findall(r"(\d+) bytes spill", log):
            assert spilled == "0", f"{source} with {macros}: {log}"
