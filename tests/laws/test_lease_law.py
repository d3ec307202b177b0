"""Leases: what a reader holds never changes, no reader can write, and a write that nobody sees copies nothing.

Most histories are of a register alone, so that ten thousand of them are drawn; some go through sessions
in the simulator, where tokens, kernels on threads, answers and futures hold values as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.state.register import Register, Source, WriteMode
from actorflow.sim.engine.schedulers import Schedule
from actorflow.values import arrays, lease
from actorflow.values.sparse import How, SparseRows, plus_rows
from actorflow.values.spec import spec
from tests.support.arrays import address
from tests.support.faults import planted
from tests.support.holding import HOLD, SPOIL, arrays_of, nobody_asked, seen, spoil
from tests.support.strategies import FOUND, examples, plan_of_the_fault, run_drawn, simulated

WAYS = tuple(sorted(HOLD))
SPOILS = tuple(sorted(SPOIL.keys() - {"strides along base"}))  # seen by those who hold the base itself
A, B = Source("a"), Source("b")
WIDTH = 2


class Held:
    """What one reader holds, and what it saw when it took it."""

    def __init__(self, alias: Any, address: int) -> None:
        self.alias = alias
        self.then = seen(alias)
        self.address = address
        for array in arrays_of(alias):
            refuses_to_be_written(array)

    def check(self) -> None:
        assert seen(self.alias) == self.then, "what a reader holds has changed"


def refuses_to_be_written(array: np.ndarray) -> None:
    assert not array.flags.writeable
    try:
        array.flags.writeable = True
    except ValueError:
        return
    pytest.fail("a reader can make its array writeable")


class History:
    """A register, its readers, and what its value has to be."""

    def __init__(self, dtype: str) -> None:
        self.dtype = np.dtype(dtype)
        self.register = Register("w", spec(dtype, (None, WIDTH)))
        self.model = np.zeros((3, WIDTH), self.dtype)
        self.sequence = 0
        self.group = 0
        self.held: list[Held] = []
        self.register.write(WriteMode.ASSIGN, self.model, A, self._next())

    def _next(self) -> int:
        self.sequence += 1
        return self.sequence

    def _address(self) -> int:
        return address(self.register.value)

    def is_held(self) -> bool:
        """Whether somebody holds the present value; older ones have memory of their own."""
        here = self._address()
        return any(h.address == here for h in self.held)

    def check(self) -> None:
        value, _ = self.register.read()
        assert value.tobytes() == self.model.tobytes()
        assert not value.flags.writeable
        for held in self.held:
            held.check()

    # -- readers

    def read(self, n: int) -> None:
        """As a session hands it out."""
        given = arrays.view_for_user(self.register.read()[0])
        self.held.append(Held(HOLD[WAYS[n % len(WAYS)]](given), self._address()))

    def spoil(self, n: int) -> None:
        """A reader sees what it was given in another way, holds a slice of that, and drops the rest."""
        given, address = arrays.view_for_user(self.register.read()[0]), self._address()
        how = SPOILS[n % len(SPOILS)]
        spoil(how, given)
        if how != "state" and n & 16:
            self.held.append(Held(given[:1], address))

    def pass_on(self, n: int) -> None:
        """A reader takes a view of what another holds, who may let go of it."""
        if not self.held:
            return
        held = self.held[n % len(self.held)]
        if isinstance(held.alias, np.ndarray | memoryview):
            part = held.alias[:1] if n & 64 else np.asarray(held.alias)
            self.held.append(Held(part, held.address))
            if n & 128:
                self.held.remove(held)

    def drop(self, n: int) -> None:
        if self.held:
            self.held.pop(n % len(self.held))

    def drop_all(self, n: int) -> None:
        self.held.clear()

    # -- writers

    def _written(self, write: Callable[[], Any], *, resized: bool = False) -> None:
        """Does a write and looks at what it copied."""
        tally, version = self.register.write_counts, self.register.version
        before, was, copies = (tally.in_place, tally.copied), self._address(), resized or self.is_held()
        write()
        assert self.register.version == version + 1
        done = (tally.in_place - before[0], tally.copied - before[1])
        assert done == ((0, 1) if copies else (1, 0))
        if not copies:
            assert self._address() == was

    def _values(self, n: int, rows: int) -> np.ndarray:
        return (np.arange(rows * WIDTH).reshape(rows, WIDTH) + n % 7).astype(self.dtype)

    def assign(self, n: int) -> None:
        self.model = self._values(n, len(self.model))
        self._written(lambda: self.register.write(WriteMode.ASSIGN, self.model, A, self._next()))

    def resize(self, n: int) -> None:
        resized = 1 + n % 4 != len(self.model)
        self.model = self._values(n, 1 + n % 4)
        self._written(
            lambda: self.register.write(WriteMode.ASSIGN, self.model, A, self._next()), resized=resized
        )

    def add(self, n: int) -> None:
        delta = self._values(n, len(self.model))
        adds = bool(n & 16)
        self.model = self.model + delta if adds else self.model - delta
        kind = WriteMode.ADD if adds else WriteMode.SUBTRACT
        self._written(lambda: self.register.write(kind, delta, A, self._next()))

    def add_to_itself(self, n: int) -> None:
        """What is written is a snapshot: as long as the write goes on, it is held."""
        self.model = self.model + self.model
        tally = self.register.write_counts
        before = tally.copied
        self.register.write(WriteMode.ADD, self.register.read()[0], A, self._next())
        assert tally.copied == before + 1

    def retry(self, n: int) -> None:
        version, where = self.register.version, self._address()
        self.register.write(WriteMode.ADD, self._values(n, len(self.model)), A, self.sequence)
        assert (self.register.version, self._address()) == (version, where)

    def scatter(self, n: int) -> None:
        how = tuple(How)[n % 6]
        at = np.array([n % len(self.model), -1, n // 8 % len(self.model)])
        updates = self._values(n, 3)
        model = self.model.copy()
        for i, update in zip(at, updates, strict=True):
            model[i] = _COMBINE[how](model[i], update)
        self.model = model
        self._written(lambda: self.register.write_rows(how, at, updates, A, self._next()))

    def train(self, n: int) -> None:
        """A whole update is swapped in, and counts as neither; another write may come between."""
        self.group += 1
        delta = self._values(n, len(self.model))
        value, base = self.register.read()
        self.register.stage((B, self.group), delta, value + delta, base)
        del value
        if n & 32:
            self.add(n)
        self.model = self.model + delta
        self.register.commit((B, self.group))

    def train_rows(self, n: int) -> None:
        self.group += 1
        at = np.array([n % len(self.model)], np.int64)
        delta = SparseRows(at, self._values(n, 1), self.model.shape)
        value, base = self.register.read()
        proposed = plus_rows(value, delta)
        del value
        self.register.stage((B, self.group), delta, proposed, base)
        if n & 32:
            self.add(n)
        self.model = self.model + delta.to_dense()
        if n & 64:
            self.read(n)
        self._written(lambda: self.register.commit((B, self.group)))


_COMBINE: dict[How, Callable[[Any, Any], Any]] = {
    How.UPDATE: lambda row, update: update,
    How.ADD: lambda row, update: row + update,
    How.SUBTRACT: lambda row, update: row - update,
    How.MULTIPLY: lambda row, update: row * update,
    How.MAX: np.maximum,
    How.MIN: np.minimum,
}
EVENTS: tuple[Callable[[History, int], None], ...] = (
    History.read, History.read, History.read, History.spoil, History.pass_on, History.drop, History.drop, History.drop_all,
    History.assign, History.resize, History.add, History.add_to_itself, History.retry, History.scatter,
    History.scatter, History.train, History.train_rows,
)  # fmt: skip


def play(script: bytes, begun: Callable[[History], None] = lambda history: None) -> History:
    """Plays a history, two bytes an event, and looks after each at all that is held."""
    history = History("int64" if len(script) % 2 else "float64")
    begun(history)
    told = []
    for kind, n in zip(script[::2], script[1::2], strict=False):
        event = EVENTS[kind % len(EVENTS)]
        told.append(f"{event.__name__}({n})")
        try:
            event(history, n)
            history.check()
        except AssertionError:
            note(" ".join(told))
            raise
    return history


def law(
    tries: int, begun: Callable[[History], None] = lambda history: None, **options: Any
) -> Callable[[], None]:
    """The law, over so many histories."""

    @settings(**{"max_examples": tries, "deadline": None, **options})
    @given(script=st.binary(min_size=2, max_size=48))
    def holds(script: bytes) -> None:
        play(script, begun)

    return holds


def test_what_a_reader_holds_never_changes_and_a_write_that_nobody_sees_copies_nothing() -> None:
    law(examples(10_000))()


def test_every_event_and_every_way_to_hold_takes_part() -> None:
    """One history with all of them: what the law draws is not empty."""
    every = bytes(b for i in range(len(EVENTS)) for k in range(len(WAYS)) for b in (i, k))

    tally = play(every).register.write_counts

    assert tally.in_place > 20
    assert tally.copied > 20


def fails(begun: Callable[[History], None] = lambda history: None) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception, errors.SpecError)):
        law(1000, begun, **FOUND)()


def test_the_law_finds_a_register_that_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody_asked(monkeypatch)

    fails()


def test_the_law_finds_a_register_that_overlooks_memoryviews(monkeypatch: pytest.MonkeyPatch) -> None:
    now: list[History] = []

    @planted(monkeypatch, lease, "memory_of")
    def overlooking(memory_of: Any, cell: list[Any]) -> Any:
        held = now[-1].held if now and cell[0] is not None else []
        if held and all(isinstance(h.alias, memoryview) for h in held):
            return lease._memory_below(cell[0])
        return memory_of(cell)

    fails(now.append)


def test_the_law_finds_a_register_that_looks_at_what_it_handed_out_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An array made of the owner holds no reference to the view."""
    alone = frozenset(counts[:1] for counts in lease._ALONE)
    monkeypatch.setattr(lease, "_ALONE", alone)

    @planted(monkeypatch, lease, "_references")
    def views(references: Any, cell: list[Any]) -> Any:
        return references(cell)[:1]

    fails()


