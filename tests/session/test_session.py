"""Sessions: what a step gives, and what it says when it cannot."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from typing import Any, NamedTuple

import numpy as np
import pytest

import actorflow as af
from actorflow import errors, sim
from actorflow.kernels.device.device import Device
from actorflow.runtime import event_loop
from tests.support.faults import planted
from tests.support.sessions import run


@pytest.fixture
def all_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is measured goes to a thread, if there is one."""

    @planted(monkeypatch, Device, "__init__")
    def patient(init: Any, self: Device, *args: Any, **options: Any) -> None:
        init(self, *args, **{**options, "inline_limit_s": 0.0})


def line_of(error: BaseException) -> str:
    return shown(str(error))


def shown(text: str) -> str:
    return re.sub(r"(\S*/)?test_session\.py", "FILE", text)


OF_THREADS = {
    "test_a_session_is_not_used_from_another_loop",
    "test_a_cancelled_close_closes_everything_before_it_is_cancelled",
}


OF_TIME = {"test_initialising_and_running_share_one_deadline"}


@pytest.fixture(params=["the fastest loop at hand", "asyncio's own", "the simulator's"], autouse=True)
def _loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs every test on all event loops, and on the simulator's alone what depends on seconds."""
    if request.node.originalname in OF_TIME and request.param != "the simulator's":
        pytest.skip("on a busy machine a timer may be later than the next one")
    if request.param == "asyncio's own":
        monkeypatch.setattr(event_loop, "loop_factory", lambda: asyncio.new_event_loop)
    elif request.param == "the simulator's":
        if request.node.originalname in OF_THREADS:
            pytest.skip("a simulated program has one thread")
        monkeypatch.setattr(af, "run", lambda main: sim.run(lambda: main).result)


@pytest.fixture
def doubling() -> tuple[af.Graph, Any, Any]:
    with af.Graph() as graph:
        x = af.placeholder("float32", (None, 3), name="x")
        y = x + x
    return graph, x, y


# -- values --------------------------------------------------------------------------------------------


def test_fetches_come_back_in_the_structure_they_were_asked_in() -> None:
    class Pair(NamedTuple):
        a: Any
        b: Any

    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        y = x * 3.0

    async def body(session: af.Session) -> Any:
        return await session.run({"k": [x, (y, None)], "p": Pair(y, "x:0")}, {"x": 2})

    result = run(graph, body)

    assert result == {"k": [2, (6, None)], "p": Pair(6, 2)}
    assert type(result["p"]) is Pair


def test_a_fed_array_is_not_copied(doubling: Any) -> None:
    graph, x, _ = doubling
    value = np.ones((2, 3), "float32")

    (back,) = run(graph, lambda s: s.run([x], {x: value}))

    assert np.shares_memory(back, value)
    assert not back.flags.writeable
    assert value.flags.writeable


def test_an_inner_tensor_can_be_fed() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        y = af.exp(x)
        z = y + 1.0

    assert run(graph, lambda s: s.run(z, {y: np.float32(4)})) == 5


def test_many_steps_run_at_once_and_keep_their_values_apart(doubling: Any) -> None:
    graph, x, y = doubling

    async def body(session: af.Session) -> Any:
        feeds = [np.full((1, 3), k, "float32") for k in range(200)]
        results = await asyncio.gather(*(session.run(y, {x: f}) for f in feeds))
        return results, session.stats()

    results, stats = run(graph, body, max_steps=16)

    assert [float(r[0, 0]) for r in results] == [2 * k for k in range(200)]
    assert stats.peak_live <= 16
    assert stats.steps == 200
    assert stats.live == 0


def test_a_callable_takes_its_feeds_in_order(doubling: Any) -> None:
    graph, x, y = doubling

    async def body(session: af.Session) -> Any:
        double = session.make_callable([y], [x])
        with pytest.raises(errors.FeedError, match="this callable takes 1 value, got 0"):
            await double()
        return await double(np.ones((1, 3), "float32"))

    assert run(graph, body)[0].tolist() == [[2, 2, 2]]


def test_a_graph_may_grow_while_its_session_is_open(doubling: Any) -> None:
    graph, x, y = doubling

    async def body(session: af.Session) -> Any:
        await session.run(y, {x: np.ones((1, 3), "float32")})
        with graph:
            z = af.sum(y * 2.0)
        return await session.run(z, {x: np.ones((1, 3), "float32")})

    assert run(graph, body) == 12


