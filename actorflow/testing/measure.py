"""The gradients of one function beside its slopes, all of them computed by a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from actorflow.graph.autodiff import gradients
from actorflow.graph.builder import Tensor, as_tensor, name_scope
from actorflow.graph.node import Port
from actorflow.ops import placeholder
from actorflow.session.session import Session
from actorflow.testing.central_differences import Probe, probes, weights
from actorflow.values.arrays import NDArray

Feeds = dict[Port, Any]


@dataclass(frozen=True, slots=True)
class Compared:
    """What was compared for one x.

    Attributes:
        order: 1 for the gradient of ys, 2 for that of a weighted sum of their gradients.
        slopes: How many elements or directions were measured.
        difference: The largest between told and measured.
    """

    x: str
    order: int
    slopes: int
    difference: float

    def __str__(self) -> str:
        return f"order {self.order}, {self.x}: {self.slopes} slopes, largest difference {self.difference:.1e}"


@dataclass(frozen=True, slots=True)
class Tolerances:
    """How far to move, and how near is near enough; `eps` is the precision of the dtype."""

    step: float
    rtol: float
    atol: float
    eps: float
    directions: int | None

    def allow(self, measured: float, size: float) -> float:
        """How far a slope may be from the one measured of a function whose terms add up to `size`."""
        return self.atol + self.rtol * abs(measured) + 8 * self.eps * size / self.step


@dataclass(frozen=True, slots=True)
class SlopePair:
    """A slope told and measured; `kink` is what the slopes on both sides are, where they differ."""

    x: str
    order: int
    probe: Probe
    told: float
    measured: float
    kink: tuple[float, float] | None
    absent: bool


@dataclass(frozen=True, slots=True)
class Input:
    """An x: what the user calls it, the ports that its value comes from, and its value."""

    name: str
    ports: tuple[Port, ...]
    value: NDArray


@dataclass(slots=True)
class Function:
    """The sum of all elements of some tensors, each times a weight of its own, as a session computes it."""

    session: Session
    ys: Sequence[Tensor]
    feeds: Feeds
    weighed: list[NDArray] = field(default_factory=list)

    async def values(self, feeds: Feeds | None = None) -> list[Any]:
        """Returns those of the tensors, with these feeds beside its own."""
        at = {Tensor(self.session.graph, port): v for port, v in (self.feeds | (feeds or {})).items()}
        return list(await self.session.run(list(self.ys), at))

    async def weigh(self, frequency: float) -> None:
        """Chooses the weights, for the shapes that the tensors have."""
        self.weighed = [weights(np.shape(v), frequency) for v in await self.values()]

    async def at(self, x: Input | None = None, value: NDArray | None = None) -> float:
        """Returns the sum, with another value of x if one is given."""
        return sum(float(np.sum(t)) for t in await self._terms(x, value))

    async def size(self) -> float:
        """Returns the sum of the magnitudes of what is added up: what its rounding is relative to."""
        return sum(float(np.sum(np.abs(t))) for t in await self._terms())

    async def _terms(self, x: Input | None = None, value: NDArray | None = None) -> list[NDArray]:
        values = await self.values({} if x is None else dict.fromkeys(x.ports, value))
        return [w * np.asarray(v, np.float64) for v, w in zip(values, self.weighed, strict=True)]


async def compare(
    function: Function,
    xs: Sequence[Any],
    inputs: Sequence[Input],
    limits: Tolerances,
    orders: int = 1,
    order: int = 1,
    stop: Sequence[Tensor] = (),
) -> tuple[list[Compared], list[SlopePair]]:
    """Compares the gradient of a function of weights, and then, if asked, that of its gradients."""
    graph = function.session.graph
    with graph, name_scope("check_gradients"):
        starts = [placeholder(y.dtype, y.shape) for y in function.ys]
        found = gradients(list(function.ys), list(xs), starts, stop)
        grads = [None if g is None else as_tensor(g) for g in found]
    feeds = function.feeds | {
        s.port: w.astype(s.dtype) for s, w in zip(starts, function.weighed, strict=True)
    }
    slopes = Function(function.session, [g for g in grads if g is not None], feeds)
    told = iter(await slopes.values() if slopes.ys else [])
    size = await function.size()
    compared: list[Compared] = []
    wrong: list[SlopePair] = []
    for x, grad in zip(inputs, grads, strict=True):
        gradient = np.zeros(x.value.shape) if grad is None else np.asarray(next(told), np.float64)
        worst, count = 0.0, 0
        for probe in probes(x.value, limits.step, limits.directions):
            measured = probe.slope(await function.at(x, probe.above), await function.at(x, probe.below))
            said = probe.along(gradient)
            apart = abs(said - measured)
            worst, count = max(worst, apart), count + 1
            if not apart <= limits.allow(measured, size):
                sides = await kink(function, x, probe, apart)
                wrong.append(SlopePair(x.name, order, probe, said, measured, sides, grad is None))
        compared.append(Compared(x.name, order, count, worst))
    if orders > order and slopes.ys and not wrong:
        await slopes.weigh(0.7)
        more, wrong = await compare(slopes, xs, inputs, limits, orders, order + 1)
        compared += more
    return compared, wrong


async def kink(function: Function, x: Input, probe: Probe, apart: float) -> tuple[float, float] | None:
    """Returns the slopes to the left and to the right where they stay apart, however near one looks."""
    middle, gaps = await function.at(), []
    sides = (0.0, 0.0)
    for share in (1.0, 0.125):
        above = (x.value + share * (probe.above - x.value)).astype(x.value.dtype)
        below = (x.value + share * (probe.below - x.value)).astype(x.value.dtype)
        far = share * probe.width / 2
        left, right = middle - await function.at(x, below), await function.at(x, above) - middle
        sides = (left / far, right / far)
        gaps.append(abs(sides[1] - sides[0]))
    return sides if gaps[1] > gaps[0] / 2 and gaps[1] > apart / 2 else None
