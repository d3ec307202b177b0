"""The layout of a cluster: which variables lie where. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actorflow.coord.actors.gradient_program import update_of
from actorflow.coord.rules.sharding import shard_variables
from actorflow.errors import ConfigError
from actorflow.graph.graph import Graph
from actorflow.graph.resource import VariableDef
from actorflow.plan.placement.devices import matching, parse_device
from actorflow.training.program import Program
from actorflow.values.checks import is_whole

_HOME = "/job:chief/task:0/device:cpu:0"
"""Of the process in which sessions of a cluster live: that which scopes without a job mean."""

_ASSUMED = 1  # elements of a variable whose shape is not known


@dataclass(frozen=True, slots=True)
class Layout:
    """What lies where.

    Attributes:
        ps: Processes with a shard each, in their order.
        workers: Processes with a worker each, in the order of their ranks.
        trained: Variables of each shard that updates change.
        frozen: Variables of each shard that are read besides.
        optimizer: The key of the optimizer in the graph.
        finite: Whether an update that is not finite is an error.
    """

    ps: tuple[str, ...]
    workers: tuple[str, ...]
    trained: tuple[tuple[str, ...], ...]
    frozen: tuple[tuple[str, ...], ...]
    optimizer: str
    finite: bool = True


def lay_out(program: Program, ps: Sequence[str], workers: Sequence[str]) -> Layout:
    """Returns the layout of a training run: what is trained is spread by bytes, what is read as well.

    A variable in a device scope such as `af.device("/job:ps/task:1")` lies there.

    Raises:
        ConfigError: there is no worker or no `ps`, or a scope names no such process.
        PlacementError: a `ps` would hold nothing that is trained.
        CoordinationError: several workers cannot share the update.
    """
    if not ps or not workers:
        message = f"a cluster has at least one ps and one worker, got {len(ps)} and {len(workers)}"
        raise ConfigError(message)
    graph = program.graph
    update = update_of(graph, (program.loss, *program.metrics.values()), program.train)
    fixed = _fixed_places(graph, (*update.trained, *update.frozen), len(ps))
    trained = shard_variables(
        {name: _bytes(graph, name) for name in update.trained},
        len(ps),
        fixed={name: at for name, at in fixed.items() if name in update.trained},
    )
    frozen: list[tuple[str, ...]] = [()] * len(ps)
    for k, name in enumerate(update.frozen):
        at = fixed.get(name, k % len(ps))
        frozen[at] += (name,)
    return Layout(
        ps=tuple(ps),
        workers=tuple(workers),
        trained=trained.names,
        frozen=tuple(frozen),
        optimizer=update.node.attrs["optimizer"],
        finite=update.node.attrs.get("max_not_finite", 0) is not None,
    )


def name_processes(job: str, n: int) -> tuple[str, ...]:
    """Returns the names of so many processes of a job; raises ConfigError for fewer than one."""
    if not is_whole(n, 1, plain=True):
        message = f"{job} is how many processes of that kind there are, at least 1, got {n!r}"
        raise ConfigError(message)
    return tuple(f"{job}{k}" for k in range(n))


def _fixed_places(graph: Graph, names: Sequence[str], ps: int) -> dict[str, int]:
    devices = [f"/job:ps/task:{k}/device:cpu:0" for k in range(ps)]
    found = {}
    for name in names:
        wanted = graph.resources[name].device
        if wanted:
            fits = [d for d in matching(wanted, [_HOME, *devices]) if d in devices]
            if not fits:
                message = (
                    f"what a training run reads or changes lies on a ps, {name!r} is to lie on {wanted!r}"
                )
                raise ConfigError(message, hint=_hint(wanted, devices))
            if len(fits) == 1:
                found[name] = devices.index(fits[0])
    return found


def _hint(wanted: str, devices: Sequence[str]) -> str:
    there = f"there are {', '.join(devices)}"
    if parse_device(wanted).names_process:
        return there
    own = "a scope without a job means the session's own process, which is the chief"
    return f"{own}; leave it out for the variable, or name a ps: {there}"


def _bytes(graph: Graph, name: str) -> int:
    resource = graph.resources[name]
    assert isinstance(resource, VariableDef)
    size: int = resource.spec.dtype.itemsize
    for n in resource.spec.shape or ():
        size *= _ASSUMED if n is None else n
    return size


def join_names(names: list[str]) -> str:
    """Returns names and the verb, as in "ps0 and worker1 are"."""
    *others, last = names or ["nobody"]
    return f"{', '.join(others)} and {last} are" if others else f"{last} is"
