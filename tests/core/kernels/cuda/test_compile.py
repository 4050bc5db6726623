"""All kernels compile for the devices that modserve supports, without spilling registers."""

from __future__ import annotations

import itertools
import re
from typing import get_args

import pytest

from core.kernels.cuda import launch
from core.kernels.cuda.moving import _UNITS
from core.kernels.cuda.pointwise import _CLASSES
from core.kernels.cuda.reduction import _CLASSES as _REDUCTIONS
from core.kernels.optimizer_steps import UpdateRule

from .nvrtc import compile_for, library

pytestmark = pytest.mark.skipif(library() is None, reason="needs the wheel nvidia-cuda-nvrtc")

_ARCHITECTURES = (75, 80, 90, 100)
_TYPES = ("float", "half16", "brain16")

_ROWS = [f"ROW=BY_{name}" for name in ("THREAD", "WARP", "BLOCK")]

_MACROS: dict[str, list[tuple[str, ...]]] = {
    "arithmetic.cu": [(f"FUNCTION={name}",) for name in ("Add", "Subtract", "Multiply", "Divide")],
    "batch_norm.cu": [(f"FOLLOWS={name}",) for name in ("NOTHING", "RELU", "KEEPING_RELU", "CLIP")],
    "local_response.cu": [()],
    "moving.cu": [(f"UNIT={name}",) for name in _UNITS.values()],
    "optimizers.cu": [(f"RULE={rule.__name__}",) for rule in get_args(UpdateRule)],
    "pointwise.cu": [(f"FUNCTION={name}",) for name in (*_CLASSES.values(), "Relu", "KeepingRelu")],
    "pooling.cu": [(f"POOL={name}",) for name in ("MAX", "AVERAGE", "SUM", "NORM")],
    "reduction.cu": [
        *((f"REDUCE={name}", "TERM=ALONE") for name in sorted({*_REDUCTIONS.values()})),
        ("REDUCE=Sum", "TERM=PRODUCT"),
        ("REDUCE=SumBelow", "TERM=PRODUCT"),
        ("REDUCE=Sum", "TERM=QUOTIENT"),
    ],
    "sample_norm.cu": [(row, f"VECTOR=OF_{name}") for row in _ROWS for name in ("PLACE", "ROW")],
    "softmax.cu": [(row,) for row in _ROWS],
}
"""What each file is compiled with, besides the type of elements."""

_UNTYPED = {"moving.cu", "optimizers.cu"}
"""Files that do not know that type."""


def test_every_file_is_listed() -> None:
    assert set(_MACROS) == {path.name for path in launch.SOURCES.glob("*.cu")}


@pytest.mark.parametrize("architecture", _ARCHITECTURES)
@pytest.mark.parametrize("source", _MACROS)
def test_compiles_without_spills(source: str, architecture: int) -> None:
    # All types on one kind of device, and indices of 64 bits on another.
    kinds = _TYPES if architecture == 90 and source not in _UNTYPED else _TYPES[:1]
    wides: tuple[tuple[str, ...], ...] = ((), ("WIDE",)) if architecture == 80 else ((),)
    for own, kind, wide in itertools.product(_MACROS[source], kinds, wides):
        macros = (f"T={kind}", *own, *wide)
        log = compile_for(architecture, launch.code_of(source, *macros), launch.OPTIONS)
        assert "registers" in log
        for spilled in re.findall(r"(\d+) bytes spill", log):
            assert spilled == "0", f"{source} with {macros}: {log}"
