"""Which classes travel, by name: frozen slotted dataclasses and enums that were registered.

    @travels("coord.permit")
    @dataclass(frozen=True, slots=True)
    class Permit: ...

A message holds the name and the fields, nothing that runs; whoever reads it makes the instance of the
class that it has itself registered under that name. So both sides import the modules that register.
Both sides hold the fields against their annotations, see `check_of`: what a record promises, it keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from enum import Enum, Flag
from inspect import signature
from operator import attrgetter
from typing import Any, TypeVar

from actorflow.errors import ConfigError, WireError, describe, pluralise, show_value
from actorflow.transport.codec.field_checks import FieldCheck, check_of

C = TypeVar("C", bound=type)

HOW = (
    'decorate its class with @travels("a.name") of actorflow.transport.codec.registry; '
    "it must be an enum or a frozen dataclass with slots"
)
"""The advice for whoever sends what is not registered."""

_SHOWN = 60  # characters of a name that an error shows
_KNOWN = 64  # how many combinations of types of its fields are remembered of a record


@dataclass(frozen=True, slots=True)
class RegisteredType:
    """A class that travels.

    Attributes:
        names: Of its fields.
        values: Takes an instance apart.
        make: Puts one together from as many values as it has fields.
        check: What each field may be.
        known: Types of fields that were found to fit, together, whatever the values are.
    """

    name: str
    kind: type
    names: tuple[str, ...]
    values: Callable[[Any], tuple[Any, ...]]
    make: Callable[..., Any]
    check: tuple[FieldCheck, ...]
    known: set[tuple[type, ...]] = field(default_factory=set)


BY_TYPE: dict[type, RegisteredType] = {}
"""Every class that travels; to be read only."""

_BY_NAME: dict[str, RegisteredType] = {}


def travels(name: str) -> Callable[[C], C]:
    """Registers the decorated class under `name`, for every message of this process.

    Args:
        name: What stands in messages: identifiers with dots between them.

    A record is made by its class wherever it is read: its `__post_init__` runs there once more, on values
    that it has made or passed before, so it must leave these as they are.

    Raises:
        ConfigError: when the name is taken, or the class is neither an enum nor a dataclass that is
            frozen, has slots, and whose `__init__` takes its fields and nothing else; or when the
            annotations of its fields cannot be read yet.
    """

    def register(kind: C) -> C:
        _check_name(name, kind)
        enter(_enum(name, kind) if issubclass(kind, Enum) else _record(name, kind))
        return kind

    return register


def enter(entry: RegisteredType) -> None:
    """Registers a class that says itself how it is taken apart and made, as `travels` does the others."""
    BY_TYPE[entry.kind] = _BY_NAME[entry.name] = entry


def entry_of(name: str) -> RegisteredType:
    """Returns the entry of that name.

    Raises:
        WireError: when there is none; the text lists near names.
    """
    found = _BY_NAME.get(name)
    if found is not None:
        return found
    near = get_close_matches(name[:_SHOWN], _BY_NAME, n=3, cutoff=0.5)  # costs the square of the length
    others = f"near it are {', '.join(near)}" if near else f"none of the {len(_BY_NAME)} names is near it"
    message = f"no record is registered as {name[:_SHOWN]!r}; {others}"
    raise WireError(message, hint="import the module that registers it on both sides")


def make_record(entry: RegisteredType, values: list[Any]) -> Any:
    """Returns the instance of a record with these fields.

    Raises:
        WireError: when they are too few or too many, or one is not what its field may be, or the class
            refuses them.
    """
    if len(values) != len(entry.names):
        message = f"record {entry.name!r} has {pluralise(len(entry.names), 'field')}, got {len(values)}"
        raise WireError(message)
    if wrong := misfit(entry, values):
        raise WireError(wrong)
    try:
        return entry.make(*values)
    except Exception as error:  # what the class checks in its __post_init__
        message = f"record {entry.name!r} refuses its values: {describe(error)}"
        raise WireError(message) from error


def misfit(entry: RegisteredType, values: Sequence[Any]) -> str:
    """Says which of as many values as there are fields is not what its field may be; nothing if all are."""
    kinds = tuple(map(type, values))
    if kinds in entry.known:
        return ""
    by_type = True
    for name, fit, kind, value in zip(entry.names, entry.check, kinds, values, strict=True):
        if not fit.takes_all_of(kind):
            by_type = False
            if not fit.takes(value):
                return (
                    f"field {name!r} of record {entry.name!r} must be {fit.description}, got "
                    f"{show_value(value)}"
                )
    if by_type and len(entry.known) < _KNOWN:
        entry.known.add(kinds)
    return ""


def _check_name(name: str, kind: type) -> None:
    if not all(part.isidentifier() for part in name.split(".")):
        message = f"a record is named by identifiers with dots between them, got {name!r}"
        raise ConfigError(message)
    for entry in (_BY_NAME.get(name), BY_TYPE.get(kind)):
        if entry is not None:
            message = (
                f"{_type_name(entry.kind)} travels as {entry.name!r}, so {_type_name(kind)} cannot be "
                f"{name!r}"
            )
            raise ConfigError(message, hint="one class has one name, and a name means one class")


def _record(name: str, kind: type) -> RegisteredType:
    names = tuple(f.name for f in fields(kind)) if is_dataclass(kind) else ()
    parameters: Any = kind.__dict__.get("__dataclass_params__")
    if parameters is None or not parameters.frozen or kind.__dictoffset__:
        message = f"what travels is an enum or a frozen dataclass with slots, got {_type_name(kind)}"
        raise ConfigError(message, hint="@dataclass(frozen=True, slots=True), below @travels")
    taken = signature(kind).parameters
    if set(taken) != set(names):
        message = f"a record is made from its fields alone, got {_type_name(kind)}({', '.join(taken)})"
        raise ConfigError(message, hint=f"let __init__ take {', '.join(names) or 'nothing'}")

    def by_keyword(*values: Any) -> Any:
        return kind(**dict(zip(names, values, strict=True)))

    in_order = tuple(taken) == names and all(p.kind is p.POSITIONAL_OR_KEYWORD for p in taken.values())
    make = kind if in_order else by_keyword
    return RegisteredType(name, kind, names, _taker(names), make, check_of(kind, names))


def _enum(name: str, kind: type[Enum]) -> RegisteredType:
    if issubclass(kind, Flag):
        message = f"a member of an enum travels by its name, and {_type_name(kind)} has members without one"
        raise ConfigError(message, hint="send its number")
    make = kind.__members__.__getitem__
    return RegisteredType(
        name, kind, ("name",), lambda member: (member.name,), make, (FieldCheck((str,), description="str"),)
    )


def _taker(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    if names:
        (name,) = names
        return lambda record: (getattr(record, name),)
    return lambda _record: ()


def _type_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