def test_random_ops_draw_anew_in_every_step_and_alike_in_every_session() -> None:
    def draws() -> list[float]:
        with af.Graph(seed=7) as graph:
            u = af.random.uniform(())

        async def body(session: af.Session) -> Any:
            return [float(await session.run(u)) for _ in range(3)]

        return list(run(graph, body))

    first, second = draws(), draws()

    assert len(set(first)) == 3
    assert first == second


# -- misuse, with its text -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("feed", "text"),
    [
        (
            lambda x: {x: np.zeros((2, 4), "float32")},
            (
                "feed 'x' must fit (None, 3) float32, got (2, 4) float32\n"
                "  try:   reshape it, or declare the placeholder with that spec"
            ),
        ),
        (
            lambda x: {x: np.zeros((2, 3), "float64")},
            (
                "feed 'x' must fit (None, 3) float32, got (2, 3) float64\n"
                "  try:   convert it with .astype('float32'), or declare the placeholder with that spec"
            ),
        ),
        (
            lambda x: {"z": np.zeros((2, 3), "float32")},
            "feed 'z' names no tensor of the graph\n  try:   the placeholders are 'x'",
        ),
        (lambda x: {3: 1}, "the key of a feed is a tensor or its name, got int"),
        (
            lambda x: {x: [["a"]]},
            "feed 'x' must fit (None, 3) float32, got list: elements must be numbers, got str 'a' at index (0, 0)",
        ),
        (
            lambda x: {x: np.zeros((1, 3), "float32"), "x": np.zeros((1, 3), "float32")},
            (
                "'x' is fed twice in one step\n"
                "  where: node x, op placeholder, defined at FILE:LINE\n"
                "  try:   feed it by its tensor or by its name"
            ),
        ),
        (
            lambda x: {},
            (
                "placeholder 'x' must be fed, (None, 3) float32\n"
                "  where: node x, op placeholder, defined at FILE:LINE\n"
                "  try:   add 'x' to the feeds of this step"
            ),
        ),
    ],
)
def test_a_wrong_feed_says_what_was_wanted_and_what_came(doubling: Any, feed: Any, text: str) -> None:
    graph, x, y = doubling
    line = x.node.defined_at.split(":")[1]

    with pytest.raises(errors.FeedError) as caught:
        run(graph, lambda s: s.run(y, feed(x)))

    assert line_of(caught.value).replace(f"FILE:{line}", "FILE:LINE") == text


def test_a_fetch_from_another_graph_is_refused(doubling: Any) -> None:
    graph, _, _ = doubling
    with af.Graph():
        other = af.constant(1.0, name="other")

    with pytest.raises(errors.FetchError) as caught:
        run(graph, lambda s: s.run(other))

    line = other.node.defined_at.split(":")[1]
    assert line_of(caught.value) == (
        "fetch 'other:0' belongs to another graph than this session's\n"
        f"  where: node other, op constant, defined at FILE:{line}\n"
        "  try:   open a session on its graph"
    )


@pytest.mark.parametrize(
    ("fetch", "text"),
    [
        ("y", "fetch 'y' names no tensor of the graph"),
        ("add:3", "node 'add' has 1 outputs, got fetch 'add:3'"),
        (3, "a fetch is a tensor, a variable, a name, or a structure of them, got int"),
    ],
)
def test_an_odd_fetch_is_refused(doubling: Any, fetch: Any, text: str) -> None:
    graph, x, _ = doubling

    with pytest.raises(errors.FetchError) as caught:
        run(graph, lambda s: s.run(fetch, {x: np.zeros((1, 3), "float32")}))

    assert caught.value.what == text


class Parts:
    """What has `components` of its own, as queues and barriers do."""

    components = (1, 2)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: af.state.FIFOQueue(3, "float32", ()), "FIFOQueue"),
        (lambda: af.state.Barrier("float32", ()), "Barrier"),
        (lambda: af.state.Stack("float32", ()), "Stack"),
        (af.state.Counter, "Counter"),
        (Parts, "Parts"),
    ],
)
def test_what_holds_state_is_no_fetch(make: Any, kind: str, wrapped: bool) -> None:
    with af.Graph() as graph:
        held = make()

    with pytest.raises(errors.FetchError, match=f"or a structure of them, got {kind}"):
        run(graph, lambda s: s.run([held] if wrapped else held))


