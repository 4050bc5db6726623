"""Shapes for the inputs of a model whose files do not tell them.

Neither the symbol nor the parameters of an MXNet model hold the shape of its data. The first layer
that reads an input tells its channels or features; sizes of images are tried, the usual ones first,
until shape inference finds no contradiction with the parameters.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from core.errors import MXNetError
from core.ops.quantized.fused import FusedLayer
from core.symbol import Symbol
from core.symbol.graph import Node, topological_order
from core.types import Shape

__all__ = ["guess_shapes", "is_label"]

_IMAGE_SIZES = (224, 28, 32, 112, 64, 96, 128, 48, 24, 12, 256, 299, 300, 320, 512)
_OTHER_SIZES = tuple(size for size in range(4, 257) if size not in _IMAGE_SIZES)
_SEQUENCE_LENGTH = 10
_LABEL_LENGTH = 4
_MOST_TRIALS = 600

_PASSES_ON = frozenset(
    {
        "Activation",
        "BatchNorm",
        "BlockGrad",
        "Cast",
        "Dropout",
        "Flatten",
        "_contrib_quantize_v2",
        "_contrib_quantized_act",
        "_contrib_quantized_flatten",
        "_copy",
        "_div_scalar",
        "_minus_scalar",
        "_mul_scalar",
        "_plus_scalar",
        "_rminus_scalar",
        "broadcast_div",
        "broadcast_mul",
        "broadcast_sub",
    }
)
"""Operators whose first output has the channels or features of their first input."""

_LAYERS = {
    **dict.fromkeys(
        ("Convolution", "Convolution_v1", "_contrib_quantized_conv", "_sg_mkldnn_conv"),
        "Convolution",
    ),
    **dict.fromkeys(
        (
            "FullyConnected",
            "_contrib_quantized_fully_connected",
            "_sg_mkldnn_fully_connected",
        ),
        "FullyConnected",
    ),
    "Embedding": "Embedding",
}
"""Operators whose weight, the second input, tells of their data, by the layer they are."""


def is_label(name: str) -> bool:
    """Tell whether an argument is a label by its name, as MXNet's users name them."""
    return name == "label" or name.endswith("_label") or name.startswith("label_")


def guess_shapes(
    symbol: Symbol, params: Mapping[str, Shape], given: Mapping[str, Shape]
) -> dict[str, Shape] | None:
    """Return a shape for every input that is no parameter, or None.

    Labels are left to inference; of one that it cannot tell (read through a ``Reshape``, or by a
    CTC loss), the usual shapes are tried.

    Args:
        params: shapes of the parameters and auxiliary states by name.
        given: shapes that are known already.
    """
    known = {**{name: params[name] for name in symbol.list_arguments() if name in params}, **given}
    missing = [name for name in symbol.list_arguments() if name not in known]
    unknown = [name for name in missing if not is_label(name)]
    labels = [name for name in missing if is_label(name)]
    readers = _first_readers(symbol)
    for sizes in (_IMAGE_SIZES, _OTHER_SIZES):
        candidates = [list(_candidates(readers.get(name), params, sizes)) for name in unknown]
        for chosen in itertools.islice(itertools.product(*candidates), _MOST_TRIALS):
            shapes = dict(zip(unknown, chosen, strict=True))
            fixed = {**known, **{k: v for k, v in shapes.items() if v}}
            inferred = _infer(symbol, fixed)
            if inferred is None:
                continue
            open_labels = [name for name in labels if not _is_known(inferred[name])]
            examples = [inferred[name] for name in (*given, *unknown) if name in inferred]
            for label in _label_shapes(examples) if open_labels else [()]:
                tried = dict.fromkeys(open_labels, label)
                inferred = _infer(symbol, {**fixed, **tried})
                if inferred is not None and all(map(_is_known, inferred.values())):
                    return {**given, **{name: inferred[name] for name in (*unknown, *tried)}}
    return None


def _label_shapes(examples: Sequence[Shape]) -> Iterator[Shape]:
    """Yield shapes that labels of such examples usually have."""
    for shape in sorted(filter(_is_known, examples), key=len, reverse=True)[:1]:
        yield from (shape[:2], shape[:1], (shape[0], _LABEL_LENGTH), (shape[0], _LABEL_LENGTH, 5))


def _first_readers(symbol: Symbol) -> dict[str, Node]:
    """Return for each variable the first operator that reads it and does more than pass it on."""
    origin: dict[Node, str] = {}
    readers: dict[str, Node] = {}
    for node in topological_order(symbol.heads):
        if node.op is None:
            origin[node] = node.name
            continue
        source = origin.get(node.inputs[0].node) if node.inputs else None
        if source is not None and node.op.names[0] in _PASSES_ON:
            origin[node] = source
        elif source is not None:
            readers.setdefault(source, node)
    return readers


def _candidates(
    reader: Node | None, params: Mapping[str, Shape], sizes: Sequence[int]
) -> Iterator[Shape]:
    """Yield shapes of one example; at last the empty one, which leaves it to inference."""
    operator = reader.op if reader is not None else None
    layer = None if operator is None else _LAYERS.get(operator.names[0])
    weight = _weight_of(reader, params)
    if layer == "Convolution" and weight is not None:
        convolution = operator.stages.layer if isinstance(operator, FusedLayer) else operator
        channels = weight[1] * int(getattr(convolution, "num_group", 1))
        for size in sizes:
            yield (1, channels, *(size for _ in weight[2:]))
    elif layer == "FullyConnected" and weight is not None:
        yield (1, weight[1])
        side = math.isqrt(weight[1])
        if side * side == weight[1]:
            yield (1, 1, side, side)
    elif layer == "Embedding":
        yield from ((1, _SEQUENCE_LENGTH), (1, 1), (1,))
        if sizes is _OTHER_SIZES:
            yield from ((1, size) for size in sizes)
    yield ()


def _weight_of(reader: Node | None, params: Mapping[str, Shape]) -> Shape | None:
    if reader is None or len(reader.inputs) < 2:
        return None
    return params.get(reader.inputs[1].node.name)


def _infer(symbol: Symbol, shapes: Mapping[str, Shape]) -> dict[str, Shape] | None:
    """Return the shapes of all arguments and outputs as far as they are known.

    None if they contradict each other.
    """
    try:
        arguments, outputs, _ = symbol.infer_shape_partial(**shapes)
    except MXNetError:
        return None
    found = [tuple(shape) for shape in (*(arguments or ()), *(outputs or ()))]
    return dict(zip((*symbol.list_arguments(), *symbol.list_outputs()), found, strict=True))


def _is_known(shape: Shape) -> bool:
    return bool(shape) and 0 not in shape
