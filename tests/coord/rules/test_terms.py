"""No two leaders share a term, whoever leads when, and those of a later run have the greater ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow import errors
from actorflow.coord.rules.commit import TERMS_OF_A_RUN, following_term, run_of_term, term_of_run

runs = st.integers(1, 1 << 20)


@given(runs, st.integers(1, 9), st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=30))
def test_who_leads_whenever_has_a_term_of_its_own(
    run: int, shards: int, leads: list[tuple[int, bool]]
) -> None:
    """Leaders, each of which has heard of all terms so far or of the coordinator's alone."""
    taken: dict[int, int] = {}  # term -> who
    highest = term_of_run(run)
    for k, hears in leads:
        shard = k % shards
        term = following_term(highest if hears else term_of_run(run), shard, shards)
        assert taken.setdefault(term, shard) == shard
        assert term_of_run(run) < term < term_of_run(run + 1), "that of a coordinator is nobody else's"
        assert run_of_term(term) == run
        highest = max(highest, term)


@given(runs, st.integers(0, 8), st.integers(0, TERMS_OF_A_RUN - 20))
def test_a_term_that_follows_is_the_least_that_will_do(run: int, shard: int, used: int) -> None:
    before = term_of_run(run) + used
    term = following_term(before, shard, 9)

    assert before < term <= before + 10
    assert (term - term_of_run(run)) % 10 == shard + 1


def test_a_run_whose_terms_are_used_up_says_so() -> None:
    last = term_of_run(3) - 1
    assert run_of_term(last) == 2
    with pytest.raises(errors.InternalError, match="run 2 has no term left"):
        following_term(last, 0, 1)


def test_numbers_of_runs_begin_at_one() -> None:
    assert [term_of_run(1), term_of_run(2)] == [1, 1 + TERMS_OF_A_RUN]
    assert [run_of_term(0), run_of_term(1), run_of_term(TERMS_OF_A_RUN), run_of_term(TERMS_OF_A_RUN + 1)] == [
        0,
        1,
        1,
        2,
    ]
