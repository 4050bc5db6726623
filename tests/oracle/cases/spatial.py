"""Sampling images along grids."""

from __future__ import annotations

from typing import Any

from oracle.case import Case, normal, uniform, values

_MATRICES = values(
    [
        [0.8317, 0.3129, 0.1137, -0.2311, 0.9139, -0.3719],
        [1.5117, 0.1313, 0.0217, 0.2113, -1.1733, 0.4317],
    ]
)
_INSIDE = values(
    [
        [0.5317, 0.2129, 0.1137, -0.2311, 0.4139, -0.3119],
        [0.7117, 0.1313, 0.0217, 0.1713, -0.6133, 0.0917],
    ]
)
_IDENTITY = values([[1, 0, 0, 0, 1, 0], [2, 0, 0, 0, 2, 0]])
_AFFINE = {"transform_type": "affine"}


def _transformer(name: str, loc: Any, shape: tuple[int, int], **facts: Any) -> Case:
    attrs = {**_AFFINE, "sampler_type": "bilinear", "target_shape": shape}
    data = {"data": normal(2, 3, 5, 6), "loc": loc}
    return Case(f"transformer_{name}", "SpatialTransformer", attrs, data, **facts)


CASES = (
    Case("grid_affine", "GridGenerator", {**_AFFINE, "target_shape": (4, 5)}, {"data": _MATRICES}),
    Case("grid_warp", "GridGenerator", {"transform_type": "warp"}, {"data": (2, 2, 4, 5)}),
    Case(
        "sampler",
        "BilinearSampler",
        {},
        {"data": (2, 3, 5, 6), "grid": uniform(2, 2, 4, 3, low=-1)},
    ),
    Case(
        "sampler_outside",
        "BilinearSampler",
        {},
        {"data": (2, 3, 5, 6), "grid": uniform(2, 2, 6, 7, low=-2, high=2)},
    ),
    Case(
        "sampler_on_elements",
        "BilinearSampler",
        {},
        {"data": (1, 2, 3, 5), "grid": values([[[[-1, 0.5, 1]], [[-1, 0, 1]]]])},
        numeric=False,
    ),
    _transformer("inside", _INSIDE, (4, 5)),
    _transformer("larger", _INSIDE, (7, 8)),
    _transformer("outside", _MATRICES, (4, 5)),
    _transformer("identity", _IDENTITY, (5, 6), numeric=False),
)
