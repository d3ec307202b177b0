"""Transfers between accounts in atomic blocks: no sum is ever torn, no update lost, every step ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.dataflow.state.locks import LockOwner, Locks
from actorflow.dataflow.state.variable import StageUpdate
from actorflow.sim.engine.schedulers import Schedule
from tests.support.faults import planted
from tests.support.sessions import assert_no_step_left
from tests.support.strategies import LIMITS, examples, plan_of_the_fault, run_drawn, simulated

START = 100


@dataclass(frozen=True)
class Transfer:
    """Takes `amount` from one account to another; with `fails` a kernel inside does, after both writes."""

    source: int
    target: int
    amount: int
    fails: bool = False


class Bank:
    """Accounts, blocks that move money between two of them, blocks that look at all, and training.

    Args:
        accounts: How many.
        transfers: Each is a step; they overlap.
        readers: How many steps that add up all accounts overlap with them.
        updates: How many training updates of a pair of weights overlap with blocks that read these.
        cancelled: (step, turn): that transfer or reader is cancelled when the loop has come round so often.
    """

    def __init__(
        self,
        accounts: int,
        transfers: list[Transfer],
        readers: int,
        updates: int = 0,
        cancelled: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        self.transfers = [t for t in transfers if max(t.source, t.target) < accounts]
        self.readers, self.updates, self.cancelled = readers, updates, cancelled
        with af.Graph() as self.graph:
            held = [af.Variable(np.int64(START), name=f"account{k}") for k in range(accounts)]
            self.amount, self.health = af.placeholder("int64", ()), af.placeholder("float32", ())
            self.moves = {
                (s, t): self._move(held[s], held[t])
                for s, t in sorted({(t.source, t.target) for t in self.transfers})
            }
            with af.atomic(*held, name="look"):
                self.total = sum(account.read() for account in held)
            self.held = [account.read() for account in held]
            pair = [af.Variable(np.float32(0), name=f"w{k}") for k in range(2)]
            loss = pair[0] + pair[1]
            self.train = af.minimize(loss, af.optim.sgd(1.0), name="train")
            with af.atomic(*pair, name="double"):
                self.difference = pair[0].assign(pair[0] * 2.0) - pair[1].assign(pair[1] * 2.0)
            self.pair = [w.read() for w in pair]

    def _move(self, source: af.Variable, target: af.Variable) -> af.Tensor:
        with af.atomic(source, target, name="move") as move:
            source.assign(source - self.amount)
            target.assign(target + self.amount)
            af.math.check_numerics(self.health)
            checked = af.math.check_numerics(af.cast(target.read(), "float32") * self.health)
        with af.control_dependencies([checked]):
            return af.arrays.identity(move.done)

    async def judged(self, session: af.Session) -> None:
        """Runs all steps at once and judges what they saw and left."""
        steps = [
            asyncio.create_task(
                session.run(
                    self.moves[t.source, t.target],
                    {self.amount: np.int64(t.amount), self.health: np.float32(np.nan if t.fails else 1)},
                )
            )
            for t in self.transfers
        ]
        steps += [asyncio.create_task(session.run(self.total)) for _ in range(self.readers)]
        others = [asyncio.create_task(session.run(self.train)) for _ in range(self.updates)]
        others += [asyncio.create_task(session.run(self.difference)) for _ in range(min(self.updates, 2))]
        for turn in range(10):
            for i, when in sorted(self.cancelled):
                if when == turn and i < len(steps):
                    steps[i].cancel()
            await asyncio.sleep(0)
        results = await asyncio.gather(*steps, return_exceptions=True)
        for found in (await asyncio.gather(*others))[self.updates :]:
            assert float(found) == 0, "a block sees an update of both weights, or of none"

        money = START * len(self.held)
        held = [int(v) for v in await session.run(self.held)]
        assert sum(held) == money, f"{held} is left of {money}"
        for result in results[len(self.transfers) :]:
            if not isinstance(result, asyncio.CancelledError):
                assert result == money, result
        self._check_moved(held, results[: len(self.transfers)])
        assert_no_step_left(session)
        assert len({float(v) for v in await session.run(self.pair)}) == 1, "updates are of both weights"
        assert int(await session.run(self.total)) == money, "nothing stays locked"

    def _check_moved(self, held: list[int], results: list[Any]) -> None:
        """What a step reported happened, what failed did not; a cancelled one may have come through."""
        least = dict.fromkeys(range(len(held)), START)
        unknown = []
        for transfer, result in zip(self.transfers, results, strict=True):
            if isinstance(result, asyncio.CancelledError):
                unknown += [] if transfer.fails else [transfer]
            elif transfer.fails:
                assert isinstance(result, errors.NumericError), result
            else:
                assert bool(result)
                least[transfer.source] -= transfer.amount
                least[transfer.target] += transfer.amount
        moved = [least]
        for transfer in unknown:
            moved += [_after(transfer, found) for found in moved]
        assert dict(enumerate(held)) in moved, f"{held} is none of {moved}"


def _after(transfer: Transfer, held: dict[int, int]) -> dict[int, int]:
    source, target, amount = transfer.source, transfer.target, transfer.amount
    return {**held, source: held[source] - amount, target: held[target] + amount}


def transfers() -> st.SearchStrategy[list[Transfer]]:
    pairs = st.sampled_from([(0, 1), (1, 0), (1, 2), (2, 0), (0, 2)])
    one = st.builds(
        lambda pair, amount, fails: Transfer(pair[0], pair[1], amount, fails),
        pairs,
        st.integers(1, 9),
        st.sampled_from([False, False, False, True]),
    )
    return st.lists(one, min_size=1, max_size=5)


@settings(max_examples=examples(60), deadline=None)
@given(
    accounts=st.integers(2, 3),
    transfers=transfers(),
    readers=st.integers(0, 2),
    updates=st.integers(0, 2),
    cancelled=st.frozensets(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=3),
    schedule=sim.schedules(),
)
def test_money_is_neither_made_nor_lost_and_no_reader_sees_a_transfer_half_done(
    accounts: int,
    transfers: list[Transfer],
    readers: int,
    updates: int,
    cancelled: frozenset[tuple[int, int]],
    schedule: Schedule,
) -> None:
    bank = Bank(accounts, transfers, readers, updates, cancelled)

    run_drawn(bank.graph, schedule, bank.judged)


def counting(others: int = 0) -> tuple[af.Graph, Any]:
    """Steps that read a number, add one and write it, each in a block; beside them plain additions."""
    with af.Graph() as graph:
        n = af.Variable(np.int64(0), name="n")
        with af.atomic(n) as block:
            n.assign(n + 1)
        plain = n.assign_add(np.int64(100))

    async def body(session: af.Session) -> None:
        await asyncio.gather(
            *(session.run(block.done) for _ in range(4)), *(session.run(plain) for _ in range(others))
        )
        assert int(await session.run(n)) == 4 + 100 * others

    return graph, body


@settings(max_examples=examples(60), deadline=None)
@given(others=st.integers(0, 2), schedule=sim.schedules())
def test_no_update_is_lost_between_a_read_and_a_write_of_one_block(others: int, schedule: Schedule) -> None:
    graph, body = counting(others)

    run_drawn(graph, schedule, body)


def over_two_sessions(first: list[str], second: list[str], steps: int) -> Any:
    """Two sessions whose graphs count in shared variables in blocks, listed in orders of their own."""

    def counting_in(names: list[str]) -> tuple[af.Graph, af.Tensor, af.Tensor]:
        with af.Graph() as graph:
            shared = [af.Variable(np.int64(0), name=f"my_{n}", shared_name=n) for n in names]
            with af.atomic(*shared) as block:
                for variable in shared:
                    variable.assign(variable + 1)
            with af.atomic(*shared, name="look"):
                look = af.stack([variable.read() for variable in shared])
        return graph, block.done, look

    async def main() -> None:
        (a, count_a, look_a), (b, count_b, look_b) = counting_in(first), counting_in(second)
        async with (
            af.ActorSystem(name="system") as system,
            af.Session(a, system=system, threads=1) as s,
            af.Session(b, system=system, threads=1) as t,
        ):
            runs = [s.run(count_a), s.run(look_a), t.run(count_b), t.run(look_b)]
            for _ in range(steps - 1):
                runs += [s.run(count_a), t.run(count_b)]
            found = await asyncio.gather(*runs)
            for seen in (found[1], found[3], await s.run(look_a), await t.run(look_b)):
                assert len(set(seen.tolist())) == 1, seen
            both = dict(zip(first, (await s.run(look_a)).tolist(), strict=True))
            both |= dict(zip(second, (await t.run(look_b)).tolist(), strict=True))
            assert both == {n: steps * ((n in first) + (n in second)) for n in both}

    return main


@settings(max_examples=examples(40), deadline=None)
@given(
    first=st.permutations("xy"),
    second=st.permutations("xy"),
    steps=st.integers(1, 3),
    schedule=sim.schedules(),
)
def test_blocks_of_two_sessions_share_one_order(
    first: list[str], second: list[str], steps: int, schedule: Schedule
) -> None:
    sim.run(over_two_sessions(list(first), list(second), steps), schedule, limits=LIMITS)


# -- the laws can fail -----------------------------------------------------------------------------


def _unlocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that gives its lock to everybody, and whose blocks write at once."""
    monkeypatch.setattr(Locks, "lock", lambda self, who: True)
    monkeypatch.setattr(Locks, "take", lambda self, owner: None)
    monkeypatch.setattr(Locks, "state", lambda self, owner: self.register)


