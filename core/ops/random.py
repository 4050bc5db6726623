"""Operators that draw random numbers from ``run.random``.

Each row of the table is a distribution and defines three operators:

    _random_x         parameters and shape are attributes
    _random_x_like    parameters are attributes; the shape is that of the data
    _sample_x         parameters are arrays; draws of shape ``shape`` for each of their elements
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..errors import AttributeValueError, ShapeError
from ..types import Array, DType, Shape, largest_whole
from .attributes import attribute
from .lookup import add_at, axis_positions, read_at
from .operator import Operator, Reads, Run
from .registry import declares_attributes, register

__all__ = [
    "DISTRIBUTIONS",
    "Random",
    "RandomInteger",
    "RandomLike",
    "Sample",
    "SampleMultinomial",
    "Shuffle",
    "UniqueZipfian",
]

_FLOAT32 = np.dtype("float32")
_FLOAT64 = np.dtype("float64")
_INT32 = np.dtype("int32")
_INT64 = np.dtype("int64")
_SHAPE = "the shape, with 0 for unknown dimensions"
_DTYPE = "the output's dtype; None for float32"


class Distribution(NamedTuple):
    """One distribution.

    Attributes:
        name: MXNet's name for it.
        attributes: name, default and minimum of each parameter given as an attribute.
        inputs: names of the parameters given as arrays.
        draw: fills an array with draws for the given parameters.
        aliases: other names of the operator with attributes.
    """

    name: str
    attributes: tuple[tuple[str, float, float | None], ...]
    inputs: tuple[str, ...]
    draw: Callable[..., None]
    aliases: tuple[str, ...] = ()


def _draw(run: Run, out: Array, method: str, *parameters: Any) -> None:
    run.xp.copyto(out, run.random.draw(method, *parameters, shape=out.shape, dtype=out.dtype))


def _normal(run: Run, out: Array, loc: Any, scale: Any) -> None:
    # A standard draw is scaled afterwards, because parameters may be arrays.
    run.random.normal(out)
    out *= scale
    out += loc


def _uniform(run: Run, out: Array, low: Any, high: Any) -> None:
    run.random.uniform(out)
    out *= high - low
    out += low


def _gamma(run: Run, out: Array, alpha: Any, beta: Any) -> None:
    # As in MXNet, beta is a scale here, but a rate in random_pdf_gamma.
    _draw(run, out, "gamma", alpha, beta)


def _exponential(run: Run, out: Array, lam: Any) -> None:
    _draw(run, out, "standard_exponential")
    out /= lam


def _poisson(run: Run, out: Array, lam: Any) -> None:
    _draw(run, out, "poisson", lam)


def _negative_binomial(run: Run, out: Array, k: Any, p: Any) -> None:
    _draw(run, out, "negative_binomial", k, p)


def _generalized_negative_binomial(run: Run, out: Array, mu: Any, alpha: Any) -> None:
    """Draw from Poisson distributions with gamma-distributed rates: mean mu, dispersion alpha."""
    # Without dispersion it is the Poisson distribution; the gamma distribution is not defined then.
    if isinstance(alpha, float) and alpha == 0:
        _poisson(run, out, mu)
        return
    fixed = alpha == 0
    spread = run.xp.where(fixed, 1, alpha)
    rate = run.random.draw("gamma", 1 / spread, spread * mu, shape=out.shape, dtype=_FLOAT64)
    _draw(run, out, "poisson", run.xp.where(fixed, mu, rate))


DISTRIBUTIONS = (
    Distribution(
        "uniform",
        (("low", 0.0, None), ("high", 1.0, None)),
        ("low", "high"),
        _uniform,
        ("uniform",),
    ),
    Distribution(
        "normal", (("loc", 0.0, None), ("scale", 1.0, 0.0)), ("mu", "sigma"), _normal, ("normal",)
    ),
    Distribution("gamma", (("alpha", 1.0, 0.0), ("beta", 1.0, 0.0)), ("alpha", "beta"), _gamma),
    Distribution("exponential", (("lam", 1.0, 0.0),), ("lam",), _exponential),
    Distribution("poisson", (("lam", 1.0, 0.0),), ("lam",), _poisson),
    Distribution(
        "negative_binomial", (("k", 1.0, 0.0), ("p", 1.0, 0.0)), ("k", "p"), _negative_binomial
    ),
    Distribution(
        "generalized_negative_binomial",
        (("mu", 1.0, 0.0), ("alpha", 1.0, 0.0)),
        ("mu", "alpha"),
        _generalized_negative_binomial,
    ),
)


class _Drawing(Operator):
    """Base: random draws have no gradient."""

    uses_random = True

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()


class Random(_Drawing):
    """Draws of a given shape; dimensions of 0 are inferred from the operators that read the
    output."""

    ignored_attributes = frozenset({"ctx"})
    distribution: ClassVar[Distribution]

    shape: Shape | None
    dtype: DType | None

    def input_names(self) -> tuple[str, ...]:
        return ()

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        return inputs, [self.expect("output", outputs[0], self.shape or None)]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        return inputs, [self.expect_dtype("output", outputs[0], self.dtype or _FLOAT32)]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        _draw_with_attributes(self, self.distribution, run, outputs[0])


class RandomLike(_Drawing):
    """Draws of the data's shape and dtype."""

    distribution: ClassVar[Distribution]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        _draw_with_attributes(self, self.distribution, run, outputs[0])


