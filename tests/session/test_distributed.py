"""A session over several processes means what a session means."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.remote.runner import Lost, Runner, executor_of
from actorflow.dataflow.remote.step_messages import SessionProcess, StartPart, Token
from actorflow.session.distributed import DistributedSession
from tests.support.spreading import SCOPES, Cluster, processes, run_spread
from tests.support.turns import turns

# -- values ----------------------------------------------------------------------------------------


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

    found, sent = run_spread(graph, body)

    assert found["z"] == np.tanh(np.exp(np.float32(0.5))) + np.exp(np.float32(0.5))
    assert sent == {"p0": 0, "p1": 2, "p2": 1}


def test_random_numbers_are_those_of_a_session_in_one_process() -> None:
    with af.Graph(seed=7) as graph:
        with af.device(SCOPES[1]):
            noise = af.random.normal((3,))
            v = af.Variable(af.init.he((2, 2)), name="v")
        both = [noise + 1.0, v.read()]

    async def body(cluster: Cluster) -> Any:
        return [await cluster.session.run(both) for _ in range(2)]

    with af.Graph(seed=7) as same:
        noise = af.random.normal((3,))
        v = af.Variable(af.init.he((2, 2)), name="v")
        there = [noise + 1.0, v.read()]

    async def in_one() -> Any:
        async with af.Session(same, threads=0) as session:
            return [await session.run(there) for _ in range(2)]

    expected = sim.run(in_one).result

    for one, other in zip(run_spread(graph, body), expected, strict=True):
        assert [a.tobytes() for a in one] == [b.tobytes() for b in other]


def test_runs_that_begin_together_begin_in_their_order() -> None:
    """Also those whose plan is not prepared, and the variables of which have no value yet."""
    with af.Graph(seed=7) as graph:
        with af.device(SCOPES[1]):
            draw = af.random.uniform((), dtype="float64")
            count = af.Variable(np.int64(0), name="count", trainable=False)
            far = [draw, count.assign_add(np.int64(1))]
        both = [far, [draw + 0.0]]

    async def together(cluster: Cluster) -> Any:
        return await asyncio.gather(*(cluster.session.run(both[k % 2]) for k in range(5)))

    async def one_by_one(cluster: Cluster) -> Any:
        return [await cluster.session.run(both[k % 2]) for k in range(5)]

    found = run_spread(graph, together)

    assert found == run_spread(graph, one_by_one)
    assert [int(values[1]) for values in found[::2]] == [1, 2, 3]


def test_a_variable_is_trained_where_it_is() -> None:
    with af.Graph(seed=3) as graph:
        x = af.placeholder("float32", (None, 2), name="x")
        with af.device(SCOPES[1]):
            w = af.Variable(np.ones((2, 1), "float32"), name="w")
        with af.device(SCOPES[2]):
            loss = af.mean(af.square(x @ w))
        train = af.minimize(loss, af.optim.sgd(0.1))

    async def body(cluster: Cluster) -> Any:
        feeds = {x: np.ones((4, 2), "float32")}
        for _ in range(3):
            await cluster.session.run([loss, train], feeds)
        assert [name for name in cluster.system.actors if "variable/w" in name] == ["p1.1/variable/w"]
        return await cluster.session.run(w)

    trained = run_spread(graph, body)

    assert trained.tobytes() == np.full((2, 1), trained[0, 0], "float32").tobytes()
    assert 0 < trained[0, 0] < 1


def test_first_values_are_given_once_in_the_order_in_which_they_need_each_other() -> None:
    with af.Graph() as graph:
        with af.device(SCOPES[1]):
            a = af.Variable(np.float32(2), name="a")
            counted = af.Variable(np.int64(0), name="counted")
        with af.device(SCOPES[2]):
            b = af.Variable(lambda: a.read() * 3.0, name="b")
        more = counted.assign_add(np.int64(1))

    async def body(cluster: Cluster) -> Any:
        found = await asyncio.gather(*(cluster.session.run([b, more]) for _ in range(4)))
        return [float(value) for value, _ in found], sorted(int(n) for _, n in found)

    assert run_spread(graph, body) == ([6.0] * 4, [1, 2, 3, 4])


def test_what_is_fed_may_be_fetched_and_used_anywhere() -> None:
    with af.Graph() as graph:
        x, y = (af.placeholder("int64", (), name=name) for name in "xy")
        with af.device(SCOPES[1]):
            z = x + y

    async def body(cluster: Cluster) -> Any:
        call = cluster.session.make_callable([x, z, y], [y, x])
        with pytest.raises(errors.FeedError, match="takes 2 values, got 1"):
            await call(1)
        return await call(np.int64(1), np.int64(2))

    assert [int(v) for v in run_spread(graph, body)] == [2, 3, 1]


def test_a_wrong_feed_or_a_missing_one_is_refused_before_anything_runs() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (2,), name="x")
        with af.device(SCOPES[1]):
            y = af.exp(x)

    async def body(cluster: Cluster) -> Any:
        with pytest.raises(errors.FeedError, match="must fit"):
            await cluster.session.run(y, {x: np.ones(3, "float32")})
        with pytest.raises(errors.FeedError, match="must be fed"):
            await cluster.session.run(y)
        assert cluster.session.stats().steps == 0

    run_spread(graph, body)


# -- limits ----------------------------------------------------------------------------------------


def test_steps_beyond_the_limit_wait_for_their_turn() -> None:
    with af.Graph() as graph:
        with af.device(SCOPES[1]):
            n = af.Variable(np.int64(0), name="n")
        more = n.assign_add(np.int64(1))

    async def body(cluster: Cluster) -> Any:
        found = await asyncio.gather(*(cluster.session.run(more) for _ in range(9)))
        assert cluster.session.stats().peak_live == 2
        return [int(v) for v in found]

    assert run_spread(graph, body, max_steps=2) == list(range(1, 10))


def test_a_deadline_names_the_process_and_the_node_that_a_step_waits_for() -> None:
    with af.Graph() as graph:
        with af.device(SCOPES[1]):
            q = af.state.FIFOQueue(1, "float32", (), name="q")
        with af.device(SCOPES[2]):
            y = af.exp(q.dequeue())

    async def body(cluster: Cluster) -> Any:
        with pytest.raises(errors.DeadlinePassed) as caught:
            await cluster.session.run(y, deadline_s=1.0)
        return str(caught.value)

    text = run_spread(graph, body)

    assert "did not end within its deadline of 1 s" in text
    assert "p1 for 'p1.1/queue/q' to answer q/dequeue" in text
    assert "p2 for 'q/dequeue:0' from 'p1'" in text
    assert "p0 for 'exp:0' from 'p2'" in text


def test_a_step_that_is_not_admitted_in_time_says_so() -> None:
    with af.Graph() as graph, af.device(SCOPES[1]):
        take = af.state.FIFOQueue(1, "float32", (), name="q").dequeue()

    async def body(cluster: Cluster) -> Any:
        first = asyncio.create_task(cluster.session.run(take))
        await turns(20)
        with pytest.raises(errors.DeadlinePassed, match="not admitted"):
            await cluster.session.run(take, deadline_s=0.5)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)

    run_spread(graph, body, max_steps=1)


class Held:
    """A ref that keeps every StartPart back while it is `holding`."""

    def __init__(self, ref: Any) -> None:
        self._ref = ref
        self.holding = False
        self.held: list[Any] = []

    def put(self, message: Any, sender: Any) -> bool:
        if self.holding and isinstance(message, StartPart):
            self.held.append((message, sender))
            return True
        return bool(self._ref.put(message, sender))

    def release(self) -> None:
        self.holding = False
        for message, sender in self.held:
            self._ref.put(message, sender)
        self.held.clear()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ref, name)


def early() -> tuple[af.Graph, Any, Any]:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        with af.device(SCOPES[1]):
            made = [af.exp(x), af.tanh(x), af.square(x)]
        return graph, x, made[0] + made[1] + made[2]


def test_tokens_that_are_faster_than_start_wait_for_it() -> None:
    graph, x, y = early()

    async def body(cluster: Cluster) -> Any:
        held: Any = Held(cluster.refs["p0/runner"])
        cluster.refs["p0/runner"] = held
        await cluster.session.run(y, {x: np.float32(1)})
        held.holding = True
        task = asyncio.create_task(cluster.session.run(y, {x: np.float32(0)}))
        await turns(30)
        assert cluster.runners["p0"].rendezvous.early == 3
        held.release()
        return float(await task)

    assert run_spread(graph, body) == 1.0


def test_tokens_that_find_no_room_fail_their_step_and_no_other() -> None:
    graph, x, y = early()

    async def body(cluster: Cluster) -> Any:
        held: Any = Held(cluster.refs["p0/runner"])
        cluster.refs["p0/runner"] = held
        await cluster.session.run(y, {x: np.float32(1)})
        held.holding = True
        task = asyncio.create_task(cluster.session.run(y, {x: np.float32(0)}))
        with pytest.raises(errors.StepAborted, match="2 tokens wait at 'p0' for steps to start"):
            await task
        held.release()
        return float(await cluster.session.run(y, {x: np.float32(0)}))

    assert run_spread(graph, body, max_early=2) == 1.0


# -- failures --------------------------------------------------------------------------------------


def failing() -> tuple[af.Graph, Any, Any, Any]:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        with af.device(SCOPES[1]):
            n = af.Variable(np.float32(0), name="n")
            checked = af.math.check_numerics(af.log(x), "log of x", name="checked")
        with af.device(SCOPES[2]):
            z = af.exp(checked)
        with af.control_dependencies([z]):
            counted = n.assign_add(np.float32(1))
    return graph, x, [z, counted], n


def test_a_failure_ends_the_step_everywhere_and_is_raised_once_with_its_place() -> None:
    graph, x, fetches, n = failing()

    async def body(cluster: Cluster) -> Any:
        with pytest.raises(errors.NumericError) as caught:
            await cluster.session.run(fetches, {x: np.float32(-1)})
        assert float(await cluster.session.run(n)) == 0
        await cluster.session.run(fetches, {x: np.float32(1)})
        assert float(await cluster.session.run(n)) == 1
        assert cluster.session.stats().failed == 1
        return caught.value.where

    where = run_spread(graph, body)

    assert where.node == "checked"
    assert where.device == "p1/cpu:0"
    assert "test_distributed.py" in where.defined_at


def test_a_cancelled_step_ends_everywhere() -> None:
    with af.Graph() as graph:
        with af.device(SCOPES[1]):
            q = af.state.FIFOQueue(2, "float32", (), name="q")
            size = q.size()
        with af.device(SCOPES[2]):
            y = af.exp(q.dequeue())
        put = q.enqueue(np.float32(1))

    async def body(cluster: Cluster) -> Any:
        task = asyncio.create_task(cluster.session.run(y))
        await turns(30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await cluster.check_empty()
        await cluster.session.run(put)
        return int(await cluster.session.run(size))

    assert run_spread(graph, body) == 1


def test_a_lost_process_ends_the_steps_that_need_it_and_no_other() -> None:
    with af.Graph() as graph:
        with af.device(SCOPES[1]):
            near = af.state.FIFOQueue(2, "float32", (), name="near")
        with af.device(SCOPES[2]):
            far = af.state.FIFOQueue(2, "float32", (), name="far")
        takes = near.dequeue(), far.dequeue()
        put = near.enqueue(np.float32(7))

    async def body(cluster: Cluster) -> Any:
        session = cluster.session
        tasks = [asyncio.create_task(session.run(take)) for take in takes]
        await turns(30)
        await cluster.crash("p2")
        session.lost("p2", errors.PeerLost("'p2' is gone"))
        with pytest.raises(errors.PeerLost, match="'p2' is gone"):
            await tasks[1]
        with pytest.raises(errors.PeerLost):
            await session.run(takes[1])
        await session.run(put)
        return float(await tasks[0])

    assert run_spread(graph, body) == 7


def test_a_process_that_comes_back_begins_anew_and_its_variables_with_it() -> None:
    with af.Graph() as graph:
        with af.device(SCOPES[1]):
            n = af.Variable(np.int64(5), name="n")
        with af.device(SCOPES[2]):
            kept = af.Variable(np.int64(0), name="kept")
        more = [n.assign_add(np.int64(1)), kept.assign_add(np.int64(1))]

    async def body(cluster: Cluster) -> Any:
        session = cluster.session
        assert [int(v) for v in await session.run(more)] == [6, 1]
        lost = errors.PeerLost("'p1' is gone")
        await cluster.crash("p1")
        session.lost("p1", lost)
        for name in ("p0", "p2"):
            cluster.refs[f"{name}/runner"].signal(Lost("p1", lost))
        cluster.start("p1", 2)
        session.joined("p1", 2)
        late = Token(session.address, session.stats().steps + 2, 0, np.int64(0), False, "p1", 1)
        await cluster.refs["p0/runner"].tell(late)  # of the life before
        return [int(v) for v in await session.run(more)]

    assert run_spread(graph, body) == [6, 2]


def test_a_process_of_another_life_than_the_session_means_is_refused() -> None:
    with af.Graph() as graph, af.device(SCOPES[1]):
        y = af.random.normal(())

    async def body(cluster: Cluster) -> Any:
        cluster.start("p1", 2)
        with pytest.raises(errors.PeerLost, match="runs as incarnation 2, the session means 1"):
            await cluster.session.run(y)

    run_spread(graph, body)


def test_closing_ends_what_runs_and_leaves_nothing() -> None:
    with af.Graph() as graph, af.device(SCOPES[1]):
        take = af.state.FIFOQueue(2, "float32", (), name="q").dequeue()

    async def body(cluster: Cluster) -> Any:
        task = asyncio.create_task(cluster.session.run(take))
        await turns(30)
        await cluster.session.close()
        with pytest.raises(errors.StepAborted, match="the session was closed"):
            await task
        await cluster.check_empty()
        with pytest.raises(errors.SessionClosed):
            await cluster.session.run(take)

    run_spread(graph, body)


def test_plans_that_are_dropped_are_dropped_everywhere_and_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actorflow.session.plan_cache.MAX_PLANS", 2)
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        with af.device(SCOPES[1]):
            made = [af.square(x + np.float32(k)) for k in range(4)]

    async def body(cluster: Cluster) -> Any:
        feeds = {x: np.float32(1)}
        for _ in range(2):
            found = await asyncio.gather(*(cluster.session.run(y, feeds) for y in made))
            assert [float(y) for y in found] == [1, 4, 9, 16]
        await cluster.session.run(made[:2], feeds)
        await cluster.check_empty()
        return [len(runner.parts) for runner in cluster.runners.values()]

    assert run_spread(graph, body) == [2, 2, 0]


# -- planning --------------------------------------------------------------------------------------


def test_an_optimizer_of_variables_of_two_processes_is_refused() -> None:
    with af.Graph() as graph:
        with af.device(SCOPES[1]):
            a = af.Variable(np.float32(1), name="a")
        with af.device(SCOPES[2]):
            b = af.Variable(np.float32(1), name="b")
        train = af.minimize(af.square(a * b), af.optim.sgd(0.1))

    async def body(cluster: Cluster) -> Any:
        with pytest.raises(errors.PlacementError, match="deals with variables of one process") as caught:
            await cluster.session.run(train)
        return str(caught.value)

    assert "'a' on /job:worker/task:1/device:cpu:0" in run_spread(graph, body)


def test_a_scope_that_no_process_fits_is_refused() -> None:
    with af.Graph() as graph, af.device("/job:ps"):
        y = af.random.normal(())

    async def body(cluster: Cluster) -> Any:
        with pytest.raises(errors.PlacementError, match="unknown device '/job:ps'"):
            await cluster.session.run(y)

    run_spread(graph, body)


def test_a_process_that_built_another_graph_is_refused() -> None:
    def made(k: float) -> tuple[af.Graph, Any]:
        with af.Graph() as graph, af.device(SCOPES[1]):
            return graph, af.random.normal((), name="y") * k

    graph, y = made(2.0)
    other, _ = made(3.0)

    class HasBuiltAnother(Runner):
        def __init__(self, name: str, incarnation: int, graph: af.Graph, make: Any, *others: Any) -> None:
            if name == "p1":
                graph, make = other, executor_of("p1", other)
            super().__init__(name, incarnation, graph, make, *others)

    async def body(cluster: Cluster) -> Any:
        with pytest.raises(errors.PlacementError, match="'p1' has built another graph"):
            await cluster.session.run(y)

    run_spread(graph, body, runner=HasBuiltAnother)


def test_a_session_needs_processes_with_devices_and_a_home_among_them() -> None:
    with af.Graph() as graph:
        af.constant(1.0)
    system: Any = object()

    with pytest.raises(errors.ConfigError, match="devices of one job and task"):
        DistributedSession(graph, system, [SessionProcess("p0", (), 1)], system)
    with pytest.raises(errors.ConfigError, match="home is one of the processes p0, p1, got 'p2'"):
        DistributedSession(graph, system, processes(2), system, home="p2")
