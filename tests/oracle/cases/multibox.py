"""Single-shot detection."""

from __future__ import annotations

from typing import Any

import numpy as np

from oracle.case import Case, Spec, normal, values

_RANDOM = np.random.RandomState(3)


def _anchors(count: int) -> Spec:
    first = _RANDOM.uniform(0, 0.7, size=(1, count, 2))
    sizes = _RANDOM.uniform(0.1, 0.5, size=(1, count, 2))
    return values(np.concatenate((first, first + sizes), axis=-1).round(4).tolist())


def _objects(*counts: int, most: int = 4, width: int = 5) -> Spec:
    labels = np.full((len(counts), most, width), -1.0)
    for label, count in zip(labels, counts, strict=True):
        first = _RANDOM.uniform(0, 0.6, size=(count, 2))
        label[:count, 0] = _RANDOM.randint(0, 3, size=count)
        label[:count, 1:3] = first
        label[:count, 3:5] = first + _RANDOM.uniform(0.1, 0.4, size=(count, 2))
    return values(labels.round(4).tolist())


def _prior(name: str, height: int = 3, width: int = 4, **attrs: Any) -> Case:
    data = {"data": (1, 2, height, width)}
    # Exact values, so that boxes with equal overlap tie here, too.
    return Case(f"prior_{name}", "_contrib_MultiBoxPrior", attrs, data, numeric=False, tolerance=0)


def _target(name: str, objects: Spec, anchors: int = 30, **attrs: Any) -> Case:
    inputs = {
        "anchor": _anchors(anchors),
        "label": objects,
        "cls_pred": normal(objects.shape[0], 4, anchors),
    }
    return Case(f"target_{name}", "_contrib_MultiBoxTarget", attrs, inputs, grads=False)


def _detection(name: str, anchors: int = 24, classes: int = 4, **attrs: Any) -> Case:
    probabilities = _RANDOM.dirichlet([0.3] * classes, size=(2, anchors)).transpose(0, 2, 1)
    inputs = {
        "cls_prob": values(probabilities.round(4).tolist()),
        "loc_pred": normal(2, anchors * 4, scale=0.5),
        "anchor": _anchors(anchors),
    }
    return Case(f"detection_{name}", "_contrib_MultiBoxDetection", attrs, inputs, grads=False)


_MINING = {"negative_mining_ratio": 3, "minimum_negative_samples": 2}

CASES = (
    _prior("default"),
    _prior("sizes", sizes=(0.2, 0.276), ratios=(1, 2, 0.5, 3, 0.333333)),
    _prior("first_ratio", 1, 2, sizes=(0.2, 0.3), ratios=(2, 1, 0.5)),
    _prior("many_places", 10, 7, sizes=(0.37, 0.447), ratios=(1, 2, 0.5, 3, 0.333333)),
    _prior("clip", sizes=(0.9, 0.95), ratios=(1, 2, 0.5), clip=True),
    _prior("steps", steps=(0.1, 0.2), offsets=(0.3, 0.7), sizes=(0.4,)),
    _prior("no_steps", steps=(0.0, 0.0), sizes=(0.4,)),
    _target("default", _objects(3, 1)),
    _target("wide", _objects(2, 4, width=7), overlap_threshold=0.3),
    _target("no_objects", _objects(0, 2), ignore_label=-2),
    _target("mining", _objects(3, 1, 2), 60, **_MINING),
    _target("mining_thresh", _objects(2, 2), 60, negative_mining_thresh=0.2, **_MINING),
    _target("no_threshold", _objects(3, 2), 40, overlap_threshold=0, **_MINING),
    _target("variances", _objects(2, 2), variances=(0.2, 0.3, 0.4, 0.5), ignore_label=7),
    _target("few_anchors", _objects(4, 4), 3),
    _detection("default"),
    _detection("force", force_suppress=True, nms_threshold=0.3),
    _detection("topk", nms_topk=6, nms_threshold=0.4),
    _detection("unclipped", clip=False, threshold=0.4),
    _detection("no_nms", nms_threshold=0.0),
    _detection("all_overlaps", nms_threshold=1.0, variances=(0.2, 0.3, 0.4, 0.5)),
    _detection("two_classes", classes=2, background_id=1),
    _detection("nothing", threshold=2.0),
)
