"""The simulated event loop: virtual time, one strand a task, and every choice handed out.

It is an asyncio loop without selector, threads or sockets. A step takes one callback from the strand
whose turn it is (`turn_order`); when nothing is ready, time jumps to the next timer; when there is none
either, the program waits for ever, and that is an error. What would leave the process is refused.

| of asyncio | here |
| --- | --- |
| `call_soon`, tasks, futures | as asyncio, strands apart from each other |
| timers | virtual time, late by choice; what is due at one moment comes in order of setting |
| `run_in_executor`, `to_thread` | runs inline, and its result comes at a chosen step |
| hash of tasks and futures | the number of their making, so that sets of them keep their order |
| names of tasks | what their coroutine is called, and a number |
| BaseException in a task or callback | ends the run, at once: hypothesis stops an example with one |
| sockets, pipes, signals, subprocesses | `Escape` |
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import AbstractEventLoop, Future, Handle, TimerHandle, base_events
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from threading import get_ident
from typing import Any, NoReturn

from actorflow.errors import Deadlock, Escape, Livelock
from actorflow.runtime.environment import ENVIRONMENT
from actorflow.sim.engine import deadlock_report
from actorflow.sim.engine.choice import MAX_DELAY, Choices
from actorflow.sim.engine.deterministic_ids import GeneratorSet
from actorflow.sim.engine.strands import STRAND, Lifetime, Strand
from actorflow.sim.engine.tasks import STRAND_OF, SimFuture, SimHandle, SimTask, SimTimerHandle
from actorflow.sim.engine.turn_order import Order

TICK_S = 0.001
"""What a delay of one means for a message, a kernel or an executor's job."""

_TIDY = 4096  # steps between two runs of the garbage collector


def _callback_name(coro: Any) -> str:
    name: str = getattr(coro, "__name__", type(coro).__name__)
    return name


