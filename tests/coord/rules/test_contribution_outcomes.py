"""What shards have used, until it is recorded."""

from __future__ import annotations

from actorflow.coord.rules.messages import Committed
from actorflow.coord.rules.per_shard_state import UseRecord, union


def test_a_version_is_common_once_every_shard_has_made_it() -> None:
    ledger = UseRecord([4, 4])

    heard = [
        ledger.commit(Committed(1, 0, 4, ((0, 1), (2, 3)))),
        ledger.commit(Committed(1, 0, 4, ((0, 1), (2, 3)))),
        ledger.commit(Committed(1, 7, 4, ((0, 1),))),
        ledger.commit(Committed(1, 0, 5, ((0, 4),))),
    ]
    before = ledger.common
    ledger.commit(Committed(1, 1, 4, ((0, 1), (1, 2))))

    assert heard == [True, False, False, True]
    assert (before, ledger.common, ledger.highest) == (4, 5, 6)
    assert union(ledger.sets(5)) == ((0, 1), (1, 2), (2, 3))
    assert ledger.sets(6) == (((0, 4),), ())
    ledger.forget(5)
    assert ledger.numbers == {4}
