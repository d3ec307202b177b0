"""The record of staleness is that of a list of all stalenesses, in bounded memory."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow import errors
from actorflow.coord.rules.gradient_mean import EACH, StalenessRecord, staleness


@given(st.lists(st.lists(st.integers(0, 3 * EACH), max_size=4), max_size=20))
def test_the_record_agrees_with_a_list(updates: list[list[int]]) -> None:
    record, version = StalenessRecord(), 3 * EACH
    for stale in updates:
        record = record.with_update(version, tuple(version - s for s in stale))
        version += 1
    every = [s for stale in updates for s in stale]

    assert record.count == sum(record.counts) == len(every)
    assert record.largest == max(every, default=0)
    assert record.mean == (sum(every) / len(every) if every else 0.0)
    wanted = Counter(min(s, EACH) for s in every)
    assert {s: n for s, n in enumerate(record.counts) if n} == wanted
    assert len(record.counts) == 1 + max(wanted, default=-1) <= EACH + 1


def test_a_base_that_is_not_there_yet_is_refused() -> None:
    assert staleness(5, 3) == 2
    with pytest.raises(errors.InternalError, match="got version 6 at 5"):
        staleness(5, 6)
