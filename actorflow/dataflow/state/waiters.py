"""Actors of which others wait for elements: they tell who waits, and hear who starves."""

from __future__ import annotations

from typing import Any

from actorflow.actors.actor import Actor
from actorflow.dataflow.state.starvation_detector import LOOK, StarvationDetector


class StarvableActor(Actor):
    """An actor whose elements somebody has to put in.

    A subclass calls `detector.waits` when a call begins to wait for elements and `detector.end_wait` when it
    no longer does, and answers `LOOK` with `look()`. It must call `on_start` and `on_stop` of this
    class where it has its own. One that lets nobody wait need not do anything. What its rule, in
    `rule_state`, went through last is told by `dump`.

    Attributes:
        detector: The rule; None where nobody wants to know.
    """

    detector: StarvationDetector | None = None

    def on_start(self) -> None:
        """Lets the rule ask for looks."""
        if self.detector is not None:
            self.detector.begin(self._look_in)

    def on_stop(self, reason: BaseException | None) -> None:
        """Nobody starves here any more."""
        if self.detector is not None:
            self.detector.end()

    def on_dump(self) -> list[str]:
        """Returns what its rules went through last, as far as that is anything."""
        story = getattr(getattr(self, "rule_state", None), "story", None)
        told = [f"story: {story}"] if story else []
        if self.detector is not None and self.detector.story:
            told.append(f"looks for who starves: {self.detector.story}")
        return told

    def look(self) -> None:
        """Lets go whoever starves."""
        if self.detector is not None:
            for who in self.detector.find_starved():
                self.starved(who)

    def starved(self, who: Any) -> None:
        """Fails the call of `who`, and takes it off."""
        raise NotImplementedError

    def _look_in(self, delay_s: float) -> None:
        self.after(delay_s, LOOK)
