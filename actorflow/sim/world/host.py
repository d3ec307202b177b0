"""A simulated host: an actor system of its own, a clock that may be wrong, and lives that end.

A crash stops everything of the host at once: no `finally`, no `on_stop`, no answer. `disk` alone is still
there for the next incarnation. What it had sent before still arrives.
"""

from __future__ import annotations

import math
from asyncio import CancelledError, Future, gather, iscoroutine
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any

from actorflow.actors.actor import Actor
from actorflow.actors.address import waiter_here
from actorflow.actors.deadline import rest_of
from actorflow.actors.ref import Ref
from actorflow.actors.system import ActorSystem
from actorflow.actors.task_carrier import HANDLING
from actorflow.actors.tombstones import absent
from actorflow.errors import ActorDied, ActorError, ConfigError, DeadlinePassed
from actorflow.runtime.clock import Entropy
from actorflow.runtime.environment import ENVIRONMENT
from actorflow.sim.engine.choice import HOST_FAULTS, ChoicePoint
from actorflow.sim.engine.event_loop import TICK_S
from actorflow.sim.engine.faults import FAULT_TICKS
from actorflow.sim.engine.simulated_environment import SimulatedEnvironment
from actorflow.sim.engine.strands import STRAND, Lifetime
from actorflow.sim.engine.tasks import SimTask
from actorflow.sim.history.operation import shorten_value
from actorflow.sim.world.in_flight_messages import Disk, copy_message
from actorflow.sim.world.network import ANSWER, CANCEL, ERROR, SAY, WIRE, Envelope, HostLink
from actorflow.sim.world.skew import SkewedClock
from actorflow.sim.world.straggler import Straggler

if TYPE_CHECKING:
    from actorflow.actors.ask import Ask
    from actorflow.actors.cell import Cell
    from actorflow.sim.world.world import World

Boot = Callable[["Host"], object]
"""What a host does when it starts, and again whenever it starts after a crash."""


