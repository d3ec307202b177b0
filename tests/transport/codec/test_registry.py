"""What may be registered, and what the errors say of what may not."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from enum import Enum, Flag
from typing import Any

import pytest

from actorflow import errors
from actorflow.coord.rules import messages
from actorflow.errors import ConfigError, WireError
from actorflow.transport.codec.message_codec import decode, encode, join
from actorflow.transport.codec.registry import BY_TYPE, travels
from tests.transport.values import Colour, Point


@dataclass(slots=True)
class Mutable:
    x: int


@dataclass(frozen=True)
class Slotless:
    x: int


@dataclass(frozen=True, slots=True)
class Counted:
    x: int
    seen: int = field(default=0, init=False)


@dataclass(frozen=True, slots=True)
class Given:
    x: int
    seed: InitVar[int]


class Bits(Flag):
    A = 1


class Plain:
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Fine:
    x: int


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("tests.a", Mutable, f"what travels is an enum or a frozen dataclass with slots, got {__name__}.Mutable"),
        ("tests.a", Slotless, "frozen dataclass with slots, got"),
        ("tests.a", Plain, "frozen dataclass with slots, got"),
        ("tests.a", int, "frozen dataclass with slots, got builtins.int"),
        ("tests.a", Counted, f"a record is made from its fields alone, got {__name__}.Counted(x)"),
        ("tests.a", Given, "Given(x, seed)"),
        ("tests.a", Bits, "a member of an enum travels by its name"),
        ("tests.point", Fine, "tests.transport.values.Point travels as 'tests.point', so"),
        ("tests.again", Point, "Point travels as 'tests.point', so"),
        ("", Fine, "a record is named by identifiers with dots between them, got ''"),
        ("tests..a", Fine, "got 'tests..a'"),
        ("a b", Fine, "got 'a b'"),
    ],
)  # fmt: skip
def test_a_class_that_could_not_travel_is_refused_when_it_is_registered(
    name: str, kind: type[Any], text: str
) -> None:
    before = dict(BY_TYPE)

    with pytest.raises(ConfigError) as caught:
        travels(name)(kind)

    assert text in caught.value.what
    assert before == BY_TYPE


@travels("tests.positive")
@dataclass(frozen=True, slots=True)
class Positive:
    x: int

    def __post_init__(self) -> None:
        if self.x <= 0:
            message = f"x must be positive, got {self.x}"
            raise ValueError(message)


def test_a_record_is_made_by_its_class_which_may_refuse() -> None:
    frame = join(encode(Positive(5)))
    assert decode(frame) == Positive(5)

    with pytest.raises(
        WireError, match=r"'tests.positive' refuses its values: ValueError: x must be positive, got -5"
    ):
        decode(frame.replace(b"\x05", b"\xfb"))


def test_a_member_of_an_enum_is_the_same_object() -> None:
    assert decode(join(encode([Colour.BLUE, Colour.RED]))) == [Colour.BLUE, Colour.RED]
    assert decode(join(encode(Colour.BLUE))) is Colour.BLUE


def test_every_record_of_coordination_travels() -> None:
    records = [
        k for k in vars(messages).values() if isinstance(k, type) and k.__module__ == messages.__name__
    ]

    assert len(records) > 20
    assert all(BY_TYPE[kind].name.startswith("coord.") for kind in records)


def test_records_of_coordination_arrive_as_they_were() -> None:
    stage = messages.PrepareUpdate(1, 7, ((0, 3), (1, 4)))
    said = [
        messages.Permit(1, 2, 0, 7, messages.Batch(0, 5)),
        messages.ShardStatus(0, 8, staged=None, last=stage),
        messages.Computed(1, 2, 0, 7, (0.5, 0.25)),
        messages.Updated(8, ((0, 3, messages.Batch(0, 5), 7),), dropped=((4, "late"),), alive=2),
    ]

    assert decode(join(encode(said))) == said


def test_an_error_in_a_record_is_an_error_again() -> None:
    end = messages.RunEnded(3, errors.ShardLost("shard 1 is gone", hint="start it again"))

    read = decode(join(encode(end)))

    assert type(read.error) is errors.ShardLost
    assert str(read.error) == "shard 1 is gone\n  try:   start it again"


def test_an_enum_that_is_not_registered_has_no_entry() -> None:
    class Other(Enum):
        A = 1

    assert Other not in BY_TYPE