def _draw_with_attributes(op: Operator, distribution: Distribution, run: Run, out: Array) -> None:
    distribution.draw(run, out, *(getattr(op, name) for name, _, _ in distribution.attributes))


@declares_attributes
class Sample(_Drawing):
    """Draws for each element of the parameters; the output has their shape followed by
    ``shape``."""

    distribution: ClassVar[Distribution]

    shape: Shape = attribute(default=(), minimum=1, doc="shape of the draws for one element")
    dtype: DType | None = attribute(default=None, doc=_DTYPE)

    def input_names(self) -> tuple[str, ...]:
        return self.distribution.inputs

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        common: Shape | None = None
        for name, shape in zip(self.input_names(), inputs, strict=True):
            common = self.expect(name, shape, common)
        if common is None:
            return inputs, outputs
        output = self.expect("output", outputs[0], common + self.shape)
        return [common] * len(inputs), [output]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        parameters, _ = super().infer_type(inputs, [None])
        return parameters, [self.expect_dtype("output", outputs[0], self.dtype or _FLOAT32)]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        tail = (1,) * len(self.shape)
        parameters = (x.reshape(x.shape + tail) for x in inputs)
        self.distribution.draw(run, outputs[0], *parameters)


def _define(distribution: Distribution) -> None:
    """Register a distribution's three operators."""
    name = distribution.name
    title = name.replace("_", " ").replace("poisson", "Poisson")
    own = {
        field: (float, attribute(default=default, minimum=minimum, doc=f"{field} of the {title}"))
        for field, default, minimum in distribution.attributes
    }
    of_output = {
        "shape": (Shape | None, attribute(default=None, minimum=0, doc=_SHAPE)),
        "dtype": (DType | None, attribute(default=None, doc=_DTYPE)),
    }
    for form, names, fields in (
        (Random, (f"_random_{name}", f"random_{name}", *distribution.aliases), own | of_output),
        (RandomLike, (f"_random_{name}_like",), own),
        (Sample, (f"_sample_{name}", f"sample_{name}"), {}),
    ):
        body: dict[str, Any] = {
            "__module__": __name__,
            "__doc__": f"The {title} distribution. {form.__doc__}",
            "__annotations__": {field: kind for field, (kind, _) in fields.items()},
            "distribution": distribution,
            **{field: declared for field, (_, declared) in fields.items()},
        }
        register(*names)(type(names[0], (form,), body))


for _distribution in DISTRIBUTIONS:
    _define(_distribution)


@register("_random_randint", "random_randint", "_npi_random_randint")
class RandomInteger(Random):
    """Uniformly distributed integers from ``low`` to before ``high``: int32 or int64."""

    low: int = attribute(doc="smallest number")
    high: int = attribute(doc="end of the range, exclusive")
    shape: Shape | None = attribute(default=None, minimum=0, doc=_SHAPE)
    dtype: DType | None = attribute(default=None, doc="the output's dtype; None for int32")

    def __post_init__(self) -> None:
        if self.high <= self.low:
            raise AttributeValueError(f"low {self.low} and high {self.high} make an empty range")
        if self.dtype is not None and self.dtype.name not in ("int32", "int64"):
            raise AttributeValueError(f"randint makes int32 or int64, not {self.dtype}")

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        return inputs, [self.expect_dtype("output", outputs[0], self.dtype or _INT32)]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        _draw(run, outputs[0], "integers", self.low, self.high)


