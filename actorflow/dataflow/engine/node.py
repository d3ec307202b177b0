"""Node actors: one for every node of a program. They take firings and send tokens.

Owns: nothing between firings; what it has received lies in the `IterationState` of each tag.
Receives: complete firings, from the ring, and `KernelDone` or the answer of a resource for a firing that
    could not end at once.
Sends: one token along each outgoing edge for each firing; requests to variables, queues and
    optimizers.
Promise: fires once for a tag; never suspends; a failure aborts the step and no other.

`fire` and `emit` are made once when the plan is installed. Here they are in their general form, for
every kind of node, any frame and any number of outputs; `dataflow.engine.firing` compiles the common shapes
into closures that do the same 4-5 times faster. A law keeps them equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from traceback import walk_tb
from typing import Any, Protocol

from actorflow.actors.scheduling.dispatch import STILL_TURNS, Dispatch
from actorflow.dataflow.engine.iteration_state import Frame, FrameTemplate, IterationState
from actorflow.dataflow.engine.matching import CONTROL
from actorflow.errors import ActorflowError, InternalError, KernelError, Where, describe
from actorflow.kernels.definition.scalar_operators import scalar
from actorflow.plan.program import NodeKind, PlanNode
from actorflow.runtime.messages import DEAD

Fire = Callable[[IterationState], None]
Emit = Callable[[IterationState, Any], None]
Target = tuple["NodeActor", int]
"""A node and the port of it at which an edge ends."""

_TURN_S = 20e-6
"""What a turn of the ring takes in virtual time, where loops go on and nothing else lets it pass."""


_RESUMES = CO_COROUTINE | CO_GENERATOR | CO_ASYNC_GENERATOR


class NodeOwner(Protocol):
    """Whom a node reports to: its partition."""

    dispatch: Dispatch

    def abort(self, live: IterationState, error: BaseException) -> None:
        """Ends the step of `live` with `error`."""
        ...


class NodeActor:
    """One node of an installed program.

    Attributes:
        i: Offset of the node's counts in every `IterationState` of its frame.
        slot: Offset of its inputs there.
        targets: For each output, where its edges end.
        control_targets: The nodes that wait for this one without data.
        put: Sends a value to a tag, by a node with one output that leads between tags.
        run: What a live firing does with its inputs; ends in `emit`, now or later.
        uses: The nodes that took what this one writes; see `plan.partition.consumed_takes`.
        spends: Numbers of those, if the program is one of several parts; see `plan.partition.partition`.
        operand: Whether it takes numbers of numpy sooner than arrays without axes.
        failing: Says of an error which node raised it, where others fire with this one.
    """

    __slots__ = (
        "controls", "control_targets", "emit", "failing", "fire", "i", "layout", "merge", "n_in", "operand",
        "owner", "plan", "put", "run", "slot", "spends", "targets", "to_layout", "uses",
    )  # fmt: skip

    def __init__(self, plan: PlanNode, layout: FrameTemplate, owner: NodeOwner) -> None:
        self.plan = plan
        self.layout = layout
        self.owner = owner
        self.i = 0
        self.slot = 0
        self.n_in = len(plan.inputs)
        self.controls = len(plan.controls)
        self.merge = plan.kind is NodeKind.MERGE
        self.targets: list[list[Target]] = [[] for _ in plan.outputs]
        self.control_targets: list[NodeActor] = []
        self.to_layout: FrameTemplate | None = None
        self.uses: Sequence[NodeActor] = ()
        self.spends: Sequence[int] = ()
        # `Partition` gives it what its op does; until then it must not fire.
        self.run: Callable[[IterationState, Sequence[Any]], None] = _clear
        # The general forms, which `firing`, `frame_firing` and `fused_firing` replace where a shape allows
        # it.
        self.fire: Fire = self.fire_any
        self.emit: Emit = self.emit_any
        self.put: Emit = self.put_any
        self.operand = False
        self.failing: Callable[[BaseException], NodeActor | None] | None = None

    @property
    def strand(self) -> str:
        """Its name in schedules: that of the node."""
        return self.plan.name

    @property
    def address(self) -> str:
        """The name under which `dump` lists the node."""
        return self.plan.name

    def __repr__(self) -> str:
        return f"<NodeActor {self.plan.name} {self.plan.op}, {self.n_in} slots a tag>"

    # -- taking a firing ---------------------------------------------------------------------------

    def fire_any(self, live: IterationState) -> None:
        """Takes the complete firing for a tag: the general form of every closure."""
        s = self.slot
        # Its two slots are the winner and its number, not one slot for each input: see `_offer_merge`.
        if self.merge:
            value, index = live.slots[s : s + 2]
            # Slots let go of what is taken: the tag would hold it until it ends.
            live.slots[s : s + 2] = (None, None)
            self.finish(live, (DEAD, DEAD) if value is DEAD else (value, index))
            return
        n = self.n_in
        args = live.slots[s : s + n]
        live.slots[s : s + n] = [None] * n
        # A control edge has no slot: a dead token of one is noted beside the counts.
        dead = live.controls_dead is not None and self.i in live.controls_dead
        # Nothing is computed, and every output hears of it, so that all behind it ends as well.
        if dead or any(a is DEAD for a in args):
            self.finish(live, (DEAD,) * len(self.targets))
        else:
            self.run(live, args)

    def complete(self, live: IterationState, value: Any) -> None:
        """Takes the result of a firing that did not end at once; drops it when the tag has ended."""
        # The tombstone: the step has ended while a kernel or a resource was at work.
        if live.error is not None:
            return
        self.emit(live, value)
        # It comes from outside of the pump: nobody looks at the ring unless asked to.
        dispatch = self.owner.dispatch
        if dispatch.ring and not dispatch.scheduled:
            dispatch.schedule()

    def emit_any(self, live: IterationState, result: Any) -> None:
        """Sends the result of a firing: one value, or a sequence of as many as there are outputs."""
        self.finish(live, (result,) if len(self.targets) == 1 else result)

    def finish(self, live: IterationState, values: Sequence[Any]) -> None:
        """Sends the outputs of a firing, each to the tag where its edges lead."""
        kind = self.plan.kind
        if kind is NodeKind.ENTER:
            self._enter(live, values[0])
        elif kind is NodeKind.EXIT:
            self._exit(live, values[0])
        elif kind is NodeKind.NEXT_ITERATION:
            self._next(live, values[0])
        else:
            self.send(live, values)
        # Only a loop counts its firings: the root tag ends with its fetches.
        if live.frame is not None:
            # ORDER: after sending, or the turn could end before what it sends has begun to live.
            live.left -= 1
            # A loop within it that still lives ends it later: see `iteration_ended`.
            if not live.left and not live.children:
                iteration_ended(live)

    def send(self, live: IterationState, values: Sequence[Any]) -> None:
        """Puts one token on each outgoing edge, within one tag."""
        for value, targets in zip(values, self.targets, strict=True):
            for target, port in targets:
                target.offer(live, port, value)
        if self.control_targets:
            # Without outputs nothing says that it was dead: whoever waits for it goes on.
            dead = DEAD if values and all(v is DEAD for v in values) else None
            for target in self.control_targets:
                target.offer(live, CONTROL, dead)

    def put_any(self, live: IterationState, value: Any) -> None:
        """Sends the one output, within one tag."""
        self.send(live, (value,))

    # -- receiving a token -------------------------------------------------------------------------

    def offer(self, live: IterationState, port: int, value: Any) -> None:
        """Stores a token at its slot; when it completes a firing, the node enters the ring."""
        i = self.i
        counts = live.counts
        if self.merge:
            if not self._offer_merge(live, port, value):
                return
        else:
            if port != CONTROL:
                # The sender stores the token at once; what waits is the node, not a message.
                live.slots[self.slot + port] = value
            elif value is DEAD:
                live.mark_dead(i)
            counts[i] -= 1
            if counts[i]:
                return
        # Only complete firings enter the ring, each once.
        self.owner.dispatch.ring.append((self, live))

    def _offer_merge(self, live: IterationState, port: int, value: Any) -> bool:
        """Merge's rule, flat: counts[i] data to come, counts[i+1] controls (-1 once it fired)."""
        i, s, counts, slots = self.i, self.slot, live.counts, live.slots
        # only their number counts, dead or not
        if port == CONTROL:
            counts[i + 1] -= 1
        else:
            counts[i] -= 1
            if value is not DEAD:
                # A second live input for the tag: after it fired, or while the first waits for controls.
                if counts[i + 1] < 0 or slots[s] is not None:
                    raise InternalError("a merge got two live inputs for one tag", where=self.plan.where)
                slots[s], slots[s + 1] = value, port
        # Controls are missing, or (-1) it has fired and swallows what comes late.
        if counts[i + 1] != 0:
            return False
        if slots[s] is None:
            # No live input yet, and one may still come.
            if counts[i]:
                return False
            # All data has come and none of it lived.
            slots[s] = DEAD
        # Fired for this tag: never again.
        counts[i + 1] = -1
        return True

    # -- frames ------------------------------------------------------------------------------------

    def _enter(self, live: IterationState, value: Any) -> None:
        layout = self.to_layout
        assert layout is not None
        if live.children is None:
            live.children = {}
        # The first token that enters opens the loop, whichever it is; the others find it by its path.
        frame = live.children.get(layout.path)
        if frame is None:
            frame = live.children[layout.path] = Frame(layout, live)
            start(frame, 0)
        if self.plan.attrs.get("is_constant"):
            # The same in all turns: to each that lives and each that follows.
            self._keep(frame, value)
        else:
            self.put(frame.iterations[0], value)

    def _keep(self, frame: Frame, value: Any) -> None:
        """Sends what is the same in all turns to those that live, and to all that follow."""
        frame.missing -= 1
        targets = self.targets[0]
        if value is not DEAD and targets and all(target.operand for target, _ in targets):
            value = scalar(value)  # as an array without axes: 2.9 µs a turn, not 2.3
        # A merge and control edges have no slot that could be filled beforehand: sent anew in every turn.
        if self.control_targets or any(target.merge for target, _ in targets):
            frame.constants.append((self, value))
        # Gain over sending anew: 9.2 µs for a turn with two of them, not 9.6, each node alone.
        else:
            frame.keep(value, [(target, target.i, target.slot + port) for target, port in targets])
        # Turns that have begun started without it.
        for inner in tuple(frame.iterations.values()):
            self.put(inner, value)

    def _exit(self, live: IterationState, value: Any) -> None:
        assert live.frame is not None
        # A dead Exit says nothing yet: a later turn may leave the loop alive. The frame sends DEAD when it
        # ends.
        if value is not DEAD:
            live.frame.exited.add(self)
            self.put(live.frame.parent, value)

    def _next(self, live: IterationState, value: Any) -> None:
        # A dead value opens no turn: that is how a loop ends.
        if value is not DEAD:
            after = self.turn_after(live, value)
            if after is not None:
                self.put(after, value)

    def turn_after(self, live: IterationState, value: Any) -> IterationState | None:
        """Returns the next turn, which it opens; None when that has to wait, and the value for it."""
        frame = live.frame
        assert frame is not None
        iteration = live.iteration + 1
        # Whichever loop variable comes first opens the turn, the others find it.
        after = frame.iterations.get(iteration)
        if after is not None:
            return after
        # As many turns live as may, or it waits for time: the first value kept makes all others of that turn
        # wait with it.
        if frame.resting or frame.full:
            frame.deferred.append((self, value))
            return None
        # In virtual time turns in one instant would go on for ever: now and then time has to pass.
        if self.owner.dispatch.stands_still():
            frame.deferred.append((self, value))
            rest(frame, self)
            return None
        return start(frame, iteration)

    # -- failing -----------------------------------------------------------------------------------

    def fail(self, live: IterationState, error: BaseException) -> None:
        """Aborts the step of a firing that raised; the error is placed at this node, once."""
        # The first error of a step counts; others of it find the tombstone.
        if live.error is None:
            # Several nodes may have fired in one function.
            node = self.failing(error) if self.failing is not None else None
            placed = (node or self).locate(live, error)
            # Its traceback holds arrays, and the tag whose step will hold the error: a circle.
            forget_locals(placed)
            self.owner.abort(live, placed)

    def locate(self, live: IterationState, error: BaseException) -> ActorflowError:
        """Returns `error` as one of ours, with node, op, step and the user's source line."""
        place = self.plan.where
        where = Where(
            node=place.node, op=place.op, step=live.step.id, frame=str(live.tag) if live.frame else None,
            device=self.plan.device or None, defined_at=place.defined_at,
        )  # fmt: skip
        return of_kernel(self.plan.op, error, where)


