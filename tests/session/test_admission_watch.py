"""Laws of the watch: it refuses after what stood still for the whole time, and never what moved meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.session.admission_watch import AdmissionWatch

GRACE_S = 4.0
SEEN = st.lists(st.one_of(st.none(), st.integers(0, 1)), min_size=1, max_size=30)
"""What each look finds: None where something may go on, else what stands still."""


class Played:
    """A watch over looks whose findings were drawn."""

    def __init__(self, found: list[int | None], make: type[AdmissionWatch] = AdmissionWatch) -> None:
        self.found = found
        self.at = 0.0
        self.looks: list[tuple[float, int | None]] = []
        self.refused: list[float] = []
        self.asked: list[tuple[float, Callable[[], None]]] = []
        self.watch = make(GRACE_S, lambda: self.at, self.look_in, self.see, self.waits, self.refuse)

    def see(self) -> int | None:
        found = self.found[min(len(self.looks), len(self.found) - 1)]
        self.looks.append((self.at, found))
        return found

    def look_in(self, seconds: float, look: Callable[[], None]) -> None:
        self.asked.append((self.at + seconds, look))

    def waits(self) -> bool:
        return len(self.looks) < len(self.found)

    def refuse(self, for_s: float) -> None:
        self.refused.append(self.at)

    def play(self) -> None:
        self.watch.begin()
        while self.asked:
            assert len(self.asked) == 1, "several looks are on their way"
            self.at, look = self.asked.pop()
            look()

    def check(self) -> None:
        for at in self.refused:
            before = [found for when, found in self.looks if at - 1.5 * GRACE_S <= when <= at]
            assert None not in before and len(set(before)) == 1, "something moved"
        for k, (begun, found) in enumerate(self.looks):
            same = [when for when, other in self.looks[k:] if other == found]
            still = self.looks[k : k + len(same)] == [(when, found) for when in same]
            if found is not None and still and same[-1] - begun >= 1.5 * GRACE_S:
                assert self.refused, "it stood still, and nobody was told"


@given(SEEN)
def test_it_refuses_what_stands_still_and_nothing_else(found: list[int | None]) -> None:
    played = Played(found)
    played.play()
    played.check()


class Hasty(AdmissionWatch):
    """Refuses whatever it has seen at the last look, be it the same or not."""

    def _look(self) -> None:
        self._was = self._seen()
        super()._look()


def test_the_law_finds_a_watch_that_forgets_what_it_saw_before() -> None:
    played = Played([0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1], Hasty)
    played.play()

    with pytest.raises(AssertionError, match="something moved"):
        played.check()


def test_without_a_grace_period_it_never_looks() -> None:
    def never(*_: object) -> None:
        raise AssertionError

    AdmissionWatch(None, lambda: 0.0, never, lambda: 0, lambda: True, never).begin()
