"""A step over several processes ends once; whoever may do or hold something is told, and everybody is heard."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actorflow.dataflow.remote.step_completion import StepCompletion
from actorflow.errors import PeerLost, StepAborted
from tests.support.strategies import examples

NAMES = ("a", "b", "c")
names = st.sampled_from(NAMES)
spent = st.frozensets(st.integers(0, 3), max_size=2)


class Parts(RuleBasedStateMachine):
    """Processes that run, are done, answer, or are lost; the model is what each of them has said."""

    @initialize(members=st.frozensets(names, min_size=1))
    def begin(self, members: frozenset[str]) -> None:
        self.gathering = StepCompletion(members)
        self.said = dict.fromkeys(members, "running")
        self.told: set[str] = set()
        self.spent: set[int] = set()
        self.giving: set[str] = set()
        self.ended = 0

    def count(self, over: bool) -> None:
        self.ended += over

    @rule(name=names, holds=st.booleans(), takes=spent)
    def done(self, name: str, holds: bool, takes: frozenset[int]) -> None:
        if self.said.get(name) != "running" or self.gathering.over:
            assert not self.gathering.done(name, holds, takes)
            return
        self.count(self.gathering.done(name, holds, takes))
        self.said[name] = "holds" if holds else "done"
        self.spent |= takes

    @rule()
    def fail(self) -> None:
        was_over, first = self.gathering.over, self.gathering.error is None
        told = self.gathering.fail(StepAborted("it failed"))
        if was_over or not first:
            assert told == ()
            return
        assert set(told) == {n for n, said in self.said.items() if said in ("running", "holds")}
        self.told = set(told)
        self.count(self.gathering.over)

    @precondition(lambda self: self.gathering.error is not None)
    @rule(name=names, holds=st.booleans(), takes=spent)
    def aborted(self, name: str, holds: bool, takes: frozenset[int]) -> None:
        expected = name in self.told
        self.count(self.gathering.aborted(name, holds, takes))
        if expected:
            self.told.remove(name)
            self.said[name] = "holds" if holds else "done"
            self.spent |= takes

    @precondition(lambda self: self.gathering.over)
    @rule(well=st.booleans())
    def settle(self, well: bool) -> None:
        holding = {n for n, said in self.said.items() if said == "holds"}
        assert self.gathering.settle(well=well) == tuple(sorted(holding))
        self.giving |= set() if well else holding
        self.said |= dict.fromkeys(holding, "done")

    @rule(name=names)
    def settled(self, name: str) -> None:
        last = self.giving == {name}
        assert self.gathering.settle_process(name) == last, "once, when all is back"
        self.giving.discard(name)

    @rule(name=names)
    def lost(self, name: str) -> None:
        assert self.gathering.concerns(name) == (name in self.said and not self.gathering.over)
        if not self.gathering.concerns(name):
            return
        self.told |= set(self.gathering.fail(PeerLost("it is gone")))
        self.count(self.gathering.lost(name))
        self.told.discard(name)
        self.said[name] = "lost"

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "gathering"):
            return
        real = self.gathering
        assert real.aborting == self.told
        assert real.returning == self.giving
        assert real.spent == self.spent
        if real.error is None:
            assert real.over == (not any(said == "running" for said in self.said.values()))
        else:
            assert real.over == (not self.told)
        assert self.ended <= 1
        assert real.open == {n for n, said in self.said.items() if said == "holds"} | real.open & self.told


Parts.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=25, deadline=None)
TestParts: Any = Parts.TestCase


def test_a_step_that_ended_well_is_not_ended_again() -> None:
    gathering = StepCompletion(["a"])

    assert gathering.done("a", True, [1])
    assert gathering.fail(StepAborted("too late")) == ()
    assert gathering.error is None and gathering.open == {"a"}
    assert repr(gathering) == "<StepCompletion over, running [], aborting []>"
