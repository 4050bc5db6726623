"""Probability densities of samples: ``random_pdf_normal(sample, mu, sigma)``.

The parameters have the sample's leading axes; its remaining axes are draws from the distribution
with these parameters. A row of the table holds the logarithm of a density and its derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..errors import ShapeError
from ..types import Array, Shape
from .attributes import attribute
from .operator import Operator, Run
from .precision import wide_backward, wide_forward
from .registry import declares_attributes, register
from .special import digamma, gammaln

__all__ = ["DENSITIES", "Density", "DirichletDensity"]


class DensityRow(NamedTuple):
    """One distribution.

    Attributes:
        name: MXNet's name for it.
        inputs: names of the parameters.
        log: computes the logarithm of the density from a run, the sample and the parameters.
        slopes: derivatives of that logarithm by the sample (0 for counts) and by each parameter.
    """

    name: str
    inputs: tuple[str, ...]
    log: Callable[..., Any]
    slopes: Callable[..., tuple[Any, ...]]


def _of(function: Callable[[Run, Array, Array], None], run: Run, x: Array) -> Array:
    out = run.scratch(x.shape, x.dtype)
    function(run, x, out)
    return out


def _gammaln(run: Run, x: Array) -> Array:
    return _of(gammaln, run, x)


def _digamma(run: Run, x: Array) -> Array:
    return _of(digamma, run, x)


def _log_uniform(run: Run, x: Array, low: Array, high: Array) -> Any:
    return -run.xp.log(high - low)


def _uniform_slopes(run: Run, x: Array, low: Array, high: Array) -> tuple[Any, ...]:
    return 0, 1 / (high - low), -1 / (high - low)


def _log_normal(run: Run, x: Array, mu: Array, sigma: Array) -> Any:
    return -(((x - mu) / sigma) ** 2) / 2 - run.xp.log(sigma) - np.log(2 * np.pi) / 2


def _normal_slopes(run: Run, x: Array, mu: Array, sigma: Array) -> tuple[Any, ...]:
    scaled = (x - mu) / sigma
    return -scaled / sigma, scaled / sigma, (scaled**2 - 1) / sigma


def _log_gamma(run: Run, x: Array, alpha: Array, beta: Array) -> Any:
    log = run.xp.log
    return alpha * log(beta) + (alpha - 1) * log(x) - beta * x - _gammaln(run, alpha)


def _gamma_slopes(run: Run, x: Array, alpha: Array, beta: Array) -> tuple[Any, ...]:
    of_alpha = run.xp.log(beta) + run.xp.log(x) - _digamma(run, alpha)
    return (alpha - 1) / x - beta, of_alpha, alpha / beta - x


def _log_exponential(run: Run, x: Array, lam: Array) -> Any:
    return run.xp.log(lam) - lam * x


def _exponential_slopes(run: Run, x: Array, lam: Array) -> tuple[Any, ...]:
    return -lam, 1 / lam - x


def _log_poisson(run: Run, x: Array, lam: Array) -> Any:
    return x * run.xp.log(lam) - lam - _gammaln(run, x + 1)


def _poisson_slopes(run: Run, x: Array, lam: Array) -> tuple[Any, ...]:
    return 0, x / lam - 1


def _log_negative_binomial(run: Run, x: Array, k: Array, p: Array) -> Any:
    log_choose = _gammaln(run, x + k) - _gammaln(run, x + 1) - _gammaln(run, k)
    return log_choose + k * run.xp.log(p) + x * run.xp.log1p(-p)


def _negative_binomial_slopes(run: Run, x: Array, k: Array, p: Array) -> tuple[Any, ...]:
    of_k = _digamma(run, x + k) - _digamma(run, k) + run.xp.log(p)
    return 0, of_k, k / p - x / (1 - p)


def _log_generalized(run: Run, x: Array, mu: Array, alpha: Array) -> Any:
    return _log_negative_binomial(run, x, 1 / alpha, 1 / (mu * alpha + 1))


def _generalized_slopes(run: Run, x: Array, mu: Array, alpha: Array) -> tuple[Any, ...]:
    p = 1 / (mu * alpha + 1)
    # The chain rule, with k = 1 / alpha and p = 1 / (mu alpha + 1).
    _, of_k, of_p = _negative_binomial_slopes(run, x, 1 / alpha, p)
    return 0, -of_p * alpha * p**2, -of_k / alpha**2 - of_p * mu * p**2


DENSITIES = (
    DensityRow("uniform", ("low", "high"), _log_uniform, _uniform_slopes),
    DensityRow("normal", ("mu", "sigma"), _log_normal, _normal_slopes),
    DensityRow("gamma", ("alpha", "beta"), _log_gamma, _gamma_slopes),
    DensityRow("exponential", ("lam",), _log_exponential, _exponential_slopes),
    DensityRow("poisson", ("lam",), _log_poisson, _poisson_slopes),
    DensityRow("negative_binomial", ("k", "p"), _log_negative_binomial, _negative_binomial_slopes),
    DensityRow(
        "generalized_negative_binomial", ("mu", "alpha"), _log_generalized, _generalized_slopes
    ),
)


@declares_attributes
class Density(Operator):
    """The density of samples, or with ``is_log`` its logarithm.

    ``gamma`` and ``exponential`` take rates, not scales, as MXNet's do.
    """

    row: ClassVar[DensityRow]
    element_axes: ClassVar[int] = 0
    """Number of axes of a single draw, and of its parameters."""

    is_log: bool = attribute(False, doc="return the logarithm of the density")

    def input_names(self) -> tuple[str, ...]:
        return ("sample", *self.row.inputs)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        sample, parameter = inputs[0], None
        for name, shape in zip(self.row.inputs, inputs[1:], strict=True):
            parameter = self.expect(name, shape, parameter)
        if sample is None or parameter is None:
            return [sample, *[parameter] * len(self.row.inputs)], outputs
        inner = self.element_axes
        common = len(parameter) - inner
        if not 0 <= common <= len(sample) - inner or len(sample) < inner:
            raise ShapeError(f"sample {sample} has fewer axes than the parameters, {parameter}")
        parameter = self.expect(
            self.row.inputs[0], parameter, sample[:common] + sample[len(sample) - inner :]
        )
        output = self.expect("output", outputs[0], sample[: len(sample) - inner])
        return [sample, *[parameter] * len(self.row.inputs)], [output]

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        # Samples outside the support give log(0) or log of a negative number: densities of 0 or
        # NaN.
        with np.errstate(divide="ignore", invalid="ignore"):
            log = self.row.log(run, *self._aligned(inputs))
        run.xp.copyto(outputs[0], log if self.is_log else run.xp.exp(log))

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        grad = out_grads[0] if self.is_log else out_grads[0] * outputs[0]
        grad = grad.reshape(grad.shape + (1,) * self.element_axes)
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = self.row.slopes(run, *self._aligned(inputs))
        if in_grads[0] is not None:
            run.xp.copyto(in_grads[0], grad * slopes[0])
        rank, inner = inputs[0].ndim, self.element_axes
        draws = tuple(range(inputs[1].ndim - inner, rank - inner))
        for target, slope in zip(in_grads[1:], slopes[1:], strict=True):
            if target is not None:
                run.xp.copyto(target, (grad * slope).sum(axis=draws))

    def _aligned(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the sample, and the parameters with an axis of 1 for each axis of draws."""
        sample, *parameters = inputs
        common = inputs[1].ndim - self.element_axes
        draws = (1,) * (sample.ndim - inputs[1].ndim)
        return [
            sample,
            *(x.reshape(x.shape[:common] + draws + x.shape[common:]) for x in parameters),
        ]


