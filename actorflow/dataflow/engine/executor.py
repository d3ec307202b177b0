"""The executor of a graph in one process: its devices, the actors of its state, its programs and steps.

A session has one; a process that runs its part of a graph for others has one as well. Who may start
steps, and when, is for those above.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from actorflow.actors.system import ActorSystem
from actorflow.dataflow.engine.partition import Partition, Surroundings
from actorflow.dataflow.engine.resources import Resources
from actorflow.dataflow.engine.step import Step
from actorflow.dataflow.engine.token_sender import TokenSender
from actorflow.dataflow.state.register import Source
from actorflow.dataflow.state.starvation_detector import Producers
from actorflow.graph.graph import Graph
from actorflow.kernels.device.devices import Devices
from actorflow.plan.program import Program
from actorflow.values import arrays


class Executor:
    """Runs programs of one graph in the event loop of an open actor system.

    Args:
        graph: The graph; it may grow.
        system: Where its actors live; it is open.
        source: A name that no other in the system has: of its actors, and of who writes.
        devices: `/cpu:N`, the host's first, as `kernels.device.devices.check_devices` returns them.
        threads: Worker threads of each device; 0 runs all kernels on the event loop.
        max_messages: What the mailbox of each resource may hold.
        producers: Who could put something into what others wait for.
        starvation_s: How long a wait may last that nobody could end; None for ever.
        token_sender: Takes what steps send to other processes; None where programs are not cut.

    Attributes:
        devices: What it computes on.
        resources: The actors of its state, started when first needed.
        submit: Runs array work on the host's threads; None where it has none.
    """

    def __init__(
        self,
        graph: Graph,
        system: ActorSystem,
        source: Source,
        *,
        devices: Sequence[str],
        threads: int,
        max_messages: int,
        producers: Producers,
        starvation_s: float | None,
        token_sender: TokenSender | None = None,
    ) -> None:
        self._system = system
        dispatch = system.dispatch  # raises when the system is not open
        self.devices = Devices(devices, system.loop, system.clock, threads)
        # An overflow or a division by zero gives inf or nan, as everywhere in a graph, and no warning.
        dispatch.change_contexts(arrays.ignore_float_errors)
        host = self.devices.host
        self.submit = None if host.inline_only else host.submit
        self.resources = Resources(graph, system, source, self.submit, max_messages, producers, starvation_s)
        self._around = Surroundings(
            dispatch=dispatch,
            devices=self.devices.by_name,
            find=self.resources.find,
            sender=system.nobody,
            source=source,
            sequence=itertools.count(1),
            token_sender=token_sender,
        )

    def install(self, program: Program) -> Partition:
        """Makes the nodes of a program actors.

        Raises:
            PlacementError: a device has no kernel for an op.
        """
        return Partition(program, self._around)

    def arrive(
        self, partition: Partition, step: Step, key: int, value: object, turns: tuple[int, ...] = ()
    ) -> None:
        """Offers to a step what another process has sent: an array, or DEAD; of a loop, in which turns."""
        partition.arrive(step, key, value, turns)
        # Nobody pumps when nothing is scheduled: what comes from a link has to see to it itself.
        dispatch = self._system.dispatch
        if dispatch.ring and not dispatch.scheduled:
            dispatch.schedule()

    def start(self, partition: Partition, step: Step, feeds: Sequence[object]) -> None:
        """Starts a step, at once when nobody is ahead, as an ask does."""
        system = self._system
        dispatch = system.dispatch
        # ORDER: asked before the step's own nodes enter the ring.
        ahead = dispatch.scheduled
        if step.deadline_s is not None:
            step.waits = partition.waits
        partition.start(step, feeds)
        # The pump comes to it in turn: a step does not overtake what was there before.
        if ahead:
            return
        # Without a way through the event loop: one add in 9.7 µs, not 12.2.
        if system.inline.may_step():
            dispatch.pump_now()
        else:
            dispatch.schedule()

    async def close(self) -> None:
        """Stops the actors and the threads; waits for kernels that run on one."""
        try:
            # ORDER: the actors before the threads on which optimizers still compute.
            await self.resources.stop()
        finally:
            await self.devices.close()
