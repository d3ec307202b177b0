"""Whether a history could have come from one object that does one operation at a time.

A history is linearizable when there is an order of its operations that the model accepts and that
agrees with real time: what returned before another was invoked comes before it (M. Herlihy, J. Wing,
"Linearizability: a correctness condition for concurrent objects", 1990).

SOURCE: `search` has the algorithm. A history is linearizable exactly when it is so on each object apart
(the same paper; A. Horn, D. Kroening, "Faster linearizability checking via P-compositionality", 2015), so
each partition of the model is searched alone, small ones first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from actorflow.errors import pluralise
from actorflow.sim.checkers.models import Call, Model
from actorflow.sim.checkers.search import Budget, Stuck, search
from actorflow.sim.checkers.subject import nothing, searchable
from actorflow.sim.checkers.timeline import call, clipped, draw
from actorflow.sim.checkers.verdict import Verdict
from actorflow.sim.history import History, Operation, Status, Value
from actorflow.sim.history.operation import shorten_value

BUDGET = 500_000
EXPLAINING = 10_000  # how many more may be looked at, for each key, to find a shorter explanation
SHOWN = 6  # how many states of the place where a history breaks are shown


def linearizable(history: Iterable[Operation], model: Model | None = None, budget: int = BUDGET) -> Verdict:
    """Returns whether `history` is linearizable, with an order of it or the shortest part that has none.

    Failed operations did not happen. Operations of unknown outcome may take effect at any time after
    their invocation, or never.

    Args:
        history: What clients asked for and were told.
        model: The object; a register of None, `read`, `write` and `cas`, one for each key, when left out.
        budget: How many configurations may be looked at for the verdict, in all: some microseconds and
            about 200 bytes each. A refutation may take a few more to find its shortest explanation.

    Returns:
        A verdict. True: `order` is a linearization. False: `explain()` shows the shortest prefix of the
        history that has none, as a picture, and what the object could have been when it broke. None:
        the budget was used up, or the history is empty.

    Raises:
        HistoryError: There is an operation that the model does not know.
        ConfigError: What is given is no history, no model, or no budget.
    """
    operations, model = searchable(history, model, budget)
    if not operations:
        return nothing("linearizable", operations)
    orders: list[tuple[Operation, ...]] = []
    broken: _Break | None = None
    undecided: list[Value] = []
    budgets = [Budget(budget)]
    for key, part in _partitions(operations, model):
        if broken is not None:  # only an earlier break would make the explanation shorter
            part = History(part).until(broken.end - 1)
            budgets.append(Budget(EXPLAINING))
        found = search(part, model, key, budgets[-1])
        if found.stuck is not None:
            budgets.append(Budget(budgets[-1].used + EXPLAINING))
            broken = _shortest(found.stuck, part, model, key, budgets[-1])
        elif found.order is None:
            undecided.append(key)
        else:
            orders.append(found.order)
    explored = sum(spent.used for spent in budgets)
    if broken is not None:
        return _violated(broken, model, explored, undecided)
    if undecided:
        keys = f" for {len(undecided)} keys" if len(undecided) > 1 else ""
        what = f"no verdict{keys} within the budget of {budget} configurations"
        return Verdict("linearizable", None, what, explored=explored)
    order = _merged(orders)
    what = f"{pluralise(len(order), 'operation')} in one order"
    return Verdict("linearizable", True, what, explored=explored, order=order)


def _partitions(history: Iterable[Operation], model: Model) -> list[tuple[Value, Sequence[Operation]]]:
    """Returns the operations that may have happened, by key of the model, the smallest part first."""
    parts: dict[Value, list[Operation]] = {}
    for operation in history:
        if operation.status is not Status.FAIL:
            parts.setdefault(model.key(Call.of(operation)), []).append(operation)
    return sorted(parts.items(), key=lambda item: len(item[1]))  # ties stay in order of invocation


@dataclass(frozen=True, slots=True)
class _Break:
    """Where a history breaks: the prefix up to event `end` has no order, and the search got stuck so."""

    stuck: Stuck
    prefix: History
    end: int


def _shortest(stuck: Stuck, part: Sequence[Operation], model: Model, key: Value, budget: Budget) -> _Break:
    """Returns the shortest prefix without an order.

    No prefix before the return where the search got stuck is without one. That prefix itself may have
    one: operations that are open in it ended later, and the search knew how.
    """
    whole, first = History(part), stuck.operation.returned or 0
    for end in sorted(o.returned for o in part if o.returned is not None and o.returned >= first):
        prefix = whole.until(end)
        found = search(prefix, model, key, budget)
        if found.stuck is not None:
            return _Break(found.stuck, prefix, end)
        if found.order is None:
            break  # the budget is used up: what the search knew must do
    return _Break(stuck, whole, max(o.returned or 0 for o in part))


def _merged(orders: list[tuple[Operation, ...]]) -> tuple[Operation, ...]:
    """Returns one order from one for each key.

    Each operation takes effect at the latest invocation up to it in its own order. That lies before
    its return, since the order agrees with real time; so sorting by it keeps real time between keys.
    """
    placed: list[tuple[int, int, Operation]] = []
    for order in orders:
        point = -1
        for at, operation in enumerate(order):
            point = max(point, operation.invoked)
            placed.append((point, at, operation))
    return tuple(operation for _, _, operation in sorted(placed, key=lambda item: item[:2]))


def _violated(broken: _Break, model: Model, explored: int, undecided: list[Value]) -> Verdict:
    stuck, last = broken.stuck, broken.stuck.operation
    on = "" if last.key is None else f" on {shorten_value(last.key)}"
    what = f"{call(last)} by client {last.client}{on}, event {last.returned}, fits nowhere"
    if last.returned != broken.end:
        what += f", as is known at event {broken.end}"
    states = [shorten_value(state) for state, _, _ in stuck.states[:SHOWN]]
    more = ", ..." if len(stuck.states) > SHOWN else ""
    lines = [
        draw(broken.prefix, last),
        "",
        clipped(f"Before {call(last)} returned, the state could only be {' or '.join(states)}{more}:"),
    ]
    for _, why, order in stuck.states[:SHOWN]:
        changes = [f"{call(o)} (client {o.client})" for o in order if not model.observes(Call.of(o))]
        lines.append(clipped(f"  {why}"))
        lines.append(clipped(f"    after {', '.join(changes[-3:])}" if changes else "    at the start"))
    if undecided:
        keys = ", ".join(shorten_value(key, 20) for key in undecided)
        lines.append(
            clipped(f"Not looked into for long enough to know whether these keys break earlier: {keys}")
        )
    return Verdict("linearizable", False, what, "\n".join(lines), explored)
