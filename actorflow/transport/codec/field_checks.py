"""Which values fit an annotation: what the fields of a record may be when it is written or read.

A value fits as a type checker says: bool is an int, and int is a float. What a message cannot hold fits
nowhere, so of containers there are tuple, list and dict; a Sequence is a list or tuple, a Mapping a dict.
What a protocol asks for is not looked at.
"""

from __future__ import annotations

import collections.abc as abstract
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from actorflow.errors import ConfigError

_KNOWN = 64  # types that are remembered at one place

Rule = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class FieldCheck:
    """What a value may be: an instance of one of the classes, or what one of the rules takes.

    Attributes:
        description: The same in words.
    """

    classes: tuple[type, ...] = ()
    rules: tuple[Rule, ...] = ()
    description: str = field(default="", compare=False)

    def takes_all_of(self, kind: type) -> bool:
        """Tells whether all values of this type fit."""
        return issubclass(kind, self.classes)

    def takes(self, value: Any) -> bool:
        """Tells whether a value fits."""
        if isinstance(value, self.classes):
            return True
        for rule in self.rules:  # noqa: SIM110  no generator: this is what reading tuples takes
            if rule(value):
                return True
        return False

    def each(self) -> Callable[[Collection[Any]], bool]:
        """Returns what tells whether all of many values fit; it remembers types, as most come again."""
        known: set[type] = set()

        def takes_each(values: Collection[Any]) -> bool:
            if known.issuperset(map(type, values)):
                return True
            kinds = set(map(type, values))
            if not all(map(self.takes_all_of, kinds)):
                return all(map(self.takes, values))
            if len(known) < _KNOWN:
                known.update(kinds)
            return True

        return takes_each


ANYTHING = FieldCheck((object,))


def check_of(kind: type, names: Iterable[str]) -> tuple[FieldCheck, ...]:
    """Returns what these attributes of a class may be, by its annotations.

    Raises:
        ConfigError: one of them cannot be read now, or says nothing that values can be held against.
    """
    try:
        hints = get_type_hints(kind, localns={kind.__name__: kind})
    except Exception as error:
        message = f"what the fields of {kind.__qualname__} are must be known by now: {error}"
        raise ConfigError(message, hint="import what annotations name, outside `if TYPE_CHECKING`") from error
    return tuple(replace(check_value(hints[name]), description=_describe(hints[name])) for name in names)


def check_value(hint: Any) -> FieldCheck:
    """Returns what fits an annotation.

    Raises:
        ConfigError: it is of no kind that is known here.
    """
    origin = get_origin(hint) or hint
    if origin is Annotated or isinstance(hint, TypeVar | NewType):
        return check_value(_resolve_type(hint))
    if origin is Union or origin is UnionType:
        parts = [check_value(part) for part in get_args(hint)]
        return FieldCheck(sum((p.classes for p in parts), ()), sum((p.rules for p in parts), ()))
    if origin is Literal:
        return FieldCheck(rules=(_one_of(get_args(hint)),))
    if hint is None or hint is Any or getattr(origin, "_is_protocol", False):
        return FieldCheck((NoneType,)) if hint is None else ANYTHING
    if hint is float:
        return FieldCheck((float,), (_fits_float,))
    if not isinstance(origin, type):
        message = f"a field is of a class, or a union, tuple, list or mapping of such, got {hint!r:.80}"
        raise ConfigError(message)
    made_of = get_args(hint)
    if origin is tuple and hint is not tuple and made_of[1:] != (...,):
        return FieldCheck(rules=(_tuple_of([check_value(part) for part in made_of]),))
    kinds = _CONTAINERS.get(origin, (origin,))
    parts = [check_value(part) for part in made_of if part is not ...]
    if origin not in _CONTAINERS or all(part == ANYTHING for part in parts):
        return FieldCheck(kinds)
    return FieldCheck(rules=(_mapping_of(*parts) if kinds == (dict,) else _each_of(kinds, *parts),))


def _describe(hint: Any) -> str:
    return hint.__name__ if type(hint) is type else str(hint)


def _resolve_type(hint: Any) -> Any:
    """What stands behind a name for a type."""
    if isinstance(hint, TypeVar):
        return hint.__bound__ or (Union[hint.__constraints__] if hint.__constraints__ else Any)  # noqa: UP007
    return hint.__supertype__ if isinstance(hint, NewType) else get_args(hint)[0]


def _fits_float(value: Any) -> bool:
    """An integer that no float is as large as would fail where it is used."""
    return isinstance(value, int) and value.bit_length() < 1024


def _one_of(choices: tuple[Any, ...]) -> Rule:
    return lambda value: any(type(value) is type(choice) and value == choice for choice in choices)


def _tuple_of(parts: list[FieldCheck]) -> Rule:
    return lambda value: (
        isinstance(value, tuple)
        and len(value) == len(parts)
        and all(part.takes(each) for part, each in zip(parts, value, strict=True))
    )


def _each_of(kinds: tuple[type, ...], part: FieldCheck) -> Rule:
    takes_each = part.each()
    return lambda value: isinstance(value, kinds) and takes_each(cast("Collection[Any]", value))


def _mapping_of(key: FieldCheck, part: FieldCheck) -> Rule:
    keys, values = key.each(), part.each()
    return lambda value: isinstance(value, dict) and keys(value) and values(value.values())


_CONTAINERS: dict[Any, tuple[type, ...]] = {
    tuple: (tuple,),
    list: (list,),
    dict: (dict,),
    abstract.Sequence: (list, tuple),
    abstract.Collection: (list, tuple),
    abstract.Iterable: (list, tuple),
    abstract.MutableSequence: (list,),
    abstract.Mapping: (dict,),
    abstract.MutableMapping: (dict,),
}
