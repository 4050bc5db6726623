"""Deformable convolution: inference, errors, and the gradient, which MXNet has on GPUs only."""

from __future__ import annotations

import dataclasses

import pytest

from core.errors import AttributeValueError, ShapeError
from oracle.apply import make
from oracle.cases.deformable import CASES
from oracle.run_operator import check_gradient

_MODULATED = [case for case in CASES if case.id.startswith("modulated")]


@pytest.mark.parametrize("case", _MODULATED, ids=lambda case: case.id)
def test_gradient_is_the_derivative(case) -> None:
    numeric, analytic = check_gradient(dataclasses.replace(case, grads=True))
    assert analytic == pytest.approx(numeric, rel=1e-5, abs=1e-6)


def test_inferred_shapes() -> None:
    attrs = {"kernel": (3, 3), "num_filter": 8, "num_deformable_group": 2, "stride": (2, 2)}
    operator = make("_contrib_ModulatedDeformableConvolution", attrs)
    found = operator.infer_shape([(2, 4, 9, 9), None, None, None, None], [None])
    inputs = [(2, 4, 9, 9), (2, 36, 4, 4), (2, 18, 4, 4), (8, 4, 3, 3), (8,)]
    assert found == (inputs, [(2, 8, 4, 4)])


@pytest.mark.parametrize("attrs", [{"kernel": (3,)}, {"layout": "NCW"}])
def test_data_must_have_two_spatial_axes(attrs) -> None:
    operator = make("_contrib_DeformableConvolution", {"kernel": (3, 3), "num_filter": 8, **attrs})
    with pytest.raises(AttributeValueError, match="expected two axes, NCHW"):
        operator.infer_shape([(2, 4, 9, 9), None, None, None], [None])


def test_num_filter_must_be_divisible_by_num_group() -> None:
    attrs = {"kernel": (3, 3), "num_filter": 8, "num_group": 3}
    with pytest.raises(AttributeValueError, match="expected a multiple of num_group 3"):
        make("_contrib_DeformableConvolution", attrs)


def test_channels_must_be_divisible_by_groups() -> None:
    attrs = {"kernel": (3, 3), "num_filter": 8, "num_deformable_group": 3}
    operator = make("_contrib_DeformableConvolution", attrs)
    with pytest.raises(ShapeError, match="4 channels, which num_deformable_group 3"):
        operator.infer_shape([(2, 4, 9, 9), None, None, None], [None])
