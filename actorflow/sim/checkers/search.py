"""Searches the orders in which the operations of one object could have happened.

An operation takes effect at one point between its invocation and its return; one of unknown outcome
at any point after its invocation, or never. A configuration is (what has taken effect, state). From
each, every operation may come next that was invoked before the first return of one that is still
missing, and that the model accepts there; the history is linearizable when some path has all
operations of known outcome in it.

SOURCE: J. M. Wing, C. Gong, "Testing and verifying concurrent objects", 1993, and G. Lowe, "Testing for
linearizability", 2017: depth first, with a memo of the configurations that led nowhere. What has taken
effect is a bit mask. Beyond them:

* Operations are numbered by their return, those of unknown outcome last: the lowest missing bit is the
  one whose return is due first, and candidates are tried in that order (most urgent first).
* An operation that never changes the state is taken as soon as the state allows it, with no other
  choice beside it: what comes after it could have come after it anyway.
* Of equal operations of unknown outcome the first invoked goes first; none is taken where it would
  change nothing.
* An unknown operation is not taken when the next one would lead to the same state without it.
* A configuration is hopeless when one with the same state and the same known operations, and no
  unknown operation used that this one has not used, was hopeless: it could do all that this one can.

Configurations looked at in the 85 etcd logs and 12 Knossos files (tests/sim/test_public_histories.py): 3,388;
8,429 without the second rule, 3,740 without the third, 4,151 without the fourth, 3,767 without the fifth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from actorflow.sim.checkers.models import Call, Model
from actorflow.sim.checkers.transitions import REFUSED, Transitions
from actorflow.sim.history import Operation, Status, Value

KEPT = 16  # how many states of the place where a search got stuck are remembered, to show them


@dataclass(slots=True)
class Budget:
    """How many configurations may still be looked at, by all searches that share it."""

    limit: int
    used: int = 0


@dataclass(frozen=True, slots=True)
class Stuck:
    """Where a search got stuck: no path gets past the return of `operation`.

    Attributes:
        operation: The operation that can take effect nowhere.
        states: Each state that the object could be in when it was last tried, why the operation is
            refused there, and a shortest order that leads there.
    """

    operation: Operation
    states: tuple[tuple[object, str, tuple[Operation, ...]], ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search found: an order, or where it got stuck, or neither when the budget was used up."""

    order: tuple[Operation, ...] | None
    stuck: Stuck | None


@dataclass(slots=True)
class _Deepest:
    """The paths that got furthest: to the return number `due`, in those states."""

    due: int = -1
    paths: dict[int, list[int]] = field(default_factory=dict)

    def saw(self, due: int, state: int, path: list[int]) -> None:
        if due > self.due:
            self.due = due
            self.paths = {}
        other = self.paths.get(state)
        if len(self.paths) < KEPT if other is None else len(path) < len(other):
            self.paths[state] = path[:]


def search(operations: Sequence[Operation], model: Model, key: Value, budget: Budget) -> Outcome:
    """Returns an order of `operations`, all on one object, or where there is none."""
    return _Search(operations, model, key, budget).run()


NOTHING = -1
_NONE_USED = (0,)  # a configuration that has used no unknown operation can do all that any other can


