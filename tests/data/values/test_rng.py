"""Random numbers of pipelines."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from actorflow.data.values.rng import DrawnStage, ElementRng, bits, generator

WORDS = 2**64


@given(seed=st.integers(0, WORDS - 1), epoch=st.integers(0, 2**20), ordinal=st.integers(0, 2**40))
def test_a_generator_is_philox_of_its_key_and_counter(seed: int, epoch: int, ordinal: int) -> None:
    key, counter = np.array([seed, epoch], np.uint64), np.array([0, 0, ordinal, 1], np.uint64)
    reference = np.random.Generator(np.random.Philox(key=key, counter=counter))

    assert generator(seed, epoch, ordinal).integers(0, WORDS, 5, np.uint64).tolist() == (
        reference.integers(0, WORDS, 5, np.uint64).tolist()
    )


def test_a_generator_depends_on_seed_epoch_and_ordinal() -> None:
    drawn = {
        generator(*place).uniform() for place in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (-1, 0, 0)]
    }

    assert len(drawn) == 5
    assert generator(2**64 + 1, 0, 0).uniform() == generator(1, 0, 0).uniform()


@given(counts=st.lists(st.integers(0, 700), max_size=8), n=st.integers(1, 2**33), seed=st.integers())
def test_draws_do_not_depend_on_how_many_are_taken_at_once(counts: list[int], n: int, seed: int) -> None:
    several, once = DrawnStage(seed, 0, n), DrawnStage(seed, 0, n)

    parts = [number for count in counts for number in several.take(count)]

    assert parts == once.take(sum(counts))
    assert all(0 <= number < n for number in parts)
    assert several.order(20) == once.order(20)


def test_an_order_has_every_place_once() -> None:
    assert sorted(DrawnStage(3, 1, 10).order(50)) == list(range(50))


@given(
    seed=st.integers(),
    places=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**40 - 1)), min_size=1, max_size=6),
)
def test_chance_lends_one_generator_that_draws_what_each_element_s_own_would(
    seed: int, places: list[tuple[int, int]]
) -> None:
    lent = ElementRng(seed)

    for epoch, ordinal in places:
        mine, own = lent.of(epoch, ordinal), generator(seed, epoch, ordinal)
        assert mine.integers(0, 2**32, 3, np.uint32).tolist() == own.integers(0, 2**32, 3, np.uint32).tolist()
        assert mine.normal() == own.normal()


def splitmix(state: int) -> int:
    """The reference, in Python's own integers."""
    state = (state + 0x9E3779B97F4A7C15) % WORDS
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % WORDS
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % WORDS
    return state ^ (state >> 31)


def test_splitmix_is_the_published_one() -> None:
    assert splitmix(0) == 0xE220A8397B1DCDAF, "the first number of its generator, seeded with 0"


@given(
    seed=st.integers(),
    places=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**40 - 1)), min_size=1, max_size=6),
)
def test_bits_are_splitmix_over_the_place_of_each_element(seed: int, places: list[tuple[int, int]]) -> None:
    epochs, ordinals = [e for e, _ in places], [o for _, o in places]
    golden = 0x9E3779B97F4A7C15

    expected = [splitmix((splitmix((seed + e * golden) % WORDS) + o * golden) % WORDS) for e, o in places]

    assert bits(seed, epochs, ordinals) == expected
    assert bits(seed, epochs[0], ordinals[:1]) == expected[:1]


def test_bits_of_many_elements_are_all_different_and_half_of_them_ones() -> None:
    found = bits(7, 0, range(20_000))

    assert len(set(found)) == 20_000
    ones = np.array([[b >> k & 1 for k in range(64)] for b in found]).mean(axis=0)
    assert abs(ones - 0.5).max() < 5 * 0.5 / 20_000**0.5
