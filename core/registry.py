"""Registries of classes that are created by name, such as initializers and metrics."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from .errors import UsageError, WrongType, did_you_mean

__all__ = [
    "ClassRegistry",
    "get_alias_func",
    "get_create_func",
    "get_register_func",
    "get_registry",
]

_T = TypeVar("_T")

_registries: dict[type, ClassRegistry[Any]] = {}


class ClassRegistry(Generic[_T]):
    """The subclasses of a base class, by lower-case name.

    Args:
        base: the common base class.
        kind: their name in errors, for example ``"initializer"``.
    """

    def __init__(self, base: type[_T], kind: str) -> None:
        self.base = base
        self.kind = kind
        self._classes: dict[str, type[_T]] = {}
        _registries[base] = self

    def register(self, klass: type[_T], name: str | None = None) -> type[_T]:
        """Register a class under a name, its own by default."""
        if not (isinstance(klass, type) and issubclass(klass, self.base)):
            raise WrongType(
                f"{klass!r} is not a subclass of {self.base.__name__}; derive it from that class"
            )
        self._classes[(name or klass.__name__).lower()] = klass
        return klass

    def alias(self, *names: str) -> Callable[[type[_T]], type[_T]]:
        """Return a decorator that registers a class under additional names."""

        def decorate(klass: type[_T]) -> type[_T]:
            for name in names:
                self.register(klass, name)
            return klass

        return decorate

    def create(self, name: Any, /, *args: Any, **kwargs: Any) -> _T:
        """Return an instance for a name, its JSON form, a dict or an instance.

        Raises:
            UsageError: the name is not registered, or arguments are given together with an
                instance.
            WrongType: the class does not take these options.
        """
        if isinstance(name, self.base):
            if args or kwargs:
                raise WrongType(f"{name!r} is an instance already; drop the other arguments")
            return name
        if isinstance(name, dict):
            options = dict(name)
            return self.create(options.pop(self.kind), **options)
        if not isinstance(name, str):
            raise WrongType(f"{self.kind} is {name!r}; expected a name or a {self.base.__name__}")
        if name.startswith("["):
            inner, options = json.loads(name)
            return self.create(inner, **options)
        if name.startswith("{"):
            return self.create(json.loads(name))
        if name.lower() not in self._classes:
            known = sorted(self._classes)
            raise UsageError(
                f"{self.kind} {name!r} is not registered{did_you_mean(name.lower(), known)}; "
                f"there are {', '.join(known)}"
            )
        found = self._classes[name.lower()]
        self._check_options(name, found, kwargs)
        return found(*args, **kwargs)

    def _check_options(self, name: str, found: type[_T], options: Mapping[str, Any]) -> None:
        """Raise WrongType for an option that a class does not take; the message lists its
        options."""
        parameters = inspect.signature(found).parameters.values()
        if any(one.kind is one.VAR_KEYWORD for one in parameters):
            return
        known = [one.name for one in parameters if one.kind is not one.VAR_POSITIONAL]
        for option in options:
            if option not in known:
                raise WrongType(
                    f"{self.kind} {name!r} has no option {option!r}{did_you_mean(option, known)}; "
                    f"it takes {', '.join(known) or 'none'}"
                )

    def names(self) -> list[str]:
        """Return the registered names, sorted."""
        return sorted(self._classes)

    def classes(self) -> dict[str, type[_T]]:
        """Return the registered classes by name."""
        return dict(self._classes)


def get_registry(base_class: type[_T]) -> dict[str, type[_T]]:
    """Return the classes registered for a base, by name."""
    return _registry(base_class, base_class.__name__).classes()


def get_register_func(base_class: type[_T], nickname: str) -> Callable[..., type[_T]]:
    """Return a function that registers subclasses of a base, under their names or another one."""
    return _registry(base_class, nickname).register


def get_alias_func(
    base_class: type[_T], nickname: str
) -> Callable[..., Callable[[type[_T]], type[_T]]]:
    """Return a function of names that returns a decorator that registers a class under them."""
    return _registry(base_class, nickname).alias


def get_create_func(base_class: type[_T], nickname: str) -> Callable[..., _T]:
    """Return a function that creates an instance by name, as ``ClassRegistry.create`` does."""
    return _registry(base_class, nickname).create


def _registry(base_class: type[_T], nickname: str) -> ClassRegistry[_T]:
    return _registries.get(base_class) or ClassRegistry(base_class, nickname)
