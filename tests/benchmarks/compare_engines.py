"""Time this engine and others on the same work, in turn, and print the ratios.

    python tests/benchmarks/compare_engines.py --scripts FOLDER --torch PYTHON --ort PYTHON \
        --mxnet PYTHON [--rounds 3] [case ...]

FOLDER has mx_bench.py, torch_bench.py and ort_bench.py, which print ``case milliseconds`` (or
tokens per second); they run in a copy of it. Each PYTHON is an interpreter in whose environment
that engine is installed; one not given is left out. In every round each engine runs once; printed
is the median over the rounds, of the times and of each round's ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PEER_CASES = {
    "infer/resnet50/1": "i_resnet50_1",
    "infer/resnet50/8": "i_resnet50_8",
    "infer/lenet/1": "i_lenet_1",
    "infer/mlp/1": "i_mlp_1",
    "train/mlp/64": "mlp",
    "train/lenet/64": "lenet",
    "train/resnet20/64": "resnet20",
    "train/resnet18/8": "resnet18",
    "train/lstm/buckets": "bucket",
}
"""The scripts' name of each of our cases."""
TOKENS = "train/lstm/buckets"
"""The case whose figure is tokens per second; its reciprocal is compared."""
PRINTED = {"train/lstm_bucket/tokens_per_s": TOKENS}

Figures = dict[str, float]


def ours(cases: Sequence[str], seconds: float) -> Figures:
    """Return our milliseconds by case (tokens: microseconds each), from a process for each case."""
    figures = {}
    for case in cases:
        command = [sys.executable, "-m", "app", "bench", case, "--json"]
        run = subprocess.run(
            [*command, "--seconds", str(seconds)],
            capture_output=True,
            check=True,
            cwd=Path(__file__).parents[2],
        )
        row = json.loads(run.stdout)["cases"][case]
        figures[case] = 1e6 / row["per_second"] if case == TOKENS else row["median_ms"]
    return figures


def theirs(python: str, script: str, arguments: Sequence[str], folder: Path) -> Figures:
    """Return the figures of another engine, read from the output of its script."""
    environ = {**os.environ, "MXNET_SUBGRAPH_BACKEND": "NONE"}
    run = subprocess.run(
        [python, script, *arguments],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    figures = {}
    for line in run.stdout.splitlines():
        words = line.split()
        if words[0] == "ORT":
            figures[f"infer/{words[1]}/{words[2]}"] = float(words[3])
        elif len(words) == 2 and "/" in words[0]:
            case, value = PRINTED.get(words[0], words[0]), float(words[1])
            figures[case] = 1e6 / value if case == TOKENS else value
    return figures


def one_round(options: argparse.Namespace, folder: Path) -> dict[str, Figures]:
    """Run every engine once; return figures by engine."""
    cases = [PEER_CASES[case] for case in options.cases]
    found = {"modserve": ours(options.cases, options.seconds)}
    if options.mxnet:
        found["MXNet"] = theirs(options.mxnet, "mx_bench.py", cases, folder)
    if options.torch:
        plain = theirs(options.torch, "torch_bench.py", cases, folder)
        last = theirs(options.torch, "torch_bench.py", ["--channels-last", *cases], folder)
        found["PyTorch"] = {case: min(plain[case], last[case]) for case in plain}
    if options.ort and any(case.startswith("infer/") for case in options.cases):
        found["ONNX Runtime"] = theirs(options.ort, "ort_bench.py", [], folder)
    return found


def read_options() -> argparse.Namespace:
    """Return the options of the command line, checked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="case")
    parser.add_argument("--scripts", type=Path, help="folder of the others' scripts")
    for engine in ("mxnet", "torch", "ort"):
        parser.add_argument(f"--{engine}", help="interpreter of its environment")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each case of ours")
    options = parser.parse_args()
    options.cases = options.cases or list(PEER_CASES)
    unknown = [case for case in options.cases if case not in PEER_CASES]
    if unknown:
        parser.error(f"unknown case {unknown[0]}; there are {', '.join(PEER_CASES)}")
    if options.scripts is None and (options.mxnet or options.torch or options.ort):
        parser.error("--scripts is needed to run the others")
    return options


def all_rounds(options: argparse.Namespace) -> list[dict[str, Figures]]:
    """Run all rounds, in a folder of their own; return figures by engine of each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in options.scripts.glob("*.py") if options.scripts else ():
            shutil.copy(path, folder)
        return [one_round(options, folder) for _ in range(options.rounds)]


def line_of(case: str, rounds: Sequence[dict[str, Figures]]) -> str:
    """Return what was measured of a case: medians of our times, and of each round's ratios."""
    unit = "us/token" if case == TOKENS else "ms"
    median = statistics.median(found["modserve"][case] for found in rounds)
    line = f"{case:20} {median:9.3f} {unit}"
    for engine in ("MXNet", "PyTorch", "ONNX Runtime"):
        pairs = [
            (found["modserve"][case], found[engine][case])
            for found in rounds
            if case in found.get(engine, ())
        ]
        if pairs:
            ratio = statistics.median(own / other for own, other in pairs)
            time = statistics.median(other for _, other in pairs)
            line += f"  = {ratio:.2f} x {engine} ({time:.3f})"
    return line


def main() -> None:
    """Run all rounds and print a line for each case."""
    options = read_options()
    rounds = all_rounds(options)
    for case in options.cases:
        print(line_of(case, rounds))


if __name__ == "__main__":
    main()
