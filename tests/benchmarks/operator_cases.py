"""Operators with attributes and shapes as networks have them, for ``compare_operators.py``.

MXNet's interpreter reads this file, too.
"""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any

import numpy as np

IMAGE = (16, 64, 56, 56)
SEQUENCE = (32, 128, 512)


@dataclasses.dataclass(frozen=True)
class Draw:
    """An input drawn from equally likely numbers; ``whole`` rounds them down."""

    shape: tuple[int, ...]
    low: float = -1
    high: float = 1
    whole: bool = False


@dataclasses.dataclass(frozen=True)
class Regions:
    """Regions of interest (count, 5) on an image of a size, of all sizes."""

    count: int
    height: int
    width: int


@dataclasses.dataclass(frozen=True)
class Values:
    """An input of given numbers."""

    numbers: Any


class Case:
    """An operator on inputs.

    Args:
        op: its name.
        inputs: by name, a shape (of normal numbers) or how it is drawn.
        gradients: names of the inputs that have one; the first unless given.
        outputs: how many there are.
        attrs: the operator's.
    """

    def __init__(
        self,
        op: str,
        inputs: dict[str, Any],
        gradients: tuple[str, ...] | None = None,
        outputs: int = 1,
        **attrs: Any,
    ) -> None:
        self.op, self.inputs, self.outputs, self.attrs = op, inputs, outputs, attrs
        self.gradients = tuple(inputs)[:1] if gradients is None else gradients
        self._random = np.random.RandomState(zlib.crc32(op.encode()))

    def graph(self) -> dict[str, Any]:
        """Return a graph of the operator alone."""
        count = len(self.inputs)
        variables = [{"op": "null", "name": name, "inputs": []} for name in self.inputs]
        node = {
            "op": self.op,
            "name": "node",
            "attrs": {key: str(value) for key, value in self.attrs.items()},
            "inputs": [[index, 0, 0] for index in range(count)],
        }
        return {
            "nodes": [*variables, node],
            "arg_nodes": [*range(count)],
            "heads": [[count, index, 0] for index in range(self.outputs)],
            "attrs": {"mxnet_version": ["int", 10901]},
        }

    def values(self) -> dict[str, Any]:
        """Return the inputs' values."""
        return {name: self._value(given) for name, given in self.inputs.items()}

    def draw(self, shape: tuple[int, ...]) -> Any:
        """Return normal numbers."""
        return self._random.standard_normal(shape).astype("float32")

    def _value(self, given: Any) -> Any:
        if isinstance(given, Values):
            return np.asarray(given.numbers, "float32")
        if isinstance(given, Draw):
            found = self._random.uniform(given.low, given.high, given.shape)
            return (np.floor(found) if given.whole else found).astype("float32")
        if isinstance(given, Regions):
            size = np.tile((given.width, given.height), (given.count, 1))
            start = self._random.uniform(0, 0.7, (given.count, 2))
            end = start + (1 - start) * self._random.uniform(0.1, 1, (given.count, 2))
            corners = np.concatenate((start * size, end * size), axis=1)
            return np.concatenate((np.zeros((given.count, 1)), corners), 1).astype("float32")
        return self.draw(given)


