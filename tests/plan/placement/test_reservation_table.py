"""Reservations on what does one thing at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actorflow.plan.placement.reservation_table import ReservationTable

asks = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 6)), max_size=25)


@given(asks)
def test_a_reservation_is_the_first_that_fits_and_overlaps_none(wanted: list[tuple[int, int]]) -> None:
    line, busy = ReservationTable(), set[int]()
    for ready, length in wanted:
        expected = next(t for t in range(ready, 1000) if not busy & set(range(t, t + length)))

        start = line.fit(ready, length)
        line.take(start, length)

        assert start == expected
        busy |= set(range(expected, expected + length))


def test_what_takes_no_time_still_waits_for_what_runs() -> None:
    line = ReservationTable()
    line.take(1.0, 4.0)

    assert [line.fit(at, 0.0) for at in (0.5, 1.0, 3.0, 5.0)] == [0.5, 1.0, 5.0, 5.0]