class SimLoop(asyncio.BaseEventLoop):
    """One run's event loop.

    Args:
        order: Whose turn it is.
        max_steps: How many callbacks and turns of actors may run; one more is a livelock.
        max_seconds: How far virtual time may go.

    Attributes:
        trace: What happened, in order, when it is kept: (time, strand, what).
        complaints: What asyncio would have logged: errors that nobody heard.
    """

    _ready: deque[Any]  # of SimHandle and SimTimerHandle, whose insides typeshed does not know
    _stopping: bool
    _closed: bool

    def __init__(self, order: Order, *, max_steps: int = 100_000, max_seconds: float = 86_400.0) -> None:
        super().__init__()
        self.order = order
        self.choices: Choices = order.choices
        self.max_steps = max_steps
        self.max_seconds = max_seconds
        self.steps = 0
        self.trace: list[tuple[float, str, str]] | None = None
        self.complaints: list[dict[str, Any]] = []
        # Of those that have not ended, by number: in the order of making.
        self.tasks: dict[int, SimTask] = {}
        self.tidy: Callable[[], object] | None = None
        self.systems: list[Any] = []
        self.lifetimes: list[Lifetime] = []
        # Code outside of all hosts and tasks runs here.
        self.main_strand = Strand(self.choices.point("main"))
        self._look_at = 1
        self._tidy_at = _TIDY
        self._now = 0.0
        self._timers: list[tuple[float, int, SimTimerHandle]] = []
        self._cancelled = 0
        self._made = 0
        self._names: Counter[str] = Counter()
        self._fatal: BaseException | None = None
        self._busy: deadlock_report.Busy | None = None
        self._asyncgens = GeneratorSet()
        self._thread_here = get_ident()
        self.set_exception_handler(_complain)

    # -- what programs call ------------------------------------------------------------------------

    def time(self) -> float:
        """Returns virtual seconds since the run began."""
        return self._now

    now = time

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """Runs `callback` once, in the strand of its context, after what is there already."""
        if self._closed:
            self._check_closed()  # type: ignore[attr-defined]
        if context is None:
            context, strand = copy_context(), STRAND.get()
        else:
            # Callbacks inherit the strand of whoever asked for them, by the context.
            strand = context.get(STRAND)
        handle = SimHandle(callback, args, self, context, strand or self.main_strand)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """Likewise; there are no other threads."""
        if get_ident() != self._thread_here:
            self.refuse("a call from another thread")
        return self.call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        """Runs `callback` at a virtual time, or as many ticks later as is chosen; never before."""
        strand = (STRAND.get() if context is None else context.get(STRAND)) or self.main_strand
        if strand.timers is None:
            # A point of its own: a timer that is late is not a strand that is delayed.
            strand.timers = self.choices.point(f"timer of {strand.label}")
        late = self.choices.choose(strand.timers)
        return self.at(when + late * TICK_S if late > 0 else when, callback, *args, context=context)

    def at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        """Runs `callback` at a virtual time exactly: for the simulator's own timers."""
        if self._closed:
            self._check_closed()  # type: ignore[attr-defined]
        # NaN would break the order of the heap.
        if when != when:
            message = f"a timer is set for a time, got {when}"
            raise ValueError(message)
        timer = SimTimerHandle(when, callback, args, self, context)
        timer.strand = timer._context.get(STRAND) or self.main_strand  # type: ignore[attr-defined]
        # Of timers due at one moment that which was set first comes first.
        self._made += 1
        heapq.heappush(self._timers, (when, self._made, timer))
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        """Runs `callback` in `delay` virtual seconds, or later, as `call_at`."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None:
        del handle
        self._cancelled += 1
        # Cancelled timers are most of them, as of answered asks: thrown out when they are half of all.
        if self._cancelled > 100 and self._cancelled * 2 > len(self._timers):
            self._timers[:] = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def create_future(self) -> Future[Any]:
        """Returns a future whose hash is its number."""
        future = SimFuture(loop=self)
        self._made = future.number = self._made + 1
        return future

    def take_number(self) -> int:
        """Returns a number for one thing more that is to have its own hash."""
        self._made += 1
        return self._made

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: object = None, context: Context | None = None
    ) -> SimTask:
        """Starts a task in a strand of its own."""
        if self._closed:
            self._check_closed()  # type: ignore[attr-defined]
        given = None if name is None else str(name)
        label = self.task_name(coro) if given is None else given
        shared = context is not None
        if context is None:
            context = copy_context()
        elif context.get(STRAND) is None:  # made by the program itself, and still of this run and this host
            context.run(STRAND.set, STRAND.get())
            context.run(ENVIRONMENT.set, ENVIRONMENT.get())
        maker = context.get(STRAND)
        strand = context.run(self.enter_strand, label)
        if shared and maker is not None and maker.ring:
            # The task of an actor begins in the ring's strand: handlers begin in the mailbox's order.
            context.run(STRAND.set, maker)
        # A number before the constructor, which puts the task into a set.
        self._made += 1
        task = SimTask(self._made, strand, coro, name=given, loop=self, context=context)
        # What the task does from now on is its own strand; only how it was begun was the maker's.
        context.run(STRAND.set, strand)
        self.tasks[task.number] = task
        return task

    def task_name(self, coro: Coroutine[Any, Any, Any]) -> str:
        """Returns the name of a task that was given none: its coroutine's, and a number."""
        name = _callback_name(coro)
        self._names[name] += 1
        return f"{name}-{self._names[name]}"

    def take_name_back(self, coro: Any) -> None:
        """Counts a task no longer that was given a name after all, so that numbers do not depend on how."""
        self._names[_callback_name(coro)] -= 1

    def enter_strand(self, label: str, lifetime: Lifetime | None = None, delays: int = MAX_DELAY) -> Strand:
        """Makes the present context a strand of its own, with the fate of the one that it comes from."""
        outer = STRAND.get()
        if lifetime is None and outer is not None:
            lifetime = outer.lifetime
        strand = Strand(self.choices.point(label, delays), lifetime)
        STRAND.set(strand)
        return strand

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Future[Any]:
        """Runs `func` on this thread, now or some ticks later, and gives its result at a later step."""
        del executor
        name = getattr(getattr(func, "func", func), "__name__", type(func).__name__)
        future = self.create_future()

        def job() -> None:
            # As asyncio: a job that was cancelled before it began does not begin.
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:  # noqa: BLE001  whoever awaits it hears
                future.set_exception(error)

        self.run_at_a_step(f"executor {name}", job)
        return future

    def run_at_a_step(self, label: str, job: Callable[[], object]) -> None:
        """Runs `job` in a strand of that name, at the next step or as many ticks later as is chosen."""
        context = copy_context()
        strand = context.run(self.enter_strand, label)
        ticks = max(0, self.choices.choose(strand.point))
        if ticks:
            self.at(self._now + ticks * TICK_S, job, context=context)
        else:
            self.call_soon(job, context=context)

    # -- the step ----------------------------------------------------------------------------------

    def _run_once(self) -> None:  # noqa: C901  the hottest loop, written out: 1.6 times the rate
        """Runs steps until the loop is told to stop."""
        ready, timers = self._ready, self._timers
        take = self.order.take
        batch = 0  # steps until timers are looked at again
        while not self._stopping:
            # An error that ends the run may have been found deep in a callback, where raising it would be
            # caught.
            if self._fatal is not None:
                self._raise_fatal()
            # As asyncio: all that is ready now goes before timers that are due.
            if batch <= 0 or not ready:
                batch = self._collect_due()
                if not ready:
                    if timers:
                        continue
                    # Nothing is ready and no timer is set: it would wait for ever.
                    raise Deadlock(deadlock_report.deadlock(self))
            batch -= 1
            handle = take(ready, STRAND_OF, others=False)
            # All that is ready is delayed, or it was cancelled while it waited.
            if handle is None or handle._cancelled:
                continue
            strand: Strand = handle.strand
            life = strand.lifetime
            if life is not None and (life.dead or life.paused):
                # A paused host's work is kept for when it goes on, a crashed one's is dropped.
                if life.paused:
                    life.parked.append(handle)
                continue
            self.steps += 1
            # One comparison a step, for the limit and the garbage together.
            if self.steps >= self._look_at:
                self._look(strand)
            callback = handle._callback
            task = getattr(callback, "__self__", None)
            if self.trace is not None:
                what = "step" if type(task) is SimTask else getattr(callback, "__qualname__", "callback")
                self.trace.append((self._now, strand.label, what))
            try:
                handle._context.run(callback, *handle._args)
            except Exception as error:  # noqa: BLE001  as asyncio: the loop goes on, and somebody hears
                told = {"message": f"a callback in '{strand.label}' raised", "exception": error}
                self.call_exception_handler(told)
            # ORDER: after the step: a task that has ended may end the run.
            if type(task) is SimTask and task.done():
                self._ended(task)

    def _collect_due(self) -> int:
        """Begins a batch: what is ready now, and the timers that are due come after it, as in asyncio."""
        ready = self._ready
        if not ready and self._timers:
            self._jump()
        timers = self._timers
        while timers and timers[0][0] <= self._now:
            timer = heapq.heappop(timers)[2]
            if timer._cancelled:
                self._cancelled -= 1
            else:
                ready.append(timer)
        return len(ready)

    def _jump(self) -> None:
        """Lets time pass until something is due."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self._cancelled -= 1
        if timers and timers[0][0] > self._now:
            if timers[0][0] > self.max_seconds:
                message = f"virtual time reached {timers[0][0]:g} s, limit {self.max_seconds:g} s"
                hint = "something waits or polls without end; raise max_seconds if it has to take that long"
                raise Livelock(message, hint=hint)
            # INVARIANT: time never goes back, and passes only while nothing is ready.
            self._now = timers[0][0]

    def _ended(self, task: SimTask) -> None:
        """A task ended: what is no Exception must not wait in it for somebody to look."""
        self.tasks.pop(task.number, None)
        if not task.cancelled():
            error = task._exception  # task.exception() would count as heard
            task.failed_alive = error is not None and not task.dead
            if error is not None and not isinstance(error, Exception):
                task.exception()
                # hypothesis stops an example with a BaseException, which must not wait in a task to be looked
                # at.
                raise error

    def count_turn(self, strand: Strand) -> None:
        """Counts the turn of an actor, as a step."""
        self.steps += 1
        if self.steps >= self._look_at:
            self._look(strand)
        if self.trace is not None:
            self.trace.append((self._now, strand.label, "turn"))

    def _look(self, strand: Strand) -> None:
        """Looks whether there were too many steps, and for garbage; from time to time."""
        if self.steps >= self._tidy_at:
            self._tidy_at = self.steps + max(_TIDY, 8 * len(self.tasks))  # it walks over all that lives
            self._tidy_up()
        if self.steps > self.max_steps:
            # The first steps past the limit are watched, to say who keeps running.
            self._busy = self._busy or deadlock_report.Busy(self)
            report = self._busy.see(strand.label)
            if report is not None:
                hint = (
                    "raise max_steps if so much has to happen, or let what ends it come earlier: a deadline_s"
                )
                self.end(Livelock(report, hint=hint))
        # The next step at which either is to be looked at.
        self._look_at = min(self._tidy_at, max(self.steps, self.max_steps) + 1)

    def end(self, error: BaseException) -> None:
        """Ends the run with `error`, whatever code is on the stack now."""
        # The first error is the outcome.
        if self._fatal is None:
            self._fatal = error

    @property
    def ending(self) -> bool:
        """Whether the run is about to end with an error."""
        return self._fatal is not None

    def _raise_fatal(self) -> NoReturn:
        error, self._fatal = self._fatal, None
        assert error is not None
        raise error

    # -- the end of a run --------------------------------------------------------------------------

    def living(self) -> list[SimTask]:
        """Returns the tasks that have not ended and whose hosts have not crashed, oldest first."""
        return [task for _, task in sorted(self.tasks.items()) if not (task.done() or task.dead)]

    def begin_clean_up(self, steps: int) -> None:
        """Goes on without choices, trace and fault, for at most `steps` more steps."""
        # ORDER: no choices from here on, so that what the clean-up does is no part of the plan.
        self.order.stop()
        self.trace = None
        self._fatal = None
        self._busy = None
        self._stopping = False
        stop = base_events._run_until_complete_cb  # type: ignore[attr-defined]
        for handle in self._ready:  # the end of the main task must not stop the loop a second time
            if handle._callback is stop:
                handle.cancel()
        self.max_steps = self.steps + steps
        self._look_at = self.steps + 1
        # The limit counts from here on: the run may have used up its own.
        self.max_seconds += self._now
        for life in self.lifetimes:
            self.unpark(life)

    def park(self, lifetime: Lifetime, callback: Callable[..., object], *args: Any) -> None:
        """Keeps a callback for when the paused host goes on, in the present strand."""
        strand = STRAND.get() or self.main_strand
        lifetime.parked.append(SimHandle(callback, args, self, copy_context(), strand))

    def unpark(self, lifetime: Lifetime) -> None:
        """Lets what a paused host has parked run, before all that got ready later."""
        lifetime.paused = False
        # Before what got ready later: it had its turn first.
        self._ready.extendleft(reversed(lifetime.parked))
        lifetime.parked.clear()

    def bury(self) -> None:
        """Ends what a crash left suspended.

        A crash runs no `finally`; these run now, after the run, and whatever they do or raise
        reaches nobody.
        """
        dead = [task for _, task in sorted(self.tasks.items()) if task.dead and not task.done()]
        if not dead:
            return
        # What the living left unheard is kept, what the dead leave is not.
        self._tidy_up()
        heard, made = len(self.complaints), self._made
        for task in dead:
            # A crash runs no `finally`; what these do now reaches nobody.
            _discard(task)
        # Their `finally` may have begun others, such as one that closes a session: they never run.
        for number, task in sorted(self.tasks.items()):
            if number > made:
                _discard(task)
        self._tidy_up()
        # ORDER: after the tidy, which may hear more of the dead.
        del self.complaints[heard:]

    def _tidy_up(self) -> None:
        if self.tidy is not None:
            self.tidy()

    def __reduce__(self) -> NoReturn:
        # A copy of a message would copy the whole run.
        message = "an event loop has no copy, nor has what leads to it: a host, a ref, a task"
        raise TypeError(message)

    # -- what stays outside ------------------------------------------------------------------------

    def refuse(self, what: str) -> NoReturn:
        """Refuses what would leave the simulation."""
        message = f"a simulated program cannot use the real world, got {what}"
        raise Escape(message, hint="talk to other hosts through the world: host.ref(...), or pass in a fake")

    def _process_events(self, event_list: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


def _discard(task: SimTask) -> None:
    """Ends a task that will never run again, and says nothing of it."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    with suppress(Exception):
        task.get_coro().close()


