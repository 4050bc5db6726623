"""Sources published for MXNet, run unmodified: on MXNet itself, or on the engine as ``mxnet``.

With MXNet 1.9.1 this writes the expected numbers (fusion off, as everywhere):

    MXNET_SUBGRAPH_BACKEND=NONE python published.py fit SIMPLEDET RCNN > golden/published.json

The tests run the same with the engine; ``--modules`` and ``--trainer`` then put MXNet's own
``module`` package and ``gluon/trainer.py`` in place of the engine's:

    python published.py fit SIMPLEDET RCNN [--modules PYTHON]
    python published.py test FILE [--modules PYTHON] [--trainer PYTHON]

SIMPLEDET is a checkout of SimpleDet, RCNN the folder ``example/rcnn`` of MXNet 1.0, PYTHON the
folder ``python/mxnet`` of MXNet 1.9.1, FILE one of the tests of that version.
"""

import argparse
import functools
import importlib.util
import json
import sys
import types
from pathlib import Path

import mxnet as mx
import numpy as np


def load(name, path):
    """Import a file, or a package by its ``__init__.py``, under a name."""
    for known in [one for one in sys.modules if one == name or one.startswith(f"{name}.")]:
        del sys.modules[known]
    folders = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folders)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def replace(modules, trainer):
    """Put MXNet's own sources in place of the engine's."""
    if modules:
        mx.module = mx.mod = load("mxnet.module", Path(modules, "module", "__init__.py"))
    if trainer:
        mx.gluon.trainer = load("mxnet.gluon.trainer", Path(trainer, "gluon", "trainer.py"))
        mx.gluon.Trainer = mx.gluon.trainer.Trainer


# -- fits ----------------------------------------------------------------------------------------


def network():
    x = mx.sym.Convolution(
        mx.sym.var("data"), num_filter=4, kernel=(3, 3), name="conv", no_bias=True
    )
    x = mx.sym.Activation(mx.sym.BatchNorm(x, name="bn", fix_gamma=False), act_type="relu")
    x = mx.sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg")
    x = mx.sym.FullyConnected(x, num_hidden=8, name="stage1_fc")
    return mx.sym.SoftmaxOutput(
        mx.sym.FullyConnected(mx.sym.tanh(x), num_hidden=3, name="fc"), name="softmax"
    )


RANDOM = np.random.RandomState(0)
DATA = RANDOM.rand(48, 2, 6, 6).astype(np.float32)
LABELS = RANDOM.randint(0, 3, 48).astype(np.float32)
SHAPES = dict(
    zip(network().list_arguments(), network().infer_shape(data=(8, 2, 6, 6))[0], strict=True)
)
ARGUMENTS = {
    name: RANDOM.uniform(-0.5, 0.5, shape)
    for name, shape in sorted(SHAPES.items())
    if name not in ("data", "softmax_label")
}
AUXILIARY = {"bn_moving_mean": np.zeros(4), "bn_moving_var": np.ones(4)}
ONE, TWO = [mx.cpu(0)], [mx.cpu(0), mx.cpu(1)]
NAMES = {"data_names": ["data"], "label_names": ["softmax_label"]}


class Batches(mx.io.DataIter):
    """Batches as an NDArrayIter gives them, as lists of one for each device."""

    def __init__(self, devices):
        super().__init__()
        self.whole, self.devices = mx.io.NDArrayIter(DATA, LABELS, 8), devices
        self.provide_data, self.provide_label = self.whole.provide_data, self.whole.provide_label

    def reset(self):
        self.whole.reset()

    def next(self):
        whole, size = self.whole.next(), 8 // self.devices
        return [
            mx.io.DataBatch(
                *([one[k : k + size] for one in part] for part in (whole.data, whole.label))
            )
            for k in range(0, 8, size)
        ]


class Shapes(mx.io.DataIter):
    """Batches of images of several sizes."""

    def __init__(self):
        super().__init__()
        self.sizes = [6, 5, 4, 6, 5]
        self.provide_data, self.provide_label = [("data", (8, 2, 6, 6))], [("softmax_label", (8,))]
        self.reset()

    def reset(self):
        self.count = 0

    def next(self):
        if self.count == len(self.sizes):
            raise StopIteration
        size, at = self.sizes[self.count], 8 * self.count
        self.count += 1
        return mx.io.DataBatch(
            [mx.nd.array(DATA[at : at + 8, :, :size, :size])],
            [mx.nd.array(LABELS[at : at + 8])],
            provide_data=[("data", (8, 2, size, size))],
            provide_label=self.provide_label,
        )


