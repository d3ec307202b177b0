"""Whether a parallel run ended where a serial one would have, bit for bit.

Floating-point addition is not associative, so "the same up to rounding" hides lost and doubled
contributions. Here the operations of a run are applied again, one at a time, by a function that is known
to be right, and the final states must agree in every bit.

* `synchronous_equivalence`: training in steps. The contributions of one step are folded in the order of their
  ranks, whatever the order in which they arrived, and the steps follow each other. That order is the
  definition: a run that folds in another one is wrong.
* `serial_equivalence`: the general form. Some order must do, either a given one or any that agrees with
  real time, which is searched for and so for few operations only.

An operation of unknown outcome may have been applied or not, whichever fits.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import combinations
from typing import Any, Protocol, TypeVar

from actorflow.errors import HistoryError, pluralise
from actorflow.sim.checkers.bits import bits, difference
from actorflow.sim.checkers.subject import nothing
from actorflow.sim.checkers.timeline import call, clipped
from actorflow.sim.checkers.verdict import Verdict
from actorflow.sim.history import Operation, Status
from actorflow.sim.history.history import operations_of
from actorflow.sim.settings import check_whole

S = TypeVar("S")
BUDGET = 100_000


class Sortable(Protocol):
    """What can be put in order."""

    def __lt__(self, other: Any, /) -> bool:
        """Returns whether it comes before `other`."""
        ...


def serial_equivalence(
    history: Iterable[Operation],
    apply: Callable[[S, Operation], S],
    initial: S,
    final: S,
    *,
    order: Callable[[Operation], Sortable] | None = None,
    budget: int = BUDGET,
) -> Verdict:
    """Returns whether applying the operations one at a time leads from `initial` to `final`, bit for bit.

    Args:
        history: The operations that change the state; leave out the others with `history.where(...)`.
        apply: The state after one operation. It returns a new state and leaves the one it gets alone.
        initial: The state before: arrays, numbers, texts, and tuples, lists and dicts of them.
        final: The state with which the run ended.
        order: What the serial order is sorted by. Left out, any order that agrees with real time will do.
        budget: How many times `apply` may be called.

    Raises:
        HistoryError: `apply` changes the state that it gets, or a state is made of something else.
        ConfigError: What is given is no history, or no budget.
    """
    operations = operations_of(history)
    check_whole("budget", budget, 1)
    happened = [operation for operation in operations if operation.status is not Status.FAIL]
    happened.sort(key=(lambda operation: operation.invoked) if order is None else order)
    needed = sum(1 << i for i, operation in enumerate(happened) if operation.status is Status.OK)
    before = _predecessors(happened) if order is None else _all_before(happened, needed)
    wanted = bits(final)
    frames: list[tuple[int, S, tuple[int, ...]]] = [(0, initial, ())]
    seen: set[tuple[int, Hashable]] = set()
    nearest: tuple[S, tuple[int, ...]] | None = None
    explored = 0
    while frames:
        done, state, path = frames.pop()
        print_of = bits(state)
        if (done, print_of) in seen:
            continue
        seen.add((done, print_of))
        if not needed & ~done:
            if print_of == wanted:
                if not operations:
                    return nothing("serial_equivalence", operations)
                found = tuple(happened[i] for i in path)
                lead = "leads" if len(found) == 1 else "lead"
                what = f"{pluralise(len(found), 'operation')}, one at a time, {lead} to the same bits"
                return Verdict("serial_equivalence", True, what, explored=explored, order=found)
            nearest = nearest or (state, path)
        for i in reversed(range(len(happened))):
            if done >> i & 1 or before[i] & ~done or (order is not None and done >> i):
                continue
            explored += 1
            if explored > budget:
                what = f"no verdict within the budget of {budget} applications"
                return Verdict("serial_equivalence", None, what, explored=explored)
            frames.append((done | 1 << i, apply(state, happened[i]), (*path, i)))
            _unchanged(state, print_of, f"apply at {call(happened[i])} of client {happened[i].client}")
    which = "the given order" if order is not None else "any of the orders that agree with real time"
    what = f"the final state is not that of {which}"
    details = "" if nearest is None else _nearest(final, nearest[0], [happened[i] for i in nearest[1]])
    return Verdict("serial_equivalence", False, what, details, explored)


def _predecessors(happened: Sequence[Operation]) -> list[int]:
    """Returns for each operation the mask of those of known outcome that returned before it was invoked."""
    return [
        sum(
            1 << j
            for j, other in enumerate(happened)
            if other.returned is not None and other.returned < operation.invoked
        )
        for operation in happened
    ]


def _all_before(happened: Sequence[Operation], needed: int) -> list[int]:
    """Returns for each operation the mask of those of known outcome that come before it in the list."""
    return [needed & ((1 << i) - 1) for i in range(len(happened))]


def _unchanged(state: object, print_of: Hashable, by: str) -> None:
    if bits(state) != print_of:
        message = f"the state that was given to {by} was changed"
        raise HistoryError(message, hint="return a new state: others are still to be tried from the old one")


def _nearest(final: object, state: object, path: Sequence[Operation]) -> str:
    some = ", ".join(f"{call(operation)} (client {operation.client})" for operation in path[-4:])
    more = f"{len(path)} operations, the last of them " if len(path) > 4 else ""
    return "\n".join(
        [clipped(f"  one order: {more}{some}"), clipped(f"  {difference(final, state, 'final')}")]
    )


def step_of(operation: Operation) -> Sortable:
    """Returns the first argument of a contribution."""
    if not operation.args or not isinstance(operation.args[0], int):
        message = f"{call(operation)} by client {operation.client} needs its step as the first argument"
        raise HistoryError(message, hint="record it, or pass step=")
    return operation.args[0]


def rank_of(operation: Operation) -> Sortable:
    """Returns the client of a contribution: workers are known by their rank."""
    return operation.client


def synchronous_equivalence(
    history: Iterable[Operation],
    update: Callable[[S, tuple[Operation, ...]], S],
    initial: S,
    final: S,
    *,
    step: Callable[[Operation], Any] = step_of,
    rank: Callable[[Operation], Any] = rank_of,
    budget: int = BUDGET,
) -> Verdict:
    """Returns whether a synchronous run ended where serial steps do, with every fold in the order of ranks.

    For the steps t = 1, 2, ... in order, with the contributions c of that step sorted by rank,
    state(t) = update(state(t - 1), (c[0], c[1], ...)), and the last of them must be `final`, bit for bit.

    Args:
        history: Contributions. One with the result False was refused, as those that come late are, and
            does not count; nor does a failed one.
        update: The state after one step. It folds the contributions from left to right, as they stand.
        initial: The state before the first step.
        final: The state with which the run ended.
        step: The step of a contribution.
        rank: The rank of who contributed; no rank counts twice in a step.
        budget: How many times `update` may be called.

    Raises:
        HistoryError: `update` changes the state that it gets, or a contribution has no step.
        ConfigError: What is given is no history, or no budget.
    """
    operations = operations_of(history)
    check_whole("budget", budget, 1)
    groups: dict[Any, list[Operation]] = {}
    for operation in operations:
        if operation.status is not Status.FAIL and operation.result is not False:
            groups.setdefault(step(operation), []).append(operation)
    for at, group in groups.items():
        ranks = [rank(operation) for operation in group if operation.status is Status.OK]
        twice = [one for n, one in enumerate(ranks) if one in ranks[:n]]
        if twice:
            what = f"rank {twice[0]} counts twice in step {at}"
            return Verdict("synchronous_equivalence", False, what)
    states: dict[Hashable, tuple[S, tuple[Operation, ...]]] = {bits(initial): (initial, ())}
    explored = 0
    for at in sorted(groups):
        reached: dict[Hashable, tuple[S, tuple[Operation, ...]]] = {}
        for print_of, (state, path) in states.items():
            for chosen in _choices(sorted(groups[at], key=rank), rank):
                explored += 1
                if explored > budget:
                    what = f"no verdict within the budget of {budget} steps"
                    return Verdict("synchronous_equivalence", None, what, explored=explored)
                after = update(state, chosen) if chosen else state
                _unchanged(state, print_of, f"update of step {at}")
                reached.setdefault(bits(after), (after, path + chosen))
        states = reached
    equal = states.get(bits(final))
    if equal is not None and not operations:
        return nothing("synchronous_equivalence", operations)
    if equal is not None:
        lead = "leads" if len(groups) == 1 else "lead"
        of = pluralise(len(equal[1]), "contribution")
        what = f"{pluralise(len(groups), 'step')} of {of} {lead} to the same bits"
        return Verdict("synchronous_equivalence", True, what, explored=explored, order=equal[1])
    details = _why_not(groups, update, initial, final, next(iter(states.values()))[0])
    what = "the final state is not that of the steps one by one, in the order of ranks"
    return Verdict("synchronous_equivalence", False, what, details, explored)


def _choices(group: list[Operation], rank: Callable[[Operation], Any]) -> Iterable[tuple[Operation, ...]]:
    """Yields the contributions that may have counted, in the order of ranks: fewest left out first."""
    unknown = [operation for operation in group if operation.status is Status.INFO]
    for count in range(len(unknown), -1, -1):
        for having in combinations(unknown, count):
            chosen = tuple(o for o in group if o.status is Status.OK or any(o is one for one in having))
            if len({rank(operation) for operation in chosen}) == len(chosen):
                yield chosen


def _why_not(
    groups: dict[Any, list[Operation]],
    update: Callable[[S, tuple[Operation, ...]], S],
    initial: S,
    final: S,
    serial: S,
) -> str:
    """Says where the states differ, and whether folding in order of arrival explains it."""
    lines = [clipped(f"  {difference(final, serial, 'final')}")]
    state = initial
    for at in sorted(groups):
        known = [operation for operation in groups[at] if operation.status is Status.OK]
        arrived = tuple(sorted(known, key=lambda operation: operation.returned or 0))
        state = update(state, arrived) if arrived else state
    if bits(state) == bits(final):
        lines.append("  it is what folding in the order of arrival gives")
    return "\n".join(lines)
