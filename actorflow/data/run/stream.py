"""One run of a pipeline: its actors, the elements that come out, and what it says of itself."""

from __future__ import annotations

import logging
from asyncio import Future
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from actorflow.actors.ref import Ref
from actorflow.actors.system import ActorSystem
from actorflow.data.run.buffer import END, BufferActor, Onward, StreamLeft, TakeElements
from actorflow.data.run.map_reader import MapReader
from actorflow.data.run.pipeline_plan import Part, Stage, parts, seed_of
from actorflow.data.run.pipeline_worker import PipelineWorker, StartWorker
from actorflow.data.run.position import Position
from actorflow.data.run.reader import BufferReader, SourceReader, StageReader
from actorflow.data.run.seek import ResumePoint, seek
from actorflow.data.sources.protocol import Source
from actorflow.data.stages.chain import Chain
from actorflow.data.stages.stage import CallSite
from actorflow.data.stages.stats import MemoryAccount, StageMeter, Stats, stats_of
from actorflow.data.values.chunk import nbytes
from actorflow.data.workers.mapper import Mapper, ThreadMapper
from actorflow.data.workers.process_pool import ProcessMapper
from actorflow.kernels.device.threads import Threads
from actorflow.runtime import environment, input_waits
from actorflow.runtime.environment import ENVIRONMENT
from actorflow.runtime.input_waits import InputEntry

log = logging.getLogger("actorflow.data")