def test_reading_an_uninitialised_variable_names_it() -> None:
    with af.Graph() as graph:
        w = af.Variable(name="w", dtype="float32", shape=(2,))
        y = w + 1.0
    line = y.node.defined_at.split(":")[1]

    with pytest.raises(errors.UninitialisedError) as caught:
        run(graph, lambda s: s.run(y))

    assert line_of(caught.value) == (
        "variable 'w' was read before anything was assigned to it\n"
        f"  where: node w/read, op read_variable, step 1, device /cpu:0, defined at FILE:{line}\n"
        "  try:   give it an initial value, or run its assign first"
    )


def test_shapes_that_conflict_are_refused_at_build_time_with_both_lines() -> None:
    with af.Graph():
        a = af.placeholder("float32", (32, 784), name="a")
        b = af.placeholder("float32", (512, 10), name="b")
        with pytest.raises(errors.SpecError) as caught:
            a @ b

    text = line_of(caught.value)
    assert "matmul needs equal inner dimensions, got (32, 784) and (512, 10)" in text
    assert shown(a.node.defined_at) in text
    assert shown(b.node.defined_at) in text


def test_an_unknown_device_lists_those_that_exist(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    reason = "CuPy cannot be imported: import of cupy halted; None in sys.modules"
    if request.node.callspec.params["_loop"] == "the simulator's":
        reason = "a simulated run has no cards"
    with af.Graph() as graph, af.device("/gpu:0"):
        y = af.constant(1.0) + 2.0
    line = y.node.defined_at.split(":")[1]

    with pytest.raises(errors.PlacementError) as caught:
        run(graph, lambda s: s.run(y))

    assert line_of(caught.value) == (
        "unknown device '/gpu:0'; this session has /cpu:0\n"
        f"  where: node add, op add, device /gpu:0, defined at FILE:{line}\n"
        f"  try:   a card needs CUDA's driver and pip install 'actorflow[gpu]'; {reason}"
    )


def test_nan_under_check_numerics_says_how_many() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (4,), name="x")
        y = af.math.check_numerics(af.log(x), "after the log")
    line = y.node.defined_at.split(":")[1]

    with pytest.raises(errors.NumericError) as caught:
        run(graph, lambda s: s.run(y, {x: np.array([-1, 0, 1, 2], "float32")}))

    assert line_of(caught.value) == (
        "after the log: values must be finite, got 1 NaN and 1 infinite of 4\n"
        f"  where: node check_numerics, op check_numerics, step 1, device /cpu:0, defined at FILE:{line}"
    )


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.usefixtures("all_on_threads")
def test_a_kernel_that_raises_aborts_its_step_with_its_place(threads: int) -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (None,), name="x")
        square = af.reshape(x, (2, 2))
        total = af.sum(square)
    line = square.node.defined_at.split(":")[1]

    async def body(session: af.Session) -> Any:
        with pytest.raises(errors.KernelError) as caught:
            await session.run(total, {x: np.ones(3, "float32")})
        good = await session.run(total, {x: np.ones(4, "float32")})
        return caught.value, good, session.stats()

    error, good, stats = run(graph, body, threads=threads)

    assert line_of(error) == (
        "kernel of 'reshape' raised ValueError: cannot reshape array of size 3 into shape (2,2)\n"
        f"  where: node reshape, op reshape, step 1, device /cpu:0, defined at FILE:{line}"
    )
    assert isinstance(error.__cause__, ValueError)
    assert good == 4
    assert (stats.offloaded > 0) == (threads > 0)


def test_a_step_that_misses_its_deadline_says_what_it_waits_for() -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(2, "float32", (), name="q")
        item = queue.dequeue()

    async def body(session: af.Session) -> Any:
        with pytest.raises(errors.DeadlinePassed) as caught:
            await session.run(item, deadline_s=0.05)
        return caught.value, session.stats()

    error, stats = run(graph, body)

    assert re.fullmatch(
        "step 1 did not end within its deadline of 0.05 s; "
        "it waits for 'session[0-9]+/queue/q' to answer q/dequeue",
        error.what,
    )
    assert stats.failed == 1


