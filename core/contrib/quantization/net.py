"""Quantization of Gluon blocks."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...device import Context, cpu
from ...gluon import HybridBlock, SymbolBlock
from ...gluon.hybrid_block import compiled_graph
from ...io import DataBatch, DataDesc, DataIter
from ...ndarray import NDArray, zeros
from ...symbol import Variable
from ...symbol.symbol import Symbol
from .model import Runner, calib_graph, quantize_graph

__all__ = ["quantize_net", "quantize_net_v2"]

_IMAGE_RANK = 4


def quantize_net(
    network: HybridBlock | SymbolBlock,
    quantized_dtype: str = "auto",
    quantize_mode: str = "full",
    exclude_layers: Sequence[str] | None = None,
    exclude_layers_match: Sequence[str] | None = None,
    exclude_operators: Sequence[str] | None = None,
    calib_data: Any = None,
    data_shapes: Sequence[DataDesc] | None = None,
    calib_mode: str | None = "none",
    num_calib_examples: int | None = None,
    ctx: Context | None = None,
    logger: logging.Logger | None = None,
) -> SymbolBlock:
    """Return what ``quantize_net_v2`` does, which has more options."""
    return quantize_net_v2(
        network,
        quantized_dtype,
        quantize_mode,
        "tensor-wise",
        exclude_layers,
        exclude_layers_match,
        exclude_operators,
        calib_data,
        data_shapes,
        calib_mode,
        num_calib_examples,
        ctx,
        None,
        logger,
    )


def quantize_net_v2(
    network: HybridBlock | SymbolBlock,
    quantized_dtype: str = "auto",
    quantize_mode: str = "full",
    quantize_granularity: str = "tensor-wise",
    exclude_layers: Sequence[str] | None = None,
    exclude_layers_match: Sequence[str] | None = None,
    exclude_operators: Sequence[str] | None = None,
    calib_data: Any = None,
    data_shapes: Sequence[DataDesc] | None = None,
    calib_mode: str | None = "none",
    num_calib_examples: int | None = None,
    ctx: Context | None = None,
    LayerOutputCollector: Any = None,
    logger: logging.Logger | None = None,
) -> SymbolBlock:
    """Return a block that computes what a trained one does, with int8 and uint8.

    Args:
        network: the block; it is compiled (``hybridize``).
        quantized_dtype, quantize_mode, quantize_granularity, num_calib_examples, logger: as of
            ``quantize_model``.
        exclude_layers: names of nodes that are not quantized.
        exclude_layers_match: parts of such names.
        exclude_operators: operators whose nodes are not quantized. Without calibration batch norm
            is not quantized either, since it needs a range.
        calib_data: a ``DataIter``, or batches such as a ``DataLoader`` has: an array, data and
            label, or a list of several inputs and perhaps a label.
        data_shapes: descriptions of the inputs, needed if ``calib_data`` is not given.
        calib_mode: as of ``quantize_graph``.
        ctx: the device on which the network is calibrated, and where the parameters of the new
            block are; the CPU by default.
        LayerOutputCollector: the collector of the mode ``customize``.

    Raises:
        ValueError: an invalid argument, or neither data nor shapes.
    """
    calibrates = calib_mode is not None and calib_mode != "none"
    if calib_data is not None and not isinstance(calib_data, DataIter):
        calib_data = _Batches(calib_data)
    descs = list(data_shapes or (calib_data.provide_data if calib_data is not None else ()))
    if not descs:
        raise ValueError("data_shapes required: describe the inputs, or give calib_data")
    if calibrates and calib_data is None:
        raise ValueError(f"calib_data must be provided when calib_mode={calib_mode}")
    graph = _compiled(network, [tuple(desc[1]) for desc in descs])
    symbol, inputs = graph._symbol, graph._inputs
    states = set(symbol.list_auxiliary_states())
    params = {name: param._reduce() for name, param in graph.collect_params().items()}
    arguments = {name: array for name, array in params.items() if name not in states}
    auxiliary = {name: array for name, array in params.items() if name in states}
    operators = [*(exclude_operators or ()), *(() if calibrates else ("BatchNorm",))]
    context = ctx or cpu()
    qsym, qargs, _, collector = quantize_graph(
        symbol,
        arguments,
        auxiliary,
        context,
        _excluded(symbol, exclude_layers or (), exclude_layers_match or ()),
        operators,
        calib_mode,
        quantized_dtype,
        quantize_mode,
        quantize_granularity,
        LayerOutputCollector,
        logger,
    )
    if collector is not None:
        assert calib_mode is not None
        runner = Runner(symbol, arguments, auxiliary, inputs, (), context)
        count = runner.calibrate(collector, calib_data, num_calib_examples)
        if logger is not None:
            logger.info("calibrated with %d examples", count)
        qsym, qargs, _ = calib_graph(
            qsym, arguments, auxiliary, collector, calib_mode, quantized_dtype, logger
        )
    return _block(qsym, inputs, {**qargs, **auxiliary}, context)


def _compiled(network: HybridBlock | SymbolBlock, shapes: list[tuple[int, ...]]) -> SymbolBlock:
    """Compile a block for as many of the inputs as it reads; labels may follow them."""
    if not isinstance(network, HybridBlock):
        return compiled_graph(network)
    network.hybridize()
    for count in range(len(shapes), 0, -1):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*is not used by any computation")
            try:
                network(*(zeros(shape) for shape in shapes[:count]))
            except TypeError:  # it takes fewer inputs
                if count == 1:
                    raise
                continue
        graph = compiled_graph(network)
        if count == 1 or set(graph._inputs) <= set(graph._symbol.list_inputs()):
            break
        network.hybridize()
    return graph


def _excluded(symbol: Symbol, names: Sequence[str], parts: Sequence[str]) -> list[str]:
    nodes = dict.fromkeys(node.name or "" for node in symbol.get_internals())
    return [*names, *(name for name in nodes if any(part in name for part in parts))]


def _block(
    symbol: Symbol, inputs: Sequence[str], values: dict[str, NDArray], ctx: Context
) -> SymbolBlock:
    block = SymbolBlock(symbol, [Variable(name) for name in inputs])
    params = block.collect_params()
    for name, param in params.items():
        param.cast(values[name].dtype)
    params.load_dict({name: values[name] for name in params}, ctx)
    return block


class _Batches:
    """Batches of arrays as a data iterator has them."""

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches = batches
        first = next(iter(self), None)
        if first is None:
            raise ValueError("calib_data has no batches")
        names = _names(len(first.data))
        self.provide_data = [
            DataDesc(name, array.shape) for name, array in zip(names, first.data, strict=True)
        ]
        self.provide_label: list[DataDesc] = []
        self.batch_size = first.data[0].shape[0]

    def __iter__(self) -> Iterator[DataBatch]:
        for batch in self._batches:
            arrays = list(batch) if isinstance(batch, (list, tuple)) else [batch]
            if len(arrays[0].shape) > _IMAGE_RANK:  # several crops of each image
                arrays[0] = arrays[0].reshape((-1, *arrays[0].shape[2:]))
            yield DataBatch(arrays)


def _names(count: int) -> list[str]:
    # As in MXNet, two are data and label.
    if count < 3:
        return ["data", "data0"][:count]
    return [f"data{index}" for index in range(count)]