class Host:
    """One machine of a simulated world.

    Attributes:
        name: As in labels of plans.
        incarnation: How often it has started.
        disk: What survives a crash, as copies of what is put there.
        system: Its actors.
        clock: Its time; see `World.skew`.
        straggler: How its work is disturbed; None for not at all.
        wires: Who takes the datagrams that come from a host, in this incarnation; see `sim.world.links`.
    """

    system: ActorSystem
    lifetime: Lifetime

    def __init__(self, world: World, name: str, entropy: Entropy) -> None:
        self.name = name
        self.incarnation = 0
        self.disk = Disk()
        self.clock = SkewedClock(world.loop, world.fault_counts)
        self.straggler: Straggler | None = None
        self.loop = world.loop
        self.asked: dict[int, Ask] = {}
        self.questions: dict[int, Future[Any]] = {}
        self.sought: dict[int, HostRef] = {}  # whom the questions of this host are asked
        self.wires: dict[str, Callable[[Any], object]] = {}
        self.next_number = world.next_number
        self._world = world
        self._entropy = entropy
        self._boot: Boot | None = None
        self._choose = world.loop.choices.choose
        self._point: ChoicePoint = world.loop.choices.point(f"host {name}", 0, HOST_FAULTS)
        self._running: dict[Future[Any], SimTask] = {}
        self._entered, self._paused_until = False, 0.0

    @property
    def alive(self) -> bool:
        """Whether it runs: true also while it is paused."""
        return not self.lifetime.dead

    # -- what programs use -------------------------------------------------------------------------

    def spawn(self, factory: Callable[..., Actor], *args: Any, name: str) -> Ref:
        """Starts an actor on this host; from other hosts it is `ref("<host>/<name>")`."""
        self._check_alive("spawns")
        # A copy: what the factory sets must not stay in the host's context.
        return self._context.copy().run(self.system.spawn, factory, *args, name=name)

    def actor_elsewhere(self, address: str) -> Cell | None:
        """Returns the actor at `<host>/<actor>`, if that host runs and has it now."""
        name, _, actor = address.partition("/")
        host = next((host for host in self._world.hosts if host.name == name), None)
        # Only a host that runs has actors: an address alone says nothing of that.
        return host.system.actors.get(actor) if host is not None and host.alive else None

    def ref(self, address: str) -> HostRef:
        """Returns the address of an actor of any host, as seen from this one.

        Args:
            address: `<host>/<actor>`.
        """
        name, _, actor = address.partition("/")
        if not actor:
            message = f"an address reads 'host/actor', got {address!r}"
            raise ConfigError(message)
        return HostRef(self, self._world.link(self.name, name), name, actor)

    def run(self, coroutine: Coroutine[Any, Any, Any], *, name: str | None = None) -> Future[Any]:
        """Runs a coroutine on this host; the future has its result, or ActorDied when the host crashes.

        Whoever cancels the future cancels the coroutine.

        Raises:
            ConfigError: it is no coroutine, such as the function that makes it.
        """
        given: object = coroutine
        if not iscoroutine(given):
            message = f"host.run takes a coroutine, got {shorten_value(given)}"
            called = f"call it: host.run({getattr(given, '__name__', 'f')}(...))"
            raise ConfigError(message, hint=called if callable(given) else "host.run(ref.ask(...))")
        # Closed first, or Python would complain that nobody has awaited it.
        if not self.alive:
            coroutine.close()
        self._check_alive("runs")
        outcome = self.loop.create_future()
        label = name or self.loop.task_name(coroutine)
        # The coroutine is code of this host: it shares its clock, its chance and its fate.
        context = self._context.copy()
        task = self.loop.create_task(coroutine, name=f"{self.name}/{label}", context=context)
        self._running[outcome] = task

        def ended(_task: Any) -> None:
            # ORDER: off the list first: a crash must not tell an outcome that is there.
            self._running.pop(outcome, None)
            if task.cancelled():
                outcome.cancel()
                return
            error = task.exception()
            if outcome.done():  # it was cancelled, and the coroutine has ended otherwise
                if error is not None:
                    told = {"message": f"'{label}' on '{self.name}' raised when it was cancelled"}
                    self.loop.call_exception_handler({**told, "exception": error})
                return
            if error is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(task.result())

        task.add_done_callback(ended, context=context)
        # Both ways: whoever gives up waiting gives up the work.
        outcome.add_done_callback(lambda _outcome: task.cancel() if outcome.cancelled() else None)
        return outcome

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls a plain function as code of this host, and returns what it returns."""
        self._check_alive("calls")
        return self._context.copy().run(function, *args)

    def timers(self, label: str) -> Context:
        """Returns a context in which timers of this incarnation run, as a strand of that name."""
        context = self._context.copy()
        context.run(self.loop.enter_strand, label, self.lifetime)
        return context

    async def on_boot(self, boot: Boot | None) -> None:
        """Runs `boot(host)` now, and again whenever this host starts after a crash; None for nothing more.

        Returns once it has run, or the host has crashed over it: then the next start runs it.
        """
        self._boot = boot
        if self.alive:
            # A host that is down runs it when it starts again.
            await self._after_boot(self.lifetime)

    async def work(self, seconds: float) -> None:
        """Takes as long as `seconds` of work take on this host, stalls included."""
        if self.straggler is not None:
            extra_s, stalled = self.straggler.extra_s(self._entropy)
            # Counts as a fault only where it stalled: work that merely jitters is no harm.
            self._world.fault_counts.fired["straggle"] += stalled
            seconds += extra_s
        # The body of the distribution may be below 0.
        await self._world.sleep(max(0.0, seconds))

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begins a new incarnation; returns once it has booted, or has crashed before that."""
        self.incarnation += 1
        self.lifetime = life = Lifetime()
        self.loop.lifetimes.append(life)
        self._paused_until = 0.0
        self._entered = False
        self.wires = {}
        # Of code outside all hosts: nothing of an earlier incarnation is left in it.
        self._context: Context = self._world.context.copy()
        self._context.run(self._enter)
        self.system = ActorSystem(name=self.name)
        try:
            await self.run(self._enter_system(), name="start")
        # It crashed over its own start: that is how this start has ended.
        except ActorDied:
            if life.dead:
                return
            raise
        # ORDER: only now do messages reach it: before, there was no actor that could take one.
        self._world.connect(self)
        await self._after_boot(life)

    def _enter(self) -> None:
        self.loop.enter_strand(self.name, self.lifetime)
        prefix = f"{self.name}/"
        ENVIRONMENT.set(
            SimulatedEnvironment(self.loop, entropy=self._entropy, clock=self.clock, prefix=prefix)
        )

    async def _enter_system(self) -> None:
        await self.system.__aenter__()
        self._entered = True

    async def _after_boot(self, lifetime: Lifetime) -> None:
        if self._boot is None:
            return
        started = self._context.copy().run(self._boot, self)
        if not isinstance(started, Awaitable):  # a lambda may return the ref of what it spawned
            return
        try:
            await self.run(_awaited(started), name="boot")
        except ActorDied:
            # A crash over its boot is none of the caller's.
            if not lifetime.dead:
                raise

    async def close(self) -> None:
        """Stops this host in good order: its programs, which are cancelled, then its actors."""
        # A host that stands still could not stop.
        if self.lifetime.paused:
            self.resume()
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await gather(*running, return_exceptions=True)  # whoever awaits the programs hears
        # It may have crashed while its programs ended.
        if self._entered and self.alive:
            leaving = self.system.__aexit__(None, None, None)
            await self.loop.create_task(leaving, name=f"{self.name}/stop", context=self._context.copy())

    def crash(self) -> None:
        """Kills everything on this host, at once."""
        self._check_alive("crashes")
        # Their system is never left, so nobody else would raise them.
        self._world.unheard += self.system.unheard()
        self._count_pause()
        # ORDER: dead before anything is told: nothing of it runs from here on.
        self.lifetime.dead = True
        self.lifetime.paused = False
        self.lifetime.parked.clear()
        # Also systems that its programs have made for themselves.
        for system in self.loop.systems:
            lane = system.dispatch.context.get(STRAND)
            if lane is not None and lane.lifetime is self.lifetime:
                for cell in system.actors.values():
                    cell.data.clear()  # the turn in which the crash came takes no further message
        running, self._running = self._running, {}
        # ORDER: before its questions are forgotten.
        self._tell_asked()
        self.asked = {}
        self.questions = {}
        for outcome in running:
            if not outcome.done():
                outcome.set_exception(
                    ActorDied(f"host '{self.name}' crashed, incarnation {self.incarnation}")
                )
                outcome.exception()  # who does not await it has lost nothing

    def _tell_asked(self) -> None:
        """Has others hear that this host waits for no answer any more, as they do when a connection breaks.

        Only those hear to whom it makes a difference. The news travels behind what was sent before.
        """
        sought, self.sought = self.sought, {}
        for ask, ref in sought.items():
            # Over the link, behind what was sent before.
            ref.call_off(ask)

    def pause(self, seconds: float = math.inf) -> None:
        """Stops this host where it stands, as SIGSTOP does; the longer of two pauses holds."""
        self._check_alive("pauses")
        self.lifetime.paused = True
        until = self.loop.time() + seconds
        self._paused_until = max(self._paused_until, until)
        if until < math.inf:
            self.loop.at(until, self._end_pause, self.lifetime, context=self._world.context)

    def _end_pause(self, lifetime: Lifetime) -> None:
        if lifetime is self.lifetime and self.loop.time() >= self._paused_until:
            self.resume()

    def resume(self) -> None:
        """Lets a paused host go on: what got ready meanwhile runs, in order."""
        self._count_pause()
        self._paused_until = 0.0
        self.loop.unpark(self.lifetime)

    def _count_pause(self) -> None:
        # A pause that kept nothing from running harmed nothing.
        self._world.fault_counts.fired["pause"] += bool(self.lifetime.parked)

    def _check_alive(self, what: str) -> None:
        if not self.alive:
            message = f"a host {what} while it is alive, got '{self.name}', which has crashed"
            raise ActorError(message, hint="await world.restart(host) first")

    # -- post --------------------------------------------------------------------------------------

    def deliver(self, envelope: Envelope) -> None:
        """Takes in what arrives over a link, unless that harms this host."""
        # Faults of a host happen when something reaches it: before, nobody could tell.
        value = self._choose(self._point)
        if value < 0:
            self._fault(HOST_FAULTS[-1 - value], envelope)
        else:
            self._take(envelope)

    def _fault(self, fault: str, envelope: Envelope) -> None:
        if fault == "crash":
            self._world.fault_counts.fired["crash"] += 1
            self.crash()
            self._world.restart_later(self, FAULT_TICKS * TICK_S)
        else:
            self.pause(FAULT_TICKS * TICK_S)
            self.loop.park(self.lifetime, self._take, envelope)  # ORDER: it was here first

    def _take(self, envelope: Envelope) -> None:
        """Hands an envelope to whom it is for."""
        if envelope.kind is SAY:
            self._receive(envelope)
            return
        if envelope.kind is CANCEL:
            unwanted = self.asked.get(envelope.ask)
            if unwanted is not None:
                unwanted.cancel()
            return
        if envelope.kind is WIRE:
            receive = self.wires.get(envelope.source)
            if receive is not None:  # as datagrams to a port that nobody has opened yet
                receive(envelope.body)
            return
        question = self.questions.get(envelope.ask)
        if question is None or question.done():
            return  # its asker waits no more
        if envelope.kind is ANSWER:
            question.set_result(envelope.body)
        else:
            question.set_exception(envelope.body)

    def _receive(self, envelope: Envelope) -> None:
        actor = envelope.actor
        cell = self.system.actors.get(actor)
        if not envelope.ask:
            # A tell to nobody is lost: at most once, and nobody hears of it.
            if cell is not None:
                cell.put(envelope.body, self.system.nobody)
        elif cell is not None:
            answer = _Answer(self, envelope)
            question = cell.inquire(envelope.body, envelope.limit_s, answer)
            # It may have been answered, or refused, within this call.
            if not answer.done():
                self.asked[envelope.ask] = question
        else:
            self.answer(envelope, self._unknown(actor, type(envelope.body).__name__), ERROR)

    def _unknown(self, actor: str, kind: str) -> ActorDied:
        system, now = self.system, self.system.now()
        stone = system.tombstones.find(actor)
        if stone is not None:
            return stone.ask_error(actor, kind, now)
        return ActorDied(absent(f"host '{self.name}'", actor, system.actors, system.tombstones, now))

    def answer(self, question: Envelope, body: Any, kind: str) -> None:
        """Sends an answer, or an error, to the host that asked."""
        if self.lifetime.dead:
            return  # the handler in which it crashed has returned
        try:
            # Copied when it leaves: what the host does to it afterwards the other must not see.
            body = copy_message(body)
        except ConfigError as error:
            # What has no copy cannot travel: whoever asked hears why.
            body, kind = error, ERROR
        link = self._world.link(self.name, question.source)
        link.send(Envelope(self.name, question.actor, body, question.ask, kind, 0.0))

    def __repr__(self) -> str:
        state = "crashed" if self.lifetime.dead else "paused" if self.lifetime.paused else "running"
        return f"<Host '{self.name}' {state}, incarnation {self.incarnation}>"


