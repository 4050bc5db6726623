"""Region proposals (Ren et al., "Faster R-CNN", 2015). Boxes include the pixels at both ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ...errors import AttributeValueError, MXNetError, ShapeError
from ...types import Array, Shape
from ..attributes import attribute
from ..operator import Run
from ..ordering import leading_order
from ..precision import wide_forward
from ..registry import declares_attributes, register
from .base import WithoutGradient
from .geometry import Corners
from .suppression import Suppression

__all__ = ["MultiProposal", "Proposal"]


@declares_attributes
class _Proposal(WithoutGradient):
    rpn_pre_nms_top_n: int = attribute(
        6000, doc="number of best boxes to consider; 0 or less for all"
    )
    rpn_post_nms_top_n: int = attribute(
        300, minimum=1, doc="number of regions to propose for each image"
    )
    threshold: float = attribute(0.7, doc="overlap above which a box is suppressed")
    rpn_min_size: int = attribute(16, doc="least width and height, in pixels of the first image")
    scales: tuple[float, ...] = attribute(
        (4.0, 8.0, 16.0, 32.0), doc="sizes of the anchors, in strides"
    )
    ratios: tuple[float, ...] = attribute((0.5, 1.0, 2.0), doc="ratios of height to width")
    feature_stride: int = attribute(16, minimum=1, doc="distance between positions, in pixels")
    output_score: bool = attribute(False, doc="whether the scores are an output, too")
    iou_loss: bool = attribute(
        False, doc="whether bbox_pred holds offsets of the corners instead of center and size"
    )

    def __post_init__(self) -> None:
        for name, values in (("scales", self.scales), ("ratios", self.ratios)):
            if not values or min(values) <= 0:
                raise AttributeValueError(f"{name} is {values}; expected numbers above 0")

    def input_names(self) -> tuple[str, ...]:
        return ("cls_prob", "bbox_pred", "im_info")

    def output_names(self) -> tuple[str, ...]:
        return ("output", "score")

    def visible_outputs(self) -> int:
        return 2 if self.output_score else 1

    def regions(self, images: int) -> int:
        """Return the number of regions proposed for this many images."""
        return self.rpn_post_nms_top_n * images

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        scores = self.expect("cls_prob", inputs[0], (0, 0, 0, 0))
        anchors = len(self.scales) * len(self.ratios)
        if scores[1] not in (0, 2 * anchors):
            raise ShapeError(
                f"cls_prob has {scores[1]} channels; expected two for each of {anchors} anchors"
            )
        deltas = self.expect("bbox_pred", inputs[1], (scores[0], 4 * anchors, *scores[2:]))
        info = self.expect("im_info", inputs[2], (scores[0], 3))
        scores = (deltas[0], 2 * anchors, *deltas[2:])
        count = self.regions(scores[0])
        output = self.expect("output", outputs[0], (count, 5))
        return [scores, deltas, info], [output, self.expect("score", outputs[1], (count, 1))]

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        scores, deltas, info = inputs
        count = self.rpn_post_nms_top_n
        anchors = self._anchors(run.xp, scores.shape[2:], scores.dtype)
        for i, image in enumerate(info.tolist()):
            target = slice(i * count, (i + 1) * count)
            boxes, best = self._propose(run, anchors, scores[i], deltas[i], image)
            outputs[0][target, 0] = i
            outputs[0][target, 1:] = boxes
            outputs[1][target, 0] = best

    def _anchors(self, xp: Any, places: Shape, dtype: Any) -> Array:
        """Return the boxes that predictions are relative to, (height, width, anchors, 4)."""
        # As in the authors' generate_anchors: boxes around the middle of the first stride, whose
        # sides are rounded before they are scaled.
        stride = self.feature_stride
        middle = 0.5 * (stride - 1)
        sizes = []
        for ratio in self.ratios:
            width = math.floor(math.sqrt(math.floor(stride * stride / ratio)) + 0.5)
            height = math.floor(width * ratio + 0.5)
            sizes += [(width * scale, height * scale) for scale in self.scales]
        half = (xp.asarray(sizes, dtype=dtype) - 1) * 0.5
        base = xp.concatenate((middle - half, middle + half), axis=1)
        shifts = xp.zeros((*places, 1, 4), dtype=dtype)
        shifts[..., ::2] = (xp.arange(places[1]) * stride)[:, None, None]
        shifts[..., 1::2] = (xp.arange(places[0]) * stride)[:, None, None, None]
        return base + shifts

    def _propose(
        self, run: Run, anchors: Array, scores: Array, deltas: Array, image: list[float]
    ) -> tuple[Array, Array]:
        """Return boxes and scores of one image; if there are too few, they repeat from the
        first."""
        xp, (rows, columns, count, _) = run.xp, anchors.shape
        deltas = deltas.reshape(count, 4, rows, columns).transpose(2, 3, 0, 1)
        boxes = self._apply(xp, anchors, deltas)
        height, width, scale = image
        xp.clip(boxes[..., ::2], 0, width - 1, out=boxes[..., ::2])
        xp.clip(boxes[..., 1::2], 0, height - 1, out=boxes[..., 1::2])
        best = scores[count:].transpose(1, 2, 0).copy()
        # Places in the padding that makes all images of the batch equally large.
        real = [int(size / self.feature_stride) for size in (height, width)]
        if real[0] > rows or real[1] > columns:
            raise MXNetError(
                f"{self.names[0]}: im_info says {height:g} by {width:g} pixels, but cls_prob has "
                f"{rows} by {columns} positions of feature_stride {self.feature_stride}"
            )
        best[real[0] :] = -1
        best[:, real[1] :] = -1
        boxes, best = boxes.reshape(-1, 4), best.reshape(-1)
        least = self.rpn_min_size * scale
        small = ((boxes[:, 2:] - boxes[:, :2] + 1) < least).any(axis=1)
        best[small] = -1
        # As in MXNet, a box that is too small is enlarged; it comes last, if at all.
        grown = boxes[small]
        grown[:, :2] -= least / 2
        grown[:, 2:] += least / 2
        boxes[small] = grown
        return self._suppress(run, boxes, best)

    def _apply(self, xp: Any, anchors: Array, deltas: Array) -> Array:
        if self.iou_loss:
            return anchors + deltas
        sizes = anchors[..., 2:] - anchors[..., :2] + 1
        middles = anchors[..., :2] + 0.5 * (sizes - 1)
        middles = deltas[..., :2] * sizes + middles
        half = 0.5 * (xp.exp(deltas[..., 2:]) * sizes - 1)
        return xp.concatenate((middles - half, middles + half), axis=-1)

    def _suppress(self, run: Run, boxes: Array, scores: Array) -> tuple[Array, Array]:
        xp = run.xp
        count = self.rpn_pre_nms_top_n if self.rpn_pre_nms_top_n > 0 else len(scores)
        order = leading_order(run, scores, 0, False, min(count, len(scores)))
        boxes, scores = boxes[order], scores[order]
        left, top, right, bottom = (xp.ascontiguousarray(boxes[:, i]) for i in range(4))
        right, bottom = right + 1, bottom + 1  # The pixels at both ends count.
        corners = Corners(left, top, right, bottom, (right - left) * (bottom - top))
        most = self.rpn_post_nms_top_n
        stays = Suppression.of(run, self.threshold).stays(corners, most=most)
        found = xp.nonzero(stays)[0][:most]
        again = found[xp.arange(self.rpn_post_nms_top_n) % len(found)]
        return boxes[again], scores[again]


@register("_contrib_Proposal")
class Proposal(_Proposal):
    """Propose regions for one image.

    ``cls_prob`` is (1, 2 · anchors, height, width), background probabilities first; ``bbox_pred``
    is (1, 4 · anchors, height, width); ``im_info`` (1, 3) holds the image's height, width and
    scale. The output (regions, 5) has rows of 0, left, top, right, bottom; the optional scores are
    (regions, 1).
    """

    names_outputs: ClassVar[bool] = True

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        inputs, outputs = super().infer_shape(inputs, outputs)
        assert inputs[0] is not None
        if inputs[0][0] > 1:
            raise ShapeError(
                f"cls_prob has {inputs[0][0]} images; use MultiProposal for more than 1"
            )
        return inputs, outputs

    def regions(self, images: int) -> int:
        return self.rpn_post_nms_top_n


@register("_contrib_MultiProposal")
class MultiProposal(_Proposal):
    """Propose regions for each of several images, like ``Proposal``.

    The first axis of all inputs is the batch; the first number of a region is its image's index.
    """

    names_outputs: ClassVar[bool] = True