def test_the_law_finds_a_transfer_that_is_half_done_where_nothing_is_locked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bank = Bank(2, [Transfer(0, 1, 5)], 1)
    _unlocked(monkeypatch)

    plan_of_the_fault(simulated(bank.graph, bank.judged), most=2)


def test_the_law_finds_a_lost_update_where_nothing_is_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, body = counting()
    _unlocked(monkeypatch)

    plan_of_the_fault(simulated(graph, body), most=2)


def test_the_law_finds_a_failed_block_whose_writes_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    bank = Bank(2, [Transfer(0, 1, 5), Transfer(1, 0, 3, fails=True)], 1)

    @planted(monkeypatch, Locks, "end")
    def keeping(end: Any, self: Locks, owner: LockOwner, *, publish: bool) -> None:
        end(self, owner, publish=True)

    plan_of_the_fault(simulated(bank.graph, bank.judged), most=2)


@pytest.mark.usefixtures("only_the_law")
def test_the_law_finds_a_block_that_stands_between_the_commits_of_one_update(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One variable has been locked before the update is staged there, the other one after its commit."""
    bank = Bank(2, [], 0, updates=2)

    @planted(monkeypatch, Locks, "write")
    def beside(write: Any, self: Locks, who: Any, also: Any = None) -> bool:
        return type(getattr(who, "body", None)) is StageUpdate or write(self, who, also)

    plan_of_the_fault(simulated(bank.graph, bank.judged))


def test_steps_that_take_their_locks_in_orders_of_their_own_wait_for_each_other_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the one order prevents."""
    with monkeypatch.context() as patch:
        patch.setattr(
            import_module("actorflow.ops.state.atomic"), "in_order", lambda names, resources: tuple(names)
        )
        bank = Bank(2, [Transfer(0, 1, 5), Transfer(1, 0, 3)], 0)

    plan_of_the_fault(simulated(bank.graph, bank.judged), errors.Deadlock, most=3)
