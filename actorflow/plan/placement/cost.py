"""What a program costs on its devices: seconds a node, bytes an edge, what links carry. An estimate.

A kernel takes a fixed overhead and, for each unit of its own cost function, the time of its device; where
a node was measured on a device, that counts instead. An edge carries the bytes of its spec. What a spec
leaves open is assumed: an unknown size is `unknown_size`, an unknown rank one axis of that size, and an
object, such as a text, has `object_bytes`.

The defaults are round figures of ordinary machines, meant to tell the dear from the cheap; none of them was
measured for this program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf, prod
from types import MappingProxyType
from typing import Any

from actorflow.errors import ConfigError
from actorflow.graph import opdef
from actorflow.graph.node import Attr
from actorflow.graph.opdef import Effect
from actorflow.kernels.definition import registry
from actorflow.kernels.device.device import Shaped
from actorflow.plan.placement.devices import parse_device, process_of, within_process
from actorflow.plan.placement.scheduling_problem import DeviceLink
from actorflow.plan.program import Constant, NodeKind, PlanNode, Program
from actorflow.values.arrays import Array
from actorflow.values.checks import number
from actorflow.values.spec import ListSpec, Spec

Units = Callable[[str, Sequence[Any], Mapping[str, Attr]], float]
"""(op, arrays or stand-ins that have a shape, attributes) -> units of cost, about a nanosecond each."""


def units_of_kernels(op: str, inputs: Sequence[Any], attrs: Mapping[str, Attr]) -> float:
    """Returns what the kernel of `op` says of itself; one that has no kernel on the host costs one unit."""
    known = registry.table()
    # An op of actors, or of plans: it has no kernel that could be asked.
    if (op, "numpy") not in known and (op, registry.EVERY) not in known:
        return 1.0
    return max(1.0, registry.find(op).cost(*inputs, **attrs))


def has_kernel(op: str, device: str) -> bool:
    """Tells whether there is a kernel of `op` for that device."""
    entry = opdef.table().get(op)
    if entry is not None and entry.effect is Effect.FUNCTION:  # of what its bodies have kernels
        return True
    library = "cupy" if parse_device(device).kind == "gpu" else "numpy"
    known = registry.table()
    return (op, library) in known or (op, registry.EVERY) in known


_WITHIN, _BETWEEN = DeviceLink(1e-5, 1e10), DeviceLink(1e-4, 1e9)


def _frozen(**entries: float) -> Mapping[str, float]:
    return MappingProxyType(entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """What is assumed of devices and links, and what was measured.

    Attributes:
        unit_s: Seconds that a unit of a kernel's cost takes, by kind of device.
        overhead_s: Seconds that a node takes besides, by kind of device.
        measured_s: Seconds of a node on a device, by (name, device); goes before any estimate. What is
            measured on `/cpu:0` counts for the `/cpu:0` of every process of which nothing else is known.
        unknown_size: What is assumed of a size that the graph leaves open.
        object_bytes: What is assumed of an element that is no number.
        within: The link between two devices of one process.
        between: The link between two processes.
        links: Links that are known better, by (device that sends, device that receives).
        units: What a kernel costs, in units.

    Raises:
        ConfigError: for a time, a size or a rate that cannot be.
    """

    unit_s: Mapping[str, float] = field(default_factory=lambda: _frozen(cpu=1e-9, gpu=2e-11))
    overhead_s: Mapping[str, float] = field(default_factory=lambda: _frozen(cpu=2e-6, gpu=1e-5))
    measured_s: Mapping[tuple[str, str], float] = field(default_factory=dict)
    unknown_size: int = 32
    object_bytes: int = 64
    within: DeviceLink = _WITHIN
    between: DeviceLink = _BETWEEN
    links: Mapping[tuple[str, str], DeviceLink] = field(default_factory=dict)
    units: Units = units_of_kernels

    def __post_init__(self) -> None:
        """Checks the numbers, since a placement by nonsense looks like any other."""
        for name, seconds in chain(self.unit_s.items(), self.overhead_s.items(), self.measured_s.items()):
            if not 0 <= number(seconds) < inf:
                message = f"a node takes a number of seconds, got {seconds!r} for {name}"
                raise ConfigError(message)
        for link in (self.within, self.between, *self.links.values()):
            if not 0 <= number(link.latency_s) < inf or not number(link.bytes_per_s) > 0:
                message = f"a link has a latency of seconds and carries some bytes each, got {link}"
                raise ConfigError(message)
        for name in ("unknown_size", "object_bytes"):
            if not number(getattr(self, name)) >= 1:
                message = f"{name} is at least 1, got {getattr(self, name)!r}"
                raise ConfigError(message)

    def with_measurements(self, seconds: Mapping[tuple[str, str], float]) -> CostModel:
        """Returns a model that knows besides what nodes took, by (name, device): `Session.kernel_seconds`."""
        return replace(self, measured_s={**self.measured_s, **seconds})

    def sizes(self, spec: Spec) -> tuple[int, ...]:
        """Returns a shape with what is unknown assumed."""
        if spec.shape is None:
            return (self.unknown_size,)
        return tuple(self.unknown_size if n is None else n for n in spec.shape)

    def edge_bytes(self, spec: Spec) -> float:
        """Returns how many bytes a value of that spec has."""
        if isinstance(spec, ListSpec):
            # A list has as many elements as its size says, or is assumed to have.
            return prod(self.sizes(spec)) * self.edge_bytes(spec.element)
        each = self.object_bytes if spec.dtype.kind == "O" else spec.dtype.itemsize
        return float(prod(self.sizes(spec)) * each)

    def link(self, source: str, target: str) -> DeviceLink:
        """Returns what lies between two devices."""
        known = self.links.get((source, target))
        if known is not None:
            return known
        return self.within if process_of(source) == process_of(target) else self.between

    def node_units(self, node: PlanNode, program: Program) -> float:
        """Returns what a node costs wherever it runs; nothing for one that calls no kernel."""
        if node.kind not in (NodeKind.KERNEL, NodeKind.RANDOM):
            return 0.0
        args: list[Array | Shaped] = []
        for source in node.inputs:
            if isinstance(source, Constant):
                args.append(source.value)
            else:
                # There is no array to ask of, only its shape.
                args.append(Shaped(self.sizes(program.nodes[source.node].outputs[source.output])))
        return self.units(node.op, args, node.attrs)

    def node_s(self, name: str, units: float, device: str) -> float:
        """Returns the seconds of a node on a device."""
        if self.measured_s:
            # What a process measured of its own device counts for that of every process, where nothing else
            # is known.
            found = self.measured_s.get((name, device), self.measured_s.get((name, within_process(device))))
            if found is not None:
                return found
        kind = parse_device(device).kind or "cpu"
        unit, overhead = self.unit_s.get(kind), self.overhead_s.get(kind)
        if unit is None or overhead is None:
            message = f"the cost model knows no device of kind {kind!r}; it knows {', '.join(self.unit_s)}"
            raise ConfigError(message, hint="give unit_s and overhead_s an entry for it")
        return overhead + unit * units