def arrays(values):
    return {name: mx.nd.array(one) for name, one in values.items()}


def fitted(module, data, kvstore, epoch_end_callback=None):
    """Train a module; return checksums of its parameters and outputs."""
    module.fit(
        data,
        optimizer_params={
            "learning_rate": 0.1,
            "momentum": 0.9,
            "lr_scheduler": mx.lr_scheduler.FactorScheduler(3, 0.9, base_lr=0.1),
        },
        kvstore=kvstore,
        arg_params=arrays(ARGUMENTS),
        aux_params=arrays(AUXILIARY),
        num_epoch=2,
        batch_end_callback=lambda param: None,
        epoch_end_callback=epoch_end_callback,
    )
    arguments, auxiliary = module.get_params()
    found = {
        name: float(np.abs(one.asnumpy().astype(np.float64)).sum())
        for name, one in sorted({**arguments, **auxiliary}.items())
    }
    for size in (4, 16):
        batch = mx.io.DataBatch(
            [mx.nd.array(DATA[:size])],
            [mx.nd.array(LABELS[:size])],
            provide_data=[("data", (size, 2, 6, 6))],
            provide_label=[("softmax_label", (size,))],
        )
        module.forward(batch, is_train=False)
        outputs = module.get_outputs()[0].asnumpy()
        found[f"outputs of {size}"] = outputs[:, 0].astype(np.float64).sum()
    return found


def fits(simpledet, rcnn):
    """Return the results of all trainings."""
    det = load("detection_module", Path(simpledet, "core", "detection_module.py")).DetModule
    mutable = load("rcnn_module", Path(rcnn, "rcnn", "core", "module.py")).MutableModule
    ended = []
    found = {}
    for name, contexts, store, data, options in (
        ("one context", ONE, "local", mx.io.NDArrayIter(DATA, LABELS, 8), {}),
        ("two contexts", TWO, "local", mx.io.NDArrayIter(DATA, LABELS, 8), {}),
        ("device store", TWO, "device", mx.io.NDArrayIter(DATA, LABELS, 8), {}),
        ("a batch for each context", TWO, "local", Batches(2), {}),
        (
            "fixed parameters",
            TWO,
            "local",
            mx.io.NDArrayIter(DATA, LABELS, 8),
            {"fixed_param": ["stage1", "conv"], "excluded_param": ["stage1_fc"]},
        ),
    ):
        module = det(network(), **NAMES, context=contexts, **options)
        stored = mx.kv.create(store)
        found[f"DetModule, {name}"] = fitted(module, data, stored, lambda *args: ended.append(args))
    assert len(ended) == 10, len(ended)
    for name, contexts in (("one context", ONE), ("two contexts", TWO)):
        largest = {"max_data_shapes": [("data", (8, 2, 8, 8))]}
        module = mutable(network(), ["data"], ["softmax_label"], context=contexts, **largest)
        found[f"MutableModule, {name}"] = fitted(module, Shapes(), "local")
    return found


# -- MXNet's own tests ---------------------------------------------------------------------------


def _expecting(kinds, test):
    import pytest  # missing from the environment MXNet runs in

    def run(*args, **kwargs):
        with pytest.raises(kinds):
            test(*args, **kwargs)

    return run


def run_tests(file):
    """Run one of MXNet's test files with pytest, standing in for the parts of nose it uses."""
    import pytest

    tools = types.ModuleType("nose.tools")
    tools.make_decorator = lambda function: functools.wraps(function)
    tools.assert_raises = pytest.raises
    tools.raises = lambda *kinds: lambda test: functools.wraps(test)(_expecting(kinds, test))
    sys.modules.update({"nose": types.ModuleType("nose"), "nose.tools": tools})
    path = Path(file).resolve()
    sys.path.insert(0, str(path.parent))
    options = ["-q", "-c", "/dev/null", "--rootdir", str(path.parent), "-p", "no:cacheprovider"]
    return pytest.main([*options, "-W", "ignore", str(path)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["fit", "test"])
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--modules")
    parser.add_argument("--trainer")
    args = parser.parse_args()
    replace(args.modules, args.trainer)
    if args.what == "test":
        sys.exit(run_tests(*args.sources))
    origin = f"mxnet {mx.__version__}: tests/core/compat/{Path(__file__).name} {args.what}"
    print(json.dumps({"origin": origin, "sums": fits(*args.sources)}, indent=1))


if __name__ == "__main__":
    main()