class _Search:
    """One depth-first search. Bit i stands for operation i: known ones by return, then the unknown.

    INVARIANT: `path` is an order of the operations in `done` that leads to `state`; `frames` has the
    configurations on it that have choices left, each with the length of the path up to it.
    """

    __slots__ = (
        "before", "budget", "count", "deepest", "earlier", "frames", "hopeless", "known", "observers",
        "ordered", "path", "start", "steps",
    )  # fmt: skip

    def __init__(self, operations: Sequence[Operation], model: Model, key: Value, budget: Budget) -> None:
        known, unknown = _sorted(operations, model)
        self.ordered = known + unknown
        self.steps = Transitions(model, self.ordered)
        self.start = self.steps.number(model.initial(key))
        self.count = len(known)
        self.known = (1 << self.count) - 1
        # before[due]: what may come next when `due` is the first known operation that is missing.
        self.before = _candidates(known, self.ordered)
        self.observers = sum(1 << i for i, observes in enumerate(self.steps.observers) if observes)
        # earlier[i]: the bit of the equal unknown operation that goes before operation i, or 0.
        self.earlier = _twins_before(self.steps, self.count)
        self.budget = budget
        self.deepest = _Deepest()
        self.hopeless: dict[tuple[int, int], tuple[int, ...]] = {}
        self.path: list[int] = []
        # (done, state, state before the last unknown operation, choices left, length of path)
        self.frames: list[tuple[int, int, int, int, int]] = []

    def run(self) -> Outcome:
        done, state, unseen = 0, self.start, NOTHING
        while True:
            length = len(self.path)
            done, due = self.observe(done, state)
            if due < 0:
                return Outcome(tuple(self.ordered[i] for i in self.path), None)
            if len(self.path) > length:
                unseen = NOTHING
            choices = 0
            if self.is_new(done, state):
                self.budget.used += 1
                if self.budget.used > self.budget.limit:
                    return Outcome(None, None)
                if due >= self.deepest.due:
                    self.deepest.saw(due, state, self.path)
                choices = self.before[due] & ~done & ~self.observers
            move = self.move(done, state, unseen, choices)
            if move is None:
                return Outcome(None, _stuck(self.steps, self.ordered, self.deepest))
            done, state, unseen = move

    def observe(self, done: int, state: int) -> tuple[int, int]:
        """Takes all that the state allows and that changes nothing.

        Returns what is done then, and the known operation that returns first of those missing, or -1.
        """
        rows, take, path = self.steps.rows, self.steps.take, self.path
        while missing := ~done & self.known:
            due = (missing & -missing).bit_length() - 1
            seen = self.before[due] & self.observers & ~done
            taken = 0
            while seen:
                bit = seen & -seen
                seen ^= bit
                i = bit.bit_length() - 1
                after = rows[i].get(state)
                if (take(i, state) if after is None else after) != REFUSED:
                    taken |= bit
                    path.append(i)
            if not taken:
                return done, due
            done |= taken
        return done, -1

    def is_new(self, done: int, state: int) -> bool:
        """Notes a configuration; returns False when one that could do all it can do was here before."""
        here, used = (done & self.known, state), done >> self.count
        others = self.hopeless.get(here, ())
        for other in others:
            if other & used == other:
                return False
        kept = [other for other in others if used & other != used]
        self.hopeless[here] = (*kept, used) if used else _NONE_USED
        return True

    def move(self, done: int, state: int, unseen: int, choices: int) -> tuple[int, int, int] | None:
        """Takes the first choice that leads on, going back where there is none left.

        Args:
            done: What has taken effect.
            state: The state.
            unseen: The state before the last operation, if that was an unknown one; else NOTHING.
            choices: What may be tried next.

        Returns:
            The same three for the next configuration, or None when all have been looked at.
        """
        take, count, frames = self.steps.take, self.count, self.frames
        length = len(self.path)
        while True:
            while choices:
                bit = choices & -choices
                choices ^= bit
                i = bit.bit_length() - 1
                if i >= count and self.earlier[i - count] & ~done:
                    continue
                after = take(i, state)
                if after == REFUSED or (i >= count and after == state):
                    continue
                if unseen != NOTHING and take(i, unseen) == after:
                    continue
                if choices:
                    frames.append((done, state, unseen, choices, length))
                del self.path[length:]
                self.path.append(i)
                return done | bit, after, state if i >= count else NOTHING
            if not frames:
                return None
            done, state, unseen, choices, length = frames.pop()


def _sorted(operations: Sequence[Operation], model: Model) -> tuple[list[Operation], list[Operation]]:
    """Returns the operations of known outcome by return, and those of unknown outcome by invocation.

    An unknown operation that changes nothing might as well have never happened and is left out.
    """
    known = [operation for operation in operations if operation.status is Status.OK]
    unknown = [
        operation
        for operation in operations
        if operation.status is Status.INFO and not model.observes(Call.of(operation))
    ]
    known.sort(key=lambda operation: operation.returned or 0)
    unknown.sort(key=lambda operation: operation.invoked)
    return known, unknown


def _candidates(known: list[Operation], ordered: list[Operation]) -> list[int]:
    """Returns for each known operation the mask of those that were invoked before it returned."""
    by_invocation = sorted(range(len(ordered)), key=lambda i: ordered[i].invoked)
    masks = []
    mask = at = 0
    for operation in known:
        while at < len(ordered) and ordered[by_invocation[at]].invoked < (operation.returned or 0):
            mask |= 1 << by_invocation[at]
            at += 1
        masks.append(mask)
    return masks


def _twins_before(steps: Transitions, count: int) -> list[int]:
    """Returns for each unknown operation the bit of the equal one that goes before it, or 0."""
    last: dict[int, int] = {}
    bits = []
    for i in range(count, len(steps.twins)):
        bits.append(last.get(steps.twins[i], 0))
        last[steps.twins[i]] = 1 << i
    return bits


def _stuck(steps: Transitions, ordered: list[Operation], deepest: _Deepest) -> Stuck:
    found = sorted(deepest.paths.items(), key=lambda item: (len(item[1]), item[0]))
    return Stuck(
        ordered[deepest.due],
        tuple(
            (steps.states[state], steps.why(deepest.due, state), tuple(ordered[i] for i in path))
            for state, path in found
        ),
    )
