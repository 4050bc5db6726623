from __future__ import annotations

import os

import numpy as np
import pytest

from app.link.shm import Layout, Slab, SlabMap, SlabPool, SlabsExhausted
from served.processes import shared_memory, wait_until

KIB = 1024


def pool(limit: int = 1024 * KIB, idle: int = 1024 * KIB) -> SlabPool:
    return SlabPool(limit, idle)


def test_a_released_slab_is_reused():
    slabs = pool()
    first = slabs.acquire(100)
    slabs.release(first.id)
    assert slabs.acquire(60 * KIB) is first


def send(slab: Slab) -> None:
    fd = slab.take_fd()
    assert fd is not None
    os.close(fd)


def test_a_slab_is_at_least_as_large_as_asked():
    slabs = pool()
    assert slabs.acquire(64 * KIB).size == 64 * KIB
    assert slabs.acquire(64 * KIB + 1).size == 128 * KIB


def test_the_limit_applies_to_slabs_in_use():
    slabs = pool(limit=192 * KIB)
    held = [slabs.acquire(1) for _ in range(3)]
    with pytest.raises(SlabsExhausted, match="196608 of 196608"):
        slabs.acquire(1)
    slabs.release(held[0].id)
    assert slabs.acquire(1) is held[0]


def test_idle_slabs_make_room_for_another_size():
    slabs = pool(limit=192 * KIB)
    small = [slabs.acquire(1) for _ in range(3)]
    for slab in small:
        send(slab)
        slabs.release(slab.id)
    assert slabs.acquire(128 * KIB).size == 128 * KIB
    assert slabs.total_bytes <= 192 * KIB
    assert sorted(slabs.forgotten) == [slab.id for slab in small[:2]]


def test_idle_memory_beyond_its_limit_is_freed():
    slabs = pool(idle=64 * KIB)
    held = [slabs.acquire(1) for _ in range(4)]
    for slab in held:
        send(slab)
        slabs.release(slab.id)
    assert slabs.total_bytes == 64 * KIB
    assert len(slabs.forgotten) == 3


def test_the_peer_is_not_told_to_forget_slabs_it_never_saw():
    slabs = pool(idle=0)
    slabs.release(slabs.acquire(1).id)
    assert slabs.total_bytes == 0
    assert slabs.forgotten == []


def test_releasing_twice_raises():
    slabs = pool()
    slab = slabs.acquire(1)
    slabs.release(slab.id)
    with pytest.raises(KeyError):
        slabs.release(slab.id)


def test_a_slab_cannot_change_its_size():
    slab = pool().acquire(1)
    fd = slab.take_fd()
    with pytest.raises(PermissionError):
        os.ftruncate(fd, 0)
    os.close(fd)


def test_no_descriptors_or_files_are_left():
    descriptors, names = len(os.listdir("/proc/self/fd")), shared_memory()
    slabs, peer = pool(), SlabMap()
    for _ in range(5):
        slab = slabs.acquire(1)
        peer.add(slab.id, slab.take_fd())
    # Tests in other processes have shared memory with names, too; those come and go.
    wait_until(lambda: shared_memory() <= names, "slabs have no names")
    del slab
    slabs.close()
    peer.clear()
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def test_both_sides_see_the_same_memory():
    slabs, peer = pool(), SlabMap()
    layout = Layout.of({"x": ((2, 3), "float32"), "n": ((), "int64"), "none": ((0, 4), "uint8")})
    slab = slabs.acquire(layout.size)
    ours = slab.arrays(layout.placements)
    peer.add(slab.id, slab.take_fd())
    theirs = peer.arrays(slab.id, layout.placements)
    ours["x"][...] = np.arange(6).reshape(2, 3)
    ours["n"][...] = -7
    assert theirs["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert theirs["n"] == -7
    assert theirs["none"].shape == (0, 4)


def test_arrays_outlive_a_forgotten_slab():
    slabs, peer = pool(), SlabMap()
    layout = Layout.of({"x": ((4,), "float64")})
    slab = slabs.acquire(layout.size)
    ours = slab.arrays(layout.placements)["x"]
    ours[...] = 1.5
    peer.add(slab.id, slab.take_fd())
    theirs = peer.arrays(slab.id, layout.placements)["x"]
    peer.forget([slab.id])
    slabs.close()
    assert theirs.tolist() == [1.5] * 4
    assert np.array_equal(ours, theirs)
    with pytest.raises(KeyError):
        peer.arrays(slab.id, layout.placements)


def test_tensors_start_on_cache_lines():
    layout = Layout.of({"a": ((1,), "uint8"), "b": ((3,), "float16"), "c": ((17,), "float32")})
    assert [placement[3] for placement in layout.placements] == [0, 64, 128]
    assert layout.size == 256


@pytest.mark.parametrize("dtype", ["object", "U4", "datetime64[s]", "complex64"])
def test_only_numeric_dtypes_can_be_placed(dtype: str):
    with pytest.raises(TypeError, match="only numbers"):
        Layout.of({"x": ((1,), dtype)})


def test_a_tensor_outside_its_slab_is_refused():
    slab = pool().acquire(1)
    with pytest.raises((TypeError, ValueError)):
        slab.arrays([["x", "<f4", [slab.size], 0]])
