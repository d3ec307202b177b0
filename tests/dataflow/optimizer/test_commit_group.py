"""A commit group commits only when every member has staged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.dataflow.optimizer import commit_group
from actorflow.dataflow.optimizer.commit_group import GroupDecision
from actorflow.errors import InternalError

members = st.frozensets(st.sampled_from("abcdef"), min_size=1)


@given(members=members, data=st.data())
def test_group_commits_exactly_when_all_staged_and_waits_for_every_answer(
    members: frozenset[str], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(sorted(members)))
    refusing = data.draw(st.frozensets(st.sampled_from(sorted(members))))
    group = commit_group.init(members)
    for member in order:
        assert group.decision is GroupDecision.WAIT
        if member in refusing:
            group = commit_group.refused(group, member, ValueError(member))
        else:
            group = commit_group.staged(group, member)

    first = next((m for m in order if m in refusing), None)
    assert group.decision is (GroupDecision.COMMIT if first is None else GroupDecision.DISCARD)
    assert (group.refusal is None) == (first is None)
    assert first is None or str(group.refusal) == first


def test_an_answer_that_nobody_awaits_is_an_internal_error() -> None:
    group = commit_group.staged(commit_group.init(frozenset("a")), "a")

    with pytest.raises(InternalError, match="'a' answered a commit group that does not await it"):
        commit_group.staged(group, "a")
