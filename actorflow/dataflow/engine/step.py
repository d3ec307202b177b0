"""The step actor: one run of a program, from its start to its fetched values.

Owns: the values that have arrived, the deadline, and the calls that wait elsewhere for this step.
Receives: one token for each fetch.
Promise: ends exactly once, with all values, with the first error, at the deadline, or by
    cancellation; whatever comes later finds a tombstone and is dropped.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from actorflow.actors.ref import Ref
from actorflow.actors.waits import Blocked
from actorflow.dataflow.engine.iteration_state import IterationState, end, is_later
from actorflow.dataflow.state.locks import LockOwner
from actorflow.dataflow.user.nested_steps import Await, node_of, steps_below
from actorflow.errors import ActorflowError, DeadlinePassed, FetchError, StepAborted, Where
from actorflow.plan.program import PlanNode
from actorflow.runtime.messages import DEAD, CancelCall, Reply
from actorflow.runtime.tag import StepId


def _unknown(_step: Any) -> None:
    """Nothing is known of other steps."""


class Ended(ActorflowError):
    """The tombstone of a step that ended well; nobody raises it."""


_ENDED = Ended("the step has ended")
# Not the step's error: that knows frames, and frames know the tag, and none of them would be freed.
_ABORTED = Ended(
    "the step has ended before its values came"
)  # not its error: that knows frames, and they the tag


class Step:
    """One step.

    Attributes:
        left: Fetches that have not arrived, and values for other processes that have not left.
        calls: Calls that wait in a queue, with its address: an abort takes them back.
        bucket: Where the wheel keeps the deadline.
        state: The state of its root tag while it runs. Nothing that has ended is held in a circle: tokens,
            and with them leases on variables, die with the step and wait for no garbage collector.
        ended: Whether all fetches have come, or an error.
        since: When it started.
        running: What computes: addresses of nodes whose kernels are on a device's threads, and loops that
            stand between two turns, which say where as text.
        waits: Says what the step waits for, for reports.
        parent: The step whose code runs it, of whatever session; None where there is none.
        ahead: While it waits for admission, gives the groups of steps of which one must end before it begins.
        owners: Who it is to the variables that it locks, by atomic block.
        taken: What its nodes took and nobody has used: by node, whom to tell what if the step is
            aborted, and for which tag.
        turns: Turns of loops that have begun: while it grows, the step goes on wherever its calls wait.
        spent: What of that which the step took on other processes has been used here: see
            `plan.partition.partition`.
        early: What has come of turns that have not begun here, by frame and turns: how it is offered then.
        told: Hears of each fetch that has come, by its number, before the step ends; None: nobody wants to.
        lingers: Whether something of it may still happen once it has ended: never, all is in this process.
    """

    lingers = False

    __slots__ = (
        "_turned_at",
        "_turns_seen",
        "ahead",
        "bucket",
        "calls",
        "deadline_s",
        "early",
        "ended",
        "future",
        "id",
        "left",
        "state",
        "owners",
        "parent",
        "running",
        "since",
        "spent",
        "taken",
        "told",
        "turns",
        "values",
        "waits",
    )

    def __init__(
        self,
        step: StepId,
        fetches: int,
        future: Future[list[Any]],
        deadline_s: float | None,
        since: float,
        sends: int = 0,
    ) -> None:
        self.id = step
        self.left = fetches + sends
        self.values: list[Any] = [None] * fetches
        self.future = future
        self.deadline_s = deadline_s
        self.since = since
        self.bucket: Any = None
        self.state: IterationState | None = None
        self.ended = False
        self.calls: dict[Reply, Ref] | None = None
        self.waits: Callable[[Step], list[str]] | None = None
        self.parent: Step | None = None
        self.ahead: Callable[[], Sequence[Any]] | None = None
        self.running: list[Any] = []
        self.turns = 0
        self._turns_seen, self._turned_at = 0, since
        self.owners: dict[str, LockOwner] | None = None
        self.taken: dict[Any, list[tuple[Ref, Any, IterationState]]] | None = None
        self.spent: set[int] | None = None
        self.told: Callable[[int], None] | None = None
        self.early: dict[tuple[tuple[str, ...], tuple[int, ...]], list[Callable[[], None]]] | None = None

    def __repr__(self) -> str:
        state = "ended" if self.future.done() else f"{self.left} of {len(self.values)} fetches to come"
        return f"<{type(self).__name__} {self.id}, {state}>"

    def arrive(self, k: int, value: Any, node: PlanNode) -> None:
        """Takes the value of fetch `k`; the last one ends the step."""
        if value is DEAD:
            message = f"fetch {node.name!r} was not computed: its branch was not taken in this step"
            # Nobody can be given a value for it; the other fetches end with it.
            self.abort(FetchError(message, where=Where(node=node.name, step=self.id)))
            return
        self.values[k] = value
        if self.told is not None:
            self.told(k)
        # ORDER: told before the last one ends the step.
        self.count_sent()

    def count_sent(self) -> None:
        """Counts a fetch that has come, or a value that has left for another process, as done."""
        self.left -= 1
        if not self.left and not self.ended:
            assert self.state is not None
            self.ended = True
            # Whatever still comes for it, of nodes that nobody fetched, finds the tombstone.
            end(self.state, _ENDED)
            self.state = None
            # Whoever ran it may have been cancelled.
            if not self.future.done():
                self.future.set_result(self.values)

    def keep_early(self, path: tuple[str, ...], turns: tuple[int, ...], offer: Callable[[], None]) -> None:
        """Keeps what another process has sent for a turn that has not begun here."""
        if self.early is None:
            self.early = {}
        self.early.setdefault((path, turns), []).append(offer)

    def came_early(self, path: tuple[str, ...], live: IterationState) -> None:
        """Offers what has come for a turn that begins now."""
        assert self.early is not None
        for offer in self.early.pop((path, live.turns), ()):
            offer()
        # None again when empty: `start` asks at every turn of every loop.
        self.early = self.early or None

    def wait_in(self, ref: Ref, reply: Reply) -> None:
        """Notes that a call of this step may wait for long at `ref`; the reply takes itself off."""
        if self.calls is None:
            self.calls = {}
        self.calls[reply] = ref

    def note_take(self, node: Any, ref: Ref, undo: Any, live: IterationState) -> None:
        """Notes that `node` took something from the actor at `ref` for a tag, and how it is given back."""
        if self.taken is None:
            self.taken = {node: [(ref, undo, live)]}
        else:
            self.taken.setdefault(node, []).append((ref, undo, live))

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"step {self.id}" if self.id else "the step of a first value"

    def blocked(self) -> Blocked[Any]:
        """Returns what it waits for, as far as that is code of the user, or its admission."""
        # Before its admission it has asked nobody: other steps are all it waits for.
        if self.ahead is not None:
            return Blocked((), tuple(self.ahead()))
        nodes = (node_of(ref, reply) for reply, ref in (self.calls or {}).items())
        return Blocked(tuple(Await(self, node) for node in nodes if node is not None))

    def waiting_since(
        self,
        waits: Mapping[Any, tuple[str, float]],
        now: float,
        named: Callable[[Any], str | None] = _unknown,
    ) -> dict[str, float] | None:
        """Returns since when it waits for elements at which resources; None when it may do anything else.

        While loops of it turn it does not wait: not before the last look that has found more turns. Where
        code of it waits for steps, they count as such a resource.

        Args:
            waits: Which replies wait for elements, where, and since when.
            now: The time of this look.
            named: The name of a step, or the like, of which it is known in turn for what it waits.
        """
        # More turns than at the last look: until then it did not wait.
        if self.turns != self._turns_seen:
            self._turns_seen, self._turned_at = self.turns, now
        # Not begun, or computing, or nothing asked of anybody: it can go on by itself.
        if self.state is None or self.running or not self.calls:
            return None
        found: dict[str, float] = {}
        for reply in self.calls:
            if reply in waits:
                name, since = waits[reply]
                # Of several calls at one resource the one that came last counts; turning loops reset all.
                found[name] = max(since, self._turned_at, found.get(name, since))
                continue
            # Else it may wait for code of the user, and that for steps: those count as a resource.
            node = node_of(self.calls[reply], reply)
            below = None if node is None else steps_below(node, lambda each: named(each) is not None)
            if not below:
                # One call that may be answered without anybody's help: then it starves for nothing.
                return None
            found.update((str(named(each)), max(self.since, self._turned_at)) for each in below)
        return found

    @property
    def holds(self) -> tuple[str, ...]:
        """Names the resources of which it has taken something that it may still give back."""
        return tuple(node.plan.resource.name for node in self.taken or ())

    def mark_used(self, nodes: Iterable[Any], live: IterationState) -> None:
        """Notes that what these nodes took has been used for a tag: an abort will not give it back."""
        assert self.taken is not None
        for node in nodes:
            entries = self.taken.pop(node, ())
            # What was taken in later turns has not been used. What is carried from one turn into another
            # counts as used when that turn could have used what it took itself.
            if live.frame is not None and (later := [e for e in entries if is_later(e[2], live)]):
                self.taken[node] = later

    def spend(self, takes: Iterable[int]) -> None:
        """Notes that what the step took, here or elsewhere, has been used, by the numbers of the takes."""
        if self.spent is None:
            self.spent = set()
        self.spent.update(takes)

    def give_back(self) -> None:
        """Gives back what was taken and has not been used: nobody will use it."""
        # Emptied before anybody is told: nothing is given back twice.
        taken, self.taken = self.taken, None
        for entries in (taken or {}).values():
            for ref, undo, _ in entries:
                ref.signal(undo)

    def abort(self, error: BaseException) -> None:
        """Ends the step with `error`: every tag of it becomes a tombstone, every call is taken back."""
        # Whatever comes later finds the tombstone: the first end is the only one.
        if self.ended:
            return
        self.ended = True
        if self.state is not None:  # else it still waits for admission
            # ORDER: the tombstone first: answers that come while calls are taken back are dropped.
            end(self.state, _ABORTED)
            self.state = None
        calls, self.calls = self.calls, None
        for reply, ref in (calls or {}).items():
            # A handler that works on the call for long would not see a message.
            if reply.interrupt is not None:
                reply.interrupt()
            else:
                ref.signal(CancelCall(reply))
        self.give_back()
        if not self.future.done():
            self.future.set_exception(error)

    def cancel(self) -> None:
        """Ends the step because whoever ran it was cancelled, be it in the moment in which it ended well."""
        if not self.future.done():
            self.future.cancel()
        self.abort(StepAborted(f"step {self.id} was cancelled by its caller"))
        # Also when it has just ended well, and `abort` did nothing: nobody will use what it took.
        self.give_back()

    def forget(self) -> None:
        """Lets go of its error, the traceback of which knows the step: who ran it has the error."""
        # A future that nobody awaits, in place of that which holds the error.
        self.future = self.future.get_loop().create_future()
        self.future.cancel()

    def expire(self) -> None:
        """Ends the step because its deadline passed, saying what it still waited for."""
        if self.ahead is not None:
            self.abort(not_admitted(self.name, self.deadline_s))
            return
        # Asked before the abort, which lets go of all that it waits for; four are enough for one line.
        waits = "; ".join(self.waits(self)[:4]) if self.waits is not None else ""
        message = f"step {self.id} did not end within its deadline of {self.deadline_s:g} s"
        if waits:
            message = f"{message}; it waits for {waits}"
        hint = "raise deadline_s, or look at session.dump() while it hangs"
        self.abort(DeadlinePassed(message, where=Where(step=self.id), hint=hint))


def not_admitted(name: str, deadline_s: float | None) -> DeadlinePassed:
    """Returns the error of a step the deadline of which has passed while it waited for admission."""
    message = f"{name} did not end within its deadline of {deadline_s:g} s; it was not admitted"
    return DeadlinePassed(message, hint="raise deadline_s, or the max_steps of the session")
