"""Connectionist temporal classification."""

from __future__ import annotations

from oracle.case import Case, integers, normal, values

_LABELS = values([[1, 2, 2, 0], [3, 1, 0, 0], [4, 4, 4, 1]])
_FROM_ZERO = values([[1, 0, 0, -1], [2, 1, -1, -1], [3, 3, 3, 2]])
_DATA = normal(9, 3, 5, scale=2.0)

CASES = (
    Case("plain", "CTCLoss", {}, {"data": _DATA, "label": _LABELS}),
    Case("int_labels", "CTCLoss", {}, {"data": _DATA, "label": integers(3, 4, low=1, high=5)}),
    Case("blank_last", "CTCLoss", {"blank_label": "last"}, {"data": _DATA, "label": _FROM_ZERO}),
    Case(
        "data_lengths",
        "CTCLoss",
        {"use_data_lengths": True},
        {"data": _DATA, "label": _LABELS, "data_lengths": values([9, 4, 8])},
    ),
    Case(
        "label_lengths",
        "CTCLoss",
        {"use_label_lengths": True},
        {
            "data": _DATA,
            "label": values([[1, 2, 3, 4], [1, 1, 4, 2], [2, 2, 2, 2]]),
            "label_lengths": values([2, 3, 1]),
        },
    ),
    Case(
        "all_lengths",
        "_contrib_ctc_loss",
        {"use_data_lengths": True, "use_label_lengths": True, "blank_label": "last"},
        {
            "data": _DATA,
            "label": values([[0, 2, 3, 1], [1, 1, 3, 2], [2, 0, 2, 2]]),
            "data_lengths": values([7, 9, 5]),
            "label_lengths": values([4, 2, 3]),
        },
    ),
    Case(
        "long",
        "CTCLoss",
        {},
        {"data": normal(60, 2, 4, scale=3.0), "label": integers(2, 20, low=1, high=4)},
        tolerance=1e-4,  # MXNet sums logarithms of a few hundred in float32, we in float64.
    ),
    Case(
        "no_labels",
        "_contrib_CTCLoss",
        {},
        {"data": _DATA, "label": values([[0, 1], [1, 0], [2, 2]])},
    ),
    Case(
        "too_long",
        "CTCLoss",
        {},
        {"data": normal(4, 2, 5), "label": values([[4, 4, 4, 1], [1, 2, 3, 4]])},
        grads=False,
    ),
    Case("inference", "ctc_loss", {}, {"data": _DATA, "label": _LABELS}, train=False),
)
