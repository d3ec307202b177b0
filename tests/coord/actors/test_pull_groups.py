"""The variables of a shard in parts: all of them, in order, each part large enough."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actorflow.coord.actors.contribution_pipeline import PART_BYTES, group_pulls


@given(sizes=st.lists(st.integers(0, 3 * PART_BYTES), max_size=40))
def test_parts_are_all_variables_in_their_order_and_none_is_small(sizes: list[int]) -> None:
    by_name = {f"v{k}": size for k, size in enumerate(sizes)}

    parts = group_pulls(by_name)

    assert [name for part in parts for name in part] == list(by_name)
    assert len(parts) <= 16
    if len(parts) > 1:
        assert min(sum(by_name[name] for name in part) for part in parts) >= PART_BYTES


def test_a_part_ends_where_it_and_the_rest_are_large_enough() -> None:
    assert group_pulls({"a": PART_BYTES, "b": 1, "c": PART_BYTES}) == (("a",), ("b", "c"))
    assert group_pulls({"a": PART_BYTES, "b": 1}) == (("a", "b"),)
    assert group_pulls({}) == ((),)
