"""What processes of a cluster say to each other travels, every record of it."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from actorflow.cluster.process import messages as to_stewards
from actorflow.coord.actors import peer_shards
from actorflow.coord.rules import gradient_mean, messages
from actorflow.transport.codec.registry import BY_TYPE

STAYS = {  # they hold refs and errors, or are no record: within a process
    peer_shards.Introduction,
    peer_shards.FailoverVerdict,
    peer_shards.PeerShards,
    peer_shards.Recovered,
}
RECORDS = [
    kind
    for module in (messages, to_stewards, peer_shards, gradient_mean)
    for _, kind in inspect.getmembers(module, inspect.isclass)
    if kind.__module__ == module.__name__ and kind not in STAYS
]


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: str(kind.__name__))
def test_a_record_is_registered_to_travel(kind: Any) -> None:
    assert kind in BY_TYPE
