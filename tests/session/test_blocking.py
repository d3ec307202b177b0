"""`with af.Session(graph)`: the session for code without `await`."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import (
    ConfigError,
    DeadlinePassed,
    FeedError,
    FetchError,
    SessionClosed,
)


def graph() -> tuple[af.Graph, af.Tensor, af.Tensor, af.Variable]:
    with af.Graph() as built:
        x = af.placeholder("float32", (2,), name="x")
        v = af.Variable([1.0, 1.0], name="v")
        y = af.sum(x * x)
    return built, x, y, v


def test_its_calls_give_what_the_awaited_ones_do() -> None:
    built, x, y, v = graph()
    with built:
        up = v.assign_add(x)

    with af.Session(built) as session:
        assert session.uninitialised() == ["v"]
        assert session.run(y, {x: [3.0, 4.0]}) == 25.0
        assert session.run({"y": y, "v": v}, {x: [0.0, 1.0]})["v"].tolist() == [1.0, 1.0]
        assert session.run(up, {x: [1.0, 2.0]}).tolist() == [2.0, 3.0]
        call = session.make_callable([y, v], [x])
        assert [np.asarray(value).tolist() for value in call([1.0, 1.0])] == [2.0, [2.0, 3.0]]
        assert session.stats().steps == 4
        assert session.graph is built
        assert session.is_open
        assert "0/64 steps live" in repr(session)
        assert str(session.dump())
        assert isinstance(session.kernel_seconds(), dict)
    assert not session.is_open


def test_errors_of_a_step_come_through() -> None:
    built, x, y, _ = graph()

    with af.Session(built) as session:
        with pytest.raises(FetchError):
            session.run("nobody")
        with pytest.raises(FeedError):
            session.run(y, {x: [1.0, 2.0, 3.0]})
        with pytest.raises(FetchError):
            session.make_callable("nobody")
        assert session.run(y, {x: [3.0, 4.0]}) == 25.0


def test_a_deadline_ends_a_step() -> None:
    with af.Graph() as built:
        queue = af.state.FIFOQueue(1, ["float32"], [()])
        element = queue.dequeue()

    with af.Session(built) as session, pytest.raises(DeadlinePassed):
        session.run(element, deadline_s=0.05)


def test_an_error_of_the_block_comes_through_and_all_is_closed() -> None:
    threads = threading.active_count()
    with pytest.raises(ZeroDivisionError), af.Session(graph()[0]) as session:
        raise ZeroDivisionError

    assert not session.is_open
    assert threading.active_count() == threads


def test_many_threads_call_it_at_once() -> None:
    built, x, _, v = graph()
    with built:
        up = v.assign_add(x)

    with af.Session(built) as session, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: session.run(up, {x: [1.0, 2.0]}), range(200)))
        assert session.run(v).tolist() == [201.0, 401.0]


def test_after_the_block_it_says_that_it_is_closed_and_closing_again_is_harmless() -> None:
    built, x, y, _ = graph()
    with af.Session(built) as session:
        call = session.make_callable(y, [x])

    session.close()
    for late in (lambda: session.run(y, {x: [3.0, 4.0]}), lambda: call([3.0, 4.0]), session.uninitialised):
        with pytest.raises(SessionClosed, match="not open"):
            late()
    assert session.stats().steps == 0


def test_a_session_opens_once_however_it_is_opened() -> None:
    session = af.Session(graph()[0])
    threads = threading.active_count()
    with session:
        pass

    with pytest.raises(SessionClosed, match="opens once"), session:
        pass
    assert threading.active_count() == threads


def test_where_a_loop_runs_it_is_refused_before_anything_is_begun() -> None:
    async def main() -> None:
        threads = threading.active_count()
        with pytest.raises(ConfigError, match="async with af.Session"), af.Session(graph()[0]):
            pass
        assert threading.active_count() == threads

    asyncio.run(main())


def test_a_system_of_another_loop_is_refused() -> None:
    with pytest.raises(ConfigError, match="system=system"), af.Session(graph()[0], system=af.ActorSystem()):
        pass


STUCK = """
import actorflow as af

with af.Graph() as graph:
    element = af.state.FIFOQueue(1, ["float32"], [()]).dequeue()
try:
    with af.Session(graph, starvation_s=None) as session:
        print("ready", flush=True)
        session.run(element)
except KeyboardInterrupt:
    print("stopped", session.is_open, session.stats().failed)
"""


TAKEN_ELSEWHERE = """
import signal, threading, time

def take():
    while "_result" not in {frame.name for frame in traceback.extract_stack(sys._current_frames()[main])}:
        time.sleep(0.01)
    time.sleep(0.3)  # so that it waits
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

import sys, traceback
main = threading.main_thread().ident
threading.Thread(target=take, daemon=True).start()
"""


@pytest.mark.processes
def test_ctrl_c_that_does_not_wake_the_thread_that_waits_is_seen_all_the_same() -> None:
    """It comes just before the thread waits, or another thread of the process takes it."""
    child = subprocess.run(
        [sys.executable, "-c", TAKEN_ELSEWHERE + STUCK],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": "."},
        check=True,
    )

    assert child.stdout.startswith("ready\nstopped False")


@pytest.mark.processes
def test_ctrl_c_cancels_the_step_that_waits_and_closes_all() -> None:
    env = {**os.environ, "PYTHONPATH": "."}
    with subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, text=True, env=env) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        out = child.stdout.read()

    assert out.startswith("stopped False")
    assert child.returncode == 0