class Stream:
    """The elements of a running pipeline: `async with` it, and `async for` over it.

    Leaving ends everything, whatever waits, and leaves no task, thread, process or open reader. An
    element is handed out once; a wait for it that is cancelled loses nothing, the next one gets it.

    When a reader of the source cannot be closed, leaving raises an InputError that says so; if another
    error leaves, it is logged.
    """

    def __init__(
        self,
        source: Source,
        call_site: CallSite,
        stages: Sequence[Stage],
        position: Mapping[str, Any] | None,
        describe: Callable[[], str] = lambda: "a pipeline",
    ) -> None:
        self._describe = describe
        self._since = 0.0  # since when those wait who do
        self._source = source
        self._call_site = call_site
        self._stages = tuple(stages)
        self._position = Position.of(source, stages, position)
        self._system: ActorSystem | None = None
        self._ready: deque[Any] = deque()
        self._wish = False
        self._waiters: list[Future[None]] = []
        self._left = self._over = False
        self._error: BaseException | None = None
        self._unclosed: list[BaseException] = []
        self._given = 0
        self._waited_s = self._opened_s = self._closed_s = 0.0
        self._memory = MemoryAccount()
        self._meters: list[StageMeter] = []

    # -- life --------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._system is not None:
            self._system.check_here()
            message = "this stream was entered before"
            raise StreamLeft(message, hint="open the pipeline again")
        # ORDER: before anything is made: stages that draw need it.
        self._position.settle(self._stages, environment.entropy())
        system = ActorSystem(name="input")
        await system.__aenter__()
        self._system = system
        input_waits.register(self, system.loop)
        try:
            await self._start(system)
        except BaseException as error:
            # Whatever could be started is stopped.
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        system = self._system
        # Leaving twice is harmless: `_start` may have failed and left.
        if system is None or self._left:
            return
        system.check_here()
        self._left = True
        input_waits.unregister(self)
        self._closed_s = system.now()
        try:
            await system.__aexit__(None, None, None)
        finally:
            self._ready.clear()
            # Whoever waits finds that it was left.
            self._wake()
            self._memory.hold(self, 0)
            unclosed, self._unclosed = self._unclosed, []
            if unclosed and error is not None:  # which leaves
                log.error("%s", unclosed[0], exc_info=unclosed[0])
        if unclosed and error is None:
            raise unclosed[0]

    async def _start(self, system: ActorSystem) -> None:
        stages, seed = self._stages, self._position.seed
        operators = [
            None if s.operator is None else s.operator(s.call_site, seed_of(seed, k))
            for k, s in enumerate(stages)
        ]
        source_meter = StageMeter(self._call_site.label)
        meters = [StageMeter(s.call_site.label) for s in stages]
        self._opened_s = system.now()
        start = ResumePoint()
        # Back to where the position is, with a reader of its own for each epoch that is needed.
        if self._position.taken:
            start = await seek(
                lambda epoch, ordinal: self._reading(system, StageMeter(""), ResumePoint(epoch, ordinal)),
                self._source.size,
                stages,
                operators,
                self._position.taken,
            )
        # Each part is an actor behind the buffer of the one before.
        cut = parts(stages)
        self._meters = [source_meter, *meters]
        inlet_of: Any = None
        buffer: Ref | None = None
        for i, part in enumerate(cut):
            own = [(k, operator) for k, _ in part.stages if (operator := operators[k]) is not None]
            chain = Chain([o for _, o in own], [meters[k] for k, _ in own], system.now)
            last_meter = meters[own[-1][0]] if own else source_meter
            if part.map_stage is not None and not own:
                last_meter = meters[part.map_stage[0]]
            first_meter = source_meter if i == 0 else (meters[own[0][0]] if own else last_meter)
            if part.map_stage is not None:
                first_meter = meters[part.map_stage[0]]
            last_meter.room, last_meter.room_bytes = part.room, part.max_bytes
            before = None if buffer is None else (buffer, cut[i - 1].most)
            # Only the first part reads the source.
            inlet_of = self._reader(part, before, start if i == 0 else ResumePoint(), source_meter, meters)
            buffer = system.spawn(
                BufferActor,
                f"input/{i}",
                part.room,
                last_meter,
                self._memory,
                part.max_bytes,
                None if part.limit is None else part.limit.call_site,
                name=f"buffer-{i}",
            )
            # What is given first comes out of the last stage.
            left = start.left if i == len(cut) - 1 else ()
            segment = system.spawn(
                PipelineWorker,
                inlet_of,
                chain,
                left,
                buffer,
                (first_meter, last_meter),
                self._memory,
                None if part.gathers else part.max_bytes,  # batches are put one by one
                name=f"segment-{i}",
            )
            await segment.tell(StartWorker())
        assert buffer is not None
        self._buffer = buffer
        # So many at once only where the buffer holds as many: else a take would wait for what cannot be
        # there.
        self._most = cut[-1].most if cut[-1].room >= cut[-1].most else 1

    def _reader(
        self,
        part: Part,
        before: tuple[Ref, int] | None,
        start: ResumePoint,
        source_meter: StageMeter,
        meters: Sequence[StageMeter],
    ) -> Any:
        """Returns what makes the reader of a part, in the actor that will own it."""
        seed = self._position.seed

        def make(system: ActorSystem) -> StageReader:
            inlet: StageReader
            if before is not None:
                buffer, most = before
                inlet = BufferReader(buffer, system.loop, most)
            else:
                inlet = self._reading(system, source_meter, start)
            if part.map_stage is None:
                return inlet
            k, stage = part.map_stage
            assert stage.workers is not None
            mapper = _mapper(system, stage, seed_of(seed, k))
            meters[k].width = mapper.width
            return MapReader(
                inlet,
                mapper,
                stage.call_site,
                ordered=stage.workers.ordered,
                meter=meters[k],
                now=system.now,
                loop=system.loop,
                max_bytes=stage.max_bytes,
                draws=stage.workers.random,
                keeps=isinstance(mapper, ProcessMapper) and not part.stacks,
            )

        return make

    def _reading(self, system: ActorSystem, meter: StageMeter, start: ResumePoint) -> StageReader:
        """Returns a reader of the source."""
        return SourceReader(
            self._source,
            self._call_site,
            system.loop,
            lambda: _workers(system, "input", 1),
            meter,
            system.now,
            start=start.ordinal,
            epoch=start.epoch,
            over=start.over,
            unclosed=self._unclosed.append,
        )

    # -- elements ----------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """Returns the next element.

        Raises:
            InputError: an element could not be read or made; every later call raises it again.
            StreamLeft: the stream is not open.
        """
        if self._system is not None:
            self._system.check_here()
        if not self._ready:
            await self._more()
        self._given += 1
        return self._ready.popleft()

    def waiting_for(self) -> InputEntry | None:
        """Returns for which element somebody waits; None where nobody does."""
        # Somebody waits whose wait was not cancelled.
        if self._system is None or not any(not waiter.done() for waiter in self._waiters):
            return None
        number = self._position.taken + self._given
        return InputEntry(f"batch {number} of {self._describe()}", self._system.now() - self._since)

    async def _more(self) -> None:
        """Waits until there is an element."""
        system = self._system
        if system is None:
            message = "a stream gives elements only inside `async with`"
            raise StreamLeft(message, hint="async with pipeline.open() as stream: ...")
        start = system.now()
        if not self._waiters:
            self._since = start
        try:
            while not self._ready:
                if self._error is not None:
                    # Again at every later call.
                    raise self._error
                if self._over:
                    raise StopAsyncIteration
                if self._left:
                    message = "the stream was left"
                    raise StreamLeft(message)
                # One take is open, however many wait: elements come in order, to whoever is first.
                if not self._wish:
                    self._wish = True
                    self._buffer.try_tell(TakeElements(self._most, self._came))
                # A wait that is cancelled loses nothing: what comes lies in `_ready`.
                waiter: Future[None] = system.loop.create_future()
                self._waiters.append(waiter)
                await waiter
        finally:
            self._waited_s += system.now() - start

    def _came(self, pairs: list[Any], error: BaseException | None) -> bool:
        """The next elements are there; whoever waits for them, or asks next, gets them."""
        self._wish = False
        if error is not None:
            self._error = error
        else:
            if pairs[-1][0] is END:
                pairs.pop()
                self._over = True
                # The stream is the consumer that says whether another epoch is wanted: its own end is the
                # end.
                self._buffer.try_tell(Onward(False))
            values = [value for value, _ in pairs]
            self._ready.extend(values)
            self._memory.hold(self, nbytes(values))
        self._wake()
        return True

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- what it says of itself --------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether it was entered and is not left yet."""
        return self._system is not None and not self._left

    def position(self) -> dict[str, Any]:
        """Returns where it is: plain data, from which `Pipeline.open` goes on after the last element given.

        Raises:
            InputError: elements come in no fixed order, since a map has ordered=False; or the source gives
                its elements once, as a queue does.
        """
        self._position.settle(self._stages, environment.entropy())  # it is known before the stream is entered
        return self._position.after(self._given)

    def stats(self) -> Stats:
        """Returns what every stage has done so far, and which limits the rate."""
        system = self._system
        # Its time stands still when it was left.
        now = 0.0 if system is None else self._closed_s if self._left else system.now()
        seconds = now - self._opened_s
        return Stats(
            stages=tuple(stats_of(meter, seconds) for meter in self._meters),
            seconds=seconds,
            elements=self._given,
            waiting=self._waited_s / seconds if seconds > 0 else 0.0,
            bytes=self._memory.now,
            peak_bytes=self._memory.peak,
        )


def _workers(system: ActorSystem, name: str, count: int) -> environment.Workers:
    # In a simulation its workers, which are no threads.
    here = ENVIRONMENT.get()
    return Threads(f"-{name}", system.loop, system.clock, count) if here is None else here.workers(f"-{name}")


def _mapper(system: ActorSystem, stage: Stage, drawn: int) -> Mapper:
    spec = stage.workers
    assert spec is not None
    seed = (drawn if spec.seed is None else spec.seed) if spec.random else None
    # A simulation has no processes: there the function runs inline.
    if spec.name is not None and ENVIRONMENT.get() is None:
        return ProcessMapper(spec.name, spec.count, seed=seed, as_bits=spec.as_bits)
    return ThreadMapper(
        spec.function, _workers(system, "map", spec.count), system.loop, seed, as_bits=spec.as_bits
    )
