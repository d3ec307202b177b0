"""Updates of some rows, from the loss to the variable: what moves, what stays, and what it costs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.optimizer import optimizer as optimizer_module
from actorflow.dataflow.optimizer.optimizer import OptimizerActor
from actorflow.dataflow.optimizer.optimizer_state import PreparedState
from actorflow.sim.engine.schedulers import Schedule
from actorflow.values import arrays
from actorflow.values import sparse as rows_module
from actorflow.values.sparse import SparseRows
from tests.support.faults import planted
from tests.support.holding import nobody_asked
from tests.support.strategies import examples, plan_of_the_fault, run_drawn, simulated

N, WIDTH = 6, 2
RULES = {
    "sgd": af.optim.sgd(0.5),
    "momentum": af.optim.momentum(0.5),
    "nesterov": af.optim.momentum(0.5, nesterov=True),
    "adam": af.optim.adam(0.5),
    "chain": af.optim.chain(af.optim.clip_by_global_norm(1.0), af.optim.adam(0.1)),
}


class Lookup:
    """A table, rows of which a step looks up and pulls towards ones."""

    def __init__(self, optimizer: Any, *, open_sizes: bool = False, rows: int = N) -> None:
        with af.Graph() as self.graph:
            self.first = np.linspace(-1, 0.5, rows * WIDTH).reshape(rows, WIDTH)
            shape = (None, WIDTH) if open_sizes else None
            self.table = af.Variable(self.first, name="table", shape=shape)
            self.ids = af.placeholder("int64", (None,), name="ids")
            self.loss = af.sum(af.square(af.gather(self.table, self.ids) - 1.0))
            self.train = af.minimize(self.loss, optimizer)
            self.value = self.table.read()

    def feeds(self, *ids: int) -> Mapping[Any, Any]:
        return {self.ids: np.array(ids, np.int64)}

    def run(self, body: Any, **options: Any) -> Any:
        async def main() -> Any:
            async with af.Session(self.graph, **options) as session:
                return await body(session)

        return af.run(main())


def actor(session: af.Session) -> OptimizerActor:
    (cell,) = (c for name, c in session.system.actors.items() if "/optimizer/" in name)
    found = cell.behaviour
    assert isinstance(found, OptimizerActor)
    return found


def address(session: af.Session) -> int:
    (cell,) = (c for name, c in session.system.actors.items() if name.endswith("variable/table"))
    found: Any = cell.behaviour
    return int(found.register.value.__array_interface__["data"][0])


@pytest.mark.parametrize("open_sizes", [False, True])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_a_step_moves_the_rows_that_it_looked_up_as_the_rule_says(
    rule: af.optim.Transform, open_sizes: bool
) -> None:
    net = Lookup(rule, open_sizes=open_sizes)
    steps = [(1, 4, 1), (-1,), (4, 0), ()]

    async def body(session: af.Session) -> Any:
        before = np.array(await session.run(net.value))
        for ids in steps:
            await session.run(net.train, net.feeds(*ids))
        return before, await session.run(net.value), actor(session).state

    before, after, state = net.run(body)

    table = {"table": before}
    expected = rule.init(table)
    for ids in steps:
        at, counts = np.unique(np.array(ids, np.int64) % N, return_counts=True)
        grad = SparseRows(at, 2 * (table["table"][at] - 1.0) * counts[:, None], (N, WIDTH))
        deltas, new = rule.update({"table": grad}, expected, table)
        expected = merged(expected, new)
        table = {"table": table["table"] + deltas["table"].to_dense()}
    np.testing.assert_allclose(after, table["table"], rtol=1e-12)
    assert_same(state, expected)
    assert after[[2, 3]].tobytes() == before[[2, 3]].tobytes()


def merged(old: Any, new: Any) -> Any:
    if isinstance(new, SparseRows):
        whole = np.array(old)
        whole[new.indices] = new.values
        return whole
    if isinstance(new, dict):
        return {k: merged(old[k], v) for k, v in new.items()}
    if isinstance(new, tuple):
        return tuple(merged(o, n) for o, n in zip(old, new, strict=True))
    return new


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for k, v in expected.items():
            assert_same(found[k], v)
    elif isinstance(expected, tuple):
        for f, e in zip(found, expected, strict=True):
            assert_same(f, e)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_rule_of_the_user_s_own_is_handed_dense_gradients() -> None:
    seen = []

    def update(grads: Any, state: Any, params: Any) -> Any:
        seen.append(grads["table"])
        return {"table": -0.5 * grads["table"]}, state

    net = Lookup(af.optim.Transform(init=lambda params: (), update=update))

    async def body(session: af.Session) -> Any:
        before = np.array(await session.run(net.value))
        await session.run(net.train, net.feeds(1, 1))
        return before, await session.run(net.value)

    before, after = net.run(body)

    assert [type(g) for g in seen] == [np.ndarray]
    expected = before.copy()
    expected[1] -= 2 * (before[1] - 1)
    np.testing.assert_allclose(after, expected)


def test_a_rule_may_answer_rows_with_a_delta_for_all() -> None:
    def update(grads: Any, state: Any, params: Any) -> Any:
        return {"table": grads["table"].to_dense() + 1.0}, state

    net = Lookup(af.optim.Transform(init=lambda params: (), update=update, sparse=True))

    async def body(session: af.Session) -> Any:
        before = np.array(await session.run(net.value))
        await session.run(net.train, net.feeds(1))
        return before, await session.run(net.value)

    before, after = net.run(body)

    np.testing.assert_allclose(np.delete(after - before, 1, 0), 1.0)
    np.testing.assert_allclose(after[1], before[1] + 2 * (before[1] - 1) + 1.0)


@pytest.mark.parametrize("says_so", [True, False])
def test_an_actor_is_handed_rows_if_it_says_so(says_so: bool) -> None:
    class Looking(af.OptimizerActor):
        """Sgd that notes what it was given."""

        sparse = says_so

        def init(self, params: Any) -> Any:
            return ()

        async def on_gradients(self, grads: Any, ctx: af.types.UpdateContext) -> Any:
            seen.append(type(grads["table"]))
            return {n: af.optim.as_rows(-0.5 * af.optim.values_of(g), g) for n, g in grads.items()}, ()

    seen: list[type] = []
    net = Lookup(Looking)

    net.run(lambda session: session.run(net.train, net.feeds(1)))

    assert seen == [SparseRows if says_so else np.ndarray]


# ---------------------------------------------------------------------------- cost and snapshots


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_tables_are_updated_in_place_while_nobody_holds_them(rule: af.optim.Transform, threads: int) -> None:
    net = Lookup(rule)

    async def body(session: af.Session) -> Any:
        await session.run(net.train, net.feeds(1))
        places = set()
        for i in range(6):
            await session.run([net.loss, net.train], net.feeds(i, 2))
            await asyncio.sleep(0)  # the commit is a message
            places.add((address(session), *slots(session)))
        return places

    assert len(net.run(body, threads=threads)) == 1


@pytest.mark.parametrize("threads", [0, 1])
def test_nothing_in_the_runtime_holds_a_table_when_its_update_is_staged_or_committed(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Not the answers to the asks that are on their way, of which each 64th waits for its turn."""
    found: list[bool] = []

    @planted(monkeypatch, rows_module, "_memory")
    def noting(memory_in: Any, cell: list[Any]) -> Any:
        memory = memory_in(cell)
        found.append(memory is not None)
        return memory

    net = Lookup(af.optim.momentum(0.5), rows=10_000)

    async def body(session: af.Session) -> None:
        for i in range(200):
            await session.run([net.loss, net.train], net.feeds(*range(i, i + 1 + 100 * (i % 7))))

    net.run(body, threads=threads)

    assert len(found) >= 4 * 199
    assert all(found)