def test_the_law_finds_owners_that_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "read_only_view", lambda memory: arrays.frozen(np.array(memory)))
    monkeypatch.setattr(lease, "read_only_copy", lambda value: arrays.frozen(np.array(value)))

    fails()


def test_the_law_finds_readers_that_are_given_the_very_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "view_for_user", lambda value: value)

    fails()


def test_the_law_finds_lent_views_that_stand_on_the_owner_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the base of what is handed out is the register's own array."""

    @planted(monkeypatch, lease, "_lent")
    def direct(view: Any, memory: Any) -> Any:
        lent = view(memory)
        return np.asarray(lent.base.base)

    fails()


def test_the_law_finds_a_register_that_always_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "_ALONE", frozenset())

    fails()


# ------------------------------------------------------------------------------- through sessions


class Clients:
    """One variable and clients that read, hold, pass on, drop and write, each at its own pace."""

    def __init__(self) -> None:
        with af.Graph() as self.graph:
            w = af.Variable(np.zeros((4, WIDTH)), name="w")
            self.at, self.x = af.placeholder("int64", (), name="at"), af.placeholder("float64", (), name="x")
            full = af.broadcast_to(self.x, (4, WIDTH))
            self.read = w.read()
            self.writes = {
                "assign": w.assign(full),
                "add": w.assign_add(full),
                "sub": w.assign_sub(full),
                "scatter": w.scatter_update(self.at, af.broadcast_to(self.x, (WIDTH,))),
                "scatter_add": w.scatter_add(self.at, self.x),
                "train": af.minimize(af.sum(w * w), af.optim.sgd(0.25)),
                "uses": af.sum(w * 2.0),
            }
            self.last = w.assign_add(full)

    async def serve(self, session: af.Session, clients: list[list[tuple[str, int]]]) -> None:
        held: dict[int, list[Held]] = {}

        def look() -> None:
            for mine in held.values():
                for each in mine:
                    each.check()

        async def client(name: int, verbs: list[tuple[str, int]]) -> None:
            mine = held[name] = []
            for verb, n in verbs:
                if verb == "hold":
                    value = await session.run(self.read)
                    mine.append(Held(HOLD[WAYS[n % len(WAYS)]](value), address(value)))
                    del value
                elif verb == "spoil":
                    spoil(SPOILS[n % len(SPOILS)], await session.run(self.read))
                elif verb == "drop":
                    del mine[n % 3 :]
                elif verb == "written":  # a write gives a snapshot as well
                    value = await session.run(self.writes["add"], {self.x: float(n)})
                    mine.append(Held(value[n % 4 :], address(value)))
                    del value
                else:
                    feeds: dict[Any, Any] = {} if verb in ("train", "uses") else {self.x: float(n)}
                    if verb.startswith("scatter"):
                        feeds[self.at] = np.int64(n % 4)
                    await session.run(self.writes[verb], feeds)
                look()

        await session.run(self.read)
        await asyncio.gather(*(client(i, verbs) for i, verbs in enumerate(clients)))
        held.clear()
        await asyncio.sleep(0)  # a commit is a message
        before = session.stats()
        for _ in range(2):
            await session.run(self.last, {self.x: 1.0})
        after = session.stats()
        assert (after.in_place - before.in_place, after.copied - before.copied) == (2, 0)


VERBS = st.tuples(
    st.sampled_from(
        [
            "hold",
            "hold",
            "spoil",
            "written",
            "drop",
            "assign",
            "add",
            "sub",
            "scatter",
            "scatter_add",
            "train",
            "uses",
        ]
    ),
    st.integers(0, 19),
)


@settings(max_examples=examples(200), deadline=None)
@given(
    clients=st.lists(st.lists(VERBS, min_size=1, max_size=6), min_size=1, max_size=3),
    schedule=sim.schedules(),
)
def test_the_same_holds_of_clients_of_a_session(
    clients: list[list[tuple[str, int]]], schedule: Schedule
) -> None:
    every = Clients()

    run_drawn(every.graph, schedule, lambda session: every.serve(session, clients))


def test_the_law_finds_variables_that_ask_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody_asked(monkeypatch)
    every = Clients()
    clients = [[("hold", 0), ("uses", 0)], [("add", 1), ("add", 2)]]

    plan_of_the_fault(simulated(every.graph, lambda session: every.serve(session, clients)), most=4)