def of_kernel(op: str, error: BaseException, where: Where) -> ActorflowError:
    """Returns what the kernel of an op raised as one of our errors, placed."""
    # Raised with a reason of ours: it only lacks the place.
    if isinstance(error, ActorflowError):
        return error.at(where)
    indices = "look at its indices; af.clip keeps them within bounds"
    hint = indices if isinstance(error, IndexError) else None
    placed = KernelError(f"kernel of {op!r} raised {describe(error)}", where=where, hint=hint)
    placed.__cause__ = error
    return placed


def forget_locals(error: BaseException) -> None:
    """Lets go of what the functions held that failed: arrays, and the tag whose step holds the error."""
    seen: BaseException | None = error
    # Only along causes: what was being handled besides is somebody else's.
    while seen is not None:
        for frame, _ in walk_tb(seen.__traceback__):
            # Coroutines and generators may only be suspended, and go on.
            if not frame.f_code.co_flags & _RESUMES:
                with suppress(RuntimeError):  # it still runs
                    frame.clear()
        seen = seen.__cause__


def start(frame: Frame, iteration: int) -> IterationState:
    """Opens an iteration, replays the loop's constants into it, and starts its sources."""
    live = frame.open(iteration)
    # While it grows the step is alive, whatever its calls wait for: see `Step.waiting_since`.
    live.step.turns += 1
    if frame.constants:
        for node, value in frame.constants:
            node.put(live, value)
    for node in frame.sources:
        node.owner.dispatch.ring.append((node, live))
    # Other processes may be ahead by some turns: what they sent waits for this one to begin.
    if live.step.early is not None:
        live.step.came_early(frame.layout.path, live)
    return live


