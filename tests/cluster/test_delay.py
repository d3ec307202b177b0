"""What holds real workers up: as a text, as chance, and as time."""

from __future__ import annotations

import asyncio
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow import sim
from actorflow.cli import command
from actorflow.cluster.delay import STEADY, Delay, Delaying, delay
from actorflow.cluster.local import LocalCluster
from actorflow.errors import ConfigError

AMOUNTS = st.floats(0.0, 10.0)
STRAGGLERS = st.builds(sim.Straggler, AMOUNTS, st.floats(0.0, 1.0), AMOUNTS, st.none() | st.floats(1.5, 9.0))


@given(st.builds(Delay, AMOUNTS, STRAGGLERS, st.integers(0, 99)))
def test_a_delay_reads_what_it_says(one: Delay) -> None:
    assert delay(str(one)) == one


def test_nothing_is_said_of_what_is_usual() -> None:
    assert str(Delay()) == ""
    assert str(Delay(0.5, sim.Straggler(0.0, 0.2, 1.0))) == "work_s=0.5,p=0.2,stall_s=1.0"


@pytest.mark.parametrize("text", ["0.5", "work_s=", "work_s=long", "stalls=1", "seed=0.5", "p=1;stall_s=2"])
def test_what_is_no_delay_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"a delay is told as NAME=VALUE(.|\n)*jitter_s, p, shape, stall_s"):
        delay(text)


@pytest.mark.parametrize("options", [{"work_s": -1.0}, {"straggler": 3}, {"work_s": float("inf")}])
def test_a_cluster_refuses_what_cannot_be_waited_for(options: Any) -> None:
    with pytest.raises(ConfigError, match="work_s is a finite number|a straggler is a sim.Straggler"):
        LocalCluster("tests.cluster.children:build", **options)


def test_the_command_line_refuses_it(capsys: Any) -> None:
    with pytest.raises(SystemExit):
        command.run(["worker", "p.py", "--delay", "work_s=now"])
    assert "a delay is told as NAME=VALUE" in capsys.readouterr().err


def drawn(one: Delay, name: str, n: int = 300) -> list[float]:
    loop: Any = None
    it = Delaying(one, name, loop)
    return [it.next_s() for _ in range(n)]


def test_workers_draw_apart_and_each_the_same_again() -> None:
    one = Delay(0.5, sim.Straggler(jitter_s=0.1, p=0.1, stall_s=0.3), seed=1)

    assert drawn(one, "worker0") == drawn(one, "worker0")
    assert not set(drawn(one, "worker0")) & set(drawn(one, "worker1"))
    assert not set(drawn(one, "worker0")) & set(drawn(Delay(0.5, one.straggler, seed=2), "worker0"))
    assert fmean(drawn(one, "worker0", 5_000)) == pytest.approx(0.53, abs=0.02)
    assert min(drawn(Delay(0.0, sim.Straggler(jitter_s=1.0, p=0.0)), "worker0")) == 0.0
    assert set(drawn(Delay(0.25, STEADY), "worker0")) == {0.25}


def test_it_takes_the_time_that_was_drawn_and_ends_when_it_is_cancelled() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        wait = Delaying(Delay(3.0, sim.Straggler(jitter_s=0.5, p=0.5)), "worker0", loop)
        again = Delaying(Delay(3.0, sim.Straggler(jitter_s=0.5, p=0.5)), "worker0", loop)
        start = loop.time()
        await wait()
        assert loop.time() - start == pytest.approx(again.next_s())
        waiting = loop.create_task(wait())
        await asyncio.sleep(1.0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        return loop.time() - start

    assert 4.0 < sim.run(main).result < 8.0
