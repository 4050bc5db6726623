"""Initial values of parameters (``mx.init``)."""

from __future__ import annotations

import json
import logging
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .errors import UsageError
from .ndarray import NDArray, RowSparseNDArray
from .ndarray import load as load_arrays
from .ops.rnn_packing import input_size_of, packed_arrays
from .random import device_random, host_random
from .registry import ClassRegistry

__all__ = [
    "Bilinear",
    "Constant",
    "FusedRNN",
    "InitDesc",
    "Initializer",
    "LSTMBias",
    "Load",
    "MSRAPrelu",
    "Mixed",
    "Normal",
    "One",
    "Orthogonal",
    "Uniform",
    "Xavier",
    "Zero",
    "alias",
    "create",
    "register",
]


class InitDesc(str):
    """A parameter's name, with its symbol attributes and the default initializer."""

    attrs: dict[str, str]
    global_init: Initializer | None

    def __new__(
        cls,
        name: str,
        attrs: Mapping[str, str] | None = None,
        global_init: Initializer | None = None,
    ) -> InitDesc:
        desc = super().__new__(cls, name)
        desc.attrs = dict(attrs or {})
        desc.global_init = global_init
        return desc


class Initializer:
    """Base of all initializers.

    Called with an ``InitDesc``, it uses the parameter's ``__init__`` attribute if there is one.
    Otherwise the name decides: ``*weight`` gets the values that a subclass defines, ``*bias`` and
    ``*beta`` get 0, ``*gamma`` gets 1.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self._verbose = False
        self._print_func: Callable[[NDArray], str] = _root_mean_square

    def set_verbosity(
        self, verbose: bool = False, print_func: Callable[[NDArray], str] | None = None
    ) -> Initializer:
        """Log a statistic of each initialized array."""
        self._verbose = verbose
        self._print_func = print_func or _root_mean_square
        return self

    def dumps(self) -> str:
        """Return JSON from which ``create`` makes an equal initializer."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, desc: str, arr: NDArray) -> None:
        """Fill an array, dense or sparse, according to its name and attributes."""
        if arr.stype != "default":
            dense = arr.tostype("default")
            self(desc, dense)
            if isinstance(arr, RowSparseNDArray):
                arr[:] = 0  # stores every row, those of zeros as well
                arr.data[:] = dense
            else:
                dense.copyto(arr)
            return
        if not isinstance(desc, InitDesc):
            warnings.warn(
                "an initializer is called with a plain name; pass mx.init.InitDesc(name)",
                DeprecationWarning,
                stacklevel=2,
            )
            self._by_name(desc, arr, _LEGACY_PATTERNS)
            return
        if desc.global_init is None:
            desc.global_init = self
        own = desc.attrs.get("__init__", "")
        if own:
            # Not by name: what was chosen for this parameter applies to biases as well.
            create(own)._init_weight(desc, arr)
            self._report(desc, own, arr)
        else:
            self._by_name(desc, arr, _PATTERNS)

    def _by_name(self, name: str, arr: NDArray, patterns: Sequence[tuple[str, str]]) -> None:
        for pattern, method in patterns:
            if re.search(pattern, name):
                getattr(self, method)(name, arr)
                self._report(name, pattern, arr)
                return
        self._init_default(name, arr)

    def _report(self, name: str, pattern: str, arr: NDArray) -> None:
        if self._verbose:
            logging.info("Initialized %s as %s: %s", name, pattern, self._print_func(arr))

    def _init_weight(self, name: str, arr: NDArray) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _init_weight")

    def _init_bilinear(self, name: str, arr: NDArray) -> None:
        arr[:] = _bilinear_kernel(arr.shape)

    def _init_loc_bias(self, name: str, arr: NDArray) -> None:
        if arr.shape != (6,):
            raise ValueError(f"{name} has shape {arr.shape}; an affine transform needs (6,)")
        arr[:] = np.array([1.0, 0, 0, 0, 1.0, 0])

    def _init_zero(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_one(self, name: str, arr: NDArray) -> None:
        arr[:] = 1.0

    def _init_bias(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_gamma(self, name: str, arr: NDArray) -> None:
        arr[:] = 1.0

    def _init_beta(self, name: str, arr: NDArray) -> None:
        arr[:] = 0.0

    def _init_default(self, name: str, arr: NDArray) -> None:
        raise ValueError(
            f"no rule initializes {name!r}: names end in weight, bias, gamma or beta; for others "
            "set mx.sym.Variable(..., init=mx.init.X())"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Initializer):
            return NotImplemented
        return type(self) is type(other) and self._kwargs == other._kwargs

    __hash__ = None  # type: ignore[assignment]


# In both tables the first pattern that is found decides. Names that end in min or max are ranges of
# quantized parameters.
_PATTERNS = (
    ("weight$", "_init_weight"),
    ("bias$", "_init_bias"),
    ("gamma$", "_init_gamma"),
    ("beta$", "_init_beta"),
    ("min$", "_init_zero"),
    ("max$", "_init_one"),
)

# What MXNet does with a plain name: the names of layers decided before InitDesc existed.
_LEGACY_PATTERNS = (
    ("^upsampling", "_init_bilinear"),
    ("^stn_loc.*weight$", "_init_zero"),
    ("^stn_loc.*bias$", "_init_loc_bias"),
    ("bias$", "_init_bias"),
    ("gamma$", "_init_gamma"),
    ("beta$", "_init_beta"),
    ("weight$", "_init_weight"),
    ("moving_mean$", "_init_zero"),
    ("moving_var$", "_init_one"),
    ("moving_inv_var$", "_init_zero"),
    ("moving_avg$", "_init_zero"),
    ("min$", "_init_zero"),
    ("max$", "_init_one"),
)

_registry: ClassRegistry[Initializer] = ClassRegistry(Initializer, "initializer")
register = _registry.register
alias = _registry.alias
create = _registry.create


def _root_mean_square(arr: NDArray) -> str:
    values = arr.asnumpy()
    return str(float(np.linalg.norm(values.reshape(-1)) / math.sqrt(max(values.size, 1))))


def _fill_uniform(arr: NDArray, scale: float) -> None:
    device_random(arr.context).uniform(arr.dense_for_write(), -scale, scale)


def _fill_normal(arr: NDArray, sigma: float) -> None:
    device_random(arr.context).normal(arr.dense_for_write(), 0.0, sigma)


def _bilinear_kernel(shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float32]]:
    # Caffe's bilinear filler. As in MXNet, the width alone decides the slope and the center.
    half = math.ceil(shape[3] / 2.0)
    center = (2 * half - 1 - half % 2) / (2.0 * half)
    x = 1 - np.abs(np.arange(shape[3]) / half - center)
    y = 1 - np.abs(np.arange(shape[2]) / half - center)
    return np.broadcast_to(y[:, None] * x, shape).astype(np.float32)


class Load:
    """Initialize from a ``.params`` file or a dict; ``arg:`` and ``aux:`` prefixes are dropped.

    Args:
        param: file name, or arrays by name.
        default_init: called for parameters that are not found; without it, they are an error.
        verbose: log the source of each array.
    """

    def __init__(
        self,
        param: str | Mapping[str, NDArray],
        default_init: Callable[[str, NDArray], None] | None = None,
        verbose: bool = False,
    ) -> None:
        arrays = load_arrays(param) if isinstance(param, str) else param
        if not isinstance(arrays, Mapping):
            raise TypeError(f"{param!r} holds a list of arrays; expected arrays by name")
        self.param = {re.sub("^(arg|aux):", "", name): arr for name, arr in arrays.items()}
        self.default_init = default_init
        self.verbose = verbose

    def __call__(self, name: str, arr: NDArray) -> None:
        """Fill one array."""
        if name in self.param:
            loaded = self.param[name]
            if loaded.shape != arr.shape:
                raise UsageError(
                    f"parameter {name!r}: loaded shape {loaded.shape}, expected {arr.shape}"
                )
            arr[:] = loaded
        elif self.default_init is None:
            raise UsageError(f"parameter {name!r} is not in the file and there is no default_init")
        else:
            self.default_init(name, arr)
        if self.verbose:
            source = "loading" if name in self.param else "default"
            logging.info("Initialized %s by %s", name, source)


class Mixed:
    """Use the initializer of the first regular expression that matches the name."""

    def __init__(self, patterns: Sequence[str], initializers: Sequence[Initializer]) -> None:
        if len(patterns) != len(initializers):
            raise UsageError(f"{len(patterns)} patterns for {len(initializers)} initializers")
        self.map = [(re.compile(p), init) for p, init in zip(patterns, initializers, strict=True)]

    def __call__(self, name: str, arr: NDArray) -> None:
        """Fill one array."""
        for pattern, init in self.map:
            if pattern.match(name):
                init(name, arr)
                return
        raise ValueError(
            f"parameter {name!r} matches none of the patterns; add '.*' with a default at the end"
        )


@register
@alias("zeros")
class Zero(Initializer):
    """All weights 0."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = 0


@register
@alias("ones")
class One(Initializer):
    """All weights 1."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = 1


@register
class Constant(Initializer):
    """All weights get one value, or the values of an array of the same shape."""

    def __init__(self, value: Any) -> None:
        plain = value.asnumpy() if isinstance(value, NDArray) else value
        if isinstance(plain, (np.ndarray, np.generic)):
            plain = plain.tolist()
        super().__init__(value=plain)  # a form that JSON can represent, also for arrays
        self.value = value

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = np.asarray(self.value) if isinstance(self.value, (list, tuple)) else self.value


@register
class Uniform(Initializer):
    """Uniform in [-scale, scale]."""

    def __init__(self, scale: float = 0.07) -> None:
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, name: str, arr: NDArray) -> None:
        _fill_uniform(arr, self.scale)