class _Answer:
    """What a question from another host ends with: it leaves at once, and nobody here waits for it.

    An `actors.ask.ReplySink`; a future would cost a step of the loop and an object more.
    """

    __slots__ = ("_host", "_over", "_question", "_since_s")

    def __init__(self, host: Host, question: Envelope) -> None:
        self._host = host
        self._over = False
        self._question = question
        self._since_s = host.loop.time()

    def done(self) -> bool:
        """Tells whether it has left."""
        return self._over

    def set_result(self, result: Any, /) -> None:
        """Sends the answer."""
        self._end()
        self._host.answer(self._question, result, ANSWER)

    def set_exception(self, error: BaseException, /) -> None:
        """Sends the error, unless it is that time is up: the asker knows that by its own clock."""
        self._end()
        # By the clock of this host, as the deadline was.
        waited_s = (self._host.loop.time() - self._since_s) * self._host.clock.rate
        if not (isinstance(error, DeadlinePassed) and waited_s >= self._question.limit_s):
            self._host.answer(self._question, error, ERROR)

    def cancel(self) -> None:
        """Sends nothing."""
        self._end()

    def cancelled(self) -> bool:
        """Nobody here waits."""
        return False

    def result(self) -> None:
        """Nothing is kept here."""

    def exception(self) -> None:
        """Nothing is kept here."""

    def _end(self) -> None:
        self._over = True
        self._host.asked.pop(self._question.ask, None)


