"""Parts of one piece of work: each is done once, by whom it may be, and who waits is told of all."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.kernels.device.parallel_for import HERE, SharedParts, together

DEADLINE_S = 10


class Fellows:
    """A crew whose members begin when they are asked for help, or never."""

    def __init__(self, idle: int, comes: bool = True) -> None:
        self.free, self.comes = idle, comes
        self.asked: list[threading.Thread] = []

    def idle(self) -> int:
        return self.free

    def help(self, shared: SharedParts) -> None:
        self.asked.append(threading.Thread(target=shared.take, daemon=True))
        if self.comes:
            self.asked[-1].start()


@contextmanager
def among(crew: Fellows) -> Iterator[None]:
    HERE.crew = crew
    try:
        yield
    finally:
        HERE.crew = None


@given(st.integers(0, 9), st.integers(-1, 4), st.booleans())
def test_every_part_is_done_once_and_nobody_is_asked_in_vain(count: int, idle: int, comes: bool) -> None:
    done: list[int] = []
    crew = Fellows(idle, comes)

    with among(crew):
        together([lambda k=k: done.append(k) for k in range(count)])  # type: ignore[misc]

    assert sorted(done) == list(range(count))
    assert len(crew.asked) == max(0, min(idle, count - 1))


def test_two_parts_are_done_at_once() -> None:
    both = threading.Barrier(2)

    with among(Fellows(1)):
        together([lambda: both.wait(DEADLINE_S)] * 2)  # BrokenBarrierError if one waited for the other


def test_who_shares_waits_for_a_part_that_another_took() -> None:
    taken, last = threading.Event(), threading.Event()
    mine = threading.get_ident()
    order: list[str] = []

    def part() -> None:
        if threading.get_ident() == mine:
            assert taken.wait(DEADLINE_S)
            last.set()
        else:
            taken.set()
            assert last.wait(DEADLINE_S)
            order.append("the part of another")

    with among(Fellows(1)):
        together([part, part])
        order.append("all")

    assert order == ["the part of another", "all"]


@pytest.mark.parametrize("idle", [0, 1])
def test_a_part_that_fails_fails_the_work_when_all_have_ended(idle: int) -> None:
    done: list[int] = []

    def fails() -> None:
        raise SystemExit(3)

    with among(Fellows(idle)), pytest.raises(SystemExit):
        together([lambda: done.append(0), fails])

    assert done == [0]


def test_a_failure_is_let_go_of_with_what_it_held() -> None:
    class Held:
        """Stands for an array."""

    seen: list[Any] = []

    def fails() -> None:
        held = Held()
        seen.append(weakref.ref(held))
        raise KeyError(held)

    gc.disable()  # what is part of a cycle stays
    try:
        with among(Fellows(1, comes=False)), suppress(KeyError):
            together([fails, fails])
        alive = [ref for ref in seen if ref() is not None]
    finally:
        gc.enable()

    assert len(seen) == 2
    assert not alive


def test_what_a_part_works_on_is_let_go_before_its_end_is_heard() -> None:
    class Work:
        """A part."""

        def __call__(self) -> None:
            pass

    class Ends(SimpleQueue[None]):
        """Looks whether the parts live when an end is told."""

        def put(self, *args: Any, **named: Any) -> None:
            alive.append([ref() is not None for ref in refs])
            super().put(*args, **named)

    alive: list[list[bool]] = []
    parts: list[Any] = [Work(), Work()]
    refs = [weakref.ref(part) for part in parts]
    shared = SharedParts(parts)
    shared._ended = Ends()
    parts.clear()

    shared.take()

    assert alive == [[False, True], [False, False]]
