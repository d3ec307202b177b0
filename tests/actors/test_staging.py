"""A commit group commits only when every member has staged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.actors import staging
from actorflow.actors.staging import Verdict
from actorflow.errors import InternalError

members = st.frozensets(st.sampled_from("abcdef"), min_size=1)


@given(members=members, data=st.data())
def test_group_commits_exactly_when_all_staged_and_waits_for_every_answer(
    members: frozenset[str], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(sorted(members)))
    refusing = data.draw(st.frozensets(st.sampled_from(sorted(members))))
    group = staging.init(members)
    for member in order:
        assert group.verdict is Verdict.WAIT
        if member in refusing:
            group = staging.refused(group, member, ValueError(member))
        else:
            group = staging.staged(group, member)

    first = next((m for m in order if m in refusing), None)
    assert group.verdict is (Verdict.COMMIT if first is None else Verdict.DISCARD)
    assert (group.refusal is None) == (first is None)
    assert first is None or str(group.refusal) == first


def test_an_answer_that_nobody_awaits_is_an_internal_error() -> None:
    group = staging.staged(staging.init(frozenset("a")), "a")

    with pytest.raises(InternalError, match="'a' answered a commit group that does not await it"):
        staging.staged(group, "a")
