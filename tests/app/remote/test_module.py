"""A module on a server, used by the code for a local one, with the same results."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from app.client import Client, ClientError
from app.client.local_server import ServerProcess, running_server
from app.remote import RemoteModule
from core.cpus import available_cpus
from served.processes import end_executor

BATCH, FEATURES, CLASSES = 8, 6, 3
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("remote") / "var"
    # As many as this process, since they decide how sums are split.
    threads = os.environ.get("OMP_NUM_THREADS", str(available_cpus()))
    with running_server(folder, environment={"MODSERVE_THREADS": threads}) as one:
        yield one


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as one:
        yield one


def network() -> Any:
    x = mx.sym.Variable("data")
    x = mx.sym.FullyConnected(x, num_hidden=16, name="fc1")
    x = mx.sym.BatchNorm(x, name="bn", fix_gamma=False)
    x = mx.sym.Activation(x, act_type="relu", name="relu")
    x = mx.sym.FullyConnected(x, num_hidden=CLASSES, name="fc2")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def examples() -> Any:
    random = np.random.RandomState(3)
    data = random.randn(5 * BATCH + 3, FEATURES).astype("f")
    labels = (data[:, :CLASSES].argmax(axis=1)).astype("f")
    return mx.io.NDArrayIter(data, labels, BATCH, label_name="softmax_label")


def script(make: Make, folder: Path) -> dict[str, Any]:
    """What a user's script does with a module; return all values it sees."""
    seen: dict[str, Any] = {}
    mx.random.seed(7)
    np.random.seed(7)
    train, held = examples(), examples()
    module = make(network(), context=mx.cpu(), logger=logging.getLogger("quiet"))
    metric_values: list[float] = []
    module.fit(
        train,
        held,
        eval_metric="ce",
        optimizer="sgd",
        optimizer_params={
            "learning_rate": 0.2,
            "momentum": 0.9,
            "wd": 1e-3,
            "lr_scheduler": mx.lr_scheduler.FactorScheduler(4, 0.9),
        },
        initializer=mx.init.Xavier(),
        batch_end_callback=lambda p: metric_values.append(p.eval_metric.get()[1]),
        num_epoch=3,
    )
    seen["metrics"] = metric_values
    seen["score"] = module.score(held, ["acc", "ce"])
    seen["predicted"] = module.predict(held).asnumpy()
    arguments, auxiliary = module.get_params()
    seen |= {name: one.asnumpy() for name, one in {**arguments, **auxiliary}.items()}
    module.save_checkpoint(str(folder / "net"), 3, save_optimizer_states=True)
    seen["files"] = {one.name: one.read_bytes() for one in sorted(folder.iterdir())}
    return seen


def own_loop(make: Make, folder: Path) -> dict[str, Any]:
    """A custom training loop: forward, given gradients, input gradients, another batch size."""
    mx.random.seed(11)
    np.random.seed(11)
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="fc")
    module = make(net, label_names=None)
    module.bind([("data", (BATCH, FEATURES))], inputs_need_grad=True)
    module.init_params(mx.init.Normal(0.5))
    module.init_optimizer(
        optimizer=mx.optimizer.Adam(learning_rate=0.05, beta1=0.8, rescale_grad=0.125)
    )
    random = np.random.RandomState(5)
    seen: dict[str, Any] = {}
    for step in range(6):
        rows = BATCH if step % 2 else BATCH // 2
        batch = mx.io.DataBatch([mx.nd.array(random.randn(rows, FEATURES))])
        module.forward(batch, is_train=True)
        (output,) = module.get_outputs()
        module.backward([output * 0.1])
        seen[f"grads {step}"] = module.get_input_grads()[0].asnumpy()
        seen[f"output {step}"] = output.asnumpy()
        module.update()
    seen["fc_weight"] = module.get_params()[0]["fc_weight"].asnumpy()
    return seen


def resumed(make: Make, folder: Path) -> dict[str, Any]:
    """A script that resumes from a checkpoint with optimizer states."""
    mx.random.seed(7)
    np.random.seed(7)
    start = mx.mod.Module(network())
    options = {"learning_rate": 0.1, "momentum": 0.9}
    start.fit(examples(), optimizer_params=options, num_epoch=1, initializer=mx.init.Xavier())
    start.save_checkpoint(str(folder / "net"), 1, save_optimizer_states=True)
    module = make.load(str(folder / "net"), 1, load_optimizer_states=True)  # type: ignore[attr-defined]
    module.fit(examples(), optimizer_params=options, begin_epoch=1, num_epoch=2)
    return {name: one.asnumpy() for name, one in module.get_params()[0].items()}


