"""Operators on boxes: overlap, matching, encoding, decoding and suppression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...types import Array, DType, Shape, merge_dtypes, shape_size
from ..attributes import attribute
from ..operator import Operator, Reads, Run
from ..ordering import sorting_order
from ..precision import wide_backward, wide_forward
from ..registry import register
from .base import WithoutGradient
from .geometry import FORMATS, corners_of, overlap
from .suppression import Suppression

__all__ = ["BipartiteMatching", "BoxDecode", "BoxEncode", "BoxIoU", "BoxNMS"]

_INT32 = np.dtype("int32")


@register("_contrib_box_iou")
class BoxIoU(WithoutGradient):
    """Intersection over union of every box of one array with every box of another.

    For lhs (..., 4) and rhs (..., 4), the output has all dimensions of both except their last.
    """

    format: str = attribute("corner", choices=FORMATS, doc="what the four numbers of a box are")

    def input_names(self) -> tuple[str, ...]:
        return ("lhs", "rhs")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        joined: Shape = ()
        for i, name in enumerate(self.input_names()):
            shape = inputs[i]
            if shape is None:
                return inputs, outputs
            if len(shape) < 2 or shape[-1] not in (0, 4):
                raise ShapeError(f"{name} has shape {shape}; expected (..., 4)")
            inputs[i] = (*shape[:-1], 4)
            joined += shape[:-1]
        return inputs, [self.expect("output", outputs[0], joined)]

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        lhs, rhs = (corners_of(run.xp, x.reshape(-1, 4), self.format) for x in inputs)
        inside, union = overlap(run.xp, lhs[:, None], rhs)
        ratio = run.xp.where(inside > 0, inside / union, 0)
        outputs[0][...] = ratio.reshape(outputs[0].shape)


@register("_contrib_bipartite_matching")
class BipartiteMatching(WithoutGradient):
    """Match rows and columns of score matrices (..., rows, columns), the best pair first.

    The outputs (..., rows) and (..., columns) hold the matched column and row, or -1 if there is
    none. Pairs whose score is not beyond ``threshold`` are not matched. At most ``topk + 1`` pairs
    are matched (MXNet stops one pair late).
    """

    is_ascend: bool = attribute(False, doc="whether a smaller score is better")
    threshold: float = attribute(
        doc="scores of matched pairs are above it, or below it with is_ascend"
    )
    topk: int = attribute(-1, doc="maximum number of matches, minus 1; -1 for no limit")

    def output_names(self) -> tuple[str, ...]:
        return ("output0", "output1")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        if len(data) < 2:
            raise ShapeError(f"data has shape {data}; expected at least 2 dimensions")
        rows = self.expect("output0", outputs[0], data[:-1])
        columns = self.expect("output1", outputs[1], (*data[:-2], data[-1]))
        return inputs, [rows, columns]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, shape = run.xp, inputs[0].shape
        rows, columns = shape[-2:]
        worst = xp.inf if self.is_ascend else -xp.inf
        count = shape_size(shape[:-2])
        # A copy, because the scores of matched rows and columns are overwritten.
        scores = inputs[0].reshape(count, rows, columns).astype("float64")
        matches = [output.reshape(count, output.shape[-1]) for output in outputs]
        for match in matches:
            match.fill(-1)
        example = xp.arange(len(scores))
        limit = self.topk + 1 if self.topk > 0 else rows
        for _ in range(min(rows, columns, limit)):
            flat = scores.reshape(count, rows * columns)
            best = (xp.argmin if self.is_ascend else xp.argmax)(flat, axis=1)
            score = flat[example, best]
            is_good = score < self.threshold if self.is_ascend else score > self.threshold
            row, column = best // columns, best % columns
            for match, place, partner in ((matches[0], row, column), (matches[1], column, row)):
                match[example, place] = xp.where(is_good, partner, match[example, place])
            scores[example, row] = worst
            scores[example, :, column] = worst
        for match, output in zip(matches, outputs, strict=True):
            output[...] = match.reshape(output.shape)


@register("_contrib_box_encode")
class BoxEncode(WithoutGradient):
    """Training targets for anchors: the offsets from each anchor to its matched box.

    ``samples`` (batch, anchors) is 1 for anchors that count, and ``matches`` (batch, anchors) is
    the index of each anchor's box in ``refs`` (batch, boxes, 4); ``anchors`` is (batch, anchors,
    4). The outputs are the offsets, normalized by ``means`` (4,) and ``stds`` (4,), and the mask of
    the anchors that count, both (batch, anchors, 4).
    """

    def input_names(self) -> tuple[str, ...]:
        return ("samples", "matches", "anchors", "refs", "means", "stds")

    def output_names(self) -> tuple[str, ...]:
        return ("output0", "output1")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        samples = self.expect("samples", inputs[0], (0, 0))
        samples = self.expect("matches", inputs[1], samples)
        anchors = self.expect("anchors", inputs[2], (0, 0, 4))
        anchors = self.expect("anchors", anchors, (*samples, 4))
        refs = self.expect("refs", inputs[3], (anchors[0], 0, 4))
        means, stds = (
            self.expect(name, shape, (4,))
            for name, shape in zip(("means", "stds"), inputs[4:], strict=True)
        )
        found = [anchors[:2], anchors[:2], anchors, refs, means, stds]
        return [*found], [self.expect("output", output, anchors) for output in outputs]

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp = run.xp
        samples, matches, anchors, refs, means, stds = inputs
        example = xp.arange(len(refs))[:, None]
        boxes = refs[example, matches.astype("int64").clip(0, refs.shape[1] - 1)]
        sizes = anchors[..., 2:] - anchors[..., :2]
        middles = (anchors[..., 2:] + anchors[..., :2]) * 0.5
        shift = ((boxes[..., 2:] + boxes[..., :2]) * 0.5 - middles) / sizes
        growth = xp.log((boxes[..., 2:] - boxes[..., :2]) / sizes)
        counts = (samples > 0.5)[..., None]
        offsets = (xp.concatenate((shift, growth), axis=-1) - means) / stds
        outputs[0][...] = xp.where(counts, offsets, 0)
        outputs[1][...] = counts


@register("_contrib_box_decode")
class BoxDecode(WithoutGradient):
    """Convert predicted offsets to boxes (batch, anchors, 4), given by their corners.

    ``data`` (batch, anchors, 4) are offsets from ``anchors`` (1, anchors, 4), in units of ``std0``
    to ``std3``. If ``clip`` is above 0, it limits the logarithms of the growth in width and height.
    """

    std0: float = attribute(1.0, doc="factor of the offset along x")
    std1: float = attribute(1.0, doc="factor of the offset along y")
    std2: float = attribute(1.0, doc="factor of the logarithm of the width")
    std3: float = attribute(1.0, doc="factor of the logarithm of the height")
    clip: float = attribute(
        -1.0, doc="largest logarithm of the growth in size; below 0 for no limit"
    )
    format: str = attribute("center", choices=FORMATS, doc="what the four numbers of an anchor are")

    def input_names(self) -> tuple[str, ...]:
        return ("data", "anchors")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], outputs[0])
        data = self.expect("data", data, (0, 0, 4))
        anchors = self.expect("anchors", inputs[1], (1, data[1], 4))
        data = self.expect("data", data, (0, *anchors[1:]))
        return [data, anchors], [data]

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, out = run.xp, outputs[0]
        data, anchors = inputs
        first, second = anchors[..., :2], anchors[..., 2:]
        if self.format == "corner":
            sizes = second - first
            middles = first + sizes * 0.5
        else:
            sizes, middles = second, first
        stds = xp.asarray((self.std0, self.std1, self.std2, self.std3), dtype=data.dtype)
        offsets = data * stds
        growth = offsets[..., 2:]
        if self.clip > 0:
            growth = xp.minimum(growth, self.clip)
        halves = xp.exp(growth) * sizes * 0.5
        shifted = offsets[..., :2] * sizes + middles
        out[..., :2] = shifted - halves
        out[..., 2:] = shifted + halves


@register("_contrib_box_nms", "_contrib_box_non_maximum_suppression")
class BoxNMS(Operator):
    """Non-maximum suppression: the remaining boxes by descending score, followed by rows of -1.

    ``data`` is (..., boxes, numbers): four coordinates, a score and further numbers of each box.
    Boxes of class ``background_id`` and those whose score is not above ``valid_thresh`` are
    dropped, then all but the ``topk`` best. A box suppresses the boxes after it with which its
    intersection over union is above ``overlap_thresh``: those of its own class, or of any class
    with ``force_suppress``. A hidden second output holds the original index of each box.
    """

    overlap_thresh: float = attribute(
        0.5, doc="boxes that overlap a better one by more than this are removed"
    )
    valid_thresh: float = attribute(0.0, doc="boxes with this or a smaller score are dropped")
    topk: int = attribute(-1, doc="number of best boxes to consider; below 0 for all")
    coord_start: int = attribute(2, doc="index of the first of a box's four coordinates")
    score_index: int = attribute(1, doc="index of a box's score")
    id_index: int = attribute(-1, doc="index of a box's class; below 0 for none")
    background_id: int = attribute(-1, doc="the class of the boxes to drop")
    force_suppress: bool = attribute(
        False, doc="whether boxes suppress boxes of other classes, too"
    )
    in_format: str = attribute(
        "corner",
        choices=FORMATS,
        doc="meaning of the four coordinates: two corners, or center and size",
    )
    out_format: str = attribute("corner", choices=FORMATS, doc="the same for the output")

    def output_names(self) -> tuple[str, ...]:
        return ("output0", "output1")

    def visible_outputs(self) -> int:
        return 1

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], outputs[0])
        if data is None:
            return inputs, outputs
        if len(data) < 2:
            raise ShapeError(f"data has shape {data}; expected (..., boxes, numbers)")
        if data[-1]:
            self._check_indices(data[-1])
        return [data], [data, self.expect("output1", outputs[1], (*data[:-1], 1))]

    def _check_indices(self, width: int) -> None:
        expected = 6 if self.id_index >= 0 else 5
        if width < expected:
            raise ShapeError(f"data has {width} numbers per box; expected at least {expected}")
        coordinates = range(self.coord_start, self.coord_start + 4)
        if coordinates[0] < 0 or coordinates[-1] >= width:
            raise ShapeError(f"coord_start is {self.coord_start}; a box has {width} numbers")
        places = {"score_index": self.score_index}
        if self.id_index >= 0:
            places["id_index"] = self.id_index
        for name, place in places.items():
            if not 0 <= place < width or place in coordinates:
                raise ShapeError(
                    f"{name} is {place}; expected one of the {width} numbers of a box other than "
                    f"its coordinates {coordinates[0]} to {coordinates[-1]}"
                )
        if self.id_index == self.score_index:
            raise ShapeError(f"id_index and score_index are both {self.id_index}")

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        common = merge_dtypes(inputs[0], outputs[0])
        return [common], [common, _INT32]

    def backward_reads(self) -> Reads:
        return Reads(outputs=(1,))

    # -- arithmetic -------------------------------------------------------------------------

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        count, width = inputs[0].shape[-2:]
        data = inputs[0].reshape(shape_size(inputs[0].shape[:-2]), count, width)
        if self.topk == 0:  # As in MXNet, nothing is suppressed then.
            run.xp.copyto(outputs[0], inputs[0])
            outputs[1].reshape(len(data), count)[...] = run.xp.arange(count)
            return
        out = run.scratch(data.shape, data.dtype)
        origins = run.scratch(data.shape[:2], _INT32)
        out.fill(-1)
        origins.fill(-1)
        for boxes, target, origin in zip(data, out, origins, strict=True):
            chosen = self._choose(run, boxes)
            target[: len(chosen)] = boxes[chosen]
            origin[: len(chosen)] = chosen
        if self.in_format != self.out_format:
            self._convert(run.xp, out[..., self.coord_start : self.coord_start + 4])
        outputs[0][...] = out.reshape(outputs[0].shape)
        outputs[1][...] = origins.reshape(outputs[1].shape)

    def _choose(self, run: Run, boxes: Array) -> Array:
        """Return the indices of the boxes that remain, by descending score."""
        xp, scores = run.xp, boxes[:, self.score_index]
        is_valid = scores > self.valid_thresh
        ids = boxes[:, self.id_index].astype("int64") if self.id_index >= 0 else None
        if ids is not None:
            is_valid &= boxes[:, self.id_index] != self.background_id
        order = sorting_order(run, scores, 0, False)
        order = order[is_valid[order]]
        if self.topk > 0:
            order = order[: self.topk]
        boxes = boxes[order]
        corners = corners_of(xp, boxes[:, self.coord_start : self.coord_start + 4], self.in_format)
        classes = None if ids is None or self.force_suppress else ids[order]
        return order[Suppression.of(run, self.overlap_thresh).stays(corners, classes)]

    def _convert(self, xp: Any, boxes: Array) -> None:
        """Convert the boxes' format in place; like MXNet, skip boxes whose first coordinate is
        negative."""
        first, second = boxes[..., :2], boxes[..., 2:]
        if self.out_format == "center":
            converted = ((first + second) / 2, second - first)
        else:
            half = second / 2
            converted = (first - half, first + half)
        is_left = boxes[..., :1] < 0
        boxes[...] = xp.where(is_left, boxes, xp.concatenate(converted, axis=-1))

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp, grad, data_grad = run.xp, out_grads[0], in_grads[0]
        assert data_grad is not None
        count, width = grad.shape[-2:]
        origins = outputs[1].reshape(shape_size(outputs[1].shape[:-2]), count)
        example, place = xp.nonzero(origins >= 0)
        target = run.scratch((len(origins), count, width), grad.dtype)
        target.fill(0)
        target[example, origins[example, place]] = grad.reshape(target.shape)[example, place]
        data_grad[...] = target.reshape(data_grad.shape)
