"""The quorum of one shard, where each closes updates by itself: when it has enough for one.

Pure: `coord.actors.shard` obeys it.
"""

from __future__ import annotations

from actorflow.coord.rules.messages import Enough
from actorflow.coord.rules.open_contributions import Contributions
from actorflow.errors import ConfigError


class PerShardQuorum:
    """Closes an update at the first `count` contributions.

    Args:
        count: How many are enough before a coordinator says so.

    Attributes:
        enough: What a coordinator said last; None while the next one has yet to say.

    Raises:
        ConfigError: a count below 1.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            message = f"a shard closes an update at 1 contribution or more, got {count}"
            raise ConfigError(message)
        self.enough: Enough | None = Enough(0, count)

    def choose(self, contributions: Contributions, version: int) -> tuple[tuple[int, int], ...]:
        """Returns (rank, number) of what makes the update of `version`; none while they are too few."""
        enough = self.enough
        if enough is None or (enough.until is not None and version >= enough.until):
            return ()
        return contributions.first(enough.count)

    def __repr__(self) -> str:
        return f"<PerShardQuorum at {self.enough}>"
