"""Chance of pipelines."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from actorflow.data.chance import Draws, generator

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
    several, once = Draws(seed, 0, n), Draws(seed, 0, n)

    parts = [number for count in counts for number in several.take(count)]

    assert parts == once.take(sum(counts))
    assert all(0 <= number < n for number in parts)
    assert several.order(20) == once.order(20)


def test_an_order_has_every_place_once() -> None:
    assert sorted(Draws(3, 1, 10).order(50)) == list(range(50))
