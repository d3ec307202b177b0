"""A simulated host: an actor system of its own, a clock that may be wrong, and lives that end.

A crash stops everything of the host at once: no `finally`, no `on_stop`, no answer. Its actors,
their mailboxes and all that was on its way to it are gone; `disk` alone is still there for the
next incarnation.
"""

from __future__ import annotations

import copy
import dataclasses
from asyncio import Future
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, NamedTuple

from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.actors.system import ActorSystem
from actorflow.clock import Entropy
from actorflow.errors import ActorDied, ActorError, ActorflowError, ConfigError, DeadlinePassed
from actorflow.setting import SETTING
from actorflow.sim.choice import Point
from actorflow.sim.harms import HARM_TICKS, HOST_HARMS, Tally
from actorflow.sim.lanes import Life
from actorflow.sim.loop import TICK_S, SimLoop
from actorflow.sim.network import Link
from actorflow.sim.seats import SimSetting
from actorflow.sim.straggler import Straggler

if TYPE_CHECKING:
    from actorflow.sim.worlds import World

Boot = Callable[["Host"], Awaitable[None] | None]
"""What a host does when it starts, and again whenever it starts after a crash."""


class SkewedClock:
    """A clock that is wrong by an offset and runs too fast or too slow."""

    def __init__(self, loop: SimLoop, tally: Tally) -> None:
        self.offset_s = 0.0
        self.rate = 1.0
        self._loop = loop
        self._tally = tally

    def now(self) -> float:
        """Returns the host's time."""
        if self.rate == 1.0 and not self.offset_s:
            return self._loop.time()
        self._tally.fired["skew"] += 1
        return self._loop.time() * self.rate + self.offset_s


class Envelope(NamedTuple):
    """What travels between hosts: a message for an actor, or the answer to one.

    Attributes:
        source: The host that sends.
        actor: The name of the actor, on the host that the link leads to.
        body: The message, the answer, or the error.
        ask: The number of the question, 0 for what is only told.
        kind: What body is.
    """

    source: str
    actor: str
    body: Any
    ask: int
    kind: str


_SAY, _ANSWER, _ERROR = "say", "answer", "error"