def slots(session: af.Session) -> list[int]:
    """Where the parts of the state lie; holds none of them."""
    tables = (leaf for leaf in leaves(actor(session).state) if leaf.shape == (N, WIDTH))
    return [table.__array_interface__["data"][0] for table in tables]


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in leaves(value)]
    if isinstance(tree, tuple):
        return [leaf for value in tree for leaf in leaves(value)]
    return [tree]


def test_a_value_that_was_fetched_stays_and_so_does_a_state_that_was_looked_at() -> None:
    net = Lookup(af.optim.adam(0.5))

    async def body(session: af.Session) -> Any:
        held = []
        for i in range(4):
            await session.run(net.train, net.feeds(i))
            both = (await session.run(net.value), actor(session).state["mean"]["table"])
            held.extend((found, found.tobytes()) for found in both)
        return held

    held = net.run(body)

    assert len({then for _, then in held}) == 8
    assert all(found.tobytes() == then for found, then in held)


class Tables:
    """Two tables: every update adds 1 to rows 1 and 3 of one and to row 0 of the other."""

    def __init__(self) -> None:
        with af.Graph() as self.graph:
            a = af.Variable(np.zeros((5, 2)), name="a")
            b = af.Variable(np.zeros((3, 2)), name="b")
            loss = -af.sum(af.gather(a, [1, -2])) - af.sum(af.gather(b, [0]))
            train = af.minimize(loss, af.optim.sgd(1.0))
            read = [a.read(), b.read()]
            self.verbs = {"read": read, "train": train, "cancelled": train}
            self.verbs["assign"] = a.assign_add(np.full((5, 2), 100.0))

    async def serve(self, session: af.Session, waves: list[list[str]]) -> None:
        """Runs the steps of each wave at once, keeps what they read, and looks at all of it at the end."""
        held: list[tuple[Any, bytes]] = []
        counts = dict.fromkeys(self.verbs, 0)

        async def one(verb: str) -> None:
            task = asyncio.ensure_future(session.run(self.verbs[verb]))
            if verb == "cancelled":
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
            elif verb == "read":
                held.extend((found, found.tobytes()) for found in await task)
            else:
                await task
            counts[verb] += 1

        await session.run(self.verbs["read"])
        for wave in waves:
            await asyncio.gather(*(one(verb) for verb in wave))
        await asyncio.sleep(0.005)  # updates of cancelled steps that were past their last check end
        first, second = await session.run(self.verbs["read"])
        updates = int(second[0, 0])
        assert counts["train"] <= updates <= counts["train"] + counts["cancelled"]
        assert second.tolist() == [[updates, updates], [0, 0], [0, 0]]
        rest = 100.0 * counts["assign"]
        assert first[:, 0].tolist() == [rest, rest + updates, rest, rest + updates, rest]
        assert all(found.tobytes() == then for found, then in held)


