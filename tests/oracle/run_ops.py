"""Write the operators' golden files. Run in the MXNet environment (see README.md):

python tests/oracle/run_ops.py [FAMILY ...]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# MXNet's default fusion computes wrong results where a convolution's output is used twice.
os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import mxnet as mx
import numpy as np

from oracle import golden_file
from oracle.case import Case, cases_of, families
from oracle.run_symbol import record_shapes, run_symbol


def run_case(family: str, case: Case) -> dict[str, np.ndarray]:
    """Return what MXNet computes for one case; a failure names the case."""
    try:
        results = {**run_symbol(mx, case), **record_shapes(mx, case)}
    except Exception as error:
        raise SystemExit(f"{family}/{case.id}: {error}") from error
    return {f"{case.id}/{key}": value for key, value in results.items()}


def main(chosen: list[str]) -> None:
    """Write one file per family."""
    for family in chosen or families():
        arrays: dict[str, np.ndarray] = {}
        for case in cases_of(family):
            arrays.update(run_case(family, case))
        origin = golden_file.origin_text(mx, f"run_ops.py {family}")
        golden_file.save(golden_file.GOLDEN / "ops" / f"{family}.npz", arrays, origin)
        print(f"{family}: {len(cases_of(family))} cases")


if __name__ == "__main__":
    main(sys.argv[1:])
