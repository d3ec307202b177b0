from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from actorflow.errors import ActorError, ConfigError, HandlerError
from actorflow.sim.world.in_flight_messages import Disk, copy_message


@dataclass(frozen=True, slots=True)
class Plain:
    name: str
    number: int


@dataclass(frozen=True)
class Holds:
    values: Any


class HoldsMore(Holds):
    """Frozen by inheritance only: it has a dict of its own."""


@dataclass
class Open:
    number: int


@pytest.mark.parametrize("message", [1, 2.5, "x", b"x", None, True, 1j, (1, "x"), Plain("x", 1)], ids=repr)
def test_plain_values_need_no_copy(message: object) -> None:
    assert copy_message(message) is message


@pytest.mark.parametrize(
    ("message", "change"),
    [
        ([1, [2]], lambda m: m[1].append(3)),
        (([1],), lambda m: m[0].append(3)),
        ({"a": {1: 2}}, lambda m: m["a"].clear()),
        (np.zeros(3), lambda m: m.fill(1)),
        ((np.zeros(3), 1), lambda m: m[0].fill(1)),
        (Holds([1]), lambda m: m.values.append(3)),
        (Holds(np.zeros(3)), lambda m: m.values.fill(1)),
        (Open(1), lambda m: setattr(m, "number", 2)),
    ],
    ids=lambda value: "" if callable(value) else repr(value),
)
def test_what_can_change_is_copied(message: Any, change: Callable[[Any], object]) -> None:
    before = repr(message)

    change(copy_message(message))

    assert repr(message) == before


def test_a_subclass_of_a_frozen_class_is_copied_for_what_it_may_hold() -> None:
    message = HoldsMore(1)
    vars(message)["more"] = [1]

    received = copy_message(message)

    assert received is not message
    assert vars(received)["more"] is not vars(message)["more"]


def test_what_has_no_copy_is_refused_with_its_type() -> None:
    context = Holds(asyncio.Lock)
    generator = (i for i in range(3))

    assert copy_message(context).values is asyncio.Lock
    with pytest.raises(ConfigError, match="this generator cannot be: TypeError"):
        copy_message(generator)


class Stubborn(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")

    def __deepcopy__(self, memo: Any) -> Any:  # not only by __init__: some libraries copy around that
        return type(self)(*self.args)


class Changes(Exception):
    def __reduce__(self) -> tuple[Any, ...]:
        return (ValueError, ("somebody else",))


def test_an_error_is_copied_with_its_arguments_cause_and_notes() -> None:
    values = [1]
    cause = ValueError(values)
    error = HandlerError("it raised", hint="look")
    error.__cause__ = cause
    error.add_note("noted")

    received = copy_message(error)
    received.__cause__.args[0].append(2)

    assert (type(received), str(received)) == (HandlerError, str(error))
    assert received.__notes__ == ["noted"]
    assert received is not error
    assert values == [1]
    assert received.__traceback__ is None


@pytest.mark.parametrize("error", [Stubborn("a", "b"), Changes("a b")], ids=["cannot", "changes"])
def test_of_an_error_that_has_no_copy_its_text_travels(error: Exception) -> None:
    received = copy_message(error)

    assert type(received) is ActorError
    assert f"{type(error).__name__}: a b" in str(received)


def test_a_disk_keeps_what_was_written_and_not_what_was_held() -> None:
    disk = Disk()
    values = [1]

    disk["values"] = values
    values.append(2)
    disk["values"].append(3)

    assert dict(disk) == {"values": [1]}
    assert repr(disk) == "<Disk {'values': [1]}>"


def test_a_disk_is_a_mapping() -> None:
    disk = Disk()
    disk.update(a=1, b=2)

    del disk["a"]

    assert (list(disk), len(disk), disk.get("a")) == (["b"], 1, None)
    with pytest.raises(KeyError):
        disk["a"]