def test_a_closed_session_refuses_to_run(doubling: Any) -> None:
    graph, x, y = doubling
    session = af.Session(graph)

    with pytest.raises(errors.SessionClosed, match="the session is not open"):
        af.run(session.run(y, {x: np.zeros((1, 3), "float32")}))


def test_closing_a_session_aborts_the_steps_that_run() -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(2, "float32", (), name="q")
        item = queue.dequeue()

    async def main() -> BaseException | None:
        async with af.Session(graph) as session:
            task = asyncio.create_task(session.run(item))
            await asyncio.sleep(0.01)
        await asyncio.wait([task])
        return task.exception()

    error = af.run(main())

    assert isinstance(error, errors.StepAborted)
    assert error.what == "step 1 was aborted: the session was closed"
    assert isinstance(error.__cause__, errors.SessionClosed)


def test_a_dump_says_what_every_step_waits_for() -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(2, "float32", (), name="q")
        item = queue.dequeue() + 1.0

    async def body(session: af.Session) -> Any:
        task = asyncio.create_task(session.run(item))
        await asyncio.sleep(0.01)
        dump = session.dump()
        task.cancel()
        await asyncio.wait([task])
        return dump, session.dump()

    during, after = run(graph, body)

    assert [(s.id, s.fetches_left, len(s.waits)) for s in during.steps] == [(1, 1, 1)]
    lines = str(during).splitlines()
    assert lines[0] == "1/64 steps, 0 wait for admission"
    assert re.fullmatch(
        "  step 1: 1 fetches to come, for [0-9.e-]+ s; waits for 'session[0-9]+/queue/q' to answer q/dequeue",
        lines[1],
    )
    assert any("/queue/q: idle, 0/1024 messages" in line for line in lines)
    assert after.steps == ()


def test_a_step_that_waits_for_admission_finds_shared_state_that_was_dropped_meanwhile_anew() -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(2, "float32", (), name="q")
        item, put = queue.dequeue(), queue.enqueue(np.float32(1))
        count = af.Variable(np.int64(5), name="count", shared_name="count", trainable=False)
        more = count.assign_add(np.int64(1))

    async def main() -> Any:
        async with af.ActorSystem() as system, af.Session(graph, system=system, max_steps=2) as session:
            assert int(await session.run(more)) == 6
            blocked = [asyncio.create_task(session.run(item)) for _ in range(2)]
            await asyncio.sleep(0)
            waiting = asyncio.create_task(session.run(more))
            await asyncio.sleep(0)
            assert session.stats().waiting == 1
            await af.state.reset(system)
            blocked[0].cancel()
            found = int(await waiting)
            await session.run(put)
            await blocked[1]
            return found, session.stats().failed

    assert af.run(main()) == (6, 1)


def test_a_deadline_holds_while_a_step_waits_for_admission() -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(2, "float32", (), name="q")
        item = queue.dequeue()
        one = af.constant(1.0) + 1.0

    async def body(session: af.Session) -> Any:
        blocked = asyncio.create_task(session.run(item))
        await asyncio.sleep(0)
        with pytest.raises(errors.DeadlinePassed, match="step 2 did not end within its deadline of 0.03 s"):
            await session.run(one, deadline_s=0.03)
        blocked.cancel()
        await asyncio.wait([blocked])
        return await session.run(one, deadline_s=1)

    assert run(graph, body, max_steps=1) == 2


def test_who_initialises_a_variable_may_be_cancelled_and_another_step_goes_on() -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(2, "float32", (), name="q")
        x = af.placeholder("float32", (), name="x")
        put = queue.enqueue(x)
        w = af.Variable(queue.dequeue(), name="w")
        y = w + 1.0

    async def body(session: af.Session) -> Any:
        first, second = (asyncio.create_task(session.run(y)) for _ in range(2))
        await asyncio.sleep(0.01)
        with pytest.raises(errors.DeadlinePassed, match="it waits for 'w' to be initialised"):
            await session.run(y, deadline_s=0.02)
        first.cancel()
        await asyncio.sleep(0.01)
        await session.run(put, {x: 4.0})
        return await second

    assert run(graph, body) == 5


