"""Pooling_v1, MXNet's first version."""

from __future__ import annotations

from typing import Any

from oracle.case import Case, integers, permutation


def _case(name: str, **attrs: Any) -> Case:
    return Case(name, "Pooling_v1", attrs, {"data": permutation(2, 2, 6, 7)})


CASES = (
    *(
        case
        for kind in ("max", "avg", "sum")
        for case in (
            _case(f"{kind}_plain", kernel=(2, 3), stride=(2, 2), pool_type=kind),
            _case(f"{kind}_padded", kernel=(3, 3), pad=(1, 1), stride=(2, 3), pool_type=kind),
            _case(
                f"{kind}_full",
                kernel=(3, 3),
                stride=(2, 2),
                pool_type=kind,
                pooling_convention="full",
            ),
            _case(f"{kind}_global", kernel=(2, 2), pad=(0, 0), global_pool=True, pool_type=kind),
        )
    ),
    Case(
        "ties",
        "Pooling_v1",
        {"kernel": (3, 3), "pad": (1, 1)},
        {"data": integers(1, 2, 5, 5, low=-1, high=2)},
        numeric=False,
    ),
)