def start_deferred(frame: Frame) -> None:
    """Opens the iteration that had to wait, with what has come for it."""
    deferred, frame.deferred = frame.deferred, []
    iteration = frame.newest + 1
    live = start(frame, iteration)
    for node, value in deferred:
        node.put(live, value)


def rest(frame: Frame, node: NodeActor) -> None:
    """Has the next iteration, for which something is deferred, begin a little later, for time to pass."""
    frame.resting = True
    node.owner.dispatch.push_later(STILL_TURNS * _TURN_S, _RestingFrame(frame, node), frame.parent)


class _RestingFrame:
    """A loop → itself, through the ring: time has passed."""

    __slots__ = ("dispatch", "frame", "strand")

    def __init__(self, frame: Frame, node: NodeActor) -> None:
        self.frame = frame
        self.dispatch = node.owner.dispatch
        self.strand = node.strand

    def fire(self, live: IterationState) -> None:
        """Begins the next iteration."""
        # The dispatcher counts turns in one instant: from here on anew.
        self.dispatch.note_time()
        self.frame.resting = False
        start_deferred(self.frame)

    def fail(self, live: IterationState, error: BaseException) -> None:
        """Aborts the step."""
        live.step.abort(error)


def iteration_ended(live: IterationState) -> None:
    """Every node has fired for this tag, and no loop in it lives: lets the next one in, or ends the loop."""
    if live.error is not None:  # of a step that ended in this firing
        return
    frame = live.frame
    assert frame is not None
    # Turns may end out of order; only when the oldest has moved on is there room for one more.
    moved = frame.close(live.iteration)
    if moved and frame.deferred and not frame.resting:
        node = frame.deferred[0][0]
        # In virtual time, as in `turn_after`.
        if node.owner.dispatch.stands_still():
            rest(frame, node)
        else:
            start_deferred(frame)
    if frame.ended:
        parent = frame.parent
        assert parent.children is not None
        del parent.children[frame.layout.path]
        # In all its turns it sent nothing: now it is sure that it will not.
        for node in frame.layout.exits:
            if node not in frame.exited:
                node.put(parent, DEAD)
        if parent.frame is None:
            # Values left for other processes from within: the step is done with them now, all at once.
            if frame.layout.sends:
                parent.step.count_sent()
        elif not parent.left and not parent.children:  # nothing of the inner loop comes out here
            iteration_ended(parent)


def _clear(live: IterationState, args: Sequence[Any]) -> None:
    raise InternalError("a node fired before its plan was installed")
