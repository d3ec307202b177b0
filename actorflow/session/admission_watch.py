"""The watch for steps that wait for admission in vain: all that run wait at queues, and nothing moves.

A step that waits for room in a full queue, or for elements, keeps its place. Who would take from that queue,
or fill it, may be one of those that wait for a place. Then nothing ever moves, and none of the queues can
tell. So while steps wait for admission somebody looks now and then; when looks have found the same for one
and a half grace periods, the step that has waited longest is refused.

Pure: time is what `now` says, and who looks is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

_LOOKS = 2
"""How many looks there are in a grace period."""

_PERIODS = 1.5
"""How many of them nothing may move: queues that can tell by themselves who starves there do so before."""


class AdmissionWatch:
    """Looks whether those that wait for admission wait in vain.

    INVARIANT: while steps wait, and there is a grace period, a look has been asked for.

    Args:
        grace_s: How long nothing may move; None for ever.
        now: Gives the time.
        look_in: Asks for a look in so many seconds.
        seen: Gives what stands still, by which two looks are compared; None where something may go on.
        waiting: Tells whether steps wait for admission.
        refuse: Refuses the one that has waited longest; hears for how long nothing has moved.
    """

    __slots__ = ("_asked", "_grace_s", "_look_in", "_now", "_refuse", "_seen", "_since", "_waiting", "_was")

    def __init__(
        self,
        grace_s: float | None,
        now: Callable[[], float],
        look_in: Callable[[float, Callable[[], None]], object],
        seen: Callable[[], Hashable | None],
        waiting: Callable[[], bool],
        refuse: Callable[[float], None],
    ) -> None:
        self._grace_s = grace_s
        self._now = now
        self._look_in = look_in
        self._seen = seen
        self._waiting = waiting
        self._refuse = refuse
        self._asked = False
        self._was: Hashable | None = None
        self._since = 0.0

    def begin(self) -> None:
        """A step begins to wait for admission."""
        if self._grace_s is not None and not self._asked:
            self._asked = True
            self._was, self._since = self._seen(), self._now()
            self._look_in(self._grace_s / _LOOKS, self._look)

    def _look(self) -> None:
        self._asked = False
        if self._grace_s is None or not self._waiting():
            return
        now, seen = self._now(), self._seen()
        if seen is None or seen != self._was:
            self._was, self._since = seen, now
        elif now - self._since >= self._grace_s * _PERIODS * 0.999:
            self._refuse(now - self._since)
        self._asked = True
        self._look_in(self._grace_s / _LOOKS, self._look)
