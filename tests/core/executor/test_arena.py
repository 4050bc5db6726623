"""Memory shared by executors: regions that grow, and scratch space that settles."""

import gc
import weakref

import numpy as np
import pytest

from core.backends import backend_of
from core.device import cpu
from core.errors import StageError
from core.executor.arena import Arena, Region, Scratch

FLOAT = np.dtype("float32")


def test_region_grows_and_never_shrinks():
    region = Region(backend_of(cpu()))
    assert region.grow(128)
    assert not region.grow(64)
    assert (region.nbytes, region.moves) == (128, 1)
    array = region.array(64, (4, 4), FLOAT)
    assert array.shape == (4, 4)
    assert array.ctypes.data % 64 == 0
    assert array.flags.c_contiguous


def test_growing_notifies_plans_that_memory_moved():
    arena = Arena(cpu())
    arena.owner = object()
    arena.reserve(values=64, outputs=0)
    assert (arena.generation, arena.owner) == (1, None)
    arena.reserve(values=64, outputs=0)
    assert arena.generation == 1
    arena.reserve(values=0, outputs=64)
    assert arena.generation == 2


def test_scratch_allocates_only_in_the_first_run():
    region = Region(backend_of(cpu()))
    scratch = Scratch(backend_of(cpu()), region)
    for run in range(3):
        scratch.forget()
        for shape in ((4, 4), (100,)):
            scratch.top = 0
            first, second = scratch.take(shape, FLOAT), scratch.take((3,), FLOAT)
            assert first.shape == shape
            assert not np.shares_memory(first, second)
        assert scratch.misses == (4 if run == 0 else 0)
        region.grow(scratch.settle())
    assert region.nbytes == 448 + 64


def test_scratch_hands_out_the_same_arrays_again():
    region = Region(backend_of(cpu()))
    region.grow(1024)
    scratch = Scratch(backend_of(cpu()), region)
    first = scratch.take((5,), FLOAT)
    scratch.top = 0
    assert scratch.take((5,), FLOAT) is first
    region.grow(2048)
    scratch.forget()
    scratch.top = 0
    assert scratch.take((5,), FLOAT) is not first


def chain(net, length):
    value = net.var("x")
    for i in range(length):
        value = net.op(
            "FullyConnected", f"f{i}", value, net.var(f"w{i}"), no_bias=True, num_hidden=8
        )
    return net.op("make_loss", "loss", value)


def test_executors_sharing_an_arena_need_the_memory_of_the_largest(net):
    large = net.bind(chain(net, 4), x=(32, 8))
    alone = large.memory_report().arena
    for rows in (16, 4, 8):
        small = net.bind(chain(net, 4), shared_exec=large, x=(rows, 8))
        small.forward()
    assert small.arena is large.arena
    assert large.memory_report().arena == alone


def test_executors_take_turns_in_one_arena(net):
    small = net.bind(chain(net, 3), x=(2, 8))
    net.fill(small)
    expected = small.forward(is_train=True)[0].dense().copy()
    small.backward()
    gradient = small.grad_dict["w0"].dense().copy()
    # A larger executor moves the arena; the small one continues in the new memory.
    large = net.bind(chain(net, 3), shared_exec=small, x=(64, 8))
    net.fill(large, seed=1)
    large.forward(is_train=True)
    large.backward()
    np.testing.assert_array_equal(small.forward(is_train=True)[0].dense(), expected)
    small.backward()
    np.testing.assert_array_equal(small.grad_dict["w0"].dense(), gradient)


def test_backward_refuses_memory_another_executor_has_used(net):
    first = net.bind(chain(net, 2), x=(4, 8))
    second = net.bind(chain(net, 2), shared_exec=first, x=(2, 8))
    first.forward(is_train=True)
    second.forward()
    with pytest.raises(StageError, match="shares its memory has run since"):
        first.backward()


def test_binding_between_forward_and_backward_is_noticed(net):
    first = net.bind(chain(net, 2), x=(4, 8))
    first.forward(is_train=True)
    net.bind(chain(net, 2), shared_exec=first, x=(64, 8))
    with pytest.raises(StageError, match="forward\\(is_train=True\\) again"):
        first.backward()


def test_executor_is_freed_with_its_last_reference(net):
    exe = net.bind(chain(net, 2), x=(4, 8))
    exe.forward(is_train=True)
    exe.backward()
    exe.forward()
    alive = weakref.ref(exe), weakref.ref(exe.arena)
    gc.disable()
    try:
        del exe
        assert [reference() for reference in alive] == [None, None]
    finally:
        gc.enable()
