"""Time training on sparse data as the scripts in MXNet's ``example/sparse`` do it.

    python tests/benchmarks/sparse_training.py [--mxnet PYTHON] [--batches 60] [case ...]

PYTHON is an interpreter in whose environment MXNet 1.9.1 is installed; without it only this engine
runs. Each engine runs each case in a process of its own. Printed are the median time of a batch in
milliseconds, the least, the processor time of all threads (which other work on the machine changes
less), the most memory that the process had in MiB, and the loss of the last batches, which must
agree. Data are made up: the shapes of Criteo's (39 of a million features), Avazu's and UCI Adult's.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
WARM_UP = 10


def write_libsvm(path: Path, rows: int, features: int, stored: int) -> None:
    """Write examples whose features lie anywhere."""
    random = np.random.RandomState(7)
    with path.open("w") as file:
        for _ in range(rows):
            columns = np.unique(random.randint(0, features, stored))
            values = " ".join(f"{column}:{random.uniform(0.5, 1.5):.4f}" for column in columns)
            file.write(f"{random.randint(0, 2)} {values}\n")


def factorization_machine(mx: Any, features: int, factors: int) -> Any:
    """Return the model of ``factorization_machine/model.py``."""
    x = mx.sym.Variable("data", stype="csr")
    normal = mx.initializer.Normal(sigma=0.01)
    v = mx.sym.Variable("v", shape=(features, factors), stype="row_sparse", init=normal)
    weight = mx.sym.Variable("w", shape=(features, 1), stype="row_sparse", init=normal)
    bias = mx.sym.Variable("w0", shape=(1,), init=normal)
    linear = mx.sym.broadcast_add(mx.sym.dot(x, weight), bias)
    squares = mx.sym._internal._square_sum(data=v, axis=1, keepdims=True)
    own = mx.sym.dot(mx.sym.square(data=x), squares)
    crossed = 0.5 * mx.sym.square(data=mx.sym.dot(x, v))
    both = mx.sym.sum(data=mx.sym.Concat(linear, crossed, dim=1), axis=1, keepdims=True)
    model = mx.sym.elemwise_add(both, 0.5 * mx.sym.negative(own))
    return mx.sym.LogisticRegressionOutput(data=model, label=mx.sym.Variable("softmax_label"))


def linear_classification(mx: Any, features: int) -> Any:
    """Return the model of ``linear_classification/linear_model.py``, its loss without weights."""
    x = mx.sym.Variable("data", stype="csr")
    normal = mx.initializer.Normal(sigma=0.01)
    weight = mx.sym.Variable("weight", shape=(features, 2), init=normal, stype="row_sparse")
    bias = mx.sym.Variable("bias", shape=(2,))
    pred = mx.sym.broadcast_add(mx.sym.sparse.dot(x, weight), bias)
    return mx.sym.SoftmaxOutput(pred, mx.sym.Variable("softmax_label"))


def wide_deep(mx: Any, linear: int, sizes: tuple[int, ...], continuous: int) -> Any:
    """Return the model of ``wide_deep/model.py``."""
    wide, hidden = mx.sym.Variable("csr_data", stype="csr"), (8, 50, 100, 2)
    normal = mx.initializer.Normal(sigma=0.01)
    weight = mx.sym.Variable("linear_weight", shape=(linear, 2), init=normal, stype="row_sparse")
    bias = mx.sym.Variable("linear_bias", shape=(2,))
    wide = mx.sym.broadcast_add(mx.sym.sparse.dot(wide, weight), bias)
    dense, count = mx.sym.Variable("dns_data"), len(sizes)
    words = mx.sym.slice(dense, begin=(0, 0), end=(None, count))
    words = mx.sym.split(words, num_outputs=count, squeeze_axis=1)
    parts = [mx.sym.slice(dense, begin=(0, count), end=(None, count + continuous))]
    for i, size in enumerate(sizes):
        table = mx.sym.Variable(f"embed_{i}_weight", stype="row_sparse")
        options = {"input_dim": size, "output_dim": hidden[0]}
        parts.append(mx.sym.contrib.SparseEmbedding(data=words[i], weight=table, **options))
    deep = mx.sym.concat(*parts, dim=1)
    for i, size in enumerate(hidden[1:]):
        deep = mx.sym.FullyConnected(deep, num_hidden=size)
        if i < 2:
            deep = mx.sym.Activation(deep, act_type="relu")
    return mx.sym.SoftmaxOutput(wide + deep, mx.sym.Variable("softmax_label"), name="model")


def batches_of(iterator: Any, count: int) -> Iterator[Any]:
    """Yield batches, from the beginning again if there are no more."""
    for _ in range(count):
        try:
            yield iterator.next()
        except StopIteration:
            iterator.reset()
            yield iterator.next()


def loss_of(probability: np.ndarray, label: np.ndarray) -> float:
    """Return the mean negative log-likelihood of classes."""
    if probability.shape[1] == 1:
        probability = np.concatenate([1 - probability, probability], axis=1)
    chosen = probability[np.arange(len(label)), label.astype(int)]
    return float(-np.log(chosen + 1e-12).mean())


def train(mx: Any, module: Any, data: Any, store: Any, pulled: list[str], count: int) -> dict:
    """Train as the scripts do and return the figures."""
    names = module._exec_group.param_names
    arrays = {name: module._exec_group.param_arrays[names.index(name)] for name in pulled}
    seconds, processor, losses = [], [], []
    for batch in batches_of(data, count + WARM_UP):
        started, used = time.perf_counter(), time.process_time()
        for name in pulled:
            rows = batch.data[0].indices
            store.row_sparse_pull(name, arrays[name], row_ids=[rows], priority=-names.index(name))
        module.forward_backward(batch)
        module.update()
        probability = module.get_outputs()[0].asnumpy()
        mx.nd.waitall()
        seconds.append(time.perf_counter() - started)
        processor.append(time.process_time() - used)
        losses.append(loss_of(probability, batch.label[0].asnumpy()))
    return {
        "ms": statistics.median(seconds[WARM_UP:]) * 1e3,
        "least": min(seconds[WARM_UP:]) * 1e3,
        "processor": statistics.median(processor[WARM_UP:]) * 1e3,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "loss": statistics.mean(losses[-10:]),
    }


def libsvm_module(mx: Any, path: Path, features: int, size: int, model: Any) -> tuple[Any, Any]:
    """Return a bound module and the iterator over its file."""
    data = mx.io.LibSVMIter(data_libsvm=str(path), data_shape=(features,), batch_size=size)
    return bound(mx, model, data, ["data"]), data


def bound(mx: Any, model: Any, data: Any, names: list[str]) -> Any:
    """Return a module bound to an iterator's shapes, its parameters the same in each engine."""
    module = mx.mod.Module(model, names, ["softmax_label"])
    module.bind(data_shapes=data.provide_data, label_shapes=data.provide_label)
    module.init_params()
    random, start = np.random.RandomState(3), module.get_params()[0]
    drawn = {name: random.normal(scale=0.01, size=start[name].shape) for name in sorted(start)}
    module.set_params({name: mx.nd.array(value) for name, value in drawn.items()}, {})
    return module