class Host:
    """One machine of a simulated world.

    Attributes:
        name: As in labels of plans.
        incarnation: How often it has started.
        disk: What survives a crash: put plain values there.
        system: Its actors.
        straggler: How its work is disturbed; None for not at all.
    """

    system: ActorSystem
    life: Life
    clock: SkewedClock

    def __init__(self, world: World, name: str, entropy: Entropy) -> None:
        self.name = name
        self.incarnation = 0
        self.disk: dict[str, Any] = {}
        self.straggler: Straggler | None = None
        self._world = world
        self._loop = world.loop
        self._entropy = entropy
        self._boot: Boot | None = None
        self._point: Point = world.loop.choices.point(f"host {name}", 0, HOST_HARMS)
        self._open: dict[int, Future[Any]] = {}
        self._running: dict[Future[Any], None] = {}
        self.clock = SkewedClock(world.loop, world.tally)

    @property
    def alive(self) -> bool:
        """Whether it runs: true also while it is paused."""
        return not self.life.dead

    # -- what programs use -------------------------------------------------------------------------

    def spawn(self, factory: Callable[..., Actor], *args: Any, name: str) -> Ref:
        """Starts an actor on this host; from other hosts it is `ref("<host>/<name>")`."""
        self._check_alive("spawns")
        return self._context.copy().run(self.system.spawn, factory, *args, name=name)

    def ref(self, address: str) -> RemoteRef:
        """Returns the address of an actor of any host, as seen from this one.

        Args:
            address: `<host>/<actor>`.
        """
        host, _, actor = address.partition("/")
        if not actor:
            message = f"an address reads 'host/actor', got {address!r}"
            raise ConfigError(message)
        return RemoteRef(self, self._world.host(host), actor)

    def run(self, coroutine: Coroutine[Any, Any, Any], *, name: str | None = None) -> Future[Any]:
        """Runs a coroutine on this host; the future has its result, or ActorDied when the host crashes."""
        self._check_alive("runs")
        outcome = self._loop.create_future()
        self._running[outcome] = None
        label = name or self._loop.task_name(coroutine)
        context = self._context.copy()
        task = self._loop.create_task(coroutine, name=f"{self.name}/{label}", context=context)

        def ended(_task: Any) -> None:
            self._running.pop(outcome, None)
            if outcome.done():
                task.cancelled() or task.exception()
            elif task.cancelled():
                outcome.cancel()
            elif (error := task.exception()) is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(task.result())

        task.add_done_callback(ended, context=context)
        outcome.add_done_callback(lambda o: task.cancel() if o.cancelled() and not task.done() else None)
        return outcome

    async def on_boot(self, boot: Boot) -> None:
        """Runs `boot(host)` now, and again whenever this host starts after a crash."""
        self._boot = boot
        await self._run_boot()

    async def work(self, seconds: float) -> None:
        """Takes as long as `seconds` of work take on this host, stalls included."""
        if self.straggler is not None:
            extra, stalled = self.straggler.extra_s(self._entropy)
            self._world.tally.fired["straggle"] += stalled
            seconds += extra
        done = self._loop.create_future()
        self._loop.call_later(max(0.0, seconds), _set, done)
        await done

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begins a new incarnation."""
        self.incarnation += 1
        self.life = Life()
        self._loop.lives.append(self.life)
        context = copy_context()
        self._context: Context = context
        context.run(self._enter)
        self.system = ActorSystem(name=self.name)
        await self._loop.create_task(_entered(self.system), name=f"{self.name}/start", context=context.copy())
        self._world.connect(self)
        await self._run_boot()

    async def close(self) -> None:
        """Stops this host in good order."""
        if self.life.paused:
            self.resume()
        await self._loop.create_task(
            _left(self.system), name=f"{self.name}/stop", context=self._context.copy()
        )

    def _enter(self) -> None:
        self._loop.enter_lane(self.name, self.life)
        prefix = f"{self.name}/"
        SETTING.set(SimSetting(self._loop, entropy=self._entropy, clock=self.clock, prefix=prefix))

    async def _run_boot(self) -> None:
        if self._boot is not None:
            started = self._context.copy().run(self._boot, self)
            if started is not None:
                await self.run(_awaited(started), name="boot")

    def crash(self) -> None:
        """Kills everything on this host, at once."""
        self._check_alive("crashes")
        self.life.dead = True
        self.life.parked.clear()
        died = ActorDied(f"host '{self.name}' crashed, incarnation {self.incarnation}")
        for outcome in self._running:
            if not outcome.done():
                outcome.set_exception(died)
                outcome.exception()  # who does not await it has lost nothing
        self._running = {}
        self._open = {}

    def pause(self) -> None:
        """Stops this host where it stands, as SIGSTOP does."""
        self._check_alive("pauses")
        self.life.paused = True

    def resume(self) -> None:
        """Lets a paused host go on: what got ready meanwhile runs, in order."""
        if self.life.parked:
            self._world.tally.fired["pause"] += 1
        self.life.paused = False
        self._loop._ready.extend(self.life.parked)
        self.life.parked.clear()

    def _check_alive(self, what: str) -> None:
        if not self.alive:
            message = f"a host {what} while it is alive, got '{self.name}', which has crashed"
            raise ActorError(message, hint="await world.restart(host) first")

    # -- post --------------------------------------------------------------------------------------

    def deliver(self, envelope: Envelope) -> None:
        """Takes in what arrives over a link."""
        value = self._loop.choices.choose(self._point)
        if value < 0:
            self._harm(HOST_HARMS[-1 - value])
        if self.life.dead:
            return
        if self.life.paused:
            self._loop.call_soon(self.deliver_now, envelope)
            return
        self.deliver_now(envelope)

    def deliver_now(self, envelope: Envelope) -> None:
        """Hands an envelope to whom it is for."""
        if envelope.kind is _SAY:
            self._receive(envelope)
            return
        future = self._open.get(envelope.ask)
        if future is None or future.done():
            return  # its asker waits no more
        if envelope.kind is _ANSWER:
            future.set_result(envelope.body)
        else:
            future.set_exception(envelope.body)

    def _receive(self, envelope: Envelope) -> None:
        cell = self.system.actors.get(envelope.actor)
        source, ask = envelope.source, envelope.ask
        if not ask:
            if cell is not None:
                cell.put(envelope.body, self.system.nobody)
            return
        if cell is None:
            here = ", ".join(sorted(self.system.actors)) or "none"
            error = ActorDied(f"host '{self.name}' has no actor '{envelope.actor}'; it has {here}")
            self._reply(source, envelope.actor, ask, error, _ERROR)
            return
        cell.inquire(envelope.body, self.system.deadline_s, _Reply(self, envelope))

    def _reply(self, target: str, actor: str, ask: int, body: Any, kind: str) -> None:
        self.link(target).send(Envelope(self.name, actor, sent(body), ask, kind))

    def link(self, target: str) -> Link:
        """Returns the link from here to another host, or to this one."""
        return self._world.link(self.name, target)

    def _harm(self, harm: str) -> None:
        tally = self._world.tally
        tally.requested[harm] += 1
        tally.fired[harm] += 1
        if harm == "crash":
            self.crash()
            self._world.restart_later(self, HARM_TICKS * TICK_S)
        else:
            self.pause()
            self._world.resume_later(self, HARM_TICKS * TICK_S)

    def __repr__(self) -> str:
        state = "crashed" if self.life.dead else "paused" if self.life.paused else "running"
        return f"<Host '{self.name}' {state}, incarnation {self.incarnation}>"


class _Reply:
    """Sends an answer back to where the question came from."""

    __slots__ = ("_envelope", "_host", "_over")

    def __init__(self, host: Host, envelope: Envelope) -> None:
        self._host = host
        self._envelope = envelope
        self._over = False

    def done(self) -> bool:
        """Tells whether it has been sent."""
        return self._over

    def set_result(self, result: Any, /) -> None:
        """Sends the answer."""
        self._send(result, _ANSWER)

    def set_exception(self, exception: BaseException, /) -> None:
        """Sends the error."""
        self._send(exception, _ERROR)

    def result(self) -> Any:
        """Nothing is kept here."""

    def exception(self) -> None:
        """Nothing is kept here."""

    def cancel(self) -> None:
        """Sends nothing."""
        self._over = True

    def cancelled(self) -> bool:
        """Nobody on this host waits."""
        return False

    def _send(self, body: Any, kind: str) -> None:
        self._over = True
        envelope = self._envelope
        self._host._reply(envelope.source, envelope.actor, envelope.ask, body, kind)


class RemoteRef:
    """The address of an actor, as seen from one host. Messages travel over the link, as copies.

    Delivery: at most once a send, in order while nothing reorders the link; nobody hears of a loss.
    """

    __slots__ = ("_actor", "_host", "_link", "_target", "name")

    def __init__(self, host: Host, target: Host, actor: str) -> None:
        self.name = f"{target.name}/{actor}"
        self._host = host
        self._target = target
        self._actor = actor
        self._link = host.link(target.name)

    def tell(self, message: Any) -> None:
        """Sends `message`; never waits."""
        self._link.send(Envelope(self._host.name, self._actor, sent(message), 0, _SAY))

    async def ask(self, message: Any, deadline_s: float | None = None) -> Any:
        """Sends `message` and returns the answer.

        Raises:
            DeadlinePassed: no answer in time; whether the message was handled is unknown.
            ActorflowError: what the actor's handler raised.
        """
        host = self._host
        loop = host._loop
        limit_s = host.system.deadline_s if deadline_s is None else deadline_s
        number = host._world.next_number()
        future = loop.create_future()
        host._open[number] = future
        timer = loop.call_later(limit_s, self._late, future, message, limit_s)
        self._link.send(Envelope(host.name, self._actor, sent(message), number, _SAY))
        try:
            return await future
        finally:
            timer.cancel()
            host._open.pop(number, None)

    def _late(self, future: Future[Any], message: Any, limit_s: float) -> None:
        if not future.done():
            what = f"'{self.name}' did not answer {type(message).__name__} within {limit_s:g} s"
            future.set_exception(DeadlinePassed(what))

    def __repr__(self) -> str:
        return f"<RemoteRef '{self.name}' from '{self._host.name}'>"


_PLAIN = frozenset((int, float, str, bytes, bool, type(None), complex))


def sent(message: Any) -> Any:
    """Returns `message` as the other side gets it: a copy, unless it is of plain values throughout."""
    kind = type(message)
    if kind in _PLAIN:
        return message
    if kind is tuple:
        for item in message:
            if type(item) not in _PLAIN:
                return copy.deepcopy(message)
        return message
    if isinstance(message, ActorflowError):
        return message
    parts = _FROZEN.get(kind) if kind in _FROZEN else _frozen_parts(kind)
    if parts is not None and all(type(getattr(message, part)) in _PLAIN for part in parts):
        return message
    return copy.deepcopy(message)


_FROZEN: dict[type, tuple[str, ...] | None] = {}
"""The fields of frozen dataclasses; None for other types."""


def _frozen_parts(kind: Any) -> tuple[str, ...] | None:
    parameters = getattr(kind, "__dataclass_params__", None)
    frozen = parameters is not None and parameters.frozen
    parts = _FROZEN[kind] = tuple(f.name for f in dataclasses.fields(kind)) if frozen else None
    return parts


def _set(future: Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _entered(system: ActorSystem) -> None:
    await system.__aenter__()


async def _left(system: ActorSystem) -> None:
    await system.__aexit__(None, None, None)


async def _awaited(something: Awaitable[None]) -> None:
    await something
