"""Output layers: they supply their own gradient, which is not the derivative of the output."""

from __future__ import annotations

from typing import Any

from oracle.case import Case, Spec, integers, normal, positive, uniform, values

_CLASSES = 5


def _softmax_output(
    name: str,
    data: tuple[int, ...],
    label: tuple[int, ...] | Spec,
    low: int = 0,
    op: str = "SoftmaxOutput",
    **attrs: Any,
) -> Case:
    if not isinstance(label, Spec):
        label = integers(*label, low=low, high=_CLASSES)
    return Case(name, op, attrs, {"data": data, "label": label}, numeric=False)


def _loss(name: str, op: str, data: tuple[int, ...], label: Spec, **attrs: Any) -> Case:
    return Case(name, op, attrs, {"data": data, "label": label}, numeric=False)


_ROWS, _IMAGE = (4, _CLASSES), (2, _CLASSES, 3, 2)
_IGNORE: dict[str, Any] = {"use_ignore": True, "ignore_label": 2}

CASES = (
    _softmax_output("plain", _ROWS, (4,)),
    _softmax_output("old_name", _ROWS, (4,), op="Softmax"),
    _softmax_output("scaled", _ROWS, (4,), grad_scale=0.25),
    _softmax_output("batch", _ROWS, (4,), normalization="batch"),
    _softmax_output("valid", (7, _CLASSES), (7,), low=-1, normalization="valid"),
    _softmax_output("valid_none", _ROWS, values([-1, -1, -1, -1]), normalization="valid"),
    _softmax_output("ignore", (9, _CLASSES), (9,), **_IGNORE),
    _softmax_output("ignore_valid", (9, _CLASSES), (9,), normalization="valid", **_IGNORE),
    _softmax_output("ignore_batch", (9, _CLASSES), (9,), normalization="batch", **_IGNORE),
    _softmax_output("label_out_of_range", _ROWS, values([-1, 0, 4, 5])),
    _softmax_output("label_fractional", _ROWS, values([0.5, 1.9, 2.0, 3.2])),
    _softmax_output("smooth", _ROWS, (4,), smooth_alpha=0.1),
    _softmax_output("smooth_ignore", (9, _CLASSES), (9,), smooth_alpha=0.2, **_IGNORE),
    _softmax_output("smooth_multi", _IMAGE, (2, 3, 2), smooth_alpha=0.2, multi_output=True),
    _softmax_output("out_grad", _ROWS, (4,), out_grad=True, grad_scale=2.0),
    _softmax_output("probabilities", _ROWS, uniform(*_ROWS), grad_scale=3.0),
    _softmax_output("probabilities_out_grad", _ROWS, uniform(*_ROWS), out_grad=True),
    _softmax_output("joined_axes", (3, 4, _CLASSES), (3, 4)),
    _softmax_output("joined_axes_batch", (3, 2, _CLASSES), (3, 2), normalization="batch"),
    _softmax_output("preserve", (3, 4, _CLASSES), (3, 4), preserve_shape=True),
    _softmax_output(
        "preserve_ignore_batch",
        (3, 4, _CLASSES),
        (3, 4),
        preserve_shape=True,
        normalization="batch",
        **_IGNORE,
    ),
    _softmax_output(
        "preserve_valid",
        (3, 4, _CLASSES),
        (3, 4),
        preserve_shape=True,
        normalization="valid",
        **_IGNORE,
    ),
    _softmax_output("multi", _IMAGE, (2, 6), multi_output=True),
    _softmax_output("multi_places", _IMAGE, (2, 3, 2), multi_output=True),
    _softmax_output("multi_kept", _IMAGE, (2, 1, 3, 2), multi_output=True),
    _softmax_output("multi_rows", _ROWS, (4, 1), multi_output=True),
    *(
        _softmax_output(
            f"multi_{normalization}",
            _IMAGE,
            (2, 6),
            multi_output=True,
            normalization=normalization,
            grad_scale=4.0,
            **_IGNORE,
        )
        for normalization in ("null", "batch", "valid")
    ),
    _softmax_output("multi_out_grad", _IMAGE, (2, 6), multi_output=True, out_grad=True),
    Case(
        "float64",
        "SoftmaxOutput",
        {"multi_output": True},
        {
            "data": normal(2, 3, 4, dtype="float64"),
            "label": integers(2, 4, high=3, dtype="float64"),
        },
        numeric=False,
    ),
    Case(
        "float16",
        "SoftmaxOutput",
        {},
        {"data": normal(4, 3, dtype="float16"), "label": integers(4, high=3, dtype="float16")},
        numeric=False,
    ),
    Case("inference", "SoftmaxOutput", {}, {"data": _ROWS, "label": (4,)}, train=False),
    *(
        case
        for op in ("LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput")
        for case in (
            _loss(f"{op}_rows", op, (4, 3), normal(4, 3)),
            _loss(f"{op}_vector", op, (4,), normal(4), grad_scale=0.5),
            _loss(f"{op}_column", op, (4, 1), normal(4)),
            _loss(f"{op}_flat_label", op, (2, 3, 2), normal(2, 6), grad_scale=2.0),
            Case(
                f"{op}_float64",
                op,
                {},
                {"data": normal(3, 2, dtype="float64"), "label": normal(3, 2, dtype="float64")},
                numeric=False,
            ),
        )
    ),
    Case(
        "mae_equal",
        "MAERegressionOutput",
        {},
        {"data": values([[1, 2]]), "label": values([[1, 3]])},
        numeric=False,
    ),
    Case(
        "logistic_large",
        "LogisticRegressionOutput",
        {},
        {"data": normal(3, 4, scale=60.0), "label": uniform(3, 4)},
        numeric=False,
    ),
    *(
        Case(
            f"make_loss_{normalization}",
            "MakeLoss",
            {"grad_scale": 3.0, "normalization": normalization, "valid_thresh": 0.25},
            {"data": normal(4, 3)},
            numeric=False,
        )
        for normalization in ("null", "batch", "valid")
    ),
    *(
        Case(
            f"make_loss_batch_{len(shape)}_axes",
            "MakeLoss",
            {"grad_scale": 3.0, "normalization": "batch"},
            {"data": normal(*shape)},
            numeric=False,
        )
        for shape in ((4,), (4, 3, 2), (2, 3, 2, 2))
    ),
    Case(
        "make_loss_none_valid",
        "MakeLoss",
        {"normalization": "valid", "valid_thresh": 5.0},
        {"data": positive(4, 3)},
        numeric=False,
    ),
    Case("make_loss_default", "MakeLoss", {}, {"data": normal(2, 3, 2)}, numeric=False),
    _loss("svm", "SVMOutput", _ROWS, integers(4, high=_CLASSES)),
    _loss("svm_linear", "SVMOutput", _ROWS, integers(4, high=_CLASSES), use_linear=True),
    _loss(
        "svm_margin",
        "SVMOutput",
        (6, 3),
        integers(6, high=3),
        margin=0.3,
        regularization_coefficient=0.7,
    ),
    _loss(
        "svm_linear_margin",
        "SVMOutput",
        (6, 3),
        integers(6, high=3),
        margin=0.3,
        regularization_coefficient=0.7,
        use_linear=True,
    ),
    Case(
        "cross_entropy",
        "softmax_cross_entropy",
        {},
        {"data": _ROWS, "label": integers(4, high=_CLASSES)},
        grads=("data",),
    ),
    Case(
        "cross_entropy_unlikely",
        "softmax_cross_entropy",
        {},
        {"data": normal(3, 4, scale=60.0), "label": integers(3, high=4)},
        grads=("data",),
        numeric=False,
    ),
)
