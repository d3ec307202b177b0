"""A session over several processes means what a session means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from tests.spreading import SCOPES, Cluster, spread


def run(graph: af.Graph, body: Any, count: int = 3, **options: Any) -> Any:
    return sim.run(spread(graph, body, count, **options)).result


def test_a_step_runs_where_the_scopes_say() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        with af.device(SCOPES[1]):
            y = af.exp(x)
        with af.device(SCOPES[2]):
            z = af.tanh(y) + y

    async def body(cluster: Cluster) -> Any:
        found = await cluster.session.run({"z": z, "y": y}, {x: np.float32(0.5)})
        assert cluster.session.stats().transfers == 3
        return found, {name: runner.sent_tokens for name, runner in cluster.runners.items()}

    found, sent = run(graph, body)

    assert found["z"] == np.tanh(np.exp(np.float32(0.5))) + np.exp(np.float32(0.5))
    assert sent == {"p0": 0, "p1": 2, "p2": 1}
