"""The shuffle buffer."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from actorflow.data.stages.shuffle import Shuffle
from tests.data.chunks import PLACE, chunks, cuts, fed, numbers, values


@given(n=st.integers(0, 300), size=st.integers(1, 320), sizes=cuts, seed=st.integers(0, 2**64))
def test_every_element_leaves_once_with_its_number_whatever_the_chunks(
    n: int, size: int, sizes: list[int], seed: int
) -> None:
    given_ = [3 * i for i in range(n)]

    out = fed(Shuffle(PLACE, size, seed), chunks(given_, sizes))

    assert sorted(values(out)) == given_
    assert values(out) == [3 * k for k in numbers(out)]
    assert values(out) == values(fed(Shuffle(PLACE, size, seed), chunks(given_, [])))


@given(n=st.integers(1, 100), size=st.integers(1, 50), sizes=cuts)
def test_nothing_leaves_before_its_turn(n: int, size: int, sizes: list[int]) -> None:
    """The k-th to leave is among the first k + size: what a buffer of that size can know."""
    out = values(fed(Shuffle(PLACE, size, 1), chunks(range(n), sizes)))

    assert all(value < k + size for k, value in enumerate(out, 1))


def test_epochs_and_seeds_differ_and_come_again() -> None:
    def orders(seed: int) -> list[list[int]]:
        shuffle = Shuffle(PLACE, 10, seed)
        found = []
        for _ in range(3):
            found.append(values(fed(shuffle, chunks(range(50), [7]))))
            shuffle.restart()
        return found

    assert len({tuple(order) for order in [*orders(1), *orders(2)]}) == 6
    assert orders(1) == orders(1)


def test_a_buffer_for_all_gives_every_order_the_same_chance() -> None:
    counts = Counter(
        tuple(values(fed(Shuffle(PLACE, 9, seed), chunks(range(3), [])))) for seed in range(6000)
    )

    assert len(counts) == 6
    assert all(850 < count < 1150 for count in counts.values())  # 1000 ± 5 deviations


def test_an_epoch_that_ends_early_leaves_nothing_for_the_next() -> None:
    shuffle = Shuffle(PLACE, 10, 1)
    list(shuffle.push(chunks(range(5), [])[0]))
    assert shuffle.bytes == 40

    shuffle.restart()

    assert (shuffle.bytes, values(fed(shuffle, chunks([8, 9], [])))) in [(0, [8, 9]), (0, [9, 8])]


def test_as_many_leave_at_a_time_at_the_end_as_came() -> None:
    shuffle = Shuffle(PLACE, 1000, 1)

    out = fed(shuffle, chunks(range(500), [50] * 10))

    assert {len(chunk) for chunk in out} == {50}
    assert shuffle.bytes == 0