@register
class Normal(Initializer):
    """Normal with mean 0 and standard deviation ``sigma``."""

    def __init__(self, sigma: float = 0.01) -> None:
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, name: str, arr: NDArray) -> None:
        _fill_normal(arr, self.sigma)


@register
class Orthogonal(Initializer):
    """Orthogonal rows or columns (Saxe, McClelland and Ganguli, arXiv:1312.6120)."""

    def __init__(self, scale: float = 1.414, rand_type: str = "uniform") -> None:
        super().__init__(scale=scale, rand_type=rand_type)
        if rand_type not in ("uniform", "normal"):
            raise ValueError(f"rand_type is {rand_type!r}; expected 'uniform' or 'normal'")
        self.scale = scale
        self.rand_type = rand_type

    def _init_weight(self, name: str, arr: NDArray) -> None:
        # Of the two factors of the SVD that are orthogonal, the one with the weight's shape.
        rows = arr.shape[0]
        draws = np.empty((rows, math.prod(arr.shape[1:])), dtype=np.float32)
        if self.rand_type == "uniform":
            host_random().uniform(draws, -1.0, 1.0)
        else:
            host_random().normal(draws)
        left, _, right = np.linalg.svd(draws, full_matrices=False)
        basis = left if left.shape == draws.shape else right
        arr[:] = (self.scale * basis).reshape(arr.shape)


