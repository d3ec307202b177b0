"""Calls of kernels whose duration is not known when they are installed: inline, or on a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from zlib import crc32

from actorflow.dataflow.engine.iteration_state import IterationState
from actorflow.dataflow.engine.node import NodeActor
from actorflow.kernels.device.device import Device, Estimate
from actorflow.kernels.device.threads import Done

Run = Callable[[IterationState, Sequence[Any]], None]
Submit = Callable[[Callable[[], Any], Done], None]


def submit_kernel(
    node: NodeActor, submit: Submit, function: Callable[..., Any], *, random: bool = False
) -> Run:
    """Returns how a kernel or copy runs that a thread of a device does whatever it costs."""

    def run(live: IterationState, args: Sequence[Any]) -> None:
        def done(result: Any, error: BaseException | None, seconds: float) -> None:
            # What computes is listed while it does, for `dump` and deadlines.
            live.step.running.remove(node.address)
            # Through the ring: the firing goes on in its turn, and an error of it is placed at the node.
            node.owner.dispatch.push(KernelDone(node, result, error), live)

        live.step.running.append(node.address)
        # Of the tag, so that the numbers do not depend on when or where it is computed.
        if random:
            submit(partial(function, *args, counter=counter(live)), done)
        else:
            submit(partial(function, *args), done)

    return run


def measure_kernel(node: NodeActor, device: Device, function: Callable[..., Any], estimate: Estimate) -> Run:
    """Returns how a kernel runs whose duration is not known: inline while short, else on a thread."""
    now = device.now
    limit = device.inline_limit_s

    def run(live: IterationState, args: Sequence[Any]) -> None:
        units = estimate.cost(args)
        # Without threads there is nowhere else to go, whatever it costs.
        if units * estimate.rate <= limit or device.inline_only:
            start = now()
            value = function(*args)
            estimate.learn(units, now() - start)
            node.emit(live, value)
            return

        def done(result: Any, error: BaseException | None, seconds: float) -> None:
            estimate.learn(units, seconds)
            live.step.running.remove(node.address)
            node.owner.dispatch.push(KernelDone(node, result, error), live)

        live.step.running.append(node.address)
        device.submit(lambda: function(*args), done)

    return run


class KernelDone:
    """Device thread → node, through the ring: the result of a kernel, or its error."""

    __slots__ = ("error", "strand", "node", "result")

    def __init__(self, node: NodeActor, result: Any, error: BaseException | None) -> None:
        self.node = node
        self.strand = node.strand
        self.result = result
        self.error = error

    def fire(self, live: IterationState) -> None:
        """Goes on with the firing."""
        # The pump catches it and calls `fail`, as for a kernel that ran inline.
        if self.error is not None:
            raise self.error
        self.node.complete(live, self.result)

    def fail(self, live: IterationState, error: BaseException) -> None:
        """Aborts the step of the firing."""
        self.node.fail(live, error)


def counter(live: IterationState) -> tuple[int, int, int, int]:
    """Returns four integers that differ for every tag of a session; the last is the kernel's own."""
    tag = live.tag
    # A checksum of the path, since a counter has room for one number: the same on every process.
    frame = crc32(repr(tag.frame).encode()) if tag.frame else 0
    return (tag.step, tag.iteration, frame, 0)
