"""The operators that symbols have as methods, and the NDArray methods that they refuse."""

from __future__ import annotations

from typing import Any, Generic, NoReturn, TypeVar

from ..errors import NotImplementedForSymbol
from ..ndarray.methods import OperatorMethod, OperatorMethods

__all__ = ["SymbolMethods"]

S = TypeVar("S")
"""The class of symbols."""


class SymbolMethods(OperatorMethods, Generic[S]):
    """Methods that apply the operator they are named after, with the symbol as first input."""

    __slots__ = ()

    broadcast_like = OperatorMethod()
    broadcast_to = OperatorMethod()
    reshape = OperatorMethod()

    @staticmethod
    def _call_operator(function: str, *args: Any, **kwargs: Any) -> S:
        """Call the function of an operator."""
        raise NotImplementedError

    def __abs__(self) -> S:
        return self._call_operator("abs", self)

    def astype(self, *args: Any, **kwargs: Any) -> S:
        """Return ``cast`` of this symbol."""
        return self._call_operator("cast", self, *args, **kwargs)

    def expand_dims(self, axis: int, inplace: bool = False, **kwargs: Any) -> S:
        """Return ``expand_dims`` of this symbol; ``inplace`` means nothing to symbols."""
        return self._call_operator("expand_dims", self, axis=axis, **kwargs)

    def flatten(self, inplace: bool = False, **kwargs: Any) -> S:
        """Return ``flatten`` of this symbol; ``inplace`` means nothing to symbols."""
        return self._call_operator("flatten", self, **kwargs)

    def squeeze(self, axis: Any = None, inplace: bool = False, **kwargs: Any) -> S:
        """Return ``squeeze`` of this symbol; ``inplace`` means nothing to symbols."""
        return self._call_operator("squeeze", self, axis=axis, **kwargs)

    def split_v2(
        self,
        indices_or_sections: int | tuple[int, ...],
        axis: int = 0,
        squeeze_axis: bool = False,
    ) -> S:
        """Split into equal sections, or before each of the indices given.

        Raises:
            ValueError: ``indices_or_sections`` is neither a number nor a tuple.
        """
        match indices_or_sections:
            case int(sections):
                indices: list[int] = []
            case tuple():
                sections, indices = 0, [0, *indices_or_sections]
            case _:
                raise ValueError("indices_or_sections must either int or tuple of ints")
        return self._call_operator(
            "_split_v2",
            self,
            indices=indices,
            axis=axis,
            squeeze_axis=squeeze_axis,
            sections=sections,
        )

    def wait_to_read(self) -> NoReturn:
        """Refuse: symbols have no values."""
        raise NotImplementedForSymbol("wait_to_read")

    def asnumpy(self) -> NoReturn:
        """Refuse: symbols have no values."""
        raise NotImplementedForSymbol("asnumpy")

    def asscalar(self) -> NoReturn:
        """Refuse: symbols have no values."""
        raise NotImplementedForSymbol("asscalar")

    def copy(self) -> NoReturn:
        """Refuse: symbols have no values (``copy.copy`` copies the graph)."""
        raise NotImplementedForSymbol("copy")

    def as_in_context(self, ctx: object = None) -> NoReturn:
        """Refuse: symbols have no values."""
        raise NotImplementedForSymbol("as_in_context")

    def detach(self) -> NoReturn:
        """Refuse: symbols have no values."""
        raise NotImplementedForSymbol("detach")

    def backward(self) -> NoReturn:
        """Refuse: symbols have no values."""
        raise NotImplementedForSymbol("backward")