@settings(max_examples=examples(40), deadline=None)
@given(
    waves=st.lists(
        st.lists(st.sampled_from(["read", "train", "assign", "cancelled"]), min_size=1, max_size=5),
        min_size=1,
        max_size=4,
    ),
    schedule=sim.schedules(),
    on_threads=st.booleans(),
)
def test_concurrent_steps_see_whole_updates_and_what_they_fetched_stays(
    waves: list[list[str]], schedule: Schedule, on_threads: bool
) -> None:
    tables = Tables()

    with pytest.MonkeyPatch.context() as patch:
        if on_threads:
            patch.setattr(optimizer_module, "OFFLOAD_BYTES", 0)
        run_drawn(tables.graph, schedule, lambda session: tables.serve(session, waves))


def test_a_large_table_that_somebody_holds_is_copied_on_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def noting(copy: Any) -> Any:
        def noted(*args: Any) -> Any:
            threads.append(threading.current_thread().name)
            return copy(*args)

        return noted

    monkeypatch.setattr(arrays, "copy", noting(arrays.copy))
    monkeypatch.setattr(PreparedState, "fill", noting(PreparedState.fill))
    monkeypatch.setattr(rows_module, "fill", noting(rows_module.fill))
    net = Lookup(af.optim.momentum(0.5), rows=10_000)

    async def body(session: af.Session) -> Any:
        await session.run(net.train, net.feeds(1))
        held = await session.run(net.value), actor(session).state
        before = held[0].tobytes(), held[1]["velocity"]["table"].tobytes()
        await session.run(net.train, net.feeds(1, 2))
        assert (held[0].tobytes(), held[1]["velocity"]["table"].tobytes()) == before
        copies = len(threads)
        await session.run(net.train, net.feeds(1, 2))
        return copies, await session.run(net.value)

    copies, after = net.run(body, threads=1)

    assert copies == len(threads) == 2
    assert all(name.startswith("actorflow/cpu:0") for name in threads)
    assert np.flatnonzero((after != net.first).any(axis=1)).tolist() == [1, 2]