def run_factorization_machine(mx: Any, folder: Path, count: int) -> dict:
    """Criteo's shapes: Adam, batches of 100, 16 factors, rows pulled from a store."""
    features, path = 1_000_000, folder / "criteo.svm"
    if not path.exists():
        write_libsvm(path, 3000, features, 39)
    module, data = libsvm_module(mx, path, features, 100, factorization_machine(mx, features, 16))
    store = mx.kv.create("local")
    options = {"learning_rate": 0.001, "wd": 0.0001, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
    module.init_optimizer(store, "adam", tuple(options.items()))
    return train(mx, module, data, store, ["w", "v"], count)


def run_linear_classification(mx: Any, folder: Path, count: int) -> dict:
    """Avazu's shapes: FTRL, rows pulled from a store; batches of 2048, as MXNet's wheel asks for
    2^31 elements in one of the example's 8192."""
    features, path = 1_000_001, folder / "avazu.svm"
    if not path.exists():
        write_libsvm(path, 2048 * 4, features, 15)
    module, data = libsvm_module(mx, path, features, 2048, linear_classification(mx, features))
    store = mx.kv.create("local")
    optimizer = mx.optimizer.create("ftrl", learning_rate=0.01, rescale_grad=1.0 / 2048)
    module.init_optimizer(store, optimizer)
    return train(mx, module, data, store, ["weight"], count)


def run_wide_deep(mx: Any, folder: Path, count: int) -> dict:
    """UCI Adult's shapes: Adam, batches of 100, no store."""
    random, rows, sizes = np.random.RandomState(7), 5000, (1000, 1000)
    columns = np.sort(np.stack([random.choice(3000, 8, replace=False) for _ in range(rows)]))
    parts = np.ones(rows * 8, "float32"), columns.reshape(-1), np.arange(rows + 1) * 8
    wide = mx.nd.sparse.csr_matrix(parts, shape=(rows, 3000))
    words = np.stack([random.randint(0, size, rows) for size in sizes], axis=1)
    dense = np.concatenate([words, random.normal(size=(rows, 38))], axis=1).astype("float32")
    label = mx.nd.array(random.randint(0, 2, rows))
    data = mx.io.NDArrayIter(
        {"csr_data": wide, "dns_data": mx.nd.array(dense)},
        {"softmax_label": label},
        100,
        last_batch_handle="discard",
    )
    module = bound(mx, wide_deep(mx, 3000, sizes, 38), data, ["csr_data", "dns_data"])
    optimizer = mx.optimizer.create("adam", learning_rate=0.001, rescale_grad=0.01)
    module.init_optimizer(optimizer=optimizer)
    return train(mx, module, data, None, [], count)


CASES: dict[str, Callable[[Any, Path, int], dict]] = {
    "factorization_machine": run_factorization_machine,
    "linear_classification": run_linear_classification,
    "wide_deep": run_wide_deep,
}


def measured(python: str, engine: str, case: str, folder: Path, batches: int) -> dict:
    """Return a case's figures from a process of its own."""
    command = [python, __file__, "--engine", engine, "--folder", str(folder)]
    run = subprocess.run(
        [*command, "--batches", str(batches), case],
        env={**os.environ, "MXNET_SUBGRAPH_BACKEND": "NONE"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(run.stdout.splitlines()[-1])


def engine_of(name: str) -> Any:
    """Import an engine."""
    if name == "mxnet":
        np.bool = np.bool_  # type: ignore[attr-defined]
        import mxnet

        return mxnet
    sys.path.insert(0, str(ROOT))
    import core

    return core


def main() -> None:
    """Run each case with each engine and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], metavar="case")
    parser.add_argument("--mxnet")
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        mx, folder = engine_of(options.engine), Path(options.folder)
        print(json.dumps(CASES[options.cases[0]](mx, folder, options.batches)))
        return
    engines = {"core": sys.executable, **({"mxnet": options.mxnet} if options.mxnet else {})}
    columns = f"{'ms a batch':>10} {'least':>8} {'processor':>10} {'MiB':>8} {'loss':>10}"
    print(f"{'case':24} {'engine':8} {columns}")
    with tempfile.TemporaryDirectory() as folder:
        for case in options.cases or CASES:
            for engine, python in engines.items():
                found = measured(python, engine, case, Path(folder), options.batches)
                times = f"{found['ms']:10.2f} {found['least']:8.2f} {found['processor']:10.2f}"
                numbers = f"{times} {found['mib']:8.0f} {found['loss']:10.6f}"
                print(f"{case:24} {engine:8} {numbers}", flush=True)


if __name__ == "__main__":
    main()
