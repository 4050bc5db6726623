"""The engine installed as ``mxnet``, beside a script's own ``core`` package."""

import subprocess
import sys
from pathlib import Path

import pytest

import core

SCRIPT = '''
import logging
import pickle
import sys

import numpy as np

import core
import mxnet as mx
from mxnet.io import NDArrayIter
from mxnet.test_utils import *

assert core.OWNER == "script", core.__file__
assert mx.__name__ == "mxnet"
assert sys.modules["mxnet.test_utils"].mx is mx
import core.module as own

assert own.OWNER == "script"


@mx.optimizer.register
class Halving(mx.optimizer.SGD):
    """An optimizer of the script's own."""


def network():
    data = mx.sym.Variable("data")
    hidden = mx.sym.Activation(mx.sym.FullyConnected(data, num_hidden=8), act_type="relu")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=2), name="softmax")


rng = np.random.RandomState(0)
inputs = rng.rand(64, 4).astype(np.float32)
labels = (inputs.sum(1) > 2).astype(np.float32)
mx.random.seed(1)
module = mx.mod.Module(network())
module.fit(
    NDArrayIter(inputs, labels, 16),
    num_epoch=2,
    optimizer="adam",
    optimizer_params={"lr_scheduler": mx.lr_scheduler.FactorScheduler(4, 0.5)},
    initializer=mx.init.Xavier(),
)
before = module.predict(NDArrayIter(inputs, None, 16)).asnumpy()
module.save_checkpoint("model", 2, save_optimizer_states=True)

loaded = mx.mod.Module.load("model", 2, load_optimizer_states=True)
loaded.bind([("data", (16, 4))], [("softmax_label", (16,))])
loaded.init_optimizer(optimizer="adam")
after = loaded.predict(NDArrayIter(inputs, None, 16)).asnumpy()
np.testing.assert_array_equal(before, after)

for made in (mx.optimizer.create("nag", momentum=0.9), Halving(learning_rate=0.25)):
    copied = pickle.loads(pickle.dumps(made))
    assert type(copied) is type(made)
    assert copied.lr == made.lr
array = pickle.loads(pickle.dumps(mx.nd.arange(3)))
assert type(array) is mx.nd.NDArray

updater = mx.optimizer.get_updater(mx.optimizer.create("adam"))
weight = mx.nd.ones((2,))
updater(0, mx.nd.ones((2,)), weight)
states = updater.get_states(dump_optimizer=True)
assert b"mxnet.optimizer.optimizer" in states
assert b"mxnet.optimizer.adaptive" not in states
again = mx.optimizer.get_updater(mx.optimizer.create("sgd"))
again.set_states(states)
assert type(again.optimizer) is mx.optimizer.Adam

own_modules = {name for name in sys.modules if name.split(".")[0] == "core"}
assert own_modules == {"core", "core.module"}, own_modules
assert not [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "core"]
print("done")
'''


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A script's folder with a ``core`` package, and one that provides ``mxnet``."""
    own = tmp_path / "script" / "core"
    own.mkdir(parents=True)
    for name in ("__init__.py", "module.py"):
        (own / name).write_text('OWNER = "script"\n')
    (own.parent / "train.py").write_text(SCRIPT)
    offered = tmp_path / "offered"
    offered.mkdir()
    (offered / "mxnet").symlink_to(Path(core.__file__).parent)
    return own.parent, offered


def test_scripts_with_their_own_core_package_can_import_mxnet(folders: tuple[Path, Path]) -> None:
    script, offered = folders
    run = subprocess.run(
        [sys.executable, "-W", "error", "train.py"],
        cwd=script,
        env={"PYTHONPATH": str(offered), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "done"
