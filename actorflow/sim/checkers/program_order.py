"""Whether a history could have come from one object, if nobody could compare clocks.

A history is sequentially consistent when there is an order of its operations that the model accepts
and in which the operations of each client stand as it issued them. What different clients did may be
moved in time: a client may see old values for ever, but never one that it has seen replaced.

SOURCE: L. Lamport, "How to make a multiprocessor computer that correctly executes multiprocess programs",
1979. Unlike linearizability it does not hold for a whole when it holds for each part, so all keys are
searched together, depth first with a memo, as in `search`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from actorflow.errors import pluralise
from actorflow.sim.checkers.linearizability import BUDGET
from actorflow.sim.checkers.models import Call, Model
from actorflow.sim.checkers.search import Budget
from actorflow.sim.checkers.subject import nothing, searchable
from actorflow.sim.checkers.timeline import call, clipped
from actorflow.sim.checkers.transitions import REFUSED, Transitions
from actorflow.sim.checkers.verdict import Verdict
from actorflow.sim.history import Client, Operation, Status, Value
from actorflow.sim.history.operation import shorten_value


def sequential(history: Iterable[Operation], model: Model | None = None, budget: int = BUDGET) -> Verdict:
    """Returns whether `history` is sequentially consistent, with an order of it or where the longest stops.

    An operation of unknown outcome may take effect at any point after those that its client issued
    before it, or never: the client went on without waiting for it.

    Args:
        history: What clients asked for and were told.
        model: The object; a register for each key when left out.
        budget: How many configurations may be looked at.

    Raises:
        HistoryError: There is an operation that the model does not know.
        ConfigError: What is given is no history, no model, or no budget.
    """
    operations, model = searchable(history, model, budget)
    if not operations:
        return nothing("sequential", operations)
    shared = Budget(budget)
    found = _Search(operations, model, shared)
    order = found.run()
    if order is not None:
        what = f"{pluralise(len(order), 'operation')} in one order"
        return Verdict("sequential", True, what, explored=shared.used, order=order)
    if shared.used > shared.limit:
        what = f"no verdict within the budget of {budget} configurations"
        return Verdict("sequential", None, what, explored=shared.used)
    most = sum(found.deepest.done)
    of = pluralise(found.total, "operation")
    what = f"no order keeps what each client did in line; the longest has {most} of {of}"
    return Verdict("sequential", False, what, found.why(), shared.used)


@dataclass(frozen=True, slots=True)
class _Configuration:
    """What has taken effect, where that leads, and the order it took: a list linked backwards."""

    done: tuple[int, ...]  # for each client, how many of its operations of known outcome
    used: int  # which operations of unknown outcome, as bits
    states: tuple[int, ...]  # of each key
    last: int | None = None
    before: _Configuration | None = None

    def order(self) -> list[int]:
        order = []
        at: _Configuration | None = self
        while at is not None and at.last is not None:
            order.append(at.last)
            at = at.before
        return order[::-1]


class _Search:
    """One depth-first search over all keys; `deepest` has most operations of known outcome done."""

    def __init__(self, history: Iterable[Operation], model: Model, budget: Budget) -> None:
        happened = [operation for operation in history if operation.status is not Status.FAIL]
        happened.sort(key=lambda operation: operation.invoked)
        self.operations = happened
        self.steps = Transitions(model, happened)
        self.budget = budget
        keys: dict[Value, int] = {}
        self.key = [keys.setdefault(model.key(Call.of(operation)), len(keys)) for operation in happened]
        clients: dict[Client, int] = {}
        self.lanes: list[list[int]] = []
        self.unknown: list[tuple[int, int, int]] = []  # (operation, client, how many must be done before)
        for i, operation in enumerate(happened):
            client = clients.setdefault(operation.client, len(clients))
            if client == len(self.lanes):
                self.lanes.append([])
            if operation.status is Status.OK:
                self.lanes[client].append(i)
            elif not self.steps.observers[i]:
                self.unknown.append((i, client, len(self.lanes[client])))
        self.total = sum(len(lane) for lane in self.lanes)
        states = tuple(self.steps.number(model.initial(key)) for key in keys)
        self.deepest = _Configuration((0,) * len(self.lanes), 0, states)

    def run(self) -> tuple[Operation, ...] | None:
        """Returns an order, or None: there is none, or the budget is used up."""
        seen: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
        frames = [self.deepest]
        while frames:
            at = self.observe(frames.pop())
            if sum(at.done) == self.total:
                return tuple(self.operations[i] for i in at.order())
            others = seen.setdefault((at.done, at.states), [])
            if any(other & at.used == other for other in others):
                continue
            others.append(at.used)
            self.budget.used += 1
            if self.budget.used > self.budget.limit:
                return None
            if sum(at.done) > sum(self.deepest.done):
                self.deepest = at
            frames += reversed(list(self.next(at)))
        return None

    def due(self, at: _Configuration) -> Iterator[tuple[int, int]]:
        """Yields (client, operation): the next of known outcome of each client."""
        for client, lane in enumerate(self.lanes):
            if at.done[client] < len(lane):
                yield client, lane[at.done[client]]

    def observe(self, at: _Configuration) -> _Configuration:
        """Takes all that the states allow and that changes nothing: no order is lost by that."""
        before = None
        while before is not at:
            before = at
            for client, i in self.due(before):
                if self.steps.observers[i] and self.steps.take(i, at.states[self.key[i]]) != REFUSED:
                    at = self.after(at, i, client)
        return at

    def next(self, at: _Configuration) -> Iterator[_Configuration]:
        """Yields where one more operation leads, those of unknown outcome last."""
        for client, i in self.due(at):
            if not self.steps.observers[i] and self.steps.take(i, at.states[self.key[i]]) != REFUSED:
                yield self.after(at, i, client)
        for bit, (i, client, needs) in enumerate(self.unknown):
            before = at.states[self.key[i]]
            if at.used >> bit & 1 or at.done[client] < needs:
                continue
            if self.steps.take(i, before) not in {REFUSED, before}:
                yield self.after(at, i, None, 1 << bit)

    def after(self, at: _Configuration, i: int, client: int | None, bit: int = 0) -> _Configuration:
        key = self.key[i]
        state = self.steps.take(i, at.states[key])
        done = at.done if client is None else _replaced(at.done, client, at.done[client] + 1)
        return _Configuration(done, at.used | bit, _replaced(at.states, key, state), i, at)

    def why(self) -> str:
        """Says what each client would have to do next after the longest order, and why it cannot."""
        lines = [f"after {', '.join(self.said(i) for i in self.deepest.order()[-3:]) or 'nothing'}:"]
        for _, i in self.due(self.deepest):
            why = self.steps.why(i, self.deepest.states[self.key[i]])
            lines.append(f"  {self.said(i)}: {why or 'leads no further'}")
        return "\n".join(clipped(line) for line in lines)

    def said(self, i: int) -> str:
        operation = self.operations[i]
        on = "" if operation.key is None else f" on {shorten_value(operation.key)}"
        return f"{call(operation)}{on} (client {operation.client})"


def _replaced(items: tuple[int, ...], at: int, item: int) -> tuple[int, ...]:
    return (*items[:at], item, *items[at + 1 :])
