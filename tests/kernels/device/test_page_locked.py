"""Staging buffers: every byte arrives, and no buffer is used before the card is done with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from actorflow.kernels.device.page_locked import Staging, Transfer


class Card:
    """A memory, and copies that happen as late as they may: when someone waits for an event behind them."""

    def __init__(self, size: int) -> None:
        self.memory = np.zeros(size, np.uint8)
        self.waiting: list[Any] = []
        self.done = 0

    def record(self) -> int:
        return self.done + len(self.waiting)

    def wait(self, event: int) -> None:
        while self.done < event:
            self.waiting.pop(0)()
            self.done += 1

    def to_card(self, buffer: np.ndarray, start: int, n: int) -> None:
        self.waiting.append(lambda: np.copyto(self.memory[start : start + n], buffer[:n]))

    def to_host(self, buffer: np.ndarray, start: int, n: int) -> None:
        self.waiting.append(lambda: np.copyto(buffer[:n], self.memory[start : start + n]))


def moved(transfer: Transfer, by: int) -> Transfer:
    """The same copies for an array that begins at `by` in the memory."""
    return lambda buffer, at, n: transfer(buffer, by + at, n)


def staging(card: Card, buffers: int, size: int) -> Staging:
    return Staging([np.zeros(size, np.uint8) for _ in range(buffers)], card.record, card.wait)


@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    buffers=st.integers(1, 3),
    size=st.integers(1, 9),
)
def test_every_byte_arrives_however_late_the_card_copies(sizes: list[int], buffers: int, size: int) -> None:
    """Several arrays one after the other through the same buffers, there and back."""
    shared = Card(sum(sizes))
    up, down = staging(shared, buffers, size), staging(shared, buffers, size)
    starts = np.cumsum([0, *sizes])
    data = [np.arange(n, dtype=np.uint8) + 17 * k for k, n in enumerate(sizes)]

    for start, array in zip(starts, data, strict=False):
        scratch = array.copy()
        up.send(scratch, moved(shared.to_card, int(start)))
        scratch[...] = 255  # the caller has it back

    for start, array in zip(starts, data, strict=False):
        out = np.zeros(len(array), np.uint8)
        down.receive(out, moved(shared.to_host, int(start)))
        np.testing.assert_array_equal(out, array)
    assert repr(down) == f"<Staging, {buffers} of {buffers} buffers free>"


def test_sending_waits_only_when_all_buffers_are_in_flight() -> None:
    card = Card(8)
    up = staging(card, 2, 2)

    up.send(np.arange(4, dtype=np.uint8), card.to_card)
    in_flight = (card.done, repr(up))
    up.send(np.arange(2, dtype=np.uint8), card.to_card)

    assert in_flight == (0, "<Staging, 0 of 2 buffers free>")
    assert card.done == 1