class _Remote:
    """``mx.mod.Module`` for scripts, backed by a server."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.made: list[RemoteModule] = []

    def __call__(self, *args: Any, **options: Any) -> RemoteModule:
        self.made.append(RemoteModule(*args, server=self._url, **options))
        return self.made[-1]

    def load(self, *args: Any, **options: Any) -> RemoteModule:
        self.made.append(RemoteModule.load(*args, server=self._url, **options))
        return self.made[-1]


@pytest.mark.filterwarnings("ignore:Parameters already initialized")  # as MXNet's fit warns
@pytest.mark.parametrize("run", [script, own_loop, resumed])
def test_one_script_gives_the_same_locally_and_remotely(
    server: ServerProcess, tmp_path: Path, run: Callable[[Make, Path], dict[str, Any]]
) -> None:
    folders = [tmp_path / "here", tmp_path / "there"]
    for folder in folders:
        folder.mkdir()
    remote = _Remote(server.url)
    here, there = run(mx.mod.Module, folders[0]), run(remote, folders[1])
    assert here.keys() == there.keys()
    for name, value in here.items():
        np.testing.assert_equal(there[name], value, err_msg=name)
    with Client(server.url) as client:
        assert {one["name"] for one in client.modules()} >= {one.name for one in remote.made}
        for one in remote.made:
            one.close()
        assert not {one["name"] for one in client.modules()} & {one.name for one in remote.made}


def test_a_named_module_is_kept(server: ServerProcess, client: Client) -> None:
    with RemoteModule(network(), server=server.url, name="kept") as module:
        module.bind([("data", (BATCH, FEATURES))], [("softmax_label", (BATCH,))])
        module.init_params()
    assert client.module("kept")["stage"] == "initialized"
    with pytest.raises(ClientError, match="kept"):
        RemoteModule(network(), server=server.url, name="kept")
    client.delete_module("kept")


def test_after_a_refused_pass_set_params_works(server: ServerProcess) -> None:
    with RemoteModule(network(), server=server.url) as module:
        module.bind([("data", (BATCH, FEATURES))], [("softmax_label", (BATCH,))])
        module.init_params(mx.init.Zero())
        module.init_optimizer()
        wrong = mx.io.DataBatch([mx.nd.zeros((BATCH, 2, 2))], [mx.nd.zeros((BATCH,))])
        module.forward_backward(wrong)
        with pytest.raises(ClientError, match="data"):
            module.get_outputs()
        with pytest.raises(ClientError, match="data"):
            module.update()
        module.set_params(*map(dict, _zeros(module)))
        good = mx.io.DataBatch([mx.nd.ones((BATCH, FEATURES))], [mx.nd.zeros((BATCH,))])
        module.forward_backward(good)
        module.update()
        assert module.get_outputs()[0].shape == (BATCH, CLASSES)


def _zeros(module: RemoteModule) -> tuple[dict[str, Any], dict[str, Any]]:
    return module._graph.allocate([*module.data_shapes, *(module.label_shapes or ())])


def test_steps_lost_with_their_executor_are_reported(server: ServerProcess, client: Client) -> None:
    with RemoteModule(network(), server=server.url) as module:
        module.bind([("data", (BATCH, FEATURES))], [("softmax_label", (BATCH,))])
        module.init_params(mx.init.Xavier())
        module.init_optimizer()
        batch = mx.io.DataBatch([mx.nd.ones((BATCH, FEATURES))], [mx.nd.zeros((BATCH,))])
        module.forward_backward(batch)
        module.update()
        arguments, auxiliary = module.get_params()
        end_executor(client)
        module.forward_backward(batch)
        with pytest.raises(ClientError, match="lost"):
            module.get_params()
        module.set_params(arguments, auxiliary)
        module.init_optimizer(force_init=True)
        module.forward_backward(batch)
        module.update()
        assert module.get_outputs()[0].shape == (BATCH, CLASSES)


def test_what_a_server_does_not_support_is_refused(server: ServerProcess) -> None:
    with RemoteModule(network(), server=server.url) as module:
        with pytest.raises(mx.base.MXNetError, match="statistics"):
            module.install_monitor(mx.mon.Monitor(1))
        with pytest.raises(mx.base.MXNetError, match=r"bind\(data_shapes"):
            module.forward(mx.io.DataBatch([mx.nd.ones((BATCH, FEATURES))]))
        module.bind([("data", (BATCH, FEATURES))], [("softmax_label", (BATCH,))])
        module.init_params()
        with pytest.raises(mx.base.MXNetError, match="give its name"):
            module.init_optimizer(optimizer=mx.optimizer.SGD(wd=0.1))
