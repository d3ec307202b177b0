"""Who does not reach a shard rests ever longer, and a run ends when for long nobody reaches all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actorflow.coord.rules.membership import Reachability

BEAT_S, LONGEST_S = 1.0, 10.0

events = st.lists(
    st.tuples(st.sampled_from(["complain", "reach"]), st.integers(0, 2), st.floats(0.1, 4.0)), max_size=40
)


@given(events)
def test_rests_double_with_every_complaint_in_a_row_and_end_with_a_contribution(
    said: list[tuple[str, int, float]],
) -> None:
    reach, now = Reachability(BEAT_S, LONGEST_S), 0.0
    history: dict[int, list[float]] = {0: [], 1: [], 2: []}  # when each has complained in a row
    for kind, rank, passes in said:
        now += passes
        if kind == "complain":
            reach.complain(rank, "ps1 is silent", now)
            history[rank].append(now)
        else:
            reach.restore(rank)
            history[rank] = []
        assert reach.unreachable == tuple(rank for rank, times in history.items() if times)
        for other, times in history.items():
            until = times[-1] + min(BEAT_S * 2 ** (len(times) - 1), LONGEST_S) if times else now
            assert abs(reach.is_resting(other, now) - max(0.0, until - now)) < 1e-9
    assert reach.is_resting(None, now) == 0.0


def test_the_run_bears_for_a_while_that_nobody_reaches_all_shards() -> None:
    reach = Reachability(BEAT_S, LONGEST_S)
    assert reach.nobody((), 0.0) is None, "nobody is there, and nobody has complained"

    reach.complain(1, "'worker1' does not reach ps1", 1.0)
    assert reach.nobody((0,), 100.0) is None, "somebody does, however long that lasts"
    assert reach.nobody((), 101.0) is None
    assert reach.nobody((1,), 111.0) is None, "back, and has yet to show that it does"
    assert reach.nobody((), 111.1) == "'worker1' does not reach ps1"
    assert reach.nobody((0, 1), 112.0) is None
    assert reach.nobody((), 113.0) is None, "counted anew"
    reach.excuse(5.0)
    assert reach.nobody((), 128.0) is None
    assert reach.nobody((), 128.1) is not None

    reach.restore(1)
    assert reach.nobody((), 200.0) is None
    assert repr(reach) == "<Reachability: [] are cut off from a shard>"


def test_a_rest_has_a_longest_however_often_it_doubles() -> None:
    reach = Reachability(BEAT_S, LONGEST_S)
    for _ in range(3000):
        reach.complain(0, "", 0.0)
    assert reach.is_resting(0, 0.0) == LONGEST_S