@register("_sample_unique_zipfian")
class UniqueZipfian(Operator):
    """Rows of distinct classes drawn from an approximate Zipf (log-uniform) distribution.

    The second output is the number of draws that each row needed.
    """

    uses_random: ClassVar[bool] = True

    range_max: int = attribute(minimum=1, maximum=2**31 - 1, doc="number of classes")
    shape: Shape = attribute(default=(), minimum=1, doc="(rows, classes in a row)")

    def input_names(self) -> tuple[str, ...]:
        return ()

    def output_names(self) -> tuple[str, ...]:
        return ("output0", "output1")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        if len(self.shape) != 2 or self.shape[1] > self.range_max:
            raise ShapeError(
                f"shape is {self.shape}; expected (rows, classes), with at most "
                f"range_max ({self.range_max}) classes"
            )
        classes = self.expect("output0", outputs[0], self.shape)
        return inputs, [classes, self.expect("output1", outputs[1], self.shape[:1])]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        names = self.output_names()
        return inputs, [
            self.expect_dtype(name, dtype, _INT64)
            for name, dtype in zip(names, outputs, strict=True)
        ]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        for row in range(self.shape[0]):
            outputs[1][row] = self._fill(run, outputs[0][row])

    def _fill(self, run: Run, out: Array) -> int:
        """Write distinct classes in the order of their first draw; return the number of draws
        needed."""
        xp, count = run.xp, 2 * out.size
        classes = positions = xp.empty((0,), _INT64)
        exponents = xp.empty((count,), _FLOAT64)
        draws = 0
        while classes.size < out.size:
            run.random.uniform(exponents)
            fresh = xp.exp(exponents * np.log(self.range_max + 1)).astype(_INT64) - 1
            # exp may round up to range_max + 1, one class too many.
            classes = xp.concatenate([classes, fresh % self.range_max])
            positions = xp.concatenate([positions, draws + xp.arange(count)])
            _, first = xp.unique(classes, return_index=True)
            first = xp.sort(first)
            classes, positions = classes[first], positions[first]
            draws += count
        xp.copyto(out, classes[: out.size])
        return int(positions[out.size - 1]) + 1


@register("_shuffle", "shuffle", "_npi_shuffle")
class Shuffle(Operator):
    """The data with its rows (along axis 0) in random order. It has no gradient."""

    uses_random = True

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.random.shuffle(inputs[0], outputs[0])


@register("_sample_multinomial", "sample_multinomial")
class SampleMultinomial(Operator):
    """Draw indices with the probabilities in the data's last axis.

    With ``get_prob`` a second output holds the log probability of each index, whose gradient flows
    to the data (REINFORCE).
    """

    uses_random = True

    shape: Shape = attribute(default=(), minimum=1, doc="shape of the draws for one distribution")
    get_prob: bool = attribute(default=False, doc="also return the log probabilities")
    dtype: DType = attribute(default=_INT32, doc="dtype of the indices")

    def output_names(self) -> tuple[str, ...]:
        return ("output0", "output1") if self.get_prob else ("output",)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        if data and data[-1] > largest_whole(self.dtype):
            raise ShapeError(
                f"data has {data[-1]} classes, but {self.dtype} holds whole numbers up to "
                f"{largest_whole(self.dtype)} only; set dtype='int32'"
            )
        shape = data[:-1] + self.shape or (1,)
        return inputs, [self.expect("output", output, shape) for output in outputs]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        indices = self.expect_dtype("output", outputs[0], self.dtype)
        if not self.get_prob:
            return inputs, [indices]
        data = self.expect_dtype("output1", outputs[1], inputs[0])
        return [data], [indices, data]

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0,), outputs=(0,)) if self.get_prob else Reads(out_grads=False)

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,) if self.get_prob else ()

    def _positions(self, run: Run, indices: Array, table: Shape) -> Array:
        whole = run.scratch((table[0], indices.size // table[0]), "int64")
        run.xp.copyto(whole, indices.reshape(whole.shape), casting="unsafe")
        return axis_positions(run, whole, table, 1)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, indices = inputs[0], outputs[0]
        chances = data.reshape(-1, data.shape[-1])
        bounds = run.xp.cumsum(chances, axis=1, dtype="float64")[:, None, :]
        count = indices.size // chances.shape[0]
        drawn = run.random.draw("random", shape=(chances.shape[0], count, 1), dtype=_FLOAT64)
        # Inversion: draws are scaled to the last bound, as probabilities need not sum to exactly 1.
        # Comparing with that bound, too, could yield an index out of range because of rounding.
        found = (drawn * bounds[..., -1:] >= bounds[..., :-1]).sum(axis=2)
        run.xp.copyto(indices, found.reshape(indices.shape), casting="unsafe")
        if self.get_prob:
            positions = self._positions(run, indices, chances.shape)
            read_at(run, chances.reshape(-1), positions, outputs[1].reshape(positions.shape))
            run.xp.log(outputs[1], out=outputs[1])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        gradient = in_grads[0]
        assert gradient is not None
        table = (gradient.size // gradient.shape[-1], gradient.shape[-1])
        positions = self._positions(run, outputs[0], table)
        chosen = run.scratch(positions.shape, gradient.dtype)
        read_at(run, inputs[0].reshape(-1), positions, chosen)
        run.xp.divide(out_grads[1].reshape(positions.shape), chosen, out=chosen)
        add_at(run, gradient, positions, chosen)
