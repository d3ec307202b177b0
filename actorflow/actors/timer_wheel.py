"""Deadlines and timers of one loop: coarse buckets, one loop timer, removal in O(1).

Nearly every ask is answered long before its deadline, so leaving must be as cheap as entering:
an entry sits in the dict of its bucket and keeps that dict at hand. An entry expires in the bucket after its
time: never early, at most `tick_s` late.
"""

from __future__ import annotations

import heapq
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from actorflow.runtime.clock import Clock


class Expiring(Protocol):
    """What can stand on the wheel; `bucket` belongs to the wheel and is None when off it."""

    bucket: Bucket | None

    def expire(self) -> None:
        """Hears that its time has come; it is off the wheel by then."""
        ...


Bucket = dict[Expiring, None]

_SPARE = 64  # buckets below which nobody looks for empty ones


class Timer:
    """A callback that runs once, unless cancelled before."""

    __slots__ = ("bucket", "call")

    def __init__(self, call: Callable[[], None]) -> None:
        self.bucket: Bucket | None = None
        self.call = call

    def cancel(self) -> None:
        """Takes it off the wheel; too late is harmless."""
        remove(self)

    def expire(self) -> None:
        """Runs the callback."""
        self.call()


def remove(entry: Expiring) -> None:
    """Takes `entry` off whatever wheel it is on."""
    bucket = entry.bucket
    if bucket is not None:
        # At once: removing lazily would keep every finished ask, and what it holds, for its whole deadline.
        # The bucket stays, even empty: who leaves knows no wheel.
        del bucket[entry]
        entry.bucket = None


class TimerWheel:
    """All deadlines of one event loop.

    INVARIANT: an entry is in `entry.bucket`, or `entry.bucket` is None.
    INVARIANT: the loop timer stands for the earliest bucket, or there is no bucket.
    INVARIANT: `len(buckets) <= _full`, at most 64 more than twice those in use at the last sweep.
    """

    __slots__ = ("buckets", "_context", "_full", "_handle", "_keys", "_loop", "_now", "tick_s")

    def __init__(
        self, loop: AbstractEventLoop, clock: Clock, context: Context | None = None, *, tick_s: float = 0.01
    ) -> None:
        self.tick_s = tick_s
        self._context = copy_context() if context is None else context  # not that of who sets a timer
        self._loop = loop
        self._now = clock.now
        self.buckets: dict[int, Bucket] = {}
        self._full = _SPARE
        self._keys: list[int] = []
        self._handle: TimerHandle | None = None

    def add(self, when: float, entry: Expiring) -> None:
        """Puts `entry` on the wheel, to expire at `when` by the wheel's clock."""
        # the bucket after it: never early
        key = int(when / self.tick_s) + 1
        bucket = self.buckets.get(key)
        if bucket is None:
            bucket = self._new_bucket(key)
        bucket[entry] = None
        entry.bucket = bucket

    def after(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """Returns a timer that calls `call` in `delay_s` seconds."""
        timer = Timer(call)
        self.add(self._now() + delay_s, timer)
        return timer

    def entries(self) -> list[Expiring]:
        """Returns all that stand on the wheel, earliest bucket first."""
        return [entry for key in sorted(self.buckets) for entry in self.buckets[key]]

    def close(self) -> None:
        """Forgets everything and the loop timer."""
        # Whoever leaves later must not find a bucket that is gone.
        for entry in self.entries():
            entry.bucket = None
        self.buckets.clear()
        self._keys.clear()
        self._arm()

    def __len__(self) -> int:
        return sum(map(len, self.buckets.values()))

    def __repr__(self) -> str:
        return f"<TimerWheel with {len(self)} entries in {len(self.buckets)} buckets of {self.tick_s:g} s>"

    def _new_bucket(self, key: int) -> Bucket:
        # A deadline of a day at 100 asks a second would leave millions of empty buckets behind.
        if len(self.buckets) >= self._full:
            self._sweep()
        bucket: Bucket = {}
        self.buckets[key] = bucket
        heapq.heappush(self._keys, key)
        # earlier than what the loop timer stands for
        if self._keys[0] == key:
            self._arm()
        return bucket

    def _sweep(self) -> None:
        """Throws the empty buckets out; O(1) a bucket, for half of those here are new since the last time."""
        self.buckets = {key: bucket for key, bucket in self.buckets.items() if bucket}
        self._keys = sorted(self.buckets)
        # Half of those at the next sweep are then new: O(1) for a bucket.
        self._full = 2 * len(self.buckets) + _SPARE
        self._arm()

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._keys:
            delay_s = self._keys[0] * self.tick_s - self._now()
            # In the wheel's context: that of whoever sets a timer is its handler's own.
            self._handle = self._loop.call_later(max(0.0, delay_s), self._turn, context=self._context)

    def _turn(self) -> None:
        self._handle = None
        now = self._now() + 1e-9  # a float's worth of rounding, not a coarser tick
        try:
            # Empty ones go with it, or the loop would be woken for nobody.
            while self._keys and (self._keys[0] * self.tick_s <= now or not self.buckets[self._keys[0]]):
                self._expire(self.buckets.pop(heapq.heappop(self._keys)))
        finally:
            self._arm()

    def _expire(self, bucket: Bucket) -> None:
        """Expires all of a bucket; what one of them raises, the loop hears when the others had their turn."""
        raised: BaseException | None = None
        # a copy: what expires may take others off, or add to a bucket
        for entry in tuple(bucket):
            if entry.bucket is not bucket:  # an earlier one has taken it off
                continue
            # ORDER: off the wheel before it hears, so that it may stand on it again.
            entry.bucket = None
            del bucket[entry]
            try:
                entry.expire()
            except Exception as error:  # noqa: BLE001  reported, as by any callback of the loop
                context = {"message": f"{entry!r} raised when its time came", "exception": error}
                self._loop.call_exception_handler(context)
            # The others have their turn first.
            except BaseException as error:  # noqa: BLE001  the program ends, by the first of them
                raised = raised or error
        if raised is not None:
            raise raised