def _log_dirichlet(run: Run, x: Array, alpha: Array) -> Any:
    terms = (alpha - 1) * run.xp.log(x) - _gammaln(run, alpha)
    return terms.sum(axis=-1) + _gammaln(run, alpha.sum(axis=-1))


def _dirichlet_slopes(run: Run, x: Array, alpha: Array) -> tuple[Any, ...]:
    total = _digamma(run, alpha.sum(axis=-1, keepdims=True))
    return (alpha - 1) / x, run.xp.log(x) - _digamma(run, alpha) + total


@register("_random_pdf_dirichlet", "random_pdf_dirichlet")
class DirichletDensity(Density):
    """The density of the Dirichlet distribution, or its logarithm, at each sample.

    The last axis of ``sample`` and ``alpha`` holds one sample, and the output lacks it.
    """

    row = DensityRow("dirichlet", ("alpha",), _log_dirichlet, _dirichlet_slopes)
    element_axes = 1


def _define(row: DensityRow) -> None:
    title = row.name.replace("_", " ").replace("poisson", "Poisson")
    body = {
        "__module__": __name__,
        "__doc__": f"The density of the {title} distribution, or its logarithm, at each sample.",
        "row": row,
    }
    names = (f"_random_pdf_{row.name}", f"random_pdf_{row.name}")
    register(*names)(type(names[0], (Density,), body))


for _row in DENSITIES:
    _define(_row)
