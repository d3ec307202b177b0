"""When a shard that closes updates by itself has enough."""

from __future__ import annotations

import pytest

from actorflow.coord.rules.messages import Contribute, Enough
from actorflow.coord.rules.open_contributions import Contributions, PerShardQuorum
from actorflow.errors import ConfigError


def three() -> Contributions:
    open_ = Contributions(["w"], fresh=False)
    for rank in (2, 0, 1):
        open_.offer(Contribute(1, 10 + rank, rank, 0, {"w": 0}), 1, 0)
    return open_


@pytest.mark.parametrize(
    ("enough", "version", "chosen"),
    [
        (Enough(1, 2), 7, ((0, 10), (2, 12))),
        (Enough(1, 4), 7, ()),
        (Enough(1, 1, until=8), 7, ((2, 12),)),
        (Enough(1, 1, until=7), 7, ()),
        (None, 0, ()),
    ],
    ids=str,
)
def test_it_takes_the_first_that_came_until_it_is_to_stop(
    enough: Enough | None, version: int, chosen: tuple[tuple[int, int], ...]
) -> None:
    closing = PerShardQuorum(3)
    closing.enough = enough

    assert closing.choose(three(), version) == chosen


def test_it_has_a_number_before_a_coordinator_says_one() -> None:
    assert len(PerShardQuorum(3).choose(three(), 0)) == 3
    with pytest.raises(ConfigError, match="1 contribution or more, got 0"):
        PerShardQuorum(0)
