"""Write the golden files of everything but single operators. Run in the MXNet environment:

python tests/oracle/run_topics.py [TOPIC ...]
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

# MXNet's default fusion computes wrong results where a convolution's output is used twice.
os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import mxnet as mx

from oracle import golden_file


def main(chosen: list[str]) -> None:
    """Write one file per topic."""
    folder = Path(__file__).parent / "topics"
    for topic in chosen or sorted(path.stem for path in folder.glob("*.py")):
        module = importlib.import_module(f"oracle.topics.{topic}")
        origin = golden_file.origin_text(mx, f"run_topics.py {topic}")
        if hasattr(module, "record"):
            golden_file.save(golden_file.GOLDEN / f"{topic}.npz", module.record(mx), origin)
        if hasattr(module, "write_files"):
            (golden_file.GOLDEN / topic).mkdir(exist_ok=True)
            module.write_files(mx, golden_file.GOLDEN / topic)
            path = golden_file.GOLDEN / topic / golden_file.ORIGIN
            path.write_text(f"{origin}\n", encoding="utf-8")
        print(f"{topic}: written")


if __name__ == "__main__":
    main(sys.argv[1:])
