"""The ring: slots, their places, and who frees them."""

from __future__ import annotations

import pytest

from actorflow.errors import WireError
from actorflow.transport.rules.ring_buffer import CONSUMED, PAGE, RingReader, RingWriter, slot_bytes

TOKEN = b"0123456789abcdef"


def pair(capacity: int = 1024) -> tuple[RingWriter, RingReader]:
    memory = memoryview(bytearray(PAGE + capacity))
    return RingWriter(memory, TOKEN), RingReader(memory, TOKEN)


def put(writer: RingWriter, size: int, byte: bytes = b"x") -> int | None:
    return writer.put(memoryview(byte * size))


def take(reader: RingReader, position: int | None, size: int) -> bytes:
    assert position is not None
    found = reader.find(position, size)
    assert found is not None
    payload = bytes(found)
    reader.free(position + slot_bytes(size))
    return payload


def test_slots_lie_one_behind_the_other_on_lines_of_the_cache() -> None:
    writer, reader = pair()

    places = [put(writer, 1), put(writer, 65), put(writer, 64)]

    assert places == [0, 64, 192]
    assert [take(reader, p, n) for p, n in zip(places, (1, 65, 64), strict=True)] == [
        b"x", b"x" * 65, b"x" * 64,
    ]  # fmt: skip


def test_a_full_ring_takes_nothing_until_something_is_read() -> None:
    writer, reader = pair()
    first = put(writer, 512)
    assert put(writer, 512) == 512
    assert put(writer, 1) is None

    take(reader, first, 512)

    assert put(writer, 512) == 1024


def test_a_slot_that_would_not_end_before_the_end_begins_at_the_beginning() -> None:
    writer, reader = pair()
    first, second = put(writer, 448), put(writer, 448)
    take(reader, first, 448)

    third = put(writer, 192, b"y")

    assert third == 1024
    assert take(reader, second, 448) == b"x" * 448
    assert take(reader, third, 192) == b"y" * 192


def test_an_empty_ring_begins_at_the_beginning() -> None:
    """What was written there last is still in the caches of both."""
    writer, reader = pair()
    for i in range(5):
        position = put(writer, 100)
        assert position == i * 1024
        take(reader, position, 100)


def test_an_empty_ring_that_begins_anew_has_all_its_room() -> None:
    writer, reader = pair()
    take(reader, put(writer, 128), 128)

    places = [put(writer, 128) for _ in range(8)]

    assert None not in places
    assert put(writer, 1) is None
    for position in places:
        take(reader, position, 128)


def test_a_payload_larger_than_the_ring_does_not_fit() -> None:
    writer, _ = pair()
    assert put(writer, 1025) is None
    assert put(writer, 1024) == 0


def test_a_slot_frees_all_before_it() -> None:
    writer, reader = pair()
    lost, kept = put(writer, 512), put(writer, 512)

    take(reader, kept, 512)

    assert reader.find(lost or 0, 512) is None
    assert reader.passed == 1
    assert put(writer, 1024) is not None


def test_a_place_that_comes_again_is_passed() -> None:
    writer, reader = pair()
    position = put(writer, 10)
    take(reader, position, 10)

    assert reader.find(0, 10) is None


@pytest.mark.parametrize(
    ("position", "size"),
    [(0, 0), (0, 1025), (64, 1024), (1, 10), (2048, 10), (2**64 - 64, 10), (0, 2**64 - 1)],
)
def test_a_place_outside_is_refused(position: int, size: int) -> None:
    _, reader = pair()
    with pytest.raises(WireError, match="a slot lies in its ring of 1024 bytes"):
        reader.find(position, size)


def test_more_cannot_be_freed_than_can_have_been_written() -> None:
    _, reader = pair()
    with pytest.raises(WireError, match="freed as it is read"):
        reader.free(2049)
    assert reader.consumed == 0


@pytest.mark.parametrize("consumed", [65, 2**64 - 1])
def test_a_reader_that_was_where_nothing_was_written_is_at_fault(consumed: int) -> None:
    memory = memoryview(bytearray(PAGE + 1024))
    writer = RingWriter(memory, TOKEN)
    put(writer, 64)
    memory[:PAGE].cast("Q")[CONSUMED] = consumed
    with pytest.raises(WireError, match="a ring is read as far as it is written"):
        put(writer, 64)


def test_a_reader_that_goes_back_is_at_fault() -> None:
    memory = memoryview(bytearray(PAGE + 1024))
    writer, reader = RingWriter(memory, TOKEN), RingReader(memory, TOKEN)
    take(reader, put(writer, 64), 64)
    put(writer, 64)
    memory[:PAGE].cast("Q")[CONSUMED] = 0
    with pytest.raises(WireError):
        put(writer, 64)


@pytest.mark.parametrize("at", [0, 7, 8, 23])
def test_another_ring_is_refused(at: int) -> None:
    memory = memoryview(bytearray(PAGE + 1024))
    RingWriter(memory, TOKEN)
    memory[at] ^= 1
    with pytest.raises(WireError, match="magic and its token"):
        RingReader(memory, TOKEN)


def test_memory_of_an_odd_size_is_refused() -> None:
    memory = memoryview(bytearray(PAGE + 1024))
    RingWriter(memory, TOKEN)
    for size in (PAGE, PAGE + 1, 24, 0):
        with pytest.raises(WireError):
            RingReader(memory[:size], TOKEN)


def test_both_ends_tell_how_far_they_are() -> None:
    writer, reader = pair()
    put(writer, 100)
    assert repr(writer) == "<RingWriter of 1024 bytes: 128 unread>"
    assert repr(reader) == "<RingReader of 1024 bytes: 0 passed>"
