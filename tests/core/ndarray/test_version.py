"""Every write to an array changes its version; reading does not."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.kernels.kernel import Version, Watch


def make():
    version = Version()
    return mx.nd.NDArray(np.arange(6, dtype=np.float32).reshape(2, 3), version=version), version


def sgd_with_sparse_gradient(x):
    gradient = mx.nd.sparse.row_sparse_array((np.ones((1, 3)), [1]), shape=(2, 3))
    mx.optimizer.get_updater(mx.optimizer.SGD(learning_rate=1.0))(0, gradient, x)


def sgd(x):
    mx.optimizer.get_updater(mx.optimizer.SGD(learning_rate=1.0, momentum=0.9))(0, x.copy(), x)


def be_a_state_of_an_operator(x):
    mx.nd.sgd_mom_update(x.copy(), x.copy(), x, lr=1.0, momentum=0.9)


def initialize(x):
    mx.init.Uniform(0.5)(mx.init.InitDesc("x_weight"), x)


def add_in_place(x):
    x += 1


def assign(x):
    x[:] = 7


def assign_to_a_row(x):
    x[1] = 7


def assign_to_a_view(x):
    x[0:1][:] = 9


def assign_to_a_reshaped_view(x):
    x.reshape((3, 2))[0:1] = 9


def assign_to_a_detached(x):
    x.detach()[:] = 9


def pull_from_a_store(x):
    store = mx.kv.create("local")
    store.init("x", mx.nd.ones((2, 3)))
    store.pull("x", out=x)


WRITES = {
    function.__name__: function
    for function in (
        add_in_place,
        assign,
        assign_to_a_detached,
        assign_to_a_reshaped_view,
        assign_to_a_row,
        assign_to_a_view,
        be_a_state_of_an_operator,
        initialize,
        pull_from_a_store,
        sgd,
        sgd_with_sparse_gradient,
    )
} | {
    "copyto": lambda x: mx.nd.ones((2, 3)).copyto(x),
    "out": lambda x: mx.nd.sqrt(mx.nd.ones((2, 3)), out=x),
    "random": lambda x: mx.nd.random.uniform(shape=(2, 3), out=x),
    "raw": lambda x: x.dense_for_write().fill(3),
}


@pytest.mark.parametrize("way", WRITES)
def test_writing_changes_the_version(way):
    x, version = make()
    before, clock, values = version.count, Version.clock, x.asnumpy()
    WRITES[way](x)
    assert (x.asnumpy() != values).any()
    assert version.count != before
    assert Version.clock != clock


def test_reading_does_not_change_the_version():
    x, version = make()
    before = version.count
    x.asnumpy()
    x[0], x[0:1], x.reshape((6,)), x.shape, x.dense(), x + 1, x.copy(), repr(x), x.handle
    mx.nd.dot(x, x.T)
    assert version.count == before


def test_changing_the_whole_changes_its_parts_but_not_the_reverse():
    whole = Version()
    parts = [Version(whole), Version(whole)]
    counts = [one.count for one in (whole, *parts)]
    whole.bump()
    assert all(
        new != old for new, old in zip([one.count for one in (whole, *parts)], counts, strict=True)
    )
    counts = [one.count for one in (whole, *parts)]
    parts[0].bump()
    assert (whole.count, parts[1].count) == (counts[0], counts[2])
    assert parts[0].count != counts[1]


def test_an_array_lent_for_writing_counts_as_changed_on_every_look():
    x, version = make()
    mx.nd.to_dlpack_for_read(x)
    assert version.count == version.count
    mx.nd.to_dlpack_for_write(x)
    # Every look at the count gives a new one.
    assert version.count != version.count
    watch, of_others = Watch([version, Version()]), Watch([Version()])
    assert [watch.poll() for _ in range(3)] == [True] * 3
    assert [of_others.poll() for _ in range(3)] == [True, False, False]


def test_a_part_of_an_array_lent_for_writing_counts_as_changed_on_every_look():
    whole = Version()
    watch = Watch([Version(whole)])
    whole.lose()
    assert [watch.poll() for _ in range(3)] == [True] * 3


def test_polling_while_an_array_is_lent_for_writing_hides_no_later_change():
    class Interrupted(Version):
        def bump(self):
            super().bump()
            watch.poll()

    version = Interrupted()
    watch = Watch([version])
    watch.poll()
    version.lose()
    assert [watch.poll() for _ in range(3)] == [True] * 3


def test_a_change_is_reported_once():
    _, version = make()
    other = Version()
    watch = Watch([version, None])
    assert watch.poll()
    other.bump()
    assert not watch.poll()
    version.bump()
    assert watch.poll()
    assert not watch.poll()
    watch.forget()
    assert watch.poll()


def test_running_and_reshaping_an_executor_changes_no_version():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    executor = net.simple_bind(mx.cpu(), grad_req="null", data=(2, 4))
    clock = Version.clock
    executor.forward()
    executor.forward(is_train=True)
    executor.reshape(data=(1, 4)).forward()
    net.simple_bind(
        mx.cpu(), "null", data=(2, 4), shared_exec=executor, shared_buffer=dict(executor.arg_dict)
    )
    assert Version.clock == clock
