"""Errors, types, configuration, devices, class registries and random numbers."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest

import core as mx
from core import device
from core import random as core_random
from core.backends import NumpyBackend
from core.config import aggregation_size, read_config, updates_on_kvstore
from core.errors import DeviceError, ShapeError, TypeInferenceError, UsageError, did_you_mean
from core.registry import ClassRegistry
from core.types import (
    broadcast_shapes,
    dtype_code,
    dtype_from_code,
    is_known,
    merge_shapes,
    normalize_axis,
    to_dtype,
)


class TestTypes:
    def test_shapes_merge_what_each_side_knows(self) -> None:
        assert merge_shapes((0, 3), (2, 0)) == (2, 3)
        assert merge_shapes(None, (2,)) == (2,)
        with pytest.raises(ShapeError, match="contradicts"):
            merge_shapes((2, 3), (2, 4))
        with pytest.raises(ShapeError):
            merge_shapes((2,), (2, 1))

    def test_unknown_shapes_do_not_broadcast_yet(self) -> None:
        assert broadcast_shapes((2, 0), (2, 3)) is None
        assert broadcast_shapes((2, 1), (3,)) == (2, 3)
        assert not is_known(None)
        with pytest.raises(ShapeError, match="do not broadcast"):
            broadcast_shapes((2,), (3,))

    def test_dtype_codes_match_mxnets(self) -> None:
        names = ["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"]
        assert [dtype_code(name) for name in names] == list(range(8))
        assert dtype_from_code(2) == np.float16
        assert to_dtype(4) == np.int32
        for bad in ("complex64", "nonsense", 99, object):
            with pytest.raises(TypeInferenceError):
                to_dtype(bad)

    def test_negative_axes_are_normalized(self) -> None:
        assert normalize_axis(-1, 3) == 2
        with pytest.raises(ShapeError, match="out of range"):
            normalize_axis(3, 3)


class TestConfig:
    def test_values_are_parsed(self) -> None:
        config = read_config({"MODSERVE_THREADS": "3", "CORE_CHECK_KERNELS": "1"})
        assert (config.threads, config.check_kernels) == (3, True)
        assert (config.mirror, config.mirror_step) == (False, 100)
        config = read_config({"MXNET_BACKWARD_DO_MIRROR": "1", "MXNET_MIRROR_STEP": "7"})
        assert (config.mirror, config.mirror_step) == (True, 7)
        assert read_config({}).native_kernels
        assert not read_config({}).in_bfloat16
        assert read_config({"MODSERVE_MATH": "bfloat16"}).in_bfloat16
        assert not read_config({"CORE_NATIVE_KERNELS": "0"}).native_kernels

    @pytest.mark.parametrize(
        "name",
        [
            "MODSERVE_THREADS",
            "CORE_SHARERS",
            "MODSERVE_MATH",
            "CORE_CHECK_KERNELS",
            "CORE_NATIVE_KERNELS",
            "CORE_GPU_AS_CPU",
            "MXNET_BACKWARD_DO_MIRROR",
            "MXNET_MIRROR_STEP",
        ],
    )
    def test_malformed_values_are_refused_by_name(self, name: str) -> None:
        with pytest.raises(ValueError, match=name):
            read_config({name: "yes"})

    def test_settings_changed_while_running_take_effect(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, read, value, expected in (
            ("MXNET_UPDATE_ON_KVSTORE", updates_on_kvstore, "0", False),
            ("MXNET_OPTIMIZER_AGGREGATION_SIZE", aggregation_size, "7", 7),
        ):
            monkeypatch.delenv(name, raising=False)
            assert read() != expected
            monkeypatch.setenv(name, value)
            assert read() == expected
            monkeypatch.setenv(name, "many")
            with pytest.raises(ValueError, match=name):
                read()


class TestContext:
    def test_equality_text_and_pickle(self) -> None:
        assert mx.cpu(1) == mx.Context("cpu", 1) != mx.gpu(1)
        assert str(mx.gpu(2)) == "gpu(2)"
        assert pickle.loads(pickle.dumps(mx.cpu(3))) == mx.cpu(3)
        assert len({mx.cpu(0), mx.cpu(0), mx.cpu(1)}) == 2

    def test_default_context_is_the_innermost(self) -> None:
        assert mx.current_context() == mx.cpu(0)
        with mx.cpu(2):
            assert mx.current_context() == mx.cpu(2)
            with mx.cpu(1):
                assert mx.current_context() == mx.cpu(1)
        assert mx.current_context() == mx.cpu(0)

    def test_the_deprecated_default_context_is_per_thread(self) -> None:
        with pytest.warns(DeprecationWarning, match="current_context"):
            assert mx.Context.default_ctx == mx.cpu(0)
        with mx.cpu(2):
            with pytest.warns(DeprecationWarning, match="set_default_context"):
                mx.Context.default_ctx = mx.cpu(3)
            assert mx.current_context() == mx.cpu(3)
        assert mx.current_context() == mx.cpu(0)
        found = []

        def run() -> None:
            with pytest.warns(DeprecationWarning, match="set_default_context"):
                mx.Context.default_ctx = mx.gpu(4)
            found.append(mx.current_context())

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert found == [mx.gpu(4)]
        assert mx.current_context() == mx.cpu(0)

    def test_unknown_devices_are_refused(self) -> None:
        with pytest.raises(DeviceError, match="'tpu' is unknown"):
            mx.Context("tpu")
        with pytest.raises(DeviceError, match="negative"):
            mx.cpu(-1)

    def test_the_cpu_may_stand_in_for_gpus(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(device, "config", read_config({"CORE_GPU_AS_CPU": "1"}))
        assert mx.gpu(2) == mx.Context("gpu", 2) == mx.cpu(2)
        with mx.gpu():
            assert mx.nd.zeros((1,)).context == mx.cpu(0)

    @pytest.mark.skipif(mx.num_gpus() > 0, reason="there is a GPU")
    def test_missing_gpu_is_named(self) -> None:
        with pytest.raises(DeviceError, match="gpu"):
            mx.nd.zeros((1,), ctx=mx.gpu(0))


class TestRegistry:
    def test_create_by_every_form(self) -> None:
        class Base:
            def __init__(self, **options: int) -> None:
                self.options = options

        registry: ClassRegistry[Base] = ClassRegistry(Base, "thing")

        @registry.alias("other")
        @registry.register
        class Thing(Base):
            pass

        assert isinstance(registry.create("THING"), Thing)
        assert registry.create("other", a=1).options == {"a": 1}
        assert registry.create('["thing", {"b": 2}]').options == {"b": 2}
        assert registry.create('{"thing": "other", "c": 3}').options == {"c": 3}
        made = Thing()
        assert registry.create(made) is made
        with pytest.raises(UsageError, match="instance already"):
            registry.create(made, 1)
        with pytest.raises(ValueError, match="did you mean 'thing'"):
            registry.create("thin")
        with pytest.raises(UsageError, match="expected a name"):
            registry.create(3)


class TestRandom:
    def test_seed_repeats(self) -> None:
        mx.random.seed(4)
        first = mx.nd.random.uniform(shape=(5,)).asnumpy()
        mx.random.seed(4)
        np.testing.assert_array_equal(mx.nd.random.uniform(shape=(5,)).asnumpy(), first)

    def test_generator_state_can_be_restored(self) -> None:
        mx.random.seed(4)
        mx.nd.random.normal(shape=(7,))
        state = core_random.get_state()
        expected = mx.nd.random.normal(shape=(3,)).asnumpy()
        core_random.set_state(state)
        np.testing.assert_array_equal(mx.nd.random.normal(shape=(3,)).asnumpy(), expected)

    def test_devices_have_independent_sequences(self) -> None:
        mx.random.seed(4)
        a = mx.nd.random.uniform(shape=(4,), ctx=mx.cpu(0)).asnumpy()
        b = mx.nd.random.uniform(shape=(4,), ctx=mx.cpu(1)).asnumpy()
        assert not np.array_equal(a, b)


def test_host_arrays_start_on_a_cache_line() -> None:
    backend = NumpyBackend()
    for size in (1, 3, 1000):
        assert backend.empty((size,), np.dtype("float32")).ctypes.data % 64 == 0
    assert backend.empty((0, 3), np.dtype("int8")).shape == (0, 3)


def test_gpu_memory_info_of_a_missing_gpu_is_refused() -> None:
    mx.cpu().empty_cache()
    with pytest.raises(DeviceError):
        mx.context.gpu_memory_info(10**6)


def test_suggestion_only_where_it_is_near() -> None:
    assert did_you_mean("Convolutoin", ["Convolution"]) == "; did you mean 'Convolution'?"
    assert did_you_mean("xyz", ["Convolution"]) == ""
