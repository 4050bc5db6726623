"""The symbol: outputs of a graph, and everything scripts do with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Number
from pathlib import Path
from typing import Any

from ..attribute import AttrScope
from ..compat.backend_symbols import BackendSymbols
from ..device import Context, current_context
from ..errors import FormatError, GraphError, MXNetError, NotImplementedForSymbol
from ..executor.binding import bind, simple_bind
from ..graph.nodes import Entry, Node, auxiliary_variables, copy_graph, topological_order
from ..graph.subgraph import Subgraph
from ..name import NameManager
from ..ndarray.files import atomic_write
from ..ndarray.np_shape import is_np_shape
from ..ops import Operator, get_operator
from ..ops.signature import split_arguments
from . import arithmetic, inference
from .arithmetic import Meaning
from .compose import apply_operator, connect, set_attributes
from .hidden_keys import HIDDEN_KEYS, with_visible_keys
from .methods import SymbolMethods
from .reader import read_graph
from .writer import describe_graph, without_amp_casts, write_graph

__all__ = ["Symbol", "group", "load", "load_json"]


class Symbol(SymbolMethods["Symbol"], BackendSymbols):
    """One or several outputs of a graph of operators.

    Symbols are made by ``Variable``, ``Group``, ``load`` and the functions of ``mx.sym``; the
    graph is shared between the symbols made of each other.
    """

    __slots__ = ("_heads", "_versions")
    __array_priority__ = 1000.0
    __array_ufunc__ = None  # NumPy scalars leave `scalar * symbol` to the symbol.

    def __init__(self, heads: Sequence[Entry], versions: Sequence[int] | None = None) -> None:
        self._heads = tuple(heads)
        self._versions = tuple(versions) if versions is not None else (0,) * len(self._heads)

    # -- outputs ----------------------------------------------------------------------------

    @property
    def heads(self) -> tuple[Entry, ...]:
        """The outputs as places in the graph: nodes and numbers of their outputs."""
        return self._heads

    def __repr__(self) -> str:
        if self.name is None:
            return f"<{type(self).__name__} group [{', '.join(part.name or '' for part in self)}]>"
        return f"<{type(self).__name__} {self.name}>"

    def __len__(self) -> int:
        return len(self._heads)

    @property
    def num_outputs(self) -> int:
        """Number of outputs."""
        return len(self._heads)

    def __iter__(self) -> Iterator[Symbol]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int | str | slice) -> Symbol:
        """Return one output by number or name, or several by a slice.

        Raises:
            IndexError: there is no such output.
            ValueError: there is none of that name, or more than one.
        """
        if isinstance(index, slice):
            return group([self[position] for position in range(*index.indices(len(self)))])
        if isinstance(index, str):
            index = self._index_of(index)
        if not isinstance(index, int):
            raise TypeError("Symbol only support integer index to fetch i-th output")
        if index < 0:
            raise GraphError(f"Symbol only accept nonnegative index, got {index}")
        if index >= len(self):
            raise IndexError(f"output {index} of a symbol that has {len(self)}")
        return Symbol(self._heads[index : index + 1], self._versions[index : index + 1])

    def _index_of(self, output: str) -> int:
        names = self.list_outputs()
        if names.count(output) > 1:
            raise ValueError(f'There are multiple outputs with name "{output}"')
        if output not in names:
            raise ValueError(f'Cannot find output that matches name "{output}"')
        return names.index(output)

    @property
    def name(self) -> str | None:
        """Name of the node; None for a group of several nodes' outputs."""
        node = self._only_node()
        return None if node is None else node.name

    def _only_node(self) -> Node | None:
        node = self._heads[0].node
        return node if all(head.node is node for head in self._heads) else None

    def _entry(self) -> Entry:
        """Return the only output, to be an input of something else."""
        if len(self._heads) != 1:
            raise GraphError(
                f"{self!r} has {len(self)} outputs ({', '.join(self.list_outputs()[:10])}); "
                "an input is a single one: index the symbol"
            )
        return self._heads[0]

    # -- names ------------------------------------------------------------------------------

    def _variables(self) -> tuple[list[Node], set[Node]]:
        nodes = topological_order(self._heads)
        return [node for node in nodes if node.is_variable], auxiliary_variables(nodes)

    def list_arguments(self) -> list[str]:
        """Return the names of the inputs that are not auxiliary states."""
        variables, updated = self._variables()
        return [node.name for node in variables if node not in updated]

    def list_auxiliary_states(self) -> list[str]:
        """Return the names of the inputs that operators update (moving averages)."""
        variables, updated = self._variables()
        return [node.name for node in variables if node in updated]

    def list_inputs(self) -> list[str]:
        """Return the names of arguments and auxiliary states, in the order of the graph."""
        return [node.name for node in self._variables()[0]]

    def list_outputs(self) -> list[str]:
        """Return the names of the outputs, ``fc1_output`` or, of a variable, its own."""
        return [node.output_name(output) for node, output in self._heads]

    def get_internals(self) -> Symbol:
        """Return the outputs of all nodes, as one symbol; index it by name to cut a graph."""
        heads = [
            (Entry(node, output), node.updates)
            for node in topological_order(self._heads)
            for output in range(node.visible_outputs())
        ]
        return Symbol([head for head, _ in heads], [version for _, version in heads])

    def get_children(self) -> Symbol | None:
        """Return the inputs of the outputs' nodes, as one symbol; None if there are none."""
        # Each node once, even if several of its outputs are heads.
        nodes = list(dict.fromkeys(head.node for head in self._heads))
        heads = [entry for node in nodes for entry in node.inputs]
        return Symbol(heads, [v for node in nodes for v in node.versions]) if heads else None

    # -- attributes -------------------------------------------------------------------------

    def attr(self, key: str) -> str | None:
        """Return one attribute of the node, or ``name`` or ``op_name``; None if not set."""
        node = self._only_node()
        if node is None:
            return None
        if key == "name":
            return node.name
        if key == "op_name":
            return None if node.op is None else node.op.names[0]
        if key == "_value_index":
            return str(self._heads[0].output)
        if key in HIDDEN_KEYS:
            return node.attrs.get(f"__{key}__", node.attrs.get(key))
        return node.attrs.get(key)

    def list_attr(self, recursive: bool = False) -> dict[str, str]:
        """Return the attributes of the (first) node."""
        if recursive:
            raise DeprecationWarning(
                "Symbol.list_attr with recursive=True has been deprecated. "
                "Please use attr_dict instead."
            )
        return with_visible_keys(self._heads[0].node.attrs)

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """Return the attributes of all nodes that have any, by the node's name."""
        found: dict[str, dict[str, str]] = {}
        for node in topological_order(self._heads):
            if node.attrs:
                found.setdefault(node.name, {}).update(with_visible_keys(node.attrs))
        return found

    def _set_attr(self, **kwargs: str) -> None:
        """Set attributes of the node, which all symbols over it share.

        Raises:
            ValueError: a value is not text.
            GraphError: this is a group, or the operator cannot take the attribute.
        """
        for key, value in kwargs.items():
            if not isinstance(value, str):
                raise ValueError(f"Set Attr only accepts string values, {key} is {value!r}")
        node = self._only_node()
        if node is None:
            raise GraphError("_set_attr only works for one node's outputs; this is a group")
        set_attributes(node, kwargs)

    # -- composition ------------------------------------------------------------------------

    def __call__(self, *args: Symbol, **kwargs: Any) -> Symbol:
        """Return a copy with variables replaced: ``net(data=other, name="joined")``."""
        composed = self.__copy__()
        composed._compose(*args, **kwargs)
        return composed

    def _compose(self, *args: Symbol, name: str | None = None, **kwargs: Symbol) -> None:
        """Replace variables, named by keyword, by single outputs of other symbols, in place."""
        if args and kwargs:
            raise TypeError(
                "compose only accept input Symbols either as positional or keyword arguments, "
                "not both"
            )
        if not all(isinstance(value, Symbol) for value in (*args, *kwargs.values())):
            raise TypeError("Compose expect `Symbol` as arguments")
        if args:
            raise GraphError("general composition takes its inputs by keyword")
        heads = connect(self._heads, {key: value._entry() for key, value in kwargs.items()})
        if name:
            heads[0].node.name = name
        self._heads = heads

    # -- arithmetic -------------------------------------------------------------------------

    __add__ = __radd__ = arithmetic.add
    __sub__ = arithmetic.subtract
    __rsub__ = arithmetic.subtract_from
    __mul__ = __rmul__ = arithmetic.multiply
    __truediv__ = arithmetic.divide
    __rtruediv__ = arithmetic.divide_into
    __mod__ = arithmetic.modulo
    __rmod__ = arithmetic.modulo_of
    __pow__ = arithmetic.power
    __rpow__ = arithmetic.power_of
    __neg__ = arithmetic.negative
    __eq__ = arithmetic.equal  # type: ignore[assignment]
    __ne__ = arithmetic.not_equal  # type: ignore[assignment]
    __gt__ = arithmetic.greater
    __ge__ = arithmetic.greater_equal
    __lt__ = arithmetic.lesser
    __le__ = arithmetic.lesser_equal
    __iadd__ = arithmetic.add_inplace
    __isub__ = arithmetic.subtract_inplace
    __imul__ = arithmetic.multiply_inplace
    __itruediv__ = arithmetic.divide_inplace
    # As in MXNet; ``==`` returns a symbol, so that no dict could find one again.
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise NotImplementedForSymbol("bool()")

    def _binary(self, meaning: Meaning, other: Any) -> Symbol:
        if isinstance(other, Symbol):
            return Symbol._apply(meaning.symbols, meaning.hint, (self, other))
        if isinstance(other, Number):
            return Symbol._apply(
                meaning.scalar, meaning.scalar_hint, (self,), attributes={"scalar": other}
            )
        raise TypeError(f"type {type(other)} not supported")

    @staticmethod
    def _apply(
        operator: str,
        hint: str,
        positional: Sequence[Symbol] = (),
        named: Mapping[str, Symbol] | None = None,
        attributes: Mapping[str, Any] | None = None,
        name: str | None = None,
        attr: Mapping[str, str] | None = None,
        subgraphs: Sequence[Symbol] = (),
    ) -> Symbol:
        """Return the outputs of a new node, named by the innermost ``NameManager``."""
        node = apply_operator(
            operator,
            NameManager.active().get(name, hint),
            {**(attributes or {}), **AttrScope.active().get(attr)},
            [symbol._entry() for symbol in positional],
            {key: symbol._entry() for key, symbol in (named or {}).items()},
            # Copies: a subgraph is immutable, but the nodes of a symbol may still be composed.
            [Subgraph(copy_graph(graph._heads), graph._versions) for graph in subgraphs],
        )
        return Symbol([Entry(node, output) for output in range(node.visible_outputs())])

    @staticmethod
    def _call(
        operator: type[Operator], function: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Symbol:
        """Do what the function of an operator does with its arguments.

        ``out`` is for arrays; scripts that work on both may pass it here too, as to MXNet.
        """
        kwargs.pop("out", None)
        name, attr = kwargs.pop("name", None), kwargs.pop("attr", None)
        given = split_arguments(operator, args, kwargs, lambda value: isinstance(value, Symbol))
        graphs = len(operator.graph_names)
        return Symbol._apply(
            operator.names[0],
            function.lower(),
            given.positional[graphs:],
            given.named,
            given.attributes,
            name,
            attr,
            given.positional[:graphs],
        )

    @staticmethod
    def _call_operator(function: str, *args: Any, **kwargs: Any) -> Symbol:
        return Symbol._call(get_operator(function), function, args, kwargs)

    def _gen_atomic_symbol(self) -> Symbol:
        """Return all outputs of the node's operator, over variables of its own.

        Raises:
            GraphError: this is a group or a variable.
        """
        node = self._only_node()
        if node is None or node.op is None:
            raise GraphError(f"{self!r} is not the result of one operator")
        return Symbol._apply(node.op.names[0], "", attributes=node.attrs, name=node.name)

    # -- inference --------------------------------------------------------------------------

    def infer_shape(self, *args: Any, **kwargs: Any) -> inference.Shapes:
        """Infer the shapes of arguments, outputs and auxiliary states from some of them.

        Shapes are tuples, given in the order of ``list_arguments`` or by name; 0 is an unknown
        dimension. Where they do not suffice, warns and returns ``(None, None, None)``.

        Raises:
            ShapeError: shapes contradict each other; the message names node and argument.
            GraphError: the symbol has no such argument.
        """
        return inference.infer_shape(self._heads, args, kwargs, partial=False)

    def infer_shape_partial(self, *args: Any, **kwargs: Any) -> inference.Shapes:
        """As ``infer_shape``, but return what is known: ``()`` and 0 stand for unknown."""
        return inference.infer_shape(self._heads, args, kwargs, partial=True)

    def infer_type(self, *args: Any, **kwargs: Any) -> inference.Dtypes:
        """Infer the dtypes of arguments, outputs and auxiliary states from some of them.

        Where they do not suffice, warns and returns ``(None, None, None)``.

        Raises:
            TypeInferenceError: dtypes contradict each other.
            GraphError: the symbol has no such argument.
        """
        return inference.infer_type(self._heads, args, kwargs, partial=False)

    def infer_type_partial(self, *args: Any, **kwargs: Any) -> inference.Dtypes:
        """As ``infer_type``, but return what is known; None stands for unknown."""
        return inference.infer_type(self._heads, args, kwargs, partial=True)

    # -- files and copies -------------------------------------------------------------------

    def tojson(self, remove_amp_cast: bool = True) -> str:
        """Return the graph as MXNet 1.9.1 writes it."""
        heads = without_amp_casts(self._heads) if remove_amp_cast else self._heads
        return write_graph(heads, self._versions, np_shape=is_np_shape())

    def save(self, fname: str, remove_amp_cast: bool = True) -> None:
        """Write ``tojson`` to a file, which appears under its name only when it is complete."""
        if not isinstance(fname, str):
            raise TypeError("fname need to be string")
        with atomic_write(fname) as stream:
            stream.write(self.tojson(remove_amp_cast).encode())

    def debug_str(self) -> str:
        """Return a listing of the graph."""
        return describe_graph(self._heads)

    def __copy__(self) -> Symbol:
        return Symbol(copy_graph(self._heads), self._versions)

    def __deepcopy__(self, memo: object) -> Symbol:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy through pickle has to compute the same, casts of mixed precision included.
        return load_json, (self.tojson(remove_amp_cast=False),)

    # -- execution --------------------------------------------------------------------------

    def bind(
        self,
        ctx: Context,
        args: Any,
        args_grad: Any = None,
        grad_req: Any = "write",
        aux_states: Any = None,
        group2ctx: Mapping[str, Any] | None = None,
        shared_exec: Any = None,
    ) -> Any:
        """Return an executor of this symbol over arrays given (see ``core.executor``)."""
        return bind(
            self,
            ctx,
            args,
            args_grad=args_grad,
            grad_req=grad_req,
            aux_states=aux_states,
            group2ctx=group2ctx,
            shared_exec=shared_exec,
        )

    def simple_bind(
        self,
        ctx: Context,
        grad_req: Any = "write",
        type_dict: Mapping[str, Any] | None = None,
        stype_dict: Mapping[str, str] | None = None,
        group2ctx: Mapping[str, Any] | None = None,
        shared_arg_names: Sequence[str] | None = None,
        shared_exec: Any = None,
        shared_buffer: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return an executor of this symbol over new arrays; keywords are shapes of inputs."""
        return simple_bind(
            self,
            ctx,
            shapes=kwargs,
            grad_req=grad_req,
            type_dict=type_dict,
            stype_dict=stype_dict,
            group2ctx=group2ctx,
            shared_arg_names=shared_arg_names,
            shared_exec=shared_exec,
            shared_buffer=shared_buffer,
        )

    def eval(self, ctx: Context | None = None, **kwargs: Any) -> Any:
        """Return the outputs, a list of arrays, for inputs given by name."""
        return self.bind(ctx or current_context(), kwargs).forward()

    def gradient(self, wrt: Sequence[str]) -> Symbol:
        """Refuse, as MXNet does: gradients come from an executor's ``backward``."""
        raise MXNetError(
            f"there is no symbol of the gradient with respect to {', '.join(wrt)}; bind this "
            "symbol and use backward() and grad_dict of the executor"
        )

    grad = gradient


def group(symbols: Sequence[Symbol]) -> Symbol:
    """Return one symbol with all outputs of several (``mx.sym.Group``).

    Raises:
        TypeError: there are none, or something is not a symbol.
    """
    if not symbols or not all(isinstance(symbol, Symbol) for symbol in symbols):
        raise TypeError("Expected a list of symbols as input")
    return Symbol(
        [head for symbol in symbols for head in symbol._heads],
        [version for symbol in symbols for version in symbol._versions],
    )


def load(fname: str) -> Symbol:
    """Read a symbol from a file of any MXNet version.

    Raises:
        MXNetError: the file cannot be read.
        FormatError: it does not hold a symbol; UnknownOperator and GraphError for its graph.
    """
    if not isinstance(fname, str):
        raise TypeError("fname need to be string")
    try:
        text = Path(fname).read_text(encoding="utf-8")
    except OSError as error:
        raise MXNetError(f"cannot read {fname!r}: {error}") from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{fname} is not UTF-8 text: {error}") from None
    return load_json(text)


def load_json(json_str: str) -> Symbol:
    """Read a symbol from JSON of any MXNet version; errors as in ``load``."""
    if not isinstance(json_str, str):
        raise TypeError("fname required to be string")
    return Symbol(*read_graph(json_str))
