"""A reader of pickles that executes no code from the pickle.

Python's unpickler calls anything that a pickle names, and allocates any size that it states. This
one interprets only the instructions of protocols 2 to 5 that data needs, accepts only the names in
``core.checkpoint.known_names``, and checks all sizes.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import FormatError
from ..ndarray import NDArray
from .known_names import class_of

__all__ = ["unpickle"]

MAX_NESTING = 32
"""The most levels of values in values: states have few, and code that copies them recurses."""

_SCALAR_NAMES = {"numpy.core.multiarray", "numpy._core.multiarray"}
"""The module of NumPy's ``scalar`` before version 2 and since."""
_MARK = object()


def unpickle(data: bytes) -> Any:
    """Return the object that a pickle describes.

    Dicts, lists, tuples, numbers, texts, None, arrays, and objects of registered classes.

    Raises:
        FormatError: the data is not a pickle, is damaged, or contains anything else; names the
            position.
    """
    value = _Machine(data).run()
    _check_nesting(value)
    return value


class _Constructor:
    """A name in the pickle, for something that may be called or created."""

    __slots__ = ("cls", "is_scalar", "module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name
        self.is_scalar = module in _SCALAR_NAMES and name == "scalar"
        self.cls = None if self.is_scalar else class_of(module, name)
        if self.cls is None and not self.is_scalar:
            raise FormatError(f"{module}.{name} is not among the names a .states file may use")

    def call(self, arguments: Any) -> Any:
        if not isinstance(arguments, tuple):
            raise FormatError(f"{self.module}.{self.name} is called without a tuple of arguments")
        if self.is_scalar:
            return _make_scalar(arguments)
        if self.cls is bytearray:
            return _make_bytearray(arguments)
        if self.cls is np.dtype:
            return _make_dtype(arguments)
        return self.make(arguments)

    def make(self, arguments: Any) -> Any:
        """Return an object without attributes, which a BUILD instruction fills."""
        assert self.cls is not None
        if issubclass(self.cls, NDArray) and arguments == (None,):
            return self.cls()
        if issubclass(self.cls, NDArray) or self.cls in (bytearray, np.dtype) or arguments != ():
            raise FormatError(f"{self.module}.{self.name} cannot be made from {arguments!r}")
        return self.cls.__new__(self.cls)


class _Machine:
    """The stack and memo of one pickle."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        position = 0
        try:
            for opcode, argument, at in pickletools.genops(self._data):
                position = at or 0
                if opcode.name == "STOP":
                    return self._result()
                handler = _HANDLERS.get(opcode.name)
                if handler is None:
                    raise FormatError(
                        f"instruction {opcode.name} does not belong in a .states file"
                    )
                handler(self, argument)
        except FormatError as error:
            raise FormatError(f".states file at byte {position}: {error}") from None
        except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
            raise FormatError(f".states file damaged after byte {position}: {error}") from None
        raise FormatError(".states file ends without its last instruction")

    def _result(self) -> Any:
        (value,) = self._stack  # a ValueError, and so a damaged file, unless it is the only one
        return _plain(value)

    # -- instructions -----------------------------------------------------------------------

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def pop(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise FormatError("a mark stands where a value is expected")
        return value

    def pop_to_mark(self) -> list[Any]:
        for index in range(len(self._stack) - 1, -1, -1):
            if self._stack[index] is _MARK:
                values = self._stack[index + 1 :]
                del self._stack[index:]
                return values
        raise FormatError("a mark is missing")

    def remember(self, index: int) -> None:
        self._memo[index] = self._stack[-1]

    def memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def recall(self, index: int) -> None:
        self._stack.append(self._memo[index])

    def make_tuple(self, count: int) -> None:
        values = [_plain(self.pop()) for _ in range(count)]
        self.push(tuple(reversed(values)))

    def tuple_from_mark(self, _: Any) -> None:
        self.push(tuple(_plain(value) for value in self.pop_to_mark()))

    def append(self, values: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not list:
            raise FormatError(f"items are appended to a {type(target).__name__}")
        target.extend(_plain(value) for value in values)

    def set_items(self, values: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not dict or len(values) % 2:
            raise FormatError(f"{len(values)} keys and values are set on a {type(target).__name__}")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, (int, float, str, type(None))):
                raise FormatError(f"a dict has a key of type {type(key).__name__}")
            target[key] = _plain(value)

    def set_item(self, _: Any) -> None:
        value, key = self.pop(), self.pop()
        self.set_items([key, value])

    def name(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise FormatError("a name is not text")
        self.push(_Constructor(module, name))

    def stack_name(self, _: Any) -> None:
        name, module = self.pop(), self.pop()
        self.name(module, name)

    def reduce(self, _: Any) -> None:
        arguments, constructor = self.pop(), self.pop()
        self.push(_constructor(constructor).call(arguments))

    def new_object(self, _: Any) -> None:
        arguments, constructor = self.pop(), self.pop()
        self.push(_constructor(constructor).make(arguments))

    def build(self, _: Any) -> None:
        state, target = self.pop(), self._stack[-1]
        if isinstance(target, np.dtype):
            return  # byte order and alignment, which are the default
        if not isinstance(state, dict) or not all(isinstance(key, str) for key in state):
            raise FormatError(f"the state of a {type(target).__name__} is not a dict of attributes")
        if isinstance(
            target, (dict, list, tuple, str, bytes, int, float, _Constructor, type(None))
        ):
            raise FormatError(f"attributes are set on a {type(target).__name__}")
        if isinstance(target, NDArray):
            _check_array_state(target, state)
        if hasattr(target, "__setstate__"):
            target.__setstate__(state)
        else:
            vars(target).update(state)


def _check_array_state(array: NDArray, state: Mapping[str, Any]) -> None:
    handle = state.get("handle")
    if set(state) != {"handle"} or not isinstance(handle, (bytearray, bytes)):
        raise FormatError(f"the state of a {type(array).__name__} holds no bytes under 'handle'")


def _constructor(value: Any) -> _Constructor:
    if not isinstance(value, _Constructor):
        raise FormatError(f"a {type(value).__name__} is called")
    return value


def _plain(value: Any) -> Any:
    """Return a value that may be part of the result; raise an error for names, marks and unfilled
    arrays."""
    if value is _MARK or isinstance(value, _Constructor):
        raise FormatError("a name or mark stands where a value is expected")
    if isinstance(value, NDArray) and value._data is None:
        raise FormatError("an array is not filled")
    return value


def _make_bytearray(arguments: tuple[Any, ...]) -> bytearray:
    match arguments:
        case ():
            return bytearray()
        case (bytes() as data,):
            return bytearray(data)
        case (str() as text, "latin-1"):
            # Protocol 2 has no bytes and writes them this way.
            return bytearray(text, "latin-1")
    raise FormatError("a bytearray is made from something else than bytes")


def _make_dtype(arguments: tuple[Any, ...]) -> np.dtype[Any]:
    match arguments:
        case (str() as code, *_):
            dtype = np.dtype(code)
            if dtype.kind in "biuf":
                return dtype
    raise FormatError(f"a dtype is made from {arguments!r}, expected the code of a number type")


def _make_scalar(arguments: tuple[Any, ...]) -> Any:
    match arguments:
        case (np.dtype() as dtype, bytes() as data) if len(data) == dtype.itemsize:
            return np.frombuffer(data, dtype)[0]
    raise FormatError("a NumPy number is not made from a dtype and its bytes")


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        return iter(value.values())
    if isinstance(value, (list, tuple)):
        return iter(value)
    return iter(vars(value).values()) if hasattr(value, "__dict__") else iter(())


def _check_nesting(root: Any) -> None:
    """Raise FormatError if values contain themselves or nest too deeply for recursion.

    A pickle can refer to one value many times. Each is walked once and its depth remembered, since
    a few lists that hold the next one twice would make 2**n paths.
    """
    depths: dict[int, int] = {}
    open_values: set[int] = {id(root)}
    stack = [(root, _children(root), 0)]
    while stack:
        value, children, depth = stack.pop()
        for child in children:
            if id(child) in open_values:
                raise FormatError(".states file: a value contains itself")
            depth = max(depth, 1 + depths.get(id(child), 0))
            if id(child) not in depths and (
                isinstance(child, (dict, list, tuple)) or hasattr(child, "__dict__")
            ):
                if len(stack) >= MAX_NESTING:
                    raise FormatError(f".states file: values nest deeper than {MAX_NESTING}")
                open_values.add(id(child))
                stack += [(value, children, depth), (child, _children(child), 0)]
                break
        else:
            depths[id(value)] = depth
            open_values.discard(id(value))
            if depth > MAX_NESTING:
                raise FormatError(f".states file: values nest deeper than {MAX_NESTING}")
            if stack:
                parent, rest, known = stack.pop()
                stack.append((parent, rest, max(known, depth + 1)))


_Handler = Callable[[_Machine, Any], None]


def _push_argument(machine: _Machine, argument: Any) -> None:
    machine.push(argument)


def _push(make: Callable[[], Any]) -> _Handler:
    return lambda machine, _: machine.push(make())


def _ignore(machine: _Machine, argument: Any) -> None:
    """Skip framing and the protocol number, which do not matter if all bytes are in memory."""


_LITERALS = (
    "BININT BININT1 BININT2 LONG1 LONG4 BINFLOAT BINUNICODE SHORT_BINUNICODE BINUNICODE8 "
    "BINBYTES SHORT_BINBYTES BINBYTES8"
)

_HANDLERS: dict[str, _Handler] = {
    **dict.fromkeys(_LITERALS.split(), _push_argument),
    "PROTO": _ignore,
    "FRAME": _ignore,
    "NONE": _push(lambda: None),
    "NEWTRUE": _push(lambda: True),
    "NEWFALSE": _push(lambda: False),
    "EMPTY_DICT": _push(dict),
    "EMPTY_LIST": _push(list),
    "EMPTY_TUPLE": _push(tuple),
    "MARK": _push(lambda: _MARK),
    "BYTEARRAY8": lambda machine, data: machine.push(bytearray(data)),
    "TUPLE": _Machine.tuple_from_mark,
    "TUPLE1": lambda machine, _: machine.make_tuple(1),
    "TUPLE2": lambda machine, _: machine.make_tuple(2),
    "TUPLE3": lambda machine, _: machine.make_tuple(3),
    "APPEND": lambda machine, _: machine.append([machine.pop()]),
    "APPENDS": lambda machine, _: machine.append(machine.pop_to_mark()),
    "SETITEM": _Machine.set_item,
    "SETITEMS": lambda machine, _: machine.set_items(machine.pop_to_mark()),
    "BINPUT": _Machine.remember,
    "LONG_BINPUT": _Machine.remember,
    "MEMOIZE": _Machine.memoize,
    "BINGET": _Machine.recall,
    "LONG_BINGET": _Machine.recall,
    # genops() joins the two names by a space.
    "GLOBAL": lambda machine, names: machine.name(*names.split(" ", 1)),
    "STACK_GLOBAL": _Machine.stack_name,
    "REDUCE": _Machine.reduce,
    "NEWOBJ": _Machine.new_object,
    "BUILD": _Machine.build,
}
