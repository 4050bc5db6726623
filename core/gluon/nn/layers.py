"""The layers of a multilayer perceptron, and the embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..hybrid_block import HybridBlock
from ..parameter_dict import ParameterDict

__all__ = ["Activation", "Dense", "Dropout", "Embedding", "Flatten"]


class Activation(HybridBlock):
    """An activation function by its name: ``"relu"``, ``"tanh"``, ...

    Args:
        activation: the name.
        prefix, params: as for ``Block``.
    """

    def __init__(
        self, activation: str, prefix: str | None = None, params: ParameterDict | None = None
    ) -> None:
        self._act_type = activation
        super().__init__(prefix, params)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply it to every element."""
        return F.Activation(x, act_type=self._act_type, name="fwd")

    def _alias(self) -> str:
        return self._act_type

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._act_type})"


class Dense(HybridBlock):
    """``activation(x W^T + b)``.

    Args:
        units: width of the output.
        activation: name of an activation function, if any.
        use_bias: add ``b``.
        flatten: join all axes but the first; otherwise the layer applies to the last axis.
        dtype: of the parameters.
        weight_initializer, bias_initializer: initializers or their names.
        in_units: width of the input; 0 infers it at the first call.
        prefix, params: as for ``Block``.
    """

    def __init__(
        self,
        units: int,
        activation: str | None = None,
        use_bias: bool = True,
        flatten: bool = True,
        dtype: Any = np.float32,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_units: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix, params)
        self._units, self._in_units, self._flatten = units, in_units, flatten
        self._use_bias = use_bias
        self.act: Activation | None = None
        with self.name_scope():
            self.weight = self.params.get(
                "weight",
                shape=(units, in_units),
                init=weight_initializer,
                dtype=dtype,
                allow_deferred_init=True,
            )
            if use_bias:
                self.bias = self.params.get(
                    "bias",
                    shape=(units,),
                    init=bias_initializer,
                    dtype=dtype,
                    allow_deferred_init=True,
                )
            if activation is not None:
                self.act = Activation(activation, prefix=f"{activation}_")

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply the layer."""
        found = F.FullyConnected(
            x,
            *(kwargs[name] for name in ("weight", "bias") if name in kwargs),
            no_bias=not self._use_bias,
            num_hidden=self._units,
            flatten=self._flatten,
            name="fwd",
        )
        return found if self.act is None else self.act(found)

    def __repr__(self) -> str:
        activation = "linear" if self.act is None else self.act._act_type
        width = self.weight.shape[1] if self.weight.shape and self.weight.shape[1] else None
        return f"Dense({width} -> {self._units}, {activation})"


class Dropout(HybridBlock):
    """Sets random elements to zero in training.

    Args:
        rate: the probability.
        axes: axes along which elements are dropped together.
        prefix, params: as for ``Block``.
    """

    def __init__(
        self,
        rate: float,
        axes: tuple[int, ...] = (),
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix, params)
        self._rate, self._axes = rate, axes

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Drop elements."""
        if self._rate > 0:
            return F.Dropout(x, p=self._rate, axes=self._axes, name="fwd")
        return F.identity(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p = {self._rate}, axes={self._axes})"


class Embedding(HybridBlock):
    """Looks up a vector for each index from 0 to ``input_dim - 1``.

    Args:
        input_dim: number of vectors.
        output_dim: their length.
        dtype: dtype of the vectors.
        weight_initializer: initializer or its name.
        sparse_grad: make the gradient a ``row_sparse`` array.
        prefix, params: as for ``Block``.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        sparse_grad: bool = False,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix, params)
        self._kwargs = {
            "input_dim": input_dim,
            "output_dim": output_dim,
            "dtype": dtype,
            "sparse_grad": sparse_grad,
        }
        self.weight = self.params.get(
            "weight",
            shape=(input_dim, output_dim),
            init=weight_initializer,
            dtype=dtype,
            allow_deferred_init=True,
            grad_stype="row_sparse" if sparse_grad else "default",
        )

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Look up the vectors."""
        return F.Embedding(x, kwargs["weight"], name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        settings = self._kwargs
        vectors = f"{settings['input_dim']} -> {settings['output_dim']}"
        return f"{type(self).__name__}({vectors}, {settings['dtype']})"


class Flatten(HybridBlock):
    """Joins all axes but the first."""

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Flatten."""
        return F.Flatten(x)

    def __repr__(self) -> str:
        return type(self).__name__
