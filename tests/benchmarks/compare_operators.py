"""Time operators here and in MXNet, in turn, and print the ratios, the slowest first.

    python tests/benchmarks/compare_operators.py --mxnet PYTHON [--rounds 3] [operator ...]

PYTHON is an interpreter in whose environment MXNet 1.9.1 is installed. Each operator stands alone
in a graph, and its forward pass in inference and its backward pass are timed apart. Both engines
have a process that lives as long as the run, and are asked for every operator in turn; a turn
gives the least time of its calls, as other programs only ever add to it. Printed are the medians
over the rounds, of the times and of each round's ratios. OMP_NUM_THREADS holds for both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

from operator_cases import CASES, Case

SECONDS = 0.25
"""Of a turn, for the forward and for the backward pass each."""


def least_milliseconds(call, wait, prepare=None):
    """Return the least time of a call; ``prepare`` runs before each, and is not timed."""
    least, calls, end = float("inf"), 0, time.perf_counter() + SECONDS
    while calls < 3 or time.perf_counter() < end:
        if prepare is not None:
            prepare()
            wait()
        start = time.perf_counter()
        call()
        wait()
        least = min(least, time.perf_counter() - start)
        calls += 1
    return least * 1e3


def measure(mx, case: Case):
    """Return milliseconds of the forward and the backward pass; None for no backward pass."""
    symbol = mx.sym.load_json(json.dumps(case.graph()))
    values = case.values()
    shapes = {name: value.shape for name, value in values.items()}

    def bound(**requests):
        executor = symbol.simple_bind(mx.cpu(), **requests, **shapes)
        arrays = {**executor.arg_dict, **executor.aux_dict}
        for name, value in values.items():
            arrays[name][:] = value
        return executor

    inference = bound(grad_req="null")
    forward = least_milliseconds(lambda: inference.forward(is_train=False), mx.nd.waitall)
    if not case.gradients:
        return forward, None
    training = bound(grad_req={n: "write" if n in case.gradients else "null" for n in values})
    training.forward(is_train=True)
    heads = [mx.nd.array(case.draw(out.shape), dtype=out.dtype) for out in training.outputs]
    backward = least_milliseconds(
        lambda: training.backward(heads),
        mx.nd.waitall,
        prepare=lambda: training.forward(is_train=True),
    )
    return forward, backward


def serve():
    """Answer, for each name of a case that comes, with its times."""
    mx = __import__(os.environ["ENGINE"])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            found = measure(mx, CASES[line.strip()])
        except Exception as error:
            found = f"{type(error).__name__}: {error}".splitlines()[0]
        print(json.dumps(found), file=answers, flush=True)


class Engine:
    """The process that measures one of the two.

    Args:
        python: its interpreter.
        module: what is imported there.
    """

    def __init__(self, python: str, module: str) -> None:
        root = Path(__file__).parents[2]
        environ = {**os.environ, "ENGINE": module, "MXNET_SUBGRAPH_BACKEND": "NONE"}
        if module == "core":
            environ["PYTHONPATH"] = str(root)
        self._process = subprocess.Popen(
            [python, __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environ,
        )

    def ask(self, name: str) -> tuple[float, float | None]:
        """Return the milliseconds of a case."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(name, file=self._process.stdin, flush=True)
        found = json.loads(self._process.stdout.readline())
        if isinstance(found, str):
            raise ValueError(f"{name}: {found}")
        forward, backward = found
        return forward, backward

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    """Measure all cases and print a line for each pass of each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="operator", help="a case or its beginning")
    parser.add_argument("--mxnet", required=True, help="interpreter of its environment")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    chosen = [name for name in CASES if not options.cases or name.startswith(tuple(options.cases))]
    engines = Engine(sys.executable, "core"), Engine(options.mxnet, "mxnet")
    lines = []
    for name in chosen:
        try:
            rounds = [[engine.ask(name) for engine in engines] for _ in range(options.rounds)]
        except ValueError as error:
            print(error)
            continue
        for index, direction in enumerate(("forward", "backward")):
            pairs = [(own[index], other[index]) for own, other in rounds]
            if None in pairs[0]:
                continue
            ratio = statistics.median(own / other for own, other in pairs)
            own, other = (statistics.median(times) for times in zip(*pairs, strict=True))
            lines.append(
                (ratio, f"{name:34} {direction:8} {own:9.3f} {other:9.3f} ms {ratio:6.2f}")
            )
    for engine in engines:
        engine.close()
    print(f"{'':43} {'modserve':>9} {'MXNet':>9}")
    for _, line in sorted(lines, reverse=True):
        print(line)


if __name__ == "__main__":
    serve() if "--serve" in sys.argv else main()