@pytest.mark.parametrize("fetches", [[], None, {}, [None], {"a": (), "b": [None]}])
def test_fetching_nothing_gives_nothing_at_once(doubling: Any, fetches: Any) -> None:
    graph, _, _ = doubling

    async def body(session: af.Session) -> Any:
        return await session.run(fetches), await session.make_callable(fetches)()

    assert run(graph, body) == (fetches, fetches)


def test_a_variable_can_be_fetched_by_its_name() -> None:
    with af.Graph() as graph:
        af.Variable(3.0, name="w")

    assert run(graph, lambda s: s.run("w")) == 3


def test_a_fetched_variable_cannot_be_changed_from_outside() -> None:
    with af.Graph() as graph:
        w = af.Variable(np.ones(2, "float32"), name="w")

    async def body(session: af.Session) -> Any:
        value = await session.run(w)
        with pytest.raises(ValueError, match="read-only"):
            value[0] = 7
        with pytest.raises(ValueError, match="WRITEABLE"):
            value.flags.writeable = True
        return await session.run(w)

    assert run(graph, body).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_steps": 0}, "max_steps must be at least 1, got 0"),
        ({"max_messages": 0}, "max_messages must be at least 1, got 0"),
        ({"threads": -1}, "threads must be at least 0, got -1"),
        ({"deadline_s": 0}, "deadline_s must be above 0 and below 1e+09, got 0"),
        ({"deadline_s": float("nan")}, "deadline_s must be above 0 and below 1e+09, got nan"),
        ({"max_steps": "x"}, "max_steps is a whole number, got 'x'"),
        ({"max_messages": 1.5}, "max_messages is a whole number, got 1.5"),
        ({"threads": True}, "threads is a whole number, got True"),
        ({"deadline_s": float("inf")}, "deadline_s must be above 0 and below 1e+09, got inf"),
        ({"deadline_s": "x"}, "deadline_s is a number of seconds, got 'x'"),
        ({"deadline_s": True}, "deadline_s is a number of seconds, got True"),
        ({"starvation_s": "x"}, "starvation_s is a number of seconds, got 'x'"),
        ({"starvation_s": True}, "starvation_s is a number of seconds, got True"),
    ],
)
def test_a_setting_that_would_let_nothing_run_is_refused(doubling: Any, options: Any, text: str) -> None:
    graph, x, y = doubling

    with pytest.raises(errors.ConfigError) as caught:
        run(graph, lambda s: s.run(y, {x: np.zeros((1, 3), "float32")}), **options)

    assert caught.value.what == text


def test_limits_may_be_numbers_of_numpy(doubling: Any) -> None:
    graph, x, y = doubling
    options: dict[str, Any] = {
        "max_steps": np.int64(2), "deadline_s": np.float32(60), "starvation_s": np.int8(9),
    }  # fmt: skip
    nine: Any = np.int64(9)

    value = run(graph, lambda s: s.run(y, {x: np.ones((1, 3), "float32")}, deadline_s=nine), **options)

    assert value.tolist() == [[2, 2, 2]]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(-1, "must be above 0"), ("x", "is a number of seconds, got 'x'"), (True, "is a number of seconds")],
)
def test_the_deadline_of_one_step_is_checked_as_well(doubling: Any, wrong: Any, said: str) -> None:
    graph, x, y = doubling

    with pytest.raises(errors.ConfigError, match=f"deadline_s {said}"):
        run(graph, lambda s: s.run(y, {x: np.zeros((1, 3), "float32")}, deadline_s=wrong))


def test_a_session_opens_once(doubling: Any) -> None:
    graph, _, _ = doubling

    async def main() -> None:
        session = af.Session(graph)
        async with session:
            with pytest.raises(errors.SessionClosed, match="a session opens once"):
                await session.__aenter__()
        with pytest.raises(errors.SessionClosed, match="a session opens once"):
            async with session:
                pass
        await session.close()

    af.run(main())


def test_a_session_that_was_never_opened_says_so(doubling: Any) -> None:
    session = af.Session(doubling[0])

    with pytest.raises(errors.SessionClosed, match="the session has not been opened"):
        session.stats()
    with pytest.raises(errors.SessionClosed, match="the session has not been opened"):
        session.dump()


