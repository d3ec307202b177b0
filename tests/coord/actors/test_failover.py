"""What one shard finds out for all when the coordinator is gone."""

from __future__ import annotations

from typing import Any

import pytest

import actorflow as af
from actorflow import errors
from actorflow.coord.actors.peer_shards import (
    FailoverVerdict,
    coordinator_lost_error,
    resolve,
    shard_lost_error,
)
from actorflow.coord.rules.messages import Commit, Discard, Fence, PrepareUpdate, ShardStatus
from tests.coord.shards import recover

SET = ((0, 1),)


class Standing_(af.Actor):
    """A shard that only says where it stands."""

    def __init__(self, standing: ShardStatus | Exception) -> None:
        self.standing = standing
        self.terms: list[int] = []

    def receive(self, message: Fence) -> ShardStatus:
        self.terms.append(message.term)
        if isinstance(self.standing, Exception):
            raise self.standing
        return self.standing


def verdict(own: ShardStatus, *others: ShardStatus | Exception) -> tuple[FailoverVerdict, list[list[int]]]:
    async def main() -> Any:
        result = None
        async with af.ActorSystem() as system:
            actors = [Standing_(other) for other in others]
            refs = {
                n: system.spawn(lambda actor=actor: actor, name=f"shard{n}")
                for n, actor in enumerate(actors, own.shard + 1)
            }
            result = await resolve(4, own, refs, recover), [actor.terms for actor in actors]
        return result

    found: tuple[FailoverVerdict, list[list[int]]] = af.run(main())
    return found


def ready(shard: int, version: int = 0) -> ShardStatus:
    return ShardStatus(shard, version, PrepareUpdate(3, version, SET))


def test_what_one_has_committed_all_commit() -> None:
    found, terms = verdict(ready(0), ShardStatus(1, 1, None, PrepareUpdate(3, 0, SET)), ready(2))

    assert found == FailoverVerdict(say={0: Commit(4, 0), 2: Commit(4, 0)})
    assert terms == [[4], [4]]


def test_what_nobody_has_committed_all_discard() -> None:
    found, _ = verdict(ready(0), ready(1), ShardStatus(2, 0))

    assert found == FailoverVerdict(say={0: Discard(4, 0), 1: Discard(4, 0)})


def test_the_verdict_is_the_same_when_half_of_it_is_done() -> None:
    committed = ShardStatus(0, 1, None, PrepareUpdate(3, 0, SET))

    assert verdict(committed, ready(1))[0].say == {1: Commit(4, 0)}
    assert verdict(ShardStatus(0, 0), ready(1))[0].say == {1: Discard(4, 0)}


def test_a_shard_that_does_not_answer_is_lost_and_the_others_are_resolved() -> None:
    found, _ = verdict(ready(0), errors.PeerLost("gone"), ShardStatus(2, 1))

    assert found.say == {0: Commit(4, 0)}
    assert [type(error) for error in found.lost.values()] == [errors.PeerLost]


def test_whoever_is_fenced_says_nothing() -> None:
    with pytest.raises(errors.Fenced, match="another one leads"):
        verdict(ready(0), errors.Fenced("another one leads"), ready(2))


def test_shards_that_cannot_get_to_one_version_are_told_so() -> None:
    found, _ = verdict(ShardStatus(0, 0), ShardStatus(1, 1))

    assert isinstance(found.wrong, errors.CoordinationError)
    assert not found.say


@pytest.mark.parametrize("reason", [None, errors.PeerLost("silent for 3 s")])
def test_the_errors_say_who_is_gone_and_why(reason: Exception | None) -> None:
    why = "" if reason is None else ": PeerLost: silent for 3 s"

    assert str(shard_lost_error(2, reason)) == f"shard 2 is gone, and its variables with it{why}"
    assert str(coordinator_lost_error(reason)).endswith(f"the run has ended on all shards{why}")
    assert coordinator_lost_error(reason).__cause__ is reason
