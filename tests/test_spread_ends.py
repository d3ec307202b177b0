"""What a session over several processes says of misuse and of slow processes, and what it leaves when it is closed."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.dataflow.remote.runner import Lost
from actorflow.dataflow.remote.step_messages import PreparePart, SettlePart
from actorflow.session.distributed import DistributedSession
from tests.support.spreading import SCOPES, Cluster, processes, run_spread


def doubled() -> tuple[af.Graph, Any, Any]:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        with af.device(SCOPES[1]):
            v = af.Variable(np.float32(2), name="v")
            y = v.read() * x
    return graph, x, y


@pytest.mark.parametrize("turns", range(0, 40, 3))
def test_a_session_that_is_closed_while_a_first_step_begins_leaves_no_part_anywhere(turns: int) -> None:
    graph, x, y = doubled()

    async def body(cluster: Cluster) -> Any:
        other = DistributedSession(graph, cluster.system, processes(3), cluster.reach)
        async with other:
            step = asyncio.create_task(other.run(y, {x: np.float32(1)}))
            for _ in range(turns):
                await asyncio.sleep(0)
        ended: Any = (await asyncio.gather(step, return_exceptions=True))[0]
        assert ended == 2 or isinstance(ended, errors.SessionClosed | errors.StepAborted), repr(ended)
        await cluster.check_empty()
        return [(len(runner.parts), runner.rendezvous.empty) for runner in cluster.runners.values()]

    assert run_spread(graph, body) == [(0, True)] * 3


def test_a_step_whose_process_does_not_answer_says_which() -> None:
    graph, x, y = doubled()

    class Silent:
        """A ref to a runner that never prepares anything."""

        def __init__(self, ref: Any) -> None:
            self._ref = ref

        async def ask(self, message: Any) -> Any:
            return await (
                asyncio.Event().wait() if isinstance(message, PreparePart) else self._ref.ask(message)
            )

        def __getattr__(self, name: str) -> Any:
            return getattr(self._ref, name)

    async def body(cluster: Cluster) -> Any:
        silent: Any = Silent(cluster.refs["p1/runner"])
        cluster.refs["p1/runner"] = silent
        with pytest.raises(errors.DeadlinePassed, match=r"0\.5 s; it waits for p1 to prepare"):
            await cluster.session.run([y, x], {x: np.float32(1)}, deadline_s=0.5)

    run_spread(graph, body)


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda s: s.joined("p9", 2), "the session runs on p0, p1, p2, got 'p9'"),
        (lambda s: s.lost("p9", errors.PeerLost("gone")), "the session runs on p0, p1, p2, got 'p9'"),
        (lambda s: s.joined("p1", 0), "'p1' joins in its present life, 1 or later, got 0"),
        (lambda s: s.joined("p1", "2"), "incarnation is a whole number, got '2'"),
    ],
    ids=["unknown joins", "unknown is lost", "an older life joins", "no number"],
)
def test_news_of_what_cannot_be_is_refused_and_changes_nothing(misuse: Any, message: str) -> None:
    graph, x, y = doubled()

    async def body(cluster: Cluster) -> Any:
        with pytest.raises(errors.ConfigError, match=message):
            misuse(cluster.session)
        return float(await cluster.session.run(y, {x: np.float32(3)}))

    assert run_spread(graph, body) == 6


def test_a_process_that_is_there_already_joins_without_effect() -> None:
    graph, x, y = doubled()

    async def body(cluster: Cluster) -> Any:
        await cluster.session.run(y, {x: np.float32(3)})
        cluster.session.joined("p1", 1)
        assert cluster.session.stats().plans == 2
        return float(await cluster.session.run(y, {x: np.float32(3)}))

    assert run_spread(graph, body) == 6


@pytest.mark.parametrize(
    ("state", "kind", "message"),
    [
        ({"v": "/job:zz"}, errors.PlacementError, "unknown device '/job:zz'"),
        ({"v": 3}, errors.ConfigError, "a dict of names and devices"),
        ("v", errors.ConfigError, "a dict of names and devices"),
    ],
)
def test_state_on_a_device_that_cannot_be_is_refused(state: Any, kind: Any, message: str) -> None:
    graph, _, _ = doubled()
    system: Any = object()

    with pytest.raises(kind, match=message):
        DistributedSession(graph, system, processes(2), system, state=state)


def test_state_of_a_name_that_the_graph_has_not_is_refused_by_the_first_step() -> None:
    graph, x, y = doubled()

    async def body(cluster: Cluster) -> Any:
        with pytest.raises(errors.ConfigError, match="the graph has none named 'nope'"):
            await cluster.session.run(y, {x: np.float32(1)})

    run_spread(graph, body, state={"nope": SCOPES[1]})


def test_without_a_limit_of_grace_a_step_waits_for_its_processes_as_long_as_they_are_there() -> None:
    with af.Graph() as graph, af.device(SCOPES[1]):
        take = af.state.FIFOQueue(1, "float32", (), name="q").dequeue()

    class Deaf:
        """A ref that loses what is said on the control lane."""

        def __init__(self, ref: Any) -> None:
            self._ref = ref

        def signal(self, message: Any) -> None:
            pass

        def __getattr__(self, name: str) -> Any:
            return getattr(self._ref, name)

    async def body(cluster: Cluster) -> Any:
        session, whole = cluster.session, cluster.refs["p1/runner"]
        deaf: Any = Deaf(whole)
        cluster.refs["p1/runner"] = deaf
        step = asyncio.create_task(session.run(take))
        await asyncio.sleep(1)
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)
        await asyncio.sleep(100)
        waits = session.stats().live
        session.lost("p1", errors.PeerLost("gone"))
        await session.wait_settled()
        cluster.refs["p1/runner"] = whole
        whole.signal(Lost("p0", errors.PeerLost("gone")))
        return waits

    assert run_spread(graph, body, grace_s=None) == 1


class Slow:
    """A ref over which SettlePart is late: what is said after it comes first."""

    def __init__(self, ref: Any, settle: bool = True) -> None:
        self._ref = ref
        self._settle = settle

    def signal(self, message: Any) -> None:
        if not isinstance(message, SettlePart):
            self._ref.signal(message)
        elif self._settle:
            asyncio.get_running_loop().call_later(0.3, self._ref.signal, message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ref, name)


def slow_settling(cluster: Cluster, *, settle: bool = True) -> Any:
    """Puts that over the runner of p1, and returns what was there."""
    whole, slow = cluster.refs["p1/runner"], Slow(cluster.refs["p1/runner"], settle)
    cluster.refs["p1/runner"] = slow  # type: ignore[assignment]
    return whole


def kinds() -> tuple[af.Graph, dict[str, tuple[Any, Any, Any]], Any]:
    """Returns what fills, takes from and counts a resource of p1, by its kind, and a queue of p2 with no room."""
    with af.Graph() as graph:
        with af.device(SCOPES[1]):
            queue = af.state.FIFOQueue(4, "float32", (), name="q")
            barrier = af.state.Barrier("float32", (), name="bar")
            grads = af.state.ConditionalAccumulator("float32", (), name="acc")
            found = {
                "queue": (queue.enqueue(np.float32(1)), queue.dequeue(), queue.size()),
                "barrier": (
                    barrier.insert_many(0, np.array([b"k"], object), np.ones(1, "float32")),
                    af.sum(barrier.take_many(1).components[0]),
                    barrier.ready_size(),
                ),
                "accumulator": (grads.apply_grad(np.float32(1)), grads.take_grad(1), grads.num_accumulated()),
            }
        with af.device(SCOPES[2]):
            full = af.state.FIFOQueue(1, "float32", (), name="full")
            found = {kind: (put, full.enqueue(take), size) for kind, (put, take, size) in found.items()}
            fill = full.enqueue(np.float32(0))
    return graph, found, fill


@pytest.mark.parametrize("cancelled", [True, False], ids=["cancelled", "late"])
@pytest.mark.parametrize("kind", ["queue", "barrier", "accumulator"])
def test_what_begins_once_a_step_is_settled_finds_what_that_had_taken(kind: str, cancelled: bool) -> None:
    """Whoever hears of a deadline need not wait: by then it is back."""
    graph, found, fill = kinds()
    put, move, size = found[kind]

    async def body(cluster: Cluster) -> Any:
        session = cluster.session
        slow_settling(cluster)
        await session.run([put, fill])
        step = asyncio.create_task(session.run(move, deadline_s=None if cancelled else 0.5))
        if cancelled:
            while await session.run(size):  # until it has taken
                pass
            step.cancel()
        ended: Any = (await asyncio.gather(step, return_exceptions=True))[0]
        assert isinstance(ended, asyncio.CancelledError if cancelled else errors.DeadlinePassed), repr(ended)
        if cancelled:
            await session.wait_settled()
        return int(await session.run(size))

    assert run_spread(graph, body, grace_s=None) == 1


def test_a_process_that_does_not_say_what_came_back_is_not_waited_for_beyond_the_grace() -> None:
    graph, found, fill = kinds()
    put, move, _ = found["queue"]

    async def body(cluster: Cluster) -> Any:
        session, whole = cluster.session, slow_settling(cluster, settle=False)
        await session.run([put, fill])
        began = cluster.system.now()
        with pytest.raises(errors.DeadlinePassed):
            await session.run(move, deadline_s=0.5)
        await session.wait_settled()
        took_s = cluster.system.now() - began
        cluster.refs["p1/runner"] = whole
        whole.signal(Lost("p0", errors.PeerLost("gone")))
        return took_s

    assert run_spread(graph, body, grace_s=2.0) == pytest.approx(2.5, abs=0.1)


def test_a_process_that_is_lost_is_not_waited_for_until_what_it_took_is_back() -> None:
    graph, found, fill = kinds()
    put, move, _ = found["queue"]

    async def body(cluster: Cluster) -> Any:
        session, whole = cluster.session, slow_settling(cluster, settle=False)
        await session.run([put, fill])
        step = asyncio.create_task(session.run(move))
        await asyncio.sleep(0.1)
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)
        waiting = asyncio.create_task(session.wait_settled())
        await asyncio.sleep(50)
        assert not waiting.done()
        session.lost("p1", errors.PeerLost("gone"))
        await waiting
        cluster.refs["p1/runner"] = whole
        whole.signal(Lost("p0", errors.PeerLost("gone")))

    run_spread(graph, body, grace_s=None)


def trained(
    optimizer: Any = None, capacity: int = 2, seed: int = 0, kept: int = 1
) -> tuple[af.Graph, list[Any]]:
    with af.Graph(seed=seed) as graph, af.device(SCOPES[1]):
        w = af.Variable(np.ones(2, "float32"), name="w")
        train = af.minimize(af.sum(w.as_tensor()), optimizer or af.optim.sgd(0.25), name="train")
        q = af.state.FIFOQueue(capacity, "float32", (), name="q")
        table = af.state.HashTable("int64", "int64", 0, initial=([1], [kept]), name="table")
        return graph, [train, q.enqueue(np.float32(1)), q.size(), table.lookup(np.int64(1))]


@pytest.mark.parametrize(
    "other",
    [
        {"optimizer": af.optim.sgd(0.5)},
        {"optimizer": af.optim.adam(0.25)},
        {"optimizer": af.optim.sgd(af.optim.schedules.exponential(0.25, 0.5, 3))},
        {"capacity": 3},
        {"seed": 1},
        {"kept": 2},
    ],
    ids=["rate", "rule", "schedule", "capacity", "seed", "contents"],
)
def test_a_process_whose_state_or_optimizer_is_another_is_refused(other: dict[str, Any]) -> None:
    graph, fetches = trained()
    another, _ = trained(**other)

    async def body(cluster: Cluster) -> Any:
        await cluster.session.run(fetches)
        cluster.session.lost("p1", errors.PeerLost("'p1' is gone"))
        await cluster.crash("p1")
        cluster.graph = another
        cluster.start("p1", 2)
        cluster.session.joined("p1", 2)
        with pytest.raises(errors.PlacementError, match="'p1' has built another graph"):
            await cluster.session.run(fetches)

    run_spread(graph, body)