def test_a_session_is_not_used_from_another_loop() -> None:
    with af.Graph() as graph:
        w = af.Variable(1.0, name="w")
        add = w.assign_add(1.0)

    async def body(session: af.Session) -> Any:
        def elsewhere() -> None:
            with pytest.raises(errors.WrongLoop, match="the session is used in its own event loop"):
                asyncio.run(session.run(add))

        await asyncio.to_thread(elsewhere)
        return await session.run(add)

    assert run(graph, body) == 2


@pytest.mark.usefixtures("all_on_threads")
def test_a_cancelled_close_closes_everything_before_it_is_cancelled() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (None, None), name="x")
        y = af.sum(x @ x)

    async def main() -> Any:
        async def inner() -> None:
            async with af.Session(graph, threads=2) as session:
                steps.append(asyncio.create_task(session.run(y, {x: np.ones((1500, 1500), "float32")})))
                await asyncio.sleep(0.01)

        steps: list[asyncio.Task[Any]] = []
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(inner(), 0.02)
        await asyncio.wait(steps)
        assert isinstance(steps[0].exception(), errors.StepAborted)

    af.run(main())

    assert not [t for t in threading.enumerate() if t.name.startswith("actorflow/")]


def test_an_initialiser_that_waits_does_not_take_the_only_place() -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(2, "float32", (), name="q")
        x = af.placeholder("float32", (), name="x")
        put = queue.enqueue(x)
        y = af.Variable(queue.dequeue(), name="w") + 1.0

    async def body(session: af.Session) -> Any:
        waiting = asyncio.create_task(session.run(y))
        await asyncio.sleep(0.01)
        await session.run(put, {x: 4.0}, deadline_s=2)
        return await waiting

    assert run(graph, body, max_steps=1) == 5


def test_a_number_too_large_for_its_placeholder_is_refused() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        y = x + 1.0

    with pytest.raises(errors.FeedError, match="a value is too large for float32"):
        run(graph, lambda s: s.run(y, {x: 1e39}))
    assert run(graph, lambda s: s.run(y, {x: float("inf")})) == float("inf")


def test_foreign_byte_order_is_named() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (2,), name="x")

    with pytest.raises(errors.FeedError, match=r"got \(2,\) float32 in foreign byte order"):
        run(graph, lambda s: s.run(x, {x: np.ones(2, ">f4")}))


def test_the_cache_of_plans_is_bounded_and_old_plans_are_made_again() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        sums = [x + float(k) for k in range(300)]

    async def body(session: af.Session) -> Any:
        values = [float(await session.run(s, {x: 1.0})) for s in (*sums, sums[0])]
        return values, session.stats().plans

    values, plans = run(graph, body)

    assert values == [1.0 + k for k in range(300)] + [1.0]
    assert plans == 256


def test_initialising_and_running_share_one_deadline() -> None:
    with af.Graph() as graph:
        first, then = (af.state.FIFOQueue(2, "float32", (), name=n) for n in ("first", "then"))
        x = af.placeholder("float32", (), name="x")
        put, put_then = first.enqueue(x), then.enqueue(x)
        y = af.Variable(first.dequeue(), name="w") + then.dequeue()

    async def body(session: af.Session) -> Any:
        running = asyncio.create_task(session.run(y, deadline_s=0.2))
        await asyncio.sleep(0.15)
        await session.run(put, {x: 1.0})
        await asyncio.sleep(0.1)  # late for a deadline that began with the first await, not with the second
        await session.run(put_then, {x: 1.0})
        with pytest.raises(errors.DeadlinePassed, match="within its deadline of 0.2 s"):
            await running
        return session.stats()

    stats = run(graph, body)

    assert (stats.steps, stats.failed) == (2, 1)


# -- cancelling ----------------------------------------------------------------------------------------


def test_cancelling_a_step_frees_its_place_in_a_queue() -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(4, "float32", (), name="q")
        x = af.placeholder("float32", (), name="x")
        put, three, one = queue.enqueue(x), queue.dequeue_many(3), queue.dequeue()

    async def body(session: af.Session) -> Any:
        large = asyncio.create_task(session.run(three))
        await asyncio.sleep(0.01)
        await session.run(put, {x: 1.0})
        small = asyncio.create_task(session.run(one))
        await asyncio.sleep(0.01)
        assert not small.done()
        large.cancel()
        value = await asyncio.wait_for(small, 1)
        return value, large.cancelled(), session.stats()

    value, cancelled, stats = run(graph, body)

    assert (value, cancelled) == (1, True)
    assert stats.live == 0


