"""What fits an annotation, and that no record is written or read whose fields do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, NewType, Protocol, TypeVar

import numpy as np
import pytest
from hypothesis import given

from actorflow.coord.rules.messages import Batch, Computed, Contribute, Permit, PrepareUpdate
from actorflow.dataflow.remote.step_messages import Token
from actorflow.errors import ActorflowError, CannotTravel, ConfigError, StateError, WireError
from actorflow.transport.codec.field_checks import ANYTHING, check_value
from actorflow.transport.codec.message_codec import decode, encode, join
from actorflow.transport.codec.registry import BY_TYPE, travels
from tests.transport.values import Colour, Nothing, Point, everything

StepId = NewType("StepId", int)
Free = TypeVar("Free")
Bound = TypeVar("Bound", bound=str)


class Named(Protocol):
    name: str


class Later(Enum):
    NOW = 1


class Anything:
    """Of no type that a test names."""

    def __repr__(self) -> str:
        return "ANY"


ANY = Anything()


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (int, [0, True, 2**80], [1.0, "1", None, np.int64(1)]),
        (float, [0.5, 1, True, np.float64(1), float("nan")], ["1", None, 2**1024, np.float32(1)]),
        (str, ["", "a"], [b"a", 1, None]),
        (bool, [True], [0, 1, None]),
        (bytes, [b""], ["", bytearray()]),
        (None, [None], [0, ""]),
        (type(None), [None], [0]),
        (Any, [None, 1, ANY], []),
        (object, [None, 1], []),
        (int | None, [1, None], ["a", 1.5]),
        (str | None, ["a", None], [1]),
        (int | str | tuple[int, ...], [1, "a", (), (1, 2)], [None, ("a",), [1]]),
        (tuple, [(), (1, "a")], [[], 1]),
        (tuple[()], [()], [(1,)]),
        (tuple[int, ...], [(), (1,), (1, True)], [(1, "a"), [1], 1, ("a", 1)]),
        (tuple[int, str], [(1, "a")], [(), (1,), ("a", 1), (1, "a", 2), [1, "a"]]),
        (tuple[tuple[int, str], ...], [(), ((1, "a"), (2, "b"))], [((1, "a"), (2,)), ((1, 2),), (1,)]),
        (tuple[Any, ...], [(1, None)], [[1]]),
        (list[float], [[], [1, 0.5]], [["a"], (1,)]),
        (Sequence[int], [[], (1,)], ["a", b"a", {1: 2}, ("a",)]),
        (Mapping[str, Any], [{}, {"a": ANY}], [{1: 2}, [], None]),
        (Mapping, [{}, {1: 2}], [[]]),
        (dict[str, tuple[int, ...]], [{"a": (1,)}], [{"a": [1]}, {"a": ("b",)}]),
        (np.ndarray, [np.zeros(2)], [np.float32(1), [1], None]),
        (np.ndarray[Any, Any], [np.zeros(2)], [1]),
        (Colour, [Colour.RED], ["RED", Later.NOW]),
        (Point, [Point(1)], [Nothing(), None]),
        (ActorflowError | None, [StateError("a"), None], ["a", ValueError("a")]),
        (Literal["a", 1], ["a", 1], ["b", True, 1.0]),
        (Annotated[int, "metres"], [1], ["a"]),
        (StepId, [1], ["a"]),
        (Bound, ["a"], [1]),
        (Free, [1, "a"], []),
        (Named, [1], []),
    ],
    ids=str,
)
def test_a_value_fits_as_a_type_checker_says(hint: Any, good: list[Any], bad: list[Any]) -> None:
    made = check_value(hint)

    for _ in range(2):  # what was remembered says the same
        assert [made.takes(value) for value in good] == [True] * len(good)
        assert [made.takes(value) for value in bad] == [False] * len(bad)


@pytest.mark.parametrize(
    "hint", [int, str, int | None, tuple[int, ...], Mapping[str, Any], Any, float, Colour]
)
@given(value=everything)
def test_types_that_fit_whatever_the_value_have_only_values_that_fit(hint: Any, value: Any) -> None:
    made = check_value(hint)

    assert made.takes(value) or not made.takes_all_of(type(value))


def test_an_annotation_of_no_known_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="a field is of a class, or a union, tuple, list or mapping"):
        check_value(3)


def test_a_record_whose_annotations_cannot_be_read_is_refused_when_it_is_registered() -> None:
    @dataclass(frozen=True, slots=True)
    class Unclear:
        x: Nowhere  # type: ignore[name-defined]  # noqa: F821

    before = dict(BY_TYPE)

    with pytest.raises(
        ConfigError, match="what the fields of .*Unclear are must be known by now: name 'Nowhere'"
    ):
        travels("tests.unclear")(Unclear)

    assert before == BY_TYPE


@travels("tests.chain")
@dataclass(frozen=True, slots=True)
class Chain:
    next: Chain | None = None
    tail: tuple[Chain, ...] = ()


def test_a_record_may_name_itself() -> None:
    value = Chain(Chain(), (Chain(Chain()),))

    assert decode(join(encode(value))) == value


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (Token("s", "two", 0, None, False, "p0", 1), "field 'number' of record 'step.token' must be int, got 'two'"),  # type: ignore[arg-type]
        (Batch(0, None), "field 'index' of record 'coord.batch' must be int, got None"),  # type: ignore[arg-type]
        (Permit(1, 2, 0, 7, (0, 5)), "field 'batch' of record 'coord.permit' must be"),  # type: ignore[arg-type]
        (Computed(1, 2, 0, 7, (0.5, "a")), "field 'scalars' of record 'coord.computed' must be tuple[float, ...], got (0.5, 'a')"),  # type: ignore[arg-type]
        (Computed(1, 2, 0, 7, (2**1024,)), "field 'scalars'"),
        (PrepareUpdate(1, 7, ((0, 3), (1,))), "field 'chosen'"),  # type: ignore[arg-type]
        (Contribute(1, 2, 0, 7, {1: 2}), "field 'gradients'"),  # type: ignore[dict-item]
    ],
)  # fmt: skip
def test_a_record_is_neither_written_nor_read_unless_its_fields_fit(
    record: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CannotTravel) as ours:
        encode([record])
    with monkeypatch.context() as unchecked:
        unchecked.setattr("actorflow.transport.codec.encoder.misfit", lambda entry, values: "")
        frame = join(encode(record))

    with pytest.raises(WireError) as theirs:
        decode(frame)

    assert text in ours.value.what
    assert "at [0]" in ours.value.what
    assert text in theirs.value.what


def test_what_a_record_has_held_says_nothing_of_other_values() -> None:
    for values in ((), (1.5,), (1,)):
        frame = join(encode(Computed(1, 2, 0, 7, values)))
        assert decode(frame).scalars == values
        with pytest.raises(CannotTravel):
            encode(Computed(1, 2, 0, 7, (*values, "a")))  # type: ignore[arg-type]


def test_anything_is_anything() -> None:
    assert check_value(Any) == ANYTHING
