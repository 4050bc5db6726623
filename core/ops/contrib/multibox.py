"""Single-shot detection: default boxes, their training targets, and decoding into detections.

Liu et al., "SSD: Single Shot MultiBox Detector", 2016. Boxes are (left, top, right, bottom) as
fractions of the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import AttributeValueError, MXNetError, ShapeError
from ...types import Array, Shape
from ..attributes import attribute
from ..operator import Run
from ..ordering import leading_order
from ..precision import wide_forward
from ..registry import register
from .base import WithoutGradient
from .geometry import Corners, overlap
from .suppression import Suppression

__all__ = ["MultiBoxDetection", "MultiBoxPrior", "MultiBoxTarget"]

_VARIANCES = (0.1, 0.1, 0.2, 0.2)
"""Those of the authors' SSD: of the center's offsets, and of the logarithms of the growth."""


def _check_length(name: str, value: Sequence[float], length: int) -> None:
    if len(value) != length:
        raise AttributeValueError(f"{name} is {value}; expected {length} numbers")


def _sides(xp: Any, boxes: Array) -> Corners:
    """Return the sides of boxes (..., 4); unlike in ``corners_of``, areas may be negative.

    MXNet computes areas so in the operators of this module.
    """
    left, top, right, bottom = (xp.ascontiguousarray(boxes[..., i]) for i in range(4))
    return Corners(left, top, right, bottom, (right - left) * (bottom - top))


@register("_contrib_MultiBoxPrior", "MultiBoxPrior")
class MultiBoxPrior(WithoutGradient):
    """The default boxes of a feature map (batch, channels, height, width).

    Every position has a box with the first ratio for each of ``sizes`` (fractions of the image's
    height), and a box with the first size for each other ratio. The output is (1, height · width ·
    boxes, 4).
    """

    names_outputs: ClassVar[bool] = True

    sizes: tuple[float, ...] = attribute((1.0,), doc="sizes of boxes, as fractions of the image")
    ratios: tuple[float, ...] = attribute((1.0,), doc="ratios of width to height")
    clip: bool = attribute(False, doc="whether boxes are clipped to the image")
    steps: tuple[float, ...] = attribute(
        (-1.0, -1.0), doc="distance between positions, down and right; -1 for the map's own"
    )
    offsets: tuple[float, ...] = attribute(
        (0.5, 0.5),
        minimum=0,
        maximum=1,
        doc="offset of the first position, down and right, in steps",
    )

    def __post_init__(self) -> None:
        _check_length("steps", self.steps, 2)
        _check_length("offsets", self.offsets, 2)
        if not self.sizes or not self.ratios:
            raise AttributeValueError("sizes and ratios need one number at least")
        if self.steps[0] * self.steps[1] < 0:
            raise AttributeValueError(f"steps is {self.steps}; expected both or none above 0")
        if min(self.ratios) <= 0:
            raise AttributeValueError(f"ratios is {self.ratios}; expected numbers above 0")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        if len(data) < 4:
            raise ShapeError(f"data has shape {data}; expected (batch, channels, height, width)")
        boxes = data[2] * data[3] * (len(self.sizes) + len(self.ratios) - 1)
        return inputs, [self.expect("output", outputs[0], (1, boxes, 4))]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        # Everything is computed in float32 and in MXNet's order: otherwise ties between overlaps
        # with an object are broken differently.
        xp, (height, width) = run.xp, map(np.float32, inputs[0].shape[2:4])
        step_y, step_x = map(np.float32, self.steps)
        if step_y <= 0 or step_x <= 0:
            step_y, step_x = 1 / height, 1 / width
        sizes = [np.float32(size) for size in self.sizes]
        roots = [np.sqrt(np.float32(ratio)) for ratio in self.ratios]
        kinds = [(size, roots[0]) for size in sizes] + [(sizes[0], root) for root in roots[1:]]
        halves = [(size * height / width * root / 2, size / root / 2) for size, root in kinds]
        half = xp.asarray(halves, dtype="float32")
        columns, rows = (xp.arange(int(count), dtype="float32") for count in (width, height))
        across = (columns + np.float32(self.offsets[1])) * step_x
        down = (rows + np.float32(self.offsets[0])) * step_y
        # A side of a box depends on its column or its row only, so that broadcasting does the rest.
        wide, tall = (
            xp.zeros((len(at), len(half), 2, 2), dtype="float32") for at in (across, down)
        )
        for i, (centers, sides) in enumerate(((across, wide), (down, tall))):
            xp.subtract(centers[:, None], half[:, i], out=sides[:, :, 0, i])
            xp.add(centers[:, None], half[:, i], out=sides[:, :, 1, i])
        boxes = tall.reshape(len(down), 1, -1) + wide.reshape(len(across), -1)
        if self.clip:
            xp.clip(boxes, 0, 1, out=boxes)
        outputs[0][...] = boxes.reshape(outputs[0].shape)


@register("_contrib_MultiBoxTarget", "MultiBoxTarget")
class MultiBoxTarget(WithoutGradient):
    """Training targets of a detector for each default box.

    ``anchor`` is (1, anchors, 4); ``label`` is (batch, objects, 5 or more): class, box and optional
    further numbers; an object of class -1 ends the list; ``cls_pred`` is (batch, classes, anchors)
    with the background first.

    Each object is matched with the free anchor that it overlaps most; the remaining anchors are
    matched with their best object if the overlap is above ``overlap_threshold``. If
    ``negative_mining_ratio`` is above 0, that many times the number of positive anchors become
    background (hard negative mining): of the anchors whose overlap is below
    ``negative_mining_thresh``, those with the smallest predicted probability of background. The
    others are ignored.

    Outputs: offsets and their mask (batch, anchors · 4), classes (batch, anchors) with 0 for the
    background. ``minimum_negative_samples`` has no effect, as in MXNet.
    """

    names_outputs: ClassVar[bool] = True

    overlap_threshold: float = attribute(0.5, doc="overlap above which an anchor is matched")
    ignore_label: float = attribute(-1.0, doc="class of the ignored anchors")
    negative_mining_ratio: float = attribute(
        -1.0, doc="negative anchors for each positive one; 0 or less for all"
    )
    negative_mining_thresh: float = attribute(0.5, doc="negative anchors overlap less than this")
    minimum_negative_samples: int = attribute(0, doc="has no effect")
    variances: tuple[float, ...] = attribute(_VARIANCES, doc="divisors of the four offsets")

    def __post_init__(self) -> None:
        _check_length("variances", self.variances, 4)
        if self.negative_mining_ratio > 0 >= self.negative_mining_thresh:
            raise AttributeValueError(
                f"negative_mining_thresh is {self.negative_mining_thresh}; expected above 0"
            )

    def input_names(self) -> tuple[str, ...]:
        return ("anchor", "label", "cls_pred")

    def output_names(self) -> tuple[str, ...]:
        return ("loc_target", "loc_mask", "cls_target")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        anchor = self.expect("anchor", inputs[0], (1, 0, 4))
        label = self.expect("label", inputs[1], (0, 0, 0))
        if 0 < label[2] < 5:
            raise ShapeError(f"label has {label[2]} numbers per object; expected 5: class and box")
        predicted = self.expect("cls_pred", inputs[2], (label[0], 0, anchor[1]))
        anchor, label = (1, predicted[2], 4), (predicted[0], *label[1:])
        offsets = (label[0], anchor[1] * 4)
        found = (offsets, offsets, (label[0], anchor[1]))
        return [anchor, label, predicted], [
            self.expect(name, output, shape)
            for name, output, shape in zip(self.output_names(), outputs, found, strict=True)
        ]

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        anchors, labels, predictions = inputs
        offsets, mask, classes = outputs
        offsets.fill(0)
        mask.fill(0)
        classes.fill(self.ignore_label)
        places = anchors[0]
        for i, label in enumerate(labels):
            ends = run.xp.nonzero(label[:, 0] == -1)[0]
            objects = label[: int(ends[0])] if ends.size else label
            # As in MXNet, an image without objects trains nothing: all its anchors are ignored.
            if len(objects):
                shape = (len(places), 4)
                found = self._assign(run.xp, places, objects, predictions[i], classes[i])
                positive, matched = found
                mask[i].reshape(shape)[positive] = 1
                boxes = objects[matched, 1:5]
                offsets[i].reshape(shape)[positive] = self._encode(run.xp, places[positive], boxes)

    def _assign(
        self, xp: Any, anchors: Array, objects: Array, predictions: Array, classes: Array
    ) -> tuple[Array, Array]:
        """Write the classes; return the positive anchors and their objects."""
        inside, union = overlap(xp, _sides(xp, anchors)[:, None], _sides(xp, objects[:, 1:5]))
        overlaps = xp.where(union == 0, 0, inside / union)
        match = _match_one_each(xp, overlaps)
        best, nearest = overlaps.max(axis=1), overlaps.argmax(axis=1)
        if self.overlap_threshold > 0:
            match = xp.where((match < 0) & (best > self.overlap_threshold), nearest, match)
        is_positive = match >= 0
        positive = xp.nonzero(is_positive)[0]
        if self.negative_mining_ratio > 0:
            candidates = xp.nonzero(~is_positive & (best < self.negative_mining_thresh))[0]
            classes[self._mine(xp, predictions, candidates, len(positive))] = 0
        else:
            classes[~is_positive] = 0
        classes[positive] = objects[match[positive], 0] + 1
        return positive, match[positive]

    def _mine(self, xp: Any, predictions: Array, candidates: Array, positive: int) -> Array:
        """Return the hardest negatives: those with the smallest probability of background."""
        anchors = predictions.shape[1]
        count = min(int(positive * self.negative_mining_ratio), anchors - positive)
        if count > len(candidates):
            raise MXNetError(
                f"MultiBoxTarget: {count} negative anchors are wanted, but only {len(candidates)} "
                f"overlap no object by negative_mining_thresh {self.negative_mining_thresh}; "
                f"lower negative_mining_ratio or raise the threshold"
            )
        if not count:
            return candidates[:0]
        scores = predictions[:, candidates]
        scores = xp.exp(scores - scores.max(axis=0))
        background = scores[0] / scores.sum(axis=0)
        return candidates[xp.argsort(background, kind="stable")[:count]]

    def _encode(self, xp: Any, anchors: Array, boxes: Array) -> Array:
        """Return the offsets from anchors to boxes, both (n, 4)."""
        sizes, goals = (x[:, 2:] - x[:, :2] for x in (anchors, boxes))
        middles, aims = ((x[:, :2] + x[:, 2:]) * 0.5 for x in (anchors, boxes))
        variances = xp.asarray(self.variances, dtype=anchors.dtype)
        offsets = xp.concatenate(((aims - middles) / sizes, xp.log(goals / sizes)), axis=1)
        return offsets / variances


def _match_one_each(xp: Any, overlaps: Array) -> Array:
    """Match pairs greedily by overlap; return the object of each anchor, or -1."""
    left = overlaps.copy()
    match = xp.full(len(left), -1, dtype="int64")
    for _ in range(min(left.shape)):
        anchor, target = divmod(int(left.argmax()), left.shape[1])
        if not float(left[anchor, target]) > 1e-6:  # MXNet's bound; NaN ends the matching, too.
            break
        match[anchor] = target
        left[anchor] = -1
        left[:, target] = -1
    return match


def _best_classes(xp: Any, probabilities: Array) -> tuple[Array, Array]:
    """Return the largest probability of each box and its class, given (batch, classes, boxes).

    The loops run over classes, whose probabilities are contiguous. NaN is ignored, as in MXNet.
    """
    best = xp.full_like(probabilities[:, 0], -1)
    count = probabilities.shape[1]
    for number in range(count):
        xp.fmax(best, probabilities[:, number], out=best)
    # The first of equally probable classes has the most classes behind it, so it wins the maximum.
    behind = xp.zeros(best.shape, dtype="int32")
    for number in range(count):
        is_best = (probabilities[:, number] == best).astype("int32")
        xp.maximum(behind, is_best * (count - number), out=behind)
    return best, count - behind.astype("int64")


@register("_contrib_MultiBoxDetection", "MultiBoxDetection")
class MultiBoxDetection(WithoutGradient):
    """Decode predictions for default boxes into detections.

    ``cls_prob`` is (batch, classes, anchors) with the background first; ``loc_pred`` (batch,
    anchors · 4) are offsets from ``anchor`` (1, anchors, 4). The output (batch, anchors, 6) has
    rows of class, probability and box, by descending probability; class -1 marks suppressed and
    unused rows. As in MXNet, all but the ``nms_topk`` best are suppressed, and ``background_id``
    has no effect.
    """

    names_outputs: ClassVar[bool] = True

    clip: bool = attribute(True, doc="whether boxes are clipped to the image")
    threshold: float = attribute(0.01, doc="smallest probability of a detection")
    background_id: int = attribute(0, doc="the class that is background")
    nms_threshold: float = attribute(
        0.5, doc="overlap from which boxes are suppressed; no suppression if outside (0, 1]"
    )
    force_suppress: bool = attribute(
        False, doc="whether boxes suppress boxes of other classes, too"
    )
    variances: tuple[float, ...] = attribute(_VARIANCES, doc="divisors of the four offsets")
    nms_topk: int = attribute(-1, doc="number of best boxes to keep; -1 for all")

    def __post_init__(self) -> None:
        _check_length("variances", self.variances, 4)

    def input_names(self) -> tuple[str, ...]:
        return ("cls_prob", "loc_pred", "anchor")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        probability = self.expect("cls_prob", inputs[0], (0, 0, 0))
        anchor = self.expect("anchor", inputs[2], (1, 0, 4))
        probability = self.expect("cls_prob", probability, (0, 0, anchor[1] if anchor else 0))
        batch, _, count = probability
        offsets = self.expect("loc_pred", inputs[1], (batch, count * 4))
        output = self.expect("output", outputs[0], (batch, count, 6))
        return [probability, offsets, (1, count, 4)], [output]

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, probabilities = run.xp, inputs[0]
        offsets = inputs[1].reshape(len(probabilities), inputs[2].shape[1], 4)
        boxes = self._decode(xp, offsets, inputs[2][0])
        outputs[0].fill(-1)
        if probabilities.shape[1] < 2:
            return
        best, classes = _best_classes(xp, probabilities[:, 1:])
        for i, out in enumerate(outputs[0]):
            # -1 where all probabilities are NaN.
            found = xp.nonzero((best[i] >= self.threshold) & (best[i] > -1))[0]
            rows = xp.concatenate(
                (
                    classes[i][found][:, None].astype(out.dtype),
                    best[i][found][:, None],
                    boxes[i][found],
                ),
                axis=1,
            )
            out[: len(found)] = self._suppress(run, rows)

    def _decode(self, xp: Any, offsets: Array, anchors: Array) -> Array:
        variances = xp.asarray(self.variances, dtype=anchors.dtype)
        sizes = anchors[:, 2:] - anchors[:, :2]
        middles = (anchors[:, :2] + anchors[:, 2:]) / 2
        middles = offsets[..., :2] * variances[:2] * sizes + middles
        halves = xp.exp(offsets[..., 2:] * variances[2:]) * sizes / 2
        boxes = xp.concatenate((middles - halves, middles + halves), axis=-1)
        return xp.clip(boxes, 0, 1) if self.clip else boxes

    def _suppress(self, run: Run, rows: Array) -> Array:
        """Return the rows sorted by probability, suppressed ones with class -1."""
        if not len(rows) or not 0 < self.nms_threshold <= 1:
            return rows
        count = min(self.nms_topk, len(rows)) if self.nms_topk > 0 else len(rows)
        order = leading_order(run, rows[:, 1], 0, False, count)
        best = rows[order]
        classes = None if self.force_suppress else best[:, 0].astype("int64")
        suppression = Suppression.of(run, self.nms_threshold, includes_threshold=True)
        best[~suppression.stays(_sides(run.xp, best[:, 2:]), classes), 0] = -1
        found = rows.copy()
        found[:, 0] = -1
        found[: len(order)] = best
        return found
