"""Region proposals. Few boxes are too small: MXNet does not define the order of equal scores."""

from __future__ import annotations

from typing import Any

from oracle.case import Case, normal, permutation, values


def _case(
    name: str, op: str, images: int = 1, size: tuple[int, int] = (4, 5), **attrs: Any
) -> Case:
    attrs = {"scales": (2, 4), "ratios": (0.5, 1, 2), "rpn_min_size": 0, **attrs}
    anchors = len(attrs["scales"]) * len(attrs["ratios"])
    rows, columns = size
    info = [[rows * 16 - 3 * i, columns * 16 + 5 * i, 1 + i / 2] for i in range(images)]
    return Case(
        name,
        f"_contrib_{op}",
        attrs,
        {
            "cls_prob": permutation(images, 2 * anchors, rows, columns, step=0.001),
            "bbox_pred": normal(images, 4 * anchors, rows, columns, scale=0.3),
            "im_info": values(info),
        },
        grads=False,
    )


CASES = (
    _case("default", "Proposal", rpn_post_nms_top_n=20),
    _case("score", "Proposal", rpn_post_nms_top_n=15, output_score=True, threshold=0.5),
    _case("pre_nms", "Proposal", rpn_pre_nms_top_n=10, rpn_post_nms_top_n=12, output_score=True),
    _case("few", "Proposal", rpn_post_nms_top_n=40, threshold=0.2, output_score=True),
    _case("min_size", "Proposal", rpn_min_size=20, rpn_post_nms_top_n=8, output_score=True),
    _case("iou_loss", "Proposal", iou_loss=True, rpn_post_nms_top_n=10),
    _case("stride", "Proposal", feature_stride=17, scales=(3,), rpn_post_nms_top_n=10),
    _case("images", "MultiProposal", 3, rpn_post_nms_top_n=12, output_score=True),
    _case("images_hidden", "MultiProposal", 2, rpn_post_nms_top_n=9),
)