def _complain(loop: AbstractEventLoop, context: dict[str, Any]) -> None:
    """Keeps what asyncio would have logged, but for what tasks do after their host has crashed."""
    assert isinstance(loop, SimLoop)
    task = context.get("future")
    # What tasks do after their host has crashed nobody has to hear.
    if not getattr(task, "dead", False) or getattr(task, "failed_alive", False):
        loop.complaints.append(context)


def _refuse(name: str) -> Callable[..., Any]:
    def refuse(self: SimLoop, *_args: Any, **_kwargs: Any) -> NoReturn:
        self.refuse(f"loop.{name}()")

    async def refuse_later(self: SimLoop, *_args: Any, **_kwargs: Any) -> NoReturn:
        self.refuse(f"loop.{name}()")

    # Coroutine functions stay such: whoever awaits them gets the refusal, not a TypeError.
    waits = asyncio.iscoroutinefunction(getattr(AbstractEventLoop, name, None))
    chosen = refuse_later if waits else refuse
    chosen.__name__ = name
    return chosen


for _name in (
    "add_reader", "add_writer", "remove_reader", "remove_writer",
    "add_signal_handler", "remove_signal_handler",
    "sock_recv", "sock_recv_into", "sock_recvfrom", "sock_recvfrom_into", "sock_sendall", "sock_sendto",
    "sock_connect", "sock_accept", "sock_sendfile", "sendfile", "getaddrinfo", "getnameinfo",
    "create_connection", "create_server", "create_unix_connection", "create_unix_server",
    "create_datagram_endpoint", "connect_accepted_socket", "start_tls", "connect_read_pipe",
    "connect_write_pipe", "subprocess_exec", "subprocess_shell",
):  # fmt: skip
    setattr(SimLoop, _name, _refuse(_name))