def test_an_update_whose_copy_fails_is_discarded_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(array: Any) -> Any:
        raise MemoryError("no room")

    net = Lookup(af.optim.sgd(0.5), rows=10_000)

    async def body(session: af.Session) -> Any:
        held = await session.run(net.value)
        with monkeypatch.context() as patch:
            patch.setattr(arrays, "copy", full)
            with pytest.raises(errors.HandlerError, match="raised MemoryError: no room"):
                await session.run(net.train, net.feeds(1))
        (cell,) = (c for name, c in session.system.actors.items() if name.endswith("variable/table"))
        found: Any = cell.behaviour
        await asyncio.sleep(0.01)
        assert found.register.staged == {}
        assert (await session.run(net.value)).tobytes() == held.tobytes()
        return await session.run(net.train, net.feeds(1))

    assert net.run(body, threads=1) == 1


def test_the_law_finds_updates_in_place_under_those_who_hold_the_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = Tables()
    nobody_asked(monkeypatch)

    main = simulated(tables.graph, lambda session: tables.serve(session, [["read"], ["train"]]))

    plan_of_the_fault(main, most=1)


# --------------------------------------------------------------------------------------- errors


def test_a_failed_update_moves_no_row_and_no_state() -> None:
    class Failing(af.OptimizerActor):
        """Adam that fails at its second update, when it has computed it."""

        sparse = True

        async def on_gradients(self, grads: Any, ctx: af.types.UpdateContext) -> Any:
            update = await super().on_gradients(grads, ctx)
            if ctx.count == 1 and not failed:
                failed.append(True)
                raise ValueError("no")
            return update

    failed: list[bool] = []
    net = Lookup(lambda: Failing(af.optim.adam(0.5)))

    async def body(session: af.Session) -> Any:
        await session.run(net.train, net.feeds(1))
        before = [np.array(await session.run(net.value)), *map(np.array, leaves(actor(session).state))]
        with pytest.raises(errors.HandlerError, match="raised ValueError: no"):
            await session.run(net.train, net.feeds(1, 2))
        after = [await session.run(net.value), *leaves(actor(session).state)]
        assert [a.tobytes() for a in after] == [b.tobytes() for b in before]
        return await session.run(net.train, net.feeds(1))

    assert net.run(body) == 2


@pytest.mark.parametrize(
    ("delta", "state", "text"),
    [
        (
            lambda g: SparseRows(g.indices + 1, g.values, g.shape),
            None,
            "custom's delta for 'table' must have the rows",
        ),
        (lambda g: g.values, None, r"custom's delta for 'table' must be \(6, 2\) float64, got \(1, 2\)"),
        (lambda g: g, lambda g: {"m": g}, r"at state\['m'\]: array"),
    ],
)
def test_rows_that_do_not_fit_are_named(delta: Any, state: Any, text: str) -> None:
    def update(grads: Any, before: Any, params: Any) -> Any:
        g = grads["table"]
        return {"table": delta(g)}, before if state is None else state(g)

    rule = af.optim.Transform(init=lambda params: {"m": ({"table": 0},)}, update=update, sparse=True)
    net = Lookup(rule)
    if state is not None:
        text = r"rows in a state replace those of an array, got <SparseRows 1 of \(6, 2\) float64> at state\['m'\]"

    with pytest.raises(errors.StateError, match=text) as caught:
        net.run(lambda session: session.run(net.train, net.feeds(1)))

    assert "node train/apply_gradients" in str(caught.value)


def test_an_index_outside_the_table_fails_the_step_and_is_named() -> None:
    with af.Graph() as graph:
        table = af.Variable(np.zeros((4, 2)), name="table")
        key = graph.add_object("optimizer", af.optim.sgd(1.0))
        grad = af.IndexedSlices(np.ones((2, 2)), [1, 4], (4, 2))
        train = af.apply_gradients([grad], [table], key)

    async def main() -> Any:
        async with af.Session(graph) as session:
            with pytest.raises(errors.KernelError, match="index 4 is out of bounds for an axis of size 4"):
                await session.run(train)
            return await session.run(table)

    assert not af.run(main()).any()


def test_slices_of_another_shape_are_refused_when_the_graph_is_built() -> None:
    with af.Graph() as graph:
        table = af.Variable(np.zeros((4, 2)), name="table")
        key = graph.add_object("optimizer", af.optim.sgd(1.0))
        with pytest.raises(
            errors.SpecError, match=r"the gradient of variable 'table' must fit \(4, 2\) float64"
        ):
            af.apply_gradients([af.IndexedSlices(np.ones((1, 3)), [1], (4, 3))], [table], key)