class HostRef:
    """The address of an actor, as seen from one host. Messages travel over the link, as copies.

    Delivery: at most once a send, in order while nothing reorders the link; nobody hears of a loss.
    """

    __slots__ = ("_actor", "_host", "_link", "name")

    def __init__(self, host: Host, link: HostLink, target: str, actor: str) -> None:
        self.name = f"{target}/{actor}"
        self._host = host
        self._actor = actor
        self._link = link

    def tell(self, message: Any) -> None:
        """Sends `message`; never waits."""
        host = self._host
        # The code of a crashed host goes on until its turn ends; it must reach nobody.
        if host.lifetime.dead:
            self._refuse()
            return
        self._link.send(Envelope(host.name, self._actor, copy_message(message), 0, SAY, 0.0))

    async def ask(self, message: Any, deadline_s: float | None = None) -> Any:
        """Sends `message` and returns the answer; the deadline is by the clock of the asking host.

        Raises:
            DeadlinePassed: no answer in time; whether the message was handled is unknown.
            ActorError: what the actor's handler raised is the cause.
            ActorflowError: one that the handler raised comes as itself.
        """
        __tracebackhide__ = True
        host = self._host
        loop = host.loop
        future = loop.create_future()
        if host.lifetime.dead:
            self._refuse()
            # Never answered: the code that asks is dead with its host.
            return await future
        # What a handler asks is of use for no longer than its own asker waits.
        if deadline_s is None and waiter_here() is not None:
            deadline_s = rest_of(HANDLING.get())
        limit_s = host.system.deadline_s if deadline_s is None else deadline_s
        # ORDER: copied before anything is noted: a message that has no copy was never sent.
        body = copy_message(message)
        ask = host.next_number()
        host.questions[ask] = future
        host.sought[ask] = self
        # Timers of the loop are true: a clock that goes too fast reaches the deadline sooner.
        timer = loop.at(loop.time() + limit_s / host.clock.rate, self._late, future, message, limit_s)
        self._link.send(Envelope(host.name, self._actor, body, ask, SAY, limit_s))
        try:
            return await future
        except CancelledError:
            # A crash tells others by itself: see `Host._tell_asked`.
            if not host.lifetime.dead:
                self._link.send(Envelope(host.name, self._actor, None, ask, CANCEL, 0.0))
            raise
        finally:
            timer.cancel()
            host.questions.pop(ask, None)
            host.sought.pop(ask, None)
            del body, future, timer  # an error knows this frame, which would keep it

    def call_off(self, ask: int) -> None:
        """Says that nobody waits for the answer to a question, if its actor wants to know."""
        cell = self._host.actor_elsewhere(self.name)
        # Only to whom it makes a difference: other handlers go on anyway.
        if cell is not None and cell.cancellable:
            self._link.send(Envelope(self._host.name, self._actor, None, ask, CANCEL, 0.0))

    def _late(self, future: Future[Any], message: Any, limit_s: float) -> None:
        if not future.done():
            what = f"'{self.name}' did not answer {type(message).__name__} within {limit_s:g} s"
            future.set_exception(DeadlinePassed(what))

    def _refuse(self) -> None:
        """Raises ActorError, unless it is the crashed host's own code that speaks: that is not heard."""
        lane = STRAND.get()
        if lane is None or lane.lifetime is not self._host.lifetime:
            message = f"a host speaks while it is alive, got '{self._host.name}', which has crashed"
            raise ActorError(message, hint="await world.restart(host) first")

    def __repr__(self) -> str:
        return f"<HostRef '{self.name}' from '{self._host.name}'>"


async def _awaited(something: Awaitable[None]) -> None:
    await something
