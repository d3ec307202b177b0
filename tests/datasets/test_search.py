"""The first place with the right content gives it; an error names all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.datasets.dataset import Absent, Source, silent
from actorflow.datasets.search import first
from actorflow.errors import DatasetDamaged, DatasetError, DatasetMissing
from tests.datasets.packages import CONTENT, dataset


def source(number: int, holds: bytes | None, asked: list[int]) -> Source:
    def get(tell: object) -> bytes:
        asked.append(number)
        if holds is None:
            message = f"not in {number}"
            raise Absent(message)
        return holds

    return Source(f"place {number}", get)


holdings = st.lists(st.sampled_from([None, CONTENT, b"", CONTENT[:-1]]), max_size=6)


@given(holdings)
def test_the_first_right_one_is_given_and_later_ones_are_not_asked(holds: list[bytes | None]) -> None:
    asked: list[int] = []
    sources = [source(number, held, asked) for number, held in enumerate(holds)]
    right = holds.index(CONTENT) if CONTENT in holds else None

    if right is not None:
        found = first(dataset(), sources, silent)
        assert found.content == CONTENT
        assert found.source is sources[right]
        assert asked == list(range(right + 1))
        return
    with pytest.raises(DatasetError) as failed:
        first(dataset(), sources, silent)
    assert asked == list(range(len(holds)))
    assert type(failed.value) is (DatasetDamaged if any(h is not None for h in holds) else DatasetMissing)
    for number, held in enumerate(holds):
        why = f"not in {number}" if held is None else f"{len(held)} bytes with sha256"
        assert f"\n  - place {number}: {why}" in str(failed.value)


def test_the_error_reads_well() -> None:
    with pytest.raises(DatasetMissing) as failed:
        first(dataset(), [source(0, None, []), source(1, None, [])], silent)

    assert str(failed.value) == (
        "data set 'made' must be found with its right content, got:\n"
        "  - place 0: not in 0\n"
        "  - place 1: not in 1\n"
        "  try:   one of these\n"
        "         - install made"
    )
