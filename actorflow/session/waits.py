"""The waits of the steps of a session: who could still fill a queue, and whether any step may go on.

The rules are `dataflow.state.progress_check` and `admission_watch`; here is what they are told. A step, and a
initial value, for which code of a step waits is to them a resource that it fills itself. So a step that would
put something into a queue, but runs a step that waits there, is not one that can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from actorflow.dataflow.engine.resources import InitialValue
from actorflow.dataflow.engine.step import Step
from actorflow.dataflow.state.progress_check import NEVER, RunningStep
from actorflow.dataflow.state.starvation_detector import Producers, StarvationDetector, Waits
from actorflow.dataflow.user.nested_steps import Code, node_of, steps_below
from actorflow.errors import QueueStarved, Where
from actorflow.session.backend import Plan, SessionSteps

_SHOWN = 4
"""How many steps an error names."""


class StepWaits:
    """Looks at the steps of a session.

    Args:
        steps: The session's.

    Attributes:
        feeding: What feeds queues beside them, and which.
        producers: Who counts those that fill something.
    """

    producers: Producers

    def __init__(self, steps: SessionSteps) -> None:
        self.feeding: dict[Code, Sequence[str]] = {}
        self._steps = steps
        self._live: Mapping[Step, Plan] = steps.live
        self._first: Mapping[Step, tuple[Plan, InitialValue]] = steps.first
        self._waiting: Mapping[Step, tuple[Plan, Sequence[Any]]] = steps.waiting
        self._unready: dict[object, RunningStep] = {}

    @contextmanager
    def unready(self, fills: Sequence[str], firsts: Sequence[InitialValue]) -> Iterator[None]:
        """Has what waits for initial values, and would fill resources then, be known while inside."""
        now, key = self.producers.now(), object()
        parked = None if any(first.shared for first in firsts) else {first.name: now for first in firsts}
        self._unready[key] = RunningStep(fills, parked)
        try:
            with self.producers.counting(fills):
                yield
        finally:
            del self._unready[key]

    # -- who could fill a resource -----------------------------------------------------------------

    def look(self, waits: Waits) -> tuple[list[RunningStep], Counter[str]]:
        """Returns what `dataflow.state.progress_check` wants to know.

        The steps that run, and those that wait to.
        """
        now, named = self.producers.now(), self._name_of
        known: Iterable[tuple[Step, Plan, str]] = (
            *((step, plan, step.name) for step, plan in self._live.items()),
            *((step, plan, first.name) for step, (plan, first) in self._first.items()),
        )
        seen = [
            RunningStep((*plan.fills, name), step.waiting_since(waits, now, named), step.holds)
            for step, plan, name in known
        ]
        seen += self._unready.values()
        seen += [RunningStep(fills, self._below(code)) for code, fills in self.feeding.items()]
        queued = Counter(name for plan, _ in self._waiting.values() for name in plan.fills)
        queued.update(step.name for step in self._waiting)
        return seen, queued

    def _name_of(self, node: Any) -> str | None:
        """Returns the name of what code of a step may wait for, where it is known for what that waits."""
        mine = (type(node) is InitialValue and not node.shared) or node in self._live or node in self._waiting
        return str(node.name) if mine else None

    def _below(self, code: Code) -> dict[str, float] | None:
        """Returns the steps for which code of no step waits, as `Step.waiting_since` does."""
        below = steps_below(code, lambda node: self._name_of(node) is not None)
        return {str(node.name): NEVER for node in below} if below else None

    # -- whether any of them may go on -------------------------------------------------------------

    def waiting_steps(self, ended: tuple[int, ...]) -> tuple[Any, ...] | None:
        """Returns what the steps wait for where each waits at queues and the like; None where one may go on.

        Args:
            ended: How many have ended so far.
        """
        found: list[Any] = [ended]
        for step, _ in self._steps.running():
            if step.state is None or step.running or not step.calls:
                return None
            for reply, ref in step.calls.items():
                if not self._stands_at(ref, reply):
                    return None
                found.append((step.id, step.turns, id(reply)))
        return tuple(found)

    def _stands_at(self, ref: Any, reply: Any) -> bool:
        """Tells whether a call can only go on when another step does."""
        node = node_of(ref, reply)
        if node is not None:
            return bool(steps_below(node, lambda each: self._name_of(each) is not None))
        hunger: StarvationDetector | None = getattr(ref.behaviour, "detector", None)
        if hunger is None:
            return False
        name = hunger.resource
        fed = any(name in fills and not self._below(code) for code, fills in self.feeding.items())
        return reply not in hunger.since or not (fed or self.producers.verdict(name).declared)

    def refuse(self, for_s: float) -> None:
        """Fails the step that has waited longest for admission, since none that runs can go on."""
        step = next(iter(self._waiting))
        stuck = [
            f"{each.name} waits for {'; '.join(plan.target.waits(each)[:2])}"
            for each, plan in self._live.items()
        ]
        more = f" and {len(stuck) - _SHOWN} more" if len(stuck) > _SHOWN else ""
        message = (
            f"{step.name} waits for admission, and for {round(for_s, 1):g} s none of those that run "
            f"could go on: {', '.join(stuck[:_SHOWN])}{more}; max_steps is {self._steps.limit}"
        )
        hint = "give the session a larger max_steps, or run fewer steps that wait at once"
        step.abort(QueueStarved(message, where=Where(step=step.id), hint=hint))
