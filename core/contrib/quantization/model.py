"""Quantization of a model: symbol and parameters."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ...device import Context, cpu
from ...ndarray import NDArray
from ...ndarray import contrib as nd_contrib
from ...ndarray.creation import array
from ...symbol.symbol import Symbol
from .calibration import (
    Collector,
    HistogramCollector,
    MinMaxCollector,
    Ranges,
    is_collector,
)
from .graph import calibrated_graph, quantized_graph

__all__ = [
    "Runner",
    "calib_graph",
    "quantize_graph",
    "quantize_model",
    "quantize_model_mkldnn",
]

_DTYPES = ("int8", "uint8", "auto")
_MODES = ("smart", "full")
_QUANTIZED = "_quantize"

Parameters = Mapping[str, NDArray]
Model = tuple[Symbol, dict[str, NDArray], Parameters]


def quantize_model(
    sym: Symbol,
    arg_params: Parameters,
    aux_params: Parameters,
    data_names: Sequence[str] = ("data",),
    label_names: Sequence[str] | None = ("softmax_label",),
    ctx: Context | None = None,
    excluded_sym_names: list[str] | None = None,
    excluded_op_names: list[str] | None = None,
    calib_mode: str | None = "entropy",
    calib_data: Any = None,
    num_calib_examples: int | None = None,
    quantized_dtype: str = "int8",
    quantize_mode: str = "smart",
    quantize_granularity: str = "tensor-wise",
    logger: logging.Logger | None = None,
) -> Model:
    """Return symbol, parameters and auxiliary states of the quantized network.

    Args:
        sym: the network.
        arg_params: its parameters; weights and biases become int8.
        aux_params: its auxiliary states, which are not changed.
        data_names: the data inputs.
        label_names: the label inputs.
        ctx: where the network runs during calibration; the CPU by default.
        excluded_sym_names: nodes that are not quantized.
        excluded_op_names: operators whose nodes are not quantized.
        calib_mode: ``none``: ranges are computed at each run; ``naive``: minimum and maximum over
            the calibration data; ``entropy``: thresholds of least Kullback-Leibler divergence.
        calib_data: a data iterator.
        num_calib_examples: number of examples to calibrate with; all by default.
        quantized_dtype: dtype of quantized data: ``int8``, ``uint8``, or ``auto`` for uint8 if
            there are no negative values.
        quantize_mode: ``smart`` quantizes pooling, activations and the like only between quantized
            layers, ``full`` everywhere.
        quantize_granularity: ``tensor-wise``.
        logger: receives messages about the calibration.

    Raises:
        ValueError: an invalid argument.
    """
    qsym, wanted = _quantized(
        sym,
        arg_params,
        excluded_sym_names,
        excluded_op_names,
        quantized_dtype,
        quantize_mode,
        quantize_granularity,
    )
    ranges: Ranges = {}
    collector = _collector(calib_mode, wanted, None, logger)
    if collector is not None:
        _check_data(calib_mode, calib_data)
        runner = Runner(sym, arg_params, aux_params, data_names, label_names or (), ctx)
        count = runner.calibrate(collector, calib_data, num_calib_examples)
        ranges = _ranges(collector, quantized_dtype)
        if logger is not None:
            logger.info("calibrated %d tensors with %d examples", len(ranges), count)
    qsym = calibrated_graph(qsym, ranges)
    return qsym, _quantized_parameters(qsym, arg_params), aux_params


def quantize_model_mkldnn(
    sym: Symbol,
    arg_params: Parameters,
    aux_params: Parameters,
    data_names: Sequence[str] = ("data",),
    label_names: Sequence[str] | None = ("softmax_label",),
    ctx: Context | None = None,
    **options: Any,
) -> Model:
    """Return what ``quantize_model`` does, for the CPU; binding fuses the operators.

    Raises:
        ValueError: an invalid argument, or another device.
    """
    if ctx is not None and (not isinstance(ctx, Context) or ctx.device_type != "cpu"):
        raise ValueError(f"ctx is {ctx}; quantize_model_mkldnn is for one CPU")
    return quantize_model(sym, arg_params, aux_params, data_names, label_names, ctx, **options)


def quantize_graph(
    sym: Symbol,
    arg_params: Parameters,
    aux_params: Parameters,
    ctx: Context | None = None,
    excluded_sym_names: list[str] | None = None,
    excluded_op_names: list[str] | None = None,
    calib_mode: str | None = "entropy",
    quantized_dtype: str = "int8",
    quantize_mode: str = "full",
    quantize_granularity: str = "tensor-wise",
    LayerOutputCollector: Any = None,
    logger: logging.Logger | None = None,
) -> tuple[Symbol, dict[str, NDArray], Parameters, Any]:
    """Return a quantized network without calibrated ranges, and a collector to calibrate it.

    Pass the collector's ``collect`` to ``set_monitor_callback`` (with ``monitor_all``) of an
    executor of the floating-point network, run it on data, and then call ``calib_graph``. The
    collector is None if ``calib_mode`` is ``none``, and ``LayerOutputCollector`` if it is
    ``customize``. The other arguments are those of ``quantize_model``.
    """
    qsym, wanted = _quantized(
        sym,
        arg_params,
        excluded_sym_names,
        excluded_op_names,
        quantized_dtype,
        quantize_mode,
        quantize_granularity,
    )
    collector = _collector(calib_mode, wanted, LayerOutputCollector, logger)
    return qsym, _quantized_parameters(qsym, arg_params), aux_params, collector


def calib_graph(
    qsym: Symbol,
    arg_params: Parameters,
    aux_params: Parameters,
    collector: Any,
    calib_mode: str = "entropy",
    quantized_dtype: str = "int8",
    logger: logging.Logger | None = None,
) -> Model:
    """Return a quantized network with the ranges that a collector has determined.

    Args:
        qsym: the symbol from ``quantize_graph``.
        arg_params: parameters of the floating-point network.
        aux_params: its auxiliary states.
        collector: the collector that observed that network.
        calib_mode: as passed to ``quantize_graph``: ``naive``, ``entropy`` or ``customize``.
        quantized_dtype: as passed to ``quantize_graph``.
        logger: receives the number of calibrated tensors.
    """
    if calib_mode not in ("naive", "entropy", "customize"):
        raise ValueError(
            f"calib_mode is {calib_mode!r}; expected 'naive', 'entropy' or 'customize', the mode "
            "with which the collector was created"
        )
    ranges = _ranges(collector, quantized_dtype)
    if logger is not None:
        logger.info("calibrated %d tensors", len(ranges))
    qsym = calibrated_graph(qsym, ranges)
    return qsym, _quantized_parameters(qsym, arg_params), aux_params


# -- steps ------------------------------------------------------------------------------------


def _quantized(
    sym: Symbol,
    arg_params: Parameters,
    excluded_names: list[str] | None,
    excluded_operators: list[str] | None,
    dtype: str,
    mode: str,
    granularity: str,
) -> tuple[Symbol, list[str]]:
    for name, excluded in (
        ("excluded_sym_names", excluded_names),
        ("excluded_op_names", excluded_operators),
    ):
        if excluded is not None and not isinstance(excluded, list):
            raise ValueError(
                f"{name} is {type(excluded).__name__}; expected a list of names of "
                f"{'nodes' if 'sym' in name else 'operators'}"
            )
    _check("quantized_dtype", dtype, _DTYPES)
    _check("quantize_mode", mode, _MODES)
    _check("quantize_granularity", granularity, ("tensor-wise",))
    return quantized_graph(
        sym,
        excluded_names=frozenset(excluded_names or ()),
        excluded_operators=frozenset(excluded_operators or ()),
        parameters=frozenset(arg_params),
        dtype=dtype,
        mode=mode,
    )


def _check(name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; expected {' or '.join(map(repr, choices))}")


def _collector(
    mode: str | None, wanted: Collection[str], custom: Any, logger: logging.Logger | None
) -> Any:
    if mode is None or mode == "none":
        return None
    if mode == "customize" and custom is not None:
        if not is_collector(custom):
            raise ValueError(
                f"LayerOutputCollector is {type(custom).__name__}; expected an object with a "
                "method collect(name, array) and a dict min_max_dict"
            )
        return custom
    _check("calib_mode", mode, ("none", "naive", "entropy"))
    kind = MinMaxCollector if mode == "naive" else HistogramCollector
    return kind(frozenset(wanted), logger)


def _ranges(collector: Any, dtype: str) -> Ranges:
    if isinstance(collector, Collector):
        return collector.ranges(dtype)
    return dict(collector.min_max_dict)


def _check_data(mode: str | None, data: Any) -> None:
    if data is None:
        raise ValueError(f"calib_data is None; calib_mode {mode!r} needs a data iterator")
    if not hasattr(data, "provide_data") or not hasattr(data, "provide_label"):
        raise ValueError(
            f"calib_data is {type(data).__name__}; calib_mode {mode!r} needs a data iterator "
            "(mx.io.DataIter)"
        )


def _quantized_parameters(qsym: Symbol, params: Parameters) -> dict[str, NDArray]:
    found: dict[str, NDArray] = {}
    for name in qsym.list_arguments():
        if name in params:
            found[name] = params[name]
            continue
        original = name.removesuffix(_QUANTIZED)
        if original == name or original not in params:
            continue
        numbers = params[original].asnumpy()
        low, high = (array(np.array([end], "float32")) for end in (numbers.min(), numbers.max()))
        data, low, high = nd_contrib.quantize(params[original], low, high, out_type="int8")
        found |= {name: data, f"{name}_min": low, f"{name}_max": high}
    return found


class Runner:
    """The floating-point network, bound to run on batches of a data iterator."""

    def __init__(
        self,
        sym: Symbol,
        arg_params: Parameters,
        aux_params: Parameters,
        data_names: Sequence[str],
        label_names: Sequence[str],
        ctx: Context | None,
    ) -> None:
        self._sym, self._ctx = sym, ctx or cpu()
        self._params = arg_params, aux_params
        self._inputs = data_names, [n for n in label_names if n in sym.list_arguments()]

    def calibrate(self, collector: Any, data: Any, most: int | None) -> int:
        """Run up to ``most`` examples with a collector as the monitor; return their number."""
        descs = (data.provide_data, data.provide_label)
        shapes: dict[str, Any] = {
            name: tuple(desc[1])
            for names, given in zip(self._inputs, descs, strict=True)
            for name, desc in zip(names, given, strict=False)
        }
        executor = self._sym.simple_bind(self._ctx, "null", **shapes)
        executor.copy_params_from(*map(dict, self._params), allow_extra_params=True)
        executor.set_monitor_callback(collector.collect, monitor_all=True)
        seen = 0
        for batch in data:
            for names, arrays in zip(self._inputs, (batch.data, batch.label or ()), strict=True):
                for name, numbers in zip(names, arrays, strict=False):
                    executor.arg_dict[name][:] = numbers
            executor.forward(is_train=False)
            seen += data.batch_size
            if most is not None and seen >= most:
                break
        return seen
