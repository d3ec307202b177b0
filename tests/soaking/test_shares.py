from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.soaking import shares
from tests.soaking.shares import Share
from tests.support.strategies import examples


@settings(max_examples=examples(60), deadline=None)
@given(costs=st.lists(st.floats(1e-5, 0.5), min_size=2, max_size=8), rounds=st.integers(1, 60))
def test_no_law_is_ever_ahead_of_another_by_more_than_its_last_turn(costs: list[float], rounds: int) -> None:
    all_shares = {f"law {n}": Share() for n in range(len(costs))}
    last = dict.fromkeys(all_shares, 0.0)

    for _ in range(rounds):
        law = shares.next_law(all_shares, ())
        assert law is not None
        n = shares.asked(all_shares[law], 1.0)
        last[law] = n * costs[int(law[4:])]
        all_shares[law] = shares.ran(all_shares[law], n, n, last[law], 0)

        least = min(share.turn_s for share in all_shares.values())
        assert all(share.turn_s - last[law] <= least + 1e-9 for law, share in all_shares.items())


@given(cost=st.floats(1e-4, 1.0))
def test_a_slice_is_as_long_as_asked_once_the_rate_is_known(cost: float) -> None:
    share = Share()
    for _ in range(6):
        n = shares.asked(share, 2.0)
        share = shares.ran(share, n, n, n * cost, 0)

    took = shares.asked(share, 2.0) * cost

    assert took <= 2.0 + 1e-6
    assert took >= min(2.0 - 2 * cost, shares.MOST_EXAMPLES * cost - cost)


def test_the_first_turn_is_short_and_the_next_grows_by_ten_at_most() -> None:
    first = shares.asked(Share(), 10.0)
    second = shares.asked(shares.ran(Share(), first, first, 1e-6, 0), 10.0)

    assert (first, second) == (5, 50)


def test_after_a_turn_that_told_nothing_a_law_begins_with_few_again() -> None:
    known = Share(asked=10_000, rate=4_000.0)

    assert shares.asked(shares.ran(known, 10_000, 0, 60.0, 1), 10.0) == 5


def test_a_new_law_catches_up_by_its_cap_and_not_by_hours() -> None:
    old = {"a": Share(turn_s=3600.0), "b": Share(turn_s=3599.0), "new": Share()}

    level = shares.caught_up(old, most_s=40.0)

    assert {law: share.turn_s for law, share in level.items()} == {"a": 3600.0, "b": 3599.0, "new": 3560.0}
    assert shares.next_law(level, ()) == "new"
    assert shares.next_law(level, {"new"}) == "b"
    assert shares.next_law(level, {"new", "a", "b"}) is None
