"""Whom chaos strikes, and when."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from actorflow.cluster.chaos import LEAST, Chaos, kill
from actorflow.coord.rules.messages import Batch, Updated
from actorflow.launch.process_id import ProcessId
from tests.support.busy import HANG_S

WORKERS = ("worker0", "worker1", "worker2")


def update(version: int, *chosen: tuple[int, int], epoch: int = 0, index: int = 0) -> Updated:
    return Updated(version, tuple((rank, number, Batch(epoch, index), 0) for rank, number in chosen))


def struck(chaos: Chaos, updates: list[Updated]) -> list[tuple[int, str]]:
    heard = [(each.version, chaos.hear(each)) for each in updates]
    return [(version, who) for version, who in heard if who is not None]


def test_it_strikes_once_at_a_third_of_the_steps_whoever_contributed_last() -> None:
    updates = [update(k, (0, 3 * k + 2), (1, 3 * k), (2, 3 * k + 1)) for k in range(1, 31)]

    assert struck(Chaos(WORKERS, steps=30), updates) == [(10, "worker0")]


@pytest.mark.parametrize(("epochs", "batches", "at"), [(6, None, 9), (6, 4, 8), (1, 12, 4), (3, 4, 4)])
def test_it_strikes_at_a_third_of_the_epochs(epochs: int, batches: int | None, at: int) -> None:
    size = batches or 4
    updates = [
        update(k + 1, (0, 2 * k), (1, 2 * k + 1), epoch=k // size, index=k % size)
        for k in range(epochs * size)
    ]

    assert struck(Chaos(WORKERS, epochs=epochs, batches=batches), updates) == [(at, "worker1")]


def test_where_nobody_knows_how_long_the_run_is_it_strikes_after_some_updates() -> None:
    updates = [update(k, (2, k)) for k in range(1, 40)]

    assert struck(Chaos(WORKERS), updates) == [(LEAST, "worker2")]
    assert struck(Chaos(WORKERS, epochs=1), updates) == [(LEAST, "worker2")]


def test_an_update_of_nobody_known_is_passed_over() -> None:
    assert struck(Chaos(WORKERS, steps=3), [update(1), update(2, (7, 1)), update(3, (0, 2))]) == [
        (3, "worker0")
    ]


def test_a_process_is_killed_by_name_and_never_the_caller_or_nobody() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        known = ProcessId.of(child.pid)
        assert known is not None
        pids = {
            "chief": ProcessId.own(),
            "worker0": known,
            "worker1": replace(known, pid=1),
            "worker2": replace(known, pid=0),
            "earlier": replace(known, started=known.started - 1),
            "elsewhere": replace(known, world="another world"),
        }
        spared = ("chief", "worker1", "worker2", "earlier", "elsewhere", "nobody")
        assert [kill(name, pids) for name in spared] == [False] * 6
        assert child.poll() is None
        assert kill("worker0", pids)
        assert child.wait(HANG_S) == -signal.SIGKILL
        assert not kill("worker0", pids)
    finally:
        assert child.stdin is not None
        child.stdin.close()
        child.kill()
        child.wait()
