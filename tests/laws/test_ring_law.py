"""A ring between two that share nothing but its memory: what is read is what was written, or is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from actorflow.errors import WireError
from actorflow.transport.rules.ring_buffer import CONSUMED, PAGE, RingReader, RingWriter, slot_bytes
from tests.support.strategies import examples

TOKEN = bytes(range(16))
CAPACITY = 1024

sizes = st.one_of(st.integers(1, 300), st.sampled_from([64, 128, 512, 960, 1024, 1025]))
step = st.one_of(
    st.tuples(st.just("write"), sizes),
    st.tuples(st.just("read"), st.integers(0, 3)),  # which of the places on their way; the first is usual
    st.tuples(st.just("lose"), st.integers(0, 3)),
    st.tuples(st.just("double"), st.integers(0, 3)),
    st.tuples(st.just("pass"), st.just(0)),
)
steps = st.lists(step, max_size=60)


class Pair:
    """Both ends, and the places that are on their way."""

    def __init__(self) -> None:
        self.memory = memoryview(bytearray(PAGE + CAPACITY))
        self.writer = RingWriter(self.memory, TOKEN)
        self.reader = RingReader(self.memory, TOKEN)
        self.way: list[tuple[int, int]] = []  # positions and sizes
        self.written: dict[int, bytes] = {}
        self.n = 0

    def unread(self) -> list[tuple[int, int]]:
        return [(at, len(self.written[at])) for at in self.written if at >= self.reader.consumed]

    def write(self, size: int) -> int | None:
        self.n += 1
        payload = bytes((self.n + i) % 256 for i in range(size))
        slots = self.memory[PAGE:]
        before = {at: bytes(slots[at % CAPACITY :][:n]) for at, n in self.unread()}
        position = self.writer.put(memoryview(payload))
        for at, was in before.items():  # what is unread was not written to
            assert bytes(slots[at % CAPACITY :][: len(was)]) == was
        if position is not None:
            assert position not in self.written
            self.written[position] = payload
            self.way.append((position, size))
        assert sum(slot_bytes(size) for _, size in self.unread()) <= CAPACITY
        return position

    def read(self, place: tuple[int, int]) -> bool:
        """Reads a place; true when it was there."""
        position, size = place
        stale = position < self.reader.consumed
        found = self.reader.find(position, size)
        assert (found is None) == stale
        if found is None:
            return False
        assert found.readonly
        assert bytes(found) == self.written[position]
        self.reader.free(position + slot_bytes(size))
        return True

    def do(self, step: tuple[str, int]) -> None:
        what, n = step
        if what == "write":
            self.write(n)
        elif what == "pass":
            self.reader.free(self.writer.head)
        elif self.way:
            at = min(n, len(self.way) - 1)
            if what == "double":
                self.way.append(self.way[at])
            elif what == "lose":
                del self.way[at]
            else:
                self.read(self.way.pop(at))

    def run(self, steps: list[tuple[str, int]]) -> None:
        for step in steps:
            self.do(step)
            assert self.writer.consumed <= self.reader.consumed <= self.writer.head


@given(steps=steps)
def test_what_is_read_is_what_was_written(steps: list[tuple[str, int]]) -> None:
    Pair().run(steps)


@given(steps=steps, size=st.integers(1, CAPACITY))
def test_there_is_room_for_anything_once_all_is_read_or_passed(
    steps: list[tuple[str, int]], size: int
) -> None:
    pair = Pair()
    pair.run(steps)

    pair.reader.free(pair.writer.head)

    assert pair.write(size) is not None
    assert pair.read(pair.way[-1])


@given(n=st.integers(1, 16), steps=steps)
def test_all_the_room_is_there_once_all_is_read(n: int, steps: list[tuple[str, int]]) -> None:
    pair = Pair()
    pair.run(steps)
    pair.reader.free(pair.writer.head)
    pair.way.clear()

    assert all(pair.write(CAPACITY // n // 64 * 64) is not None for _ in range(n))
    assert all(pair.read(place) for place in pair.way)


@given(sizes=st.lists(st.integers(1, CAPACITY), min_size=1, max_size=40))
def test_nothing_is_refused_in_order_and_without_loss(sizes: list[int]) -> None:
    pair = Pair()
    for size in sizes:
        while pair.write(size) is None:
            assert pair.read(pair.way.pop(0))
    assert all(pair.read(place) for place in pair.way)
    assert pair.reader.passed == 0


numbers = st.one_of(st.integers(0, 3 * CAPACITY), st.integers(0, 2**64 - 1))


@given(steps=steps, places=st.lists(st.tuples(numbers, numbers), max_size=20))
def test_a_place_that_cannot_be_is_refused_and_changes_nothing(
    steps: list[tuple[str, int]], places: list[tuple[int, int]]
) -> None:
    pair = Pair()
    pair.run(steps)
    consumed = pair.reader.consumed
    for position, size in places:
        try:
            found = pair.reader.find(position, size)
        except WireError:
            continue
        assert found is None or (len(found) == size and position % CAPACITY + size <= CAPACITY)
    assert pair.reader.consumed == consumed
    pair.run(steps)


@given(
    steps=steps,
    garbage=st.lists(st.tuples(st.integers(0, PAGE // 8 - 1), numbers), max_size=10),
    consumed=st.one_of(st.none(), numbers),
)
def test_garbage_in_the_header_is_refused_or_costs_only_whoever_wrote_it(
    steps: list[tuple[str, int]], garbage: list[tuple[int, int]], consumed: int | None
) -> None:
    """The reader never looks at it; the writer stops, or writes over what only that reader has not read."""
    pair = Pair()
    pair.run(steps)
    header = pair.memory[:PAGE].cast("Q")
    for at, number in garbage:
        header[at] = number
    if consumed is not None:
        header[CONSUMED] = consumed
    before, head, was = pair.reader.consumed, pair.writer.head, pair.writer.consumed
    told = header[CONSUMED]
    try:
        pair.writer.put(memoryview(b"x"))
        assert was <= told <= head
    except WireError:
        assert not was <= told <= head
        assert pair.writer.head == head
    assert pair.reader.consumed == before


def overwrites(self: Any, payload: memoryview) -> int:
    """A writer that does not ask what was read."""
    size, head = len(payload), self.head
    position: int = head if head % CAPACITY + size <= CAPACITY else head - head % CAPACITY + CAPACITY
    at = position % CAPACITY
    self._slots[at : at + size] = payload
    self.head = position + slot_bytes(size)
    return position


def believes(self: Any, position: int, size: int) -> memoryview:
    """A reader that takes a place at its word."""
    found: memoryview = self._slots[position % CAPACITY :][:size]
    return found.toreadonly()


@pytest.mark.parametrize(
    ("owner", "name", "fault"), [(RingWriter, "put", overwrites), (RingReader, "find", believes)]
)
def test_the_law_sees_a_planted_fault(
    owner: type, name: str, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, fault)

    @settings(max_examples=examples(200), database=None, derandomize=True, phases=(Phase.generate,))
    @given(steps=steps)
    def law(steps: list[tuple[str, int]]) -> None:
        Pair().run(steps)

    with pytest.raises((AssertionError, ValueError, WireError)):
        law()
