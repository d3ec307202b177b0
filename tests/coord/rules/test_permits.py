from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.coord.rules.batch_order import BatchOrder
from actorflow.coord.rules.contribution_table import TERM, Permits
from actorflow.coord.rules.messages import Batch


def permits(
    size: int | None = None, *, term: int = 1, exactly_once: bool = False, epochs: int = 2
) -> Permits:
    batches = BatchOrder(epochs, exactly_once=exactly_once)
    if size is not None:
        for epoch in range(epochs):
            batches.learn(epoch, size)
    return Permits(term, batches, lease_s=5.0)


def grant(some: Permits, *ranks: int, now: float = 0.0) -> list[Batch]:
    """Grants a permit to each rank and returns what they are about."""
    leases = [some.grant(rank, 1, 0, now) for rank in ranks]
    return [lease.batch for lease in leases if lease is not None]


# -- batches ---------------------------------------------------------------------------------------------


def test_batches_come_in_order_and_over_epochs() -> None:
    assert grant(permits(size=2), 0, 1, 2, 3, 4) == [Batch(0, 0), Batch(0, 1), Batch(1, 0), Batch(1, 1)]


def test_the_sequence_may_begin_in_the_middle() -> None:
    batches = BatchOrder(2, start=Batch(1, 5))
    batches.learn(1, 7)

    assert [batches.next() for _ in range(3)] == [Batch(1, 5), Batch(1, 6), None]
    assert not batches.left


def test_an_unused_batch_comes_again_only_where_each_has_to_count() -> None:
    for exactly_once in (False, True):
        batches = BatchOrder(1, exactly_once=exactly_once)
        first, second = batches.next(), batches.next()
        assert first is not None
        assert second is not None

        batches.take_back(second)
        batches.take_back(first)

        assert batches.next() == (first if exactly_once else Batch(0, 2))


@given(size=st.integers(1, 6), epochs=st.integers(1, 3), fates=st.lists(st.booleans(), max_size=30))
def test_with_exactly_once_each_batch_is_used_once_whatever_is_dropped(
    size: int, epochs: int, fates: list[bool]
) -> None:
    batches = BatchOrder(epochs, exactly_once=True)
    used = []

    while (batch := batches.next()) is not None:
        if batch.index >= size:
            batches.learn(batch.epoch, size)
        elif fates and not fates.pop():
            batches.take_back(batch)
        else:
            used.append((batch.epoch, batch.index))

    assert sorted(used) == [(epoch, index) for epoch in range(epochs) for index in range(size)]


# -- permits -----------------------------------------------------------------------------------------------


def test_numbers_are_unique_over_all_terms() -> None:
    first, second = permits(), permits(term=2)

    grant(first, 0, 1)
    grant(second, 0, 1)

    assert [lease.number for lease in first.out.values()] == [1, 2]
    assert [lease.number for lease in second.out.values()] == [TERM + 1, TERM + 2]


def test_a_permit_expires_when_nobody_says_that_they_work_on_it() -> None:
    some = permits()
    grant(some, 0, 1)

    some.renew(0, 1, 3.0)
    some.renew(1, 1, 3.0)  # not its own

    assert some.expired(5.0) == ()
    assert some.expired(5.1) == (1,)
    assert some.expired(8.1) == (0, 1)


def test_a_permit_that_is_closed_is_held_no_more() -> None:
    some = permits()
    grant(some, 0)

    lease = some.close(0)

    assert (lease.rank, lease.number, lease.batch) == (0, 1, Batch(0, 0))
    assert not some.holds(0, 1)
    assert some.expired(99.0) == ()


@pytest.mark.parametrize("order", [(2, 3), (3, 2)])
def test_whoever_finds_the_end_first_the_next_batches_are_given_out_in_order(order: tuple[int, int]) -> None:
    some = permits()
    assert grant(some, 0, 1, 2, 3)[2:] == [Batch(0, 2), Batch(0, 3)]

    again = {}
    for rank in order:
        some.void(rank, 0, 2)
        again[rank] = grant(some, rank)

    assert again == {2: [Batch(1, 0)], 3: [Batch(1, 1)]}


def test_a_batch_kept_for_one_that_is_gone_is_not_lost() -> None:
    some = permits(epochs=2)
    grant(some, 0, 1)
    some.void(1, 0, 0 + 1)

    some.forget(1)

    assert grant(some, 2, 3) == [Batch(1, 0), Batch(1, 1)]


def test_behind_the_last_epoch_there_is_nothing() -> None:
    some = permits(epochs=1)
    grant(some, 0, 1)

    some.void(1, 0, 1)

    assert not some.left
    assert grant(some, 1) == []
    assert repr(some) == "<Permits 1 out, last 2, <BatchOrder from (1, 0), 0 again, sizes {0: 1}>>"
