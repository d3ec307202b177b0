"""What is pending on a shard: an update, from prepared to applied or let go, and pulls that wait for it."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from collections.abc import Callable
from functools import partial
from typing import Any

from actorflow.coord.rules.messages import PrepareUpdate
from actorflow.dataflow.optimizer.gradients import Decision
from actorflow.errors import ActorflowError, CoordinationError, HandlerError, StepAborted, describe
from actorflow.runtime.story import Story
from actorflow.runtime.validation import validates

_GONE = StepAborted("the update has been discarded")


@validates("discard", "done", "failed")
class PendingUpdate:
    """What the optimizer is asked for, and its reply to that.

    INVARIANT: it is let go or decided, once and never both: who is told to commit cannot be interrupted.

    Attributes:
        stage: The set that it is made of.
        bases: The version that each contribution was computed from.
        pulled: The versions that shards gave, of each contribution.
        decision: What the optimizer awaits once all is staged.
        ready: True once it is staged, False when it was let go before; or why it cannot be.
        applied: Done when variables and state have changed.
        interrupt: How to end the handler of the optimizer; set by that.
    """

    def __init__(
        self,
        stage: PrepareUpdate,
        bases: tuple[int, ...],
        loop: AbstractEventLoop,
        pulled: tuple[tuple[int, ...], ...] = (),
    ) -> None:
        self.stage = stage
        self.bases = bases
        self.pulled = pulled
        self.ready: Future[bool] = loop.create_future()
        self.applied: Future[None] = loop.create_future()
        self.decision = Decision(partial(_stage, self.ready), loop.create_future())
        self.interrupt: Callable[[], None] | None = None
        self.error: BaseException | None = None
        self._decided = False
        self.story = Story()

    def validate(self) -> None:
        """Raises InternalError where an invariant does not hold."""
        let_go = self.error is _GONE
        self.story.check(
            self,
            {
                "an update is let go or decided": not (let_go and self._decided),
                "it is decided once it is ready": self.ready.done() or not self._decided,
                "only what is decided is applied": self._decided or not self.applied.done(),
            },
        )

    def __repr__(self) -> str:
        state = "ready" if self.ready.done() else "not ready"
        return f"<PendingUpdate of version {self.stage.version}, {state}>"

    # -- what the shard does ----------------------------------------------------------------------------

    async def commit(self) -> None:
        """Has it applied, and returns once it is. It is ready, and not let go."""
        self.story.append(("commit",))
        self._decided = True
        self.decision.commit.set_result(True)
        await self.applied

    def discard(self) -> None:
        """Has it discarded, however far it is; it is not decided."""
        self.story.append(("discard",))
        if self.ready.done():
            if not self.decision.commit.done():
                self.decision.commit.set_result(False)
            return
        self.error = _GONE
        self.ready.set_result(False)
        if self.interrupt is not None:
            self.interrupt()

    # -- what the optimizer says: a Reply ---------------------------------------------------------------

    def done(self, value: Any, undo: Any = None) -> None:
        """Hears that it is applied."""
        self.story.append(("done",))
        self.applied.set_result(None)

    def failed(self, error: BaseException) -> None:
        """Hears that it cannot be, or that it is discarded, which is no news."""
        self.story.append(("failed", type(error).__name__))
        if not self.ready.done():
            self.ready.set_exception(error)
        elif self._decided and not self.applied.done():
            self.applied.set_exception(error)

    def wrote(self) -> None:
        """An update is applied as a whole."""

    def note_wait(self, at: Any, why: Callable[[], str]) -> None:
        """It waits behind a block that holds a variable, as long as that takes."""


def _stage(ready: Future[bool]) -> None:
    """No method of the update: the decision would hold whoever holds it, with all that is staged."""
    if not ready.done():
        ready.set_result(True)


def preparation_error(error: Exception, rule: str, place: str, version: int | None) -> ActorflowError:
    """Returns why an update cannot be prepared, or the state before the first, in words for whoever trains.

    Args:
        error: What was raised; one of ours says enough, but for what wraps an exception of an optimizer.
        rule: What the optimizer is called.
        place: Where it is.
        version: That of the parameters, before the update; None when the state was to be made.
    """
    if isinstance(error, HandlerError) and error.__cause__ is not None:
        raised: BaseException = error.__cause__
        when = "when its state was made" if version is None else f"at the update of version {version}"
        what = f"the optimizer {rule} raised {describe(raised)} on {place}, {when}"
    elif isinstance(error, ActorflowError):
        return error
    else:
        raised = error
        thing = f"the state of {rule}" if version is None else f"the update of version {version}"
        what = f"{thing} could not be prepared on {place}: {describe(error)}"
    wrapped = HandlerError(what, where=error.where if isinstance(error, ActorflowError) else None)
    wrapped.__cause__ = raised
    return wrapped


MOST_PULLS = 1 << 16
"""Pulls that may wait: those of 4,096 workers, each in 16 parts. Of more, the oldest ends."""


class PullWaiters:
    """Who waits, and for which version; whoever is woken looks for itself whether it has come.

    INVARIANT: at most MOST_PULLS wait.
    """

    def __init__(self) -> None:
        self._futures: list[tuple[int, Future[None]]] = []

    def __len__(self) -> int:
        return len(self._futures)

    def __repr__(self) -> str:
        return f"<PullWaiters for versions {[version for version, _ in self._futures]}, at most {MOST_PULLS}>"

    async def wait_for(self, version: int, future: Future[None]) -> None:
        """Waits on a fresh future until `version` has come, or all are woken.

        Raises:
            CoordinationError: when too many came after this one.
        """
        self._futures.append((version, future))
        if len(self._futures) > MOST_PULLS:
            oldest, given_up = self._futures.pop(0)
            if not given_up.done():
                message = (
                    f"{MOST_PULLS} pulls wait for a version, and all came after this one of version {oldest}"
                )
                given_up.set_exception(CoordinationError(message))
        await future

    def wake(self, version: int | None = None) -> None:
        """Wakes those who wait for that version or an earlier one; None wakes all."""
        woken = [future for wanted, future in self._futures if version is None or wanted <= version]
        self._futures = [each for each in self._futures if version is not None and each[0] > version]
        for future in woken:
            if not future.done():
                future.set_result(None)