def _windowed(shape: tuple[int, ...], count: int, kernel: int = 3, **attrs: Any) -> Case:
    window = {"kernel": (kernel, kernel), "pad": (kernel // 2,) * 2, **attrs}
    inputs = {"data": shape, "weight": (count, shape[1], kernel, kernel), "bias": (count,)}
    return Case("Convolution", inputs, tuple(inputs), num_filter=count, **window)


def _norm(op: str, shape: tuple[int, ...], **attrs: Any) -> Case:
    channels = {name: Draw((shape[1],), 0.5, 1.5) for name in ("gamma", "beta")}
    moving = {name: Draw((shape[1],), 0.5, 1.5) for name in ("moving_mean", "moving_var")}
    inputs = {"data": shape, **channels, **(moving if op == "BatchNorm" else {})}
    return Case(op, inputs, ("data", *channels), **attrs)


def _one(op: str, given: Any = IMAGE, /, **attrs: Any) -> Case:
    return Case(op, {"data": given}, **attrs)


def _two(op: str, right: Any = IMAGE, left: Any = IMAGE, **attrs: Any) -> Case:
    return Case(op, {"lhs": left, "rhs": right}, ("lhs", "rhs"), **attrs)


_PROPOSING = {
    "cls_prob": Draw((1, 24, 38, 63), 0, 1),
    "bbox_pred": Draw((1, 48, 38, 63), -0.3, 0.3),
    "im_info": Values([[600, 1000, 1.0]]),
}
_ROTATED = [[0, 50 + 7 * i, 60 + 4 * i, 40 + 2 * i, 180 - 2 * i, 5 * i - 90] for i in range(64)]
_DEFORMING = {"kernel": (3, 3), "pad": (2, 2), "dilate": (2, 2), "num_filter": 256}
_AFFINE = [[0.9, 0.1, 0.05, -0.1, 0.95, 0.1]] * 8
_POSITIVE = np.eye(128) + np.full((16, 1, 1), 1 / 128)
_RNN = {"state_size": 128, "num_layers": 1, "state_outputs": True}


def _rnn(mode: str, gates: int) -> Case:
    size, width = 128, 64
    inputs: dict[str, Any] = {
        "data": (35, 32, width),
        "parameters": Draw((gates * size * (width + size + 2),), -0.1, 0.1),
        "state": (1, 32, size),
    }
    if mode == "lstm":
        inputs["state_cell"] = (1, 32, size)
    outputs = 3 if mode == "lstm" else 2
    return Case("RNN", inputs, ("data", "parameters"), outputs, mode=mode, **_RNN)


CASES: dict[str, Case] = {
    # -- detectors, deformable networks, samplers
    "ROIPooling": Case(
        "ROIPooling",
        {"data": (1, 256, 38, 63), "rois": Regions(128, 600, 1000)},
        pooled_size=(7, 7),
        spatial_scale=0.0625,
    ),
    "ROIAlign": Case(
        "_contrib_ROIAlign",
        {"data": (1, 256, 38, 63), "rois": Regions(128, 600, 1000)},
        pooled_size=(14, 14),
        spatial_scale=0.0625,
        sample_ratio=2,
    ),
    "PSROIPooling": Case(
        "_contrib_PSROIPooling",
        {"data": (1, 21 * 49, 38, 63), "rois": Regions(128, 600, 1000)},
        spatial_scale=0.0625,
        output_dim=21,
        pooled_size=7,
        group_size=7,
    ),
    "DeformablePSROIPooling": Case(
        "_contrib_DeformablePSROIPooling",
        {
            "data": (1, 8 * 49, 38, 63),
            "rois": Regions(64, 600, 1000),
            "trans": (64, 2, 7, 7),
        },
        ("data", "trans"),
        spatial_scale=0.0625,
        output_dim=8,
        pooled_size=7,
        group_size=7,
        part_size=7,
        sample_per_part=4,
        trans_std=0.1,
    ),
    "DeformableConvolution": Case(
        "_contrib_DeformableConvolution",
        {
            "data": (1, 256, 38, 50),
            "offset": (1, 72, 38, 50),
            "weight": Draw((256, 256, 3, 3), -0.05, 0.05),
        },
        ("data", "offset", "weight"),
        num_deformable_group=4,
        no_bias=True,
        **_DEFORMING,
    ),
    "ModulatedDeformableConvolution": Case(
        "_contrib_ModulatedDeformableConvolution",
        {
            "data": (1, 256, 38, 50),
            "offset": (1, 18, 38, 50),
            "mask": Draw((1, 9, 38, 50), 0, 1),
            "weight": Draw((256, 256, 3, 3), -0.05, 0.05),
            "bias": (256,),
        },
        (),
        **_DEFORMING,
    ),
    "RROIAlign": Case(
        "_contrib_RROIAlign",
        {"data": (1, 256, 38, 50), "rois": Values(_ROTATED)},
        (),
        pooled_size=(7, 7),
        spatial_scale=1 / 16,
        sampling_ratio=2,
    ),
    "Proposal": Case("_contrib_Proposal", _PROPOSING, ()),
    "MultiProposal": Case("_contrib_MultiProposal", _PROPOSING, ()),
    "BilinearSampler": Case(
        "BilinearSampler", {"data": (8, 64, 56, 56), "grid": Draw((8, 2, 56, 56))}, ("data", "grid")
    ),
    "GridGenerator": Case(
        "GridGenerator",
        {"data": Values(_AFFINE)},
        transform_type="affine",
        target_shape=(56, 56),
    ),
    "GridGenerator/warp": Case("GridGenerator", {"data": (8, 2, 56, 56)}, transform_type="warp"),
    "SpatialTransformer": Case(
        "SpatialTransformer",
        {"data": (8, 64, 56, 56), "loc": Values(_AFFINE)},
        ("data", "loc"),
        transform_type="affine",
        sampler_type="bilinear",
        target_shape=(56, 56),
    ),
    "Correlation": Case(
        "Correlation",
        {"data1": (1, 64, 32, 48), "data2": (1, 64, 32, 48)},
        ("data1", "data2"),
        max_displacement=4,
        pad_size=4,
    ),
    "box_nms": Case(
        "_contrib_box_nms",
        {"data": Draw((2, 4000, 6), 0, 1)},
        overlap_thresh=0.45,
        valid_thresh=0.01,
        topk=400,
        id_index=0,
        score_index=1,
        coord_start=2,
    ),
    "MultiBoxPrior": Case(
        "_contrib_MultiBoxPrior",
        {"data": (1, 64, 38, 38)},
        (),
        sizes=(0.2, 0.276),
        ratios=(1, 2, 0.5),
    ),
    "MultiBoxTarget": Case(
        "_contrib_MultiBoxTarget",
        {
            "anchor": Draw((1, 5776, 4), 0, 1),
            "label": Draw((8, 4, 5), 0, 1),
            "cls_pred": (8, 21, 5776),
        },
        (),
        3,
        negative_mining_ratio=3,
        negative_mining_thresh=0.5,
    ),
    "MultiBoxDetection": Case(
        "_contrib_MultiBoxDetection",
        {
            "cls_prob": Draw((8, 21, 5776), 0, 1),
            "loc_pred": (8, 4 * 5776),
            "anchor": Draw((1, 5776, 4), 0, 1),
        },
        (),
        nms_threshold=0.45,
        nms_topk=400,
    ),
    # -- layers
    "Convolution/1x1": _windowed((8, 256, 28, 28), 256, 1),
    "Convolution/3x3": _windowed((8, 128, 28, 28), 128),
    "Convolution/stem": _windowed((8, 3, 112, 112), 64, 7, stride=(2, 2)),
    "Convolution/depthwise": Case(
        "Convolution",
        {"data": (8, 128, 56, 56), "weight": (128, 1, 3, 3)},
        ("data", "weight"),
        kernel=(3, 3),
        pad=(1, 1),
        num_filter=128,
        num_group=128,
        no_bias=True,
    ),
    "Convolution/1d": Case(
        "Convolution",
        {"data": (16, 64, 200), "weight": (128, 64, 5), "bias": (128,)},
        ("data", "weight", "bias"),
        kernel=(5,),
        num_filter=128,
    ),
    "Convolution/3d": Case(
        "Convolution",
        {"data": (2, 16, 8, 56, 56), "weight": (32, 16, 3, 3, 3), "bias": (32,)},
        ("data", "weight", "bias"),
        kernel=(3, 3, 3),
        pad=(1, 1, 1),
        num_filter=32,
    ),
    "Deconvolution": Case(
        "Deconvolution",
        {"data": (8, 128, 28, 28), "weight": (128, 64, 4, 4)},
        ("data", "weight"),
        kernel=(4, 4),
        stride=(2, 2),
        pad=(1, 1),
        num_filter=64,
        no_bias=True,
    ),
    "Deconvolution/last": Case(
        "Deconvolution",
        {"data": (64, 64, 32, 32), "weight": (64, 3, 4, 4)},
        ("data", "weight"),
        kernel=(4, 4),
        stride=(2, 2),
        pad=(1, 1),
        num_filter=3,
        no_bias=True,
    ),
    "FullyConnected": Case(
        "FullyConnected",
        {"data": (64, 1024), "weight": (1000, 1024), "bias": (1000,)},
        ("data", "weight", "bias"),
        num_hidden=1000,
    ),
    "FullyConnected/sequence": Case(
        "FullyConnected",
        {"data": SEQUENCE, "weight": (512, 512), "bias": (512,)},
        ("data", "weight", "bias"),
        num_hidden=512,
        flatten=False,
    ),
    "BatchNorm": _norm("BatchNorm", IMAGE, fix_gamma=False),
    "LayerNorm": Case(
        "LayerNorm",
        {"data": SEQUENCE, "gamma": (512,), "beta": (512,)},
        ("data", "gamma", "beta"),
    ),
    "InstanceNorm": _norm("InstanceNorm", IMAGE),
    "GroupNorm": Case(
        "GroupNorm",
        {"data": IMAGE, "gamma": (8,), "beta": (8,)},
        ("data", "gamma", "beta"),
        num_groups=8,
    ),
    "LRN": _one("LRN", (8, 96, 27, 27), nsize=5, alpha=1e-4, beta=0.75, knorm=1),
    "L2Normalization": _one("L2Normalization", (64, 512)),
    "L2Normalization/channel": _one("L2Normalization", (8, 256, 38, 38), mode="channel"),
    "Activation/relu": _one("Activation", act_type="relu"),
    "Activation/sigmoid": _one("Activation", act_type="sigmoid"),
    "Activation/tanh": _one("Activation", act_type="tanh"),
    "Activation/softrelu": _one("Activation", act_type="softrelu"),
    "Activation/softsign": _one("Activation", act_type="softsign"),
    "LeakyReLU/leaky": _one("LeakyReLU", act_type="leaky", slope=0.1),
    "LeakyReLU/elu": _one("LeakyReLU", act_type="elu"),
    "LeakyReLU/selu": _one("LeakyReLU", act_type="selu"),
    "LeakyReLU/gelu": _one("LeakyReLU", act_type="gelu"),
    "LeakyReLU/prelu": Case(
        "LeakyReLU", {"data": IMAGE, "gamma": (64,)}, ("data", "gamma"), act_type="prelu"
    ),
    "Pooling/max": _one("Pooling", kernel=(3, 3), stride=(2, 2), pool_type="max"),
    "Pooling/avg": _one("Pooling", kernel=(2, 2), stride=(2, 2), pool_type="avg"),
    "Pooling/global": _one("Pooling", kernel=(7, 7), global_pool=True, pool_type="avg"),
    "Pooling/full": _one(
        "Pooling", kernel=(3, 3), stride=(2, 2), pool_type="max", pooling_convention="full"
    ),
    "AdaptiveAvgPooling2D": _one("_contrib_AdaptiveAvgPooling2D", output_size=1),
    "AdaptiveAvgPooling2D/7": _one("_contrib_AdaptiveAvgPooling2D", output_size=7),
    "BilinearResize2D": _one("_contrib_BilinearResize2D", (4, 64, 28, 28), height=56, width=56),
    "UpSampling": _one("UpSampling", (8, 64, 28, 28), scale=2, sample_type="nearest", num_args=1),
    "Dropout": _one("Dropout", p=0.5),
    "Embedding": Case(
        "Embedding",
        {"data": Draw((32, 100), 0, 10000, whole=True), "weight": (10000, 256)},
        ("weight",),
        input_dim=10000,
        output_dim=256,
    ),
    "RNN/lstm": _rnn("lstm", 4),
    "RNN/gru": _rnn("gru", 3),
    "RNN/rnn_tanh": _rnn("rnn_tanh", 1),
    # -- losses
    "softmax": _one("softmax", (512, 1000)),
    "softmax/channel": _one("softmax", (8, 21, 5000), axis=1),
    "log_softmax": _one("log_softmax", (512, 1000)),
    "SoftmaxActivation": _one("SoftmaxActivation", (8, 21, 64, 64), mode="channel"),
    "SoftmaxOutput": Case(
        "SoftmaxOutput", {"data": (512, 1000), "label": Draw((512,), 0, 1000, whole=True)}
    ),
    "SoftmaxOutput/multi": Case(
        "SoftmaxOutput",
        {"data": (8, 21, 5776), "label": Draw((8, 5776), -1, 21, whole=True)},
        multi_output=True,
        use_ignore=True,
        ignore_label=-1,
        normalization="valid",
    ),
    "LinearRegressionOutput": Case(
        "LinearRegressionOutput", {"data": (512, 1000), "label": (512, 1000)}
    ),
    "LogisticRegressionOutput": Case(
        "LogisticRegressionOutput", {"data": (512, 1000), "label": (512, 1000)}
    ),
    "MAERegressionOutput": Case("MAERegressionOutput", {"data": (512, 1000), "label": (512, 1000)}),
    "SVMOutput": Case(
        "SVMOutput",
        {"data": (512, 1000), "label": Draw((512,), 0, 1000, whole=True)},
        use_linear=True,
    ),
    "MakeLoss": _one("MakeLoss", normalization="valid"),
    "make_loss": _one("make_loss"),
    "smooth_l1": _one("smooth_l1", (8, 4 * 5776), scalar=1.0),
    "softmax_cross_entropy": Case(
        "softmax_cross_entropy",
        {"data": (512, 1000), "label": Draw((512,), 0, 1000, whole=True)},
    ),
    "CTCLoss": Case(
        "_contrib_CTCLoss", {"data": (100, 16, 60), "label": Draw((16, 20), 1, 60, whole=True)}
    ),
    # -- shapes
    "Flatten": _one("Flatten"),
    "Reshape": _one("Reshape", shape=(-1, 56, 56)),
    "Concat": _two("Concat", dim=1, num_args=2),
    "Concat/last": _two("Concat", SEQUENCE, SEQUENCE, dim=-1, num_args=2),
    "stack": _two("stack", SEQUENCE, SEQUENCE, axis=1, num_args=2),
    "SliceChannel": _one("SliceChannel", num_outputs=4, axis=1, outputs=4),
    "SliceChannel/last": _one("SliceChannel", SEQUENCE, num_outputs=4, axis=-1, outputs=4),
    "slice_axis": _one("slice_axis", SEQUENCE, axis=2, begin=0, end=128),
    "slice": _one("slice", begin=(None, None, 2, 2), end=(None, None, 50, 50)),
    "slice_like": _two("slice_like", (16, 64, 40, 40), axes=(2, 3)),
    "Crop": Case("Crop", {"data": IMAGE, "like": (16, 64, 40, 40)}, num_args=2),
    "transpose": _one("transpose", (32, 128, 8, 64), axes=(0, 2, 1, 3)),
    "transpose/last": _one("transpose", axes=(0, 2, 3, 1)),
    "SwapAxis": _one("SwapAxis", SEQUENCE, dim1=1, dim2=2),
    "expand_dims": _one("expand_dims", SEQUENCE, axis=1),
    "squeeze": _one("squeeze", (32, 128, 512, 1), axis=-1),
    "tile": _one("tile", (1, 1024), reps=(512, 1)),
    "repeat": _one("repeat", (512, 64), repeats=20, axis=-1),
    "reverse": _one("reverse", SEQUENCE, axis=1),
    "broadcast_axis": _one("broadcast_axis", (32, 1, 512), axis=1, size=128),
    "broadcast_to": _one("broadcast_to", (32, 1, 512), shape=(32, 128, 512)),
    "Pad": _one("Pad", mode="constant", pad_width=(0, 0, 0, 0, 1, 1, 1, 1)),
    "Pad/edge": _one("Pad", mode="edge", pad_width=(0, 0, 0, 0, 1, 1, 1, 1)),
    "Pad/reflect": _one("Pad", mode="reflect", pad_width=(0, 0, 0, 0, 1, 1, 1, 1)),
    "depth_to_space": _one("depth_to_space", block_size=2),
    "space_to_depth": _one("space_to_depth", block_size=2),
    "col2im": _one("col2im", (4, 64 * 9, 784), kernel=(3, 3), pad=(1, 1), output_size=(28, 28)),
    "im2col": _one("im2col", (4, 64, 28, 28), kernel=(3, 3), pad=(1, 1)),
    # -- choosing
    "one_hot": Case("one_hot", {"indices": Draw((512,), 0, 5749, whole=True)}, (), depth=5749),
    "take": Case(
        "take",
        {"a": (10000, 256), "indices": Draw((32, 100), 0, 10000, whole=True)},
    ),
    "pick": Case("pick", {"data": (512, 1000), "index": Draw((512,), 0, 1000, whole=True)}),
    "gather_nd": Case(
        "gather_nd",
        {"data": (64, 1000, 64), "indices": Draw((2, 5000), 0, 64, whole=True)},
    ),
    "scatter_nd": Case(
        "scatter_nd",
        {"data": (5000, 64), "indices": Draw((2, 5000), 0, 64, whole=True)},
        shape=(64, 64, 64),
    ),
    "where": Case(
        "where",
        {"condition": Draw(IMAGE, 0, 2, whole=True), "x": IMAGE, "y": IMAGE},
        ("x", "y"),
    ),
    "SequenceMask": Case(
        "SequenceMask",
        {"data": (128, 32, 512), "length": Draw((32,), 1, 128, whole=True)},
        use_sequence_length=True,
    ),
    "SequenceReverse": Case(
        "SequenceReverse",
        {"data": (128, 32, 512), "length": Draw((32,), 1, 128, whole=True)},
        use_sequence_length=True,
    ),
    "SequenceLast": Case(
        "SequenceLast",
        {"data": (128, 32, 512), "length": Draw((32,), 1, 128, whole=True)},
        use_sequence_length=True,
    ),
    "argsort": Case("argsort", {"data": (64, 4000)}, (), axis=1, is_ascend=False),
    "sort": _one("sort", (64, 4000), axis=1),
    "topk": Case("topk", {"data": (64, 4000)}, (), k=10, axis=1),
    "argmax": Case("argmax", {"data": (512, 1000)}, (), axis=1),
    "argmax/channel": Case("argmax", {"data": (8, 21, 5000)}, (), axis=1),
    # -- sums and products
    "sum": _one("sum", SEQUENCE, axis=1),
    "sum/last": _one("sum", SEQUENCE, axis=2),
    "sum/all": _one("sum", SEQUENCE),
    "mean": _one("mean", SEQUENCE, axis=1),
    "max": _one("max", SEQUENCE, axis=1),
    "prod": _one("prod", SEQUENCE, axis=1),
    "norm": _one("norm", SEQUENCE, axis=2),
    "dot": _two("dot", (512, 512), (512, 512)),
    "batch_dot": _two("batch_dot", (96, 128, 64), (96, 128, 64), transpose_b=True),
    "linalg_potrf": Case("_linalg_potrf", {"A": Values(_POSITIVE)}),
    "linalg_trsm": Case("_linalg_trsm", {"A": Values(_POSITIVE), "B": (16, 128, 128)}, ("A", "B")),
    "linalg_trmm": Case("_linalg_trmm", {"A": Values(_POSITIVE), "B": (16, 128, 128)}, ("A", "B")),
    "linalg_inverse": Case("_linalg_inverse", {"A": Values(_POSITIVE)}),
    "linalg_det": Case("_linalg_det", {"A": Values(_POSITIVE)}),
    "linalg_gemm2": _two("_linalg_gemm2", (16, 128, 128), (16, 128, 128)),
    "khatri_rao": Case("khatri_rao", {"a": (64, 100), "b": (64, 100)}, (), num_args=2),
    "add_n": Case("add_n", {"a": IMAGE, "b": IMAGE, "c": IMAGE}, ("a", "b", "c"), num_args=3),
    # -- elements
    **{name: _two(name) for name in ("elemwise_add", "elemwise_sub", "elemwise_mul")},
    "elemwise_div": _two("elemwise_div", Draw(IMAGE, 1, 2)),
    **{
        f"broadcast_{name}": _two(f"broadcast_{name}", Draw((1, 64, 1, 1), 1, 2))
        for name in ("add", "sub", "mul", "div", "minimum", "maximum", "power")
    },
    "broadcast_mul/rows": _two("broadcast_mul", (32, 128, 1), SEQUENCE),
    "broadcast_add/last": _two("broadcast_add", (512,), SEQUENCE),
    **{
        f"broadcast_{name}": Case(f"broadcast_{name}", {"lhs": IMAGE, "rhs": (1, 64, 1, 1)}, ())
        for name in ("lesser", "not_equal")
    },
    **{
        name: _one(name, scalar=1.5)
        for name in (
            "_mul_scalar",
            "_plus_scalar",
            "_minus_scalar",
            "_rminus_scalar",
            "_div_scalar",
            "_maximum_scalar",
            "_minimum_scalar",
        )
    },
    **{
        name: Case(name, {"data": IMAGE}, (), scalar=0)
        for name in ("_greater_scalar", "_lesser_scalar", "_not_equal_scalar")
    },
    "_maximum": _two("_maximum"),
    "_minimum": _two("_minimum"),
    "_equal": Case("_equal", {"lhs": IMAGE, "rhs": IMAGE}, ()),
    "_power_scalar": _one("_power_scalar", Draw(IMAGE, 0.5, 2), scalar=2.0),
    "_rdiv_scalar": _one("_rdiv_scalar", Draw(IMAGE, 0.5, 2), scalar=2.0),
    **{
        name: _one(name, Draw(IMAGE, 0.1, 2))
        for name in (
            "relu",
            "sigmoid",
            "exp",
            "log",
            "sqrt",
            "square",
            "abs",
            "erf",
            "tanh",
            "rsqrt",
            "sin",
            "log1p",
            "gamma",
            "gammaln",
            "_copy",
            "BlockGrad",
            "negative",
        )
    },
    "erfinv": _one("erfinv", Draw(IMAGE, -0.9, 0.9)),
    "sign": _one("sign"),
    "floor": _one("floor"),
    "clip": _one("clip", a_min=0, a_max=6),
    "div_sqrt_dim": _one("_contrib_div_sqrt_dim", SEQUENCE),
    "hard_sigmoid": _one("hard_sigmoid"),
    "Cast": _one("Cast", dtype="float16"),
    "zeros_like": Case("zeros_like", {"data": IMAGE}, ()),
    "ones_like": Case("ones_like", {"data": IMAGE}, ()),
    "_arange": Case("_arange", {}, (), start=0, stop=100000),
}
"""By a name that begins with the operator's."""