def test_a_cancelled_wait_for_admission_lets_the_next_step_in() -> None:
    with af.Graph() as graph:
        queue = af.state.FIFOQueue(4, "float32", (), name="q")
        x = af.placeholder("float32", (), name="x")
        put, one = queue.enqueue(x), queue.dequeue()

    async def body(session: af.Session) -> Any:
        blocked = asyncio.create_task(session.run(one))
        await asyncio.sleep(0)
        waiting = [asyncio.create_task(session.run(put, {x: float(k)})) for k in range(3)]
        await asyncio.sleep(0.01)
        waiting[0].cancel()
        blocked.cancel()
        done, _ = await asyncio.wait([*waiting, blocked], timeout=2)
        return len(done), [t.cancelled() for t in waiting]

    assert run(graph, body, max_steps=1) == (4, [True, False, False])


@pytest.mark.parametrize("size", [4, 1_000_000])  # inline, and on the threads
def test_infinities_and_nan_are_computed_in_silence_wherever_a_step_computes(size: int) -> None:
    huge = np.full(size, 3e38, "float32")
    with af.Graph() as graph:
        w = af.Variable(huge, name="w")
        loss = af.sum(w * w)
        with af.control_dependencies([loss]):
            train = af.minimize(loss, af.optim.momentum(3.0), max_not_finite=None)
        with af.control_dependencies([train]):
            grown = w.assign_add(huge)

    async def main() -> list[Any]:
        async with af.Session(graph) as session:
            await session.run(train)
            return list(await session.run([loss, train, grown]))

    with np.errstate(all="raise"):  # the caller's own setting is neither used nor changed
        loss_value, _, value = af.run(main())
        with pytest.raises(FloatingPointError):
            huge * huge

    assert not np.isfinite(loss_value)
    assert np.isnan(value).all()


@pytest.mark.parametrize(
    "part", [af.arrays.identity, lambda x: x[1:], af.flip], ids=["identity", "slice", "flip"]
)
def test_views_of_a_fed_array_cannot_be_written(part: Any) -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (3,), name="x")
        y = part(x)
    given = np.ones(3, "float32")

    back = run(graph, lambda s: s.run(y, {x: given}))

    assert not back.flags.writeable
    assert given.flags.writeable


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            np.ma.masked_array([1.0, 2.0], [True, False], dtype="float32"),
            "a masked array would lose its mask",
        ),
        (memoryview(b"ab"), "must fit (2,) float32, got (2,) uint8"),
        (np.array([1, None]), "elements must be numbers, got NoneType None at index (1,)"),
    ],
)
def test_a_feed_that_would_lose_what_it_means_is_refused(value: Any, said: str) -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (2,), name="x")

    with pytest.raises(af.errors.FeedError) as caught:
        run(graph, lambda s: s.run(x, {x: value}))

    assert said in str(caught.value)


def test_a_session_that_is_opened_stays_open_until_it_is_closed() -> None:
    async def main() -> None:
        with af.Graph() as graph:
            v = af.Variable(1.0, name="v")
            up = v.assign_add(1.0)
        session = await af.Session(graph).open()

        for _ in range(3):
            await asyncio.create_task(session.run(up))
        assert await session.run(v) == 4.0
        await session.close()
        await session.close()

        assert not session.is_open
        with pytest.raises(errors.SessionClosed, match="not open"):
            await session.run(v)
        with pytest.raises(errors.SessionClosed, match="opens once"):
            await session.open()
        assert len(asyncio.all_tasks()) == 1

    af.run(main())


def test_a_session_opened_on_a_system_of_the_users_leaves_that_open() -> None:
    async def main() -> None:
        with af.Graph() as graph:
            c = af.constant(1.0)
        async with af.ActorSystem() as system:
            session = await af.Session(graph, system=system).open()
            assert await session.run(c) == 1.0
            await session.close()
            second = await af.Session(graph, system=system).open()
            assert await second.run(c) == 1.0
            await second.close()

    af.run(main())