@register
class Xavier(Initializer):
    """Variance ``magnitude / factor`` (Glorot and Bengio, AISTATS 2010).

    Args:
        rnd_type: ``"uniform"`` or ``"gaussian"``.
        factor_type: ``"avg"``, ``"in"`` or ``"out"``: the fan used as factor.
        magnitude: the numerator; 3 gives Glorot's bounds.
    """

    def __init__(
        self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3
    ) -> None:
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        self.magnitude = float(magnitude)

    def _init_weight(self, name: str, arr: NDArray) -> None:
        shape = arr.shape
        if len(shape) < 2:
            raise ValueError(
                f"Xavier initializer cannot be applied to vector {name!r} of shape {shape}; "
                "it requires at least 2 dimensions"
            )
        receptive = math.prod(shape[2:])
        fan_in, fan_out = shape[1] * receptive, shape[0] * receptive
        factors = {"avg": (fan_in + fan_out) / 2.0, "in": fan_in, "out": fan_out}
        if self.factor_type not in factors:
            raise ValueError(f"Incorrect factor type {self.factor_type!r}; use avg, in or out")
        scale = math.sqrt(self.magnitude / factors[self.factor_type])
        if self.rnd_type == "uniform":
            _fill_uniform(arr, scale)
        elif self.rnd_type == "gaussian":
            _fill_normal(arr, scale)
        else:
            raise ValueError(f"Unknown random type {self.rnd_type!r}; use uniform or gaussian")


@register
class MSRAPrelu(Xavier):
    """For layers before ReLU and PReLU (He et al., arXiv:1502.01852)."""

    def __init__(self, factor_type: str = "avg", slope: float = 0.25) -> None:
        super().__init__("gaussian", factor_type, 2.0 / (1 + slope**2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


@register
class Bilinear(Initializer):
    """The kernel for bilinear upsampling by a deconvolution."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, name: str, arr: NDArray) -> None:
        arr[:] = _bilinear_kernel(arr.shape)


@register
class LSTMBias(Initializer):
    """0 for all gates of an ``LSTMCell`` except the forget gate."""

    def __init__(self, forget_bias: float = 1.0) -> None:
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, name: str, arr: NDArray) -> None:
        hidden = arr.shape[0] // 4  # gates: input, forget, candidate, output
        arr[:] = 0.0
        arr[hidden : 2 * hidden] = self.forget_bias


@register
class FusedRNN(Initializer):
    """Initialize the parameter vector of the fused ``RNN`` operator gate by gate.

    Args:
        init: initializer of the weights and biases; None is the global one.
        num_hidden, num_layers, mode, bidirectional: as given to the operator.
        forget_bias: value of the LSTM forget gates' biases.
    """

    def __init__(
        self,
        init: Initializer | str | None,
        num_hidden: int,
        num_layers: int,
        mode: str,
        bidirectional: bool = False,
        forget_bias: float = 1.0,
    ) -> None:
        chosen = create(init) if isinstance(init, str) else init
        super().__init__(
            init=chosen.dumps() if chosen is not None else None,
            num_hidden=num_hidden,
            num_layers=num_layers,
            mode=mode,
            bidirectional=bidirectional,
            forget_bias=forget_bias,
        )
        self._init = chosen
        self._num_hidden = num_hidden
        self._num_layers = num_layers
        self._mode = mode
        self._bidirectional = bidirectional
        self._forget_bias = forget_bias

    def _init_weight(self, name: str, arr: NDArray) -> None:
        fallback = name.global_init if isinstance(name, InitDesc) else None
        init = self._init or fallback
        layout = (self._mode, self._num_layers, self._num_hidden)
        width = input_size_of(arr.size, *layout, self._bidirectional)
        for part in packed_arrays(*layout, width, self._bidirectional):
            view = arr[part.start : part.stop].reshape(part.shape)
            if self._mode == "lstm" and part.name.endswith("_f_bias"):
                view[:] = self._forget_bias
            elif init is None:
                raise ValueError(f"{name!r}: FusedRNN without init needs a global initializer")
            else:
                init(InitDesc(part.name, global_init=fallback), view)
