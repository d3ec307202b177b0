"""Several processes in one actor system: a runner each, and a session over all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import actorflow as af
from actorflow import sim
from actorflow.actors.ref import Ref
from actorflow.dataflow.engine.step import Step
from actorflow.dataflow.remote.runner import RUNNER, Runner, executor_of
from actorflow.dataflow.remote.step_messages import SessionProcess
from actorflow.runtime.messages import DEAD
from actorflow.session.distributed import DistributedSession
from actorflow.sim.engine.simulate import Main
from actorflow.transport.codec.message_codec import decode, encode, join

SCOPES = tuple(f"/job:worker/task:{k}" for k in range(3))
"""Device scopes of the processes p0, p1, p2; whoever names none is at home, on p0."""


def processes(count: int) -> tuple[SessionProcess, ...]:
    return tuple(SessionProcess(f"p{k}", (f"/job:worker/task:{k}/device:cpu:0",), 1) for k in range(count))


class Coding(Runner):
    """A runner that sends what the codec makes of a value, as one in a process of its own."""

    def send(self, step: Step, key: int, value: Any, destination: str, turns: tuple[int, ...]) -> None:
        sent = value if value is DEAD else decode(join(encode(value)))
        super().send(step, key, sent, destination, turns)


class Cluster:
    """Runners of `count` processes and a session at p0; use as `async with`.

    Attributes:
        session: The session.
        runners: By process.
    """

    def __init__(
        self,
        graph: af.Graph,
        count: int = 3,
        *,
        threads: int = 0,
        max_early: int = 4096,
        runner: type[Runner] = Runner,
        **options: Any,
    ) -> None:
        self.graph = graph
        self.count = count
        self.options = options
        self.runners: dict[str, Runner] = {}
        self._threads = threads
        self._max_early = max_early
        self._runner = runner
        self.system = af.ActorSystem(name="system")
        self.refs: dict[str, Ref] = {}
        self.up: set[str] = set()

    def reach(self, address: str) -> Ref:
        """Gives a runner by its process, and the runner reports of a session by its name."""
        if address in self.refs:
            return self.refs[address]
        return self.system.actors[address.partition("/")[2]]

    def start(self, name: str, incarnation: int = 1) -> None:
        """Starts the runner of a process."""

        def make() -> Runner:
            made = executor_of(f"{name}.{incarnation}", self.graph, threads=self._threads)
            runner = self._runner(name, incarnation, self.graph, made, self.reach, self._max_early)
            self.runners[name] = runner
            return runner

        self.up.add(f"{name}/{RUNNER}")
        self.refs[f"{name}/{RUNNER}"] = self.system.spawn(make, name=f"{name}/{RUNNER}/{incarnation}")

    async def crash(self, name: str) -> None:
        """Stops the runner of a process; whoever should know is told by the test."""
        address = f"{name}/{RUNNER}"
        self.up.discard(address)
        del self.runners[name]
        await self.system.stop(self.refs[address])

    async def __aenter__(self) -> Cluster:
        await self.system.__aenter__()
        members = processes(self.count)
        for process in members:
            self.start(process.name)
        self.session = DistributedSession(self.graph, self.system, members, self.reach, **self.options)
        await self.session.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        try:
            await self.session.close()
            await self.check_empty()
        finally:
            for ref in self.refs.values():
                await self.system.stop(ref)
            await self.system.__aexit__(*error)

    async def check_empty(self) -> None:
        """Asserts that nothing is left of any step in any process, once all that was said was heard."""
        await self.session.wait_settled()
        for address, ref in self.refs.items():
            if address in self.up:
                await ref.ask(None)
        for name, runner in self.runners.items():
            assert runner.rendezvous.empty, f"{name}: {runner!r}"
            assert runner.steps == 0, f"{name}: {runner!r}"


def spread(
    graph: af.Graph, body: Callable[[Cluster], Awaitable[Any]], count: int = 3, **options: Any
) -> Main:
    """Returns a program for `sim.run`: `body` with a cluster of its own, which is left empty."""

    async def main() -> Any:
        async with Cluster(graph, count, **options) as cluster:
            result = await body(cluster)
            await cluster.check_empty()
        return result

    return main


def run_spread(
    graph: af.Graph, body: Callable[[Cluster], Awaitable[Any]], count: int = 3, **options: Any
) -> Any:
    """Returns what `body` returns with a cluster of its own, in virtual time."""
    return sim.run(spread(graph, body, count, **options)).result
