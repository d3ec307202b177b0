"""The actors of one session's resources, optimizers and code of the user: started when first needed.

Those under a shared name are the system's: whichever session needs one first starts it, the others find
it, and it ends with the system, or when its container is reset.
"""

from __future__ import annotations

import warnings
from asyncio import Future
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.actors.system import ActorSystem
from actorflow.dataflow.optimizer.optimizer import OptimizerActor
from actorflow.dataflow.state.caller import call
from actorflow.dataflow.state.register import Forget, Source, WriteCounts
from actorflow.dataflow.state.resource_factory import ActorInputs, make_actor
from actorflow.dataflow.state.shared_names import Containers, shared_key
from actorflow.dataflow.state.starvation_detector import Producers, StarvationDetector
from actorflow.dataflow.state.waiters import StarvableActor
from actorflow.dataflow.user.nested_steps import Waiter
from actorflow.dataflow.user.user_actor import user_actor
from actorflow.dataflow.user.user_code_actor import asker, check_here, user_code_actor_of
from actorflow.errors import ActorflowError, ConfigError, DenseRows, GraphError, InternalError, describe
from actorflow.graph import opdef
from actorflow.graph.atomic_block import in_order
from actorflow.graph.densified import is_worth_a_word
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, Port
from actorflow.graph.opdef import Effect
from actorflow.graph.resource import ResourceDef, VariableDef
from actorflow.ops.control.user_code_ops import RunningActor, UserFunction
from actorflow.optim import Transform
from actorflow.plan.feeds_queues import feeds
from actorflow.plan.program import Holder, Holding
from actorflow.values.arrays import Array


class InitialValue(Waiter):
    """The initial value of a variable: whether it has been given, and who is giving it.

    While somebody is, it is a node of the wait-for graph: of others' initial values, and of its step.

    Attributes:
        shared: Whether another session may be giving it.
    """

    __slots__ = ("done", "running", "shared")

    def __init__(self, variable: str, *, shared: bool = False) -> None:
        super().__init__(f"first value of {variable!r}")
        self.shared = shared
        self.done = False
        self.running: Future[None] | None = None


@dataclass(frozen=True, slots=True)
class SharedResource:
    """What is held under a shared name."""

    ref: Ref
    first: InitialValue


async def reset(system: ActorSystem, container: str | None = None) -> None:
    """Drops the shared state of a container, or of all: it is made anew when it is next used.

    Steps that wait for that state end with ActorDied, be it for room or for elements of a queue; so do
    those that run and ask for it later. Later steps of the same sessions find it as it was first, and
    optimizers that trained a variable of it begin anew as well. Private state is not touched. A container
    in which nothing is shared has nothing to drop: that is no error.

    Args:
        system: Where the sessions live, open.
        container: The name given to `af.state.container`; "" for what was shared outside of all; None for
            every container.

    Raises:
        ConfigError: for what is no actor system, or no name.
    """
    given: Any = system
    if not isinstance(given, ActorSystem):
        message = f"reset takes an actor system, got {type(system).__name__} {system!r:.60}"
        raise ConfigError(message, hint="the one that the sessions were given: Session(graph, system=system)")
    name: Any = container
    if name is not None and not isinstance(name, str):
        message = f"reset takes the name of a container, or None for all, got {container!r:.60}"
        raise ConfigError(message)
    # Only in the event loop of the system: nothing in it is guarded against other threads.
    system.check_here()
    # ORDER: out of the names first, so that a step that asks while it stops finds a new one.
    for kept in _containers(system).reset(container):
        await system.stop(kept.ref)


def _containers(system: ActorSystem) -> Containers[SharedResource]:
    """The shared names of a system."""
    # kept by the system, so that all its sessions see the same names
    found: Containers[SharedResource] = system.attached.setdefault(Containers, Containers())
    return found


class Resources:
    """Finds the actor that holds something of the graph, and starts it on first use.

    Args:
        submit: How an optimizer runs large updates on a device's threads; None runs them inline.
        source: Names the session: a prefix of the names of its own actors, and the source of its writes.
        max_messages: What the mailbox of each may hold.
        producers: Who could put something into what others wait for.
        starvation_s: How long a wait may last that nobody could end; None for ever.

    Attributes:
        refs: The actors that have been started.
        containers: What is shared in the actor system, by name.
        write_counts: How the writes of the session's own variables found their memory.
    """

    def __init__(
        self,
        graph: Graph,
        system: ActorSystem,
        source: Source,
        submit: Callable[..., None] | None,
        max_messages: int,
        producers: Producers,
        starvation_s: float | None,
    ) -> None:
        self.refs: dict[Holder, Ref] = {}
        self.write_counts = WriteCounts()
        self._graph = graph
        self._system = system
        self._source = source
        self._submit = submit
        self._max_messages = max_messages
        self.containers = _containers(system)
        # How many resets this session has seen: one more means that some of `refs` may be stopped.
        self._forgotten = self.containers.resets
        self._firsts: dict[str, InitialValue] = {}
        self._producers = producers
        self._starvation_s = starvation_s

    @property
    def resets(self) -> int:
        """How often shared state of the system has been dropped: what was found before may be gone."""
        return self.containers.resets

    def find(self, holder: Holder) -> Ref:
        """Returns the address of the holder.

        Raises:
            GraphError: when an optimizer or an actor of the user cannot be made.
            PlacementError: when an actor that a node asks lives elsewhere.
            StateError: when other state has the shared name of the holder.
        """
        self._system.check_here()
        # A reset tells nobody: whoever uses shared state next notices.
        if self._forgotten != self.resets:
            self._forget()
        ref = self.refs.get(holder)
        if ref is None:
            ref = self.refs[holder] = self._spawn(holder)
        return ref

    def first(self, name: str) -> InitialValue:
        """Returns what is known of the initial value of a variable; shared with the variable."""
        self._system.check_here()
        definition = self._graph.resources[name]
        if definition.shared_name is None:
            # a private variable's is the session's own
            return self._firsts.setdefault(name, InitialValue(name))
        # Starts it if need be, so that there is an entry to share.
        self.find(Holder(Holding.RESOURCE, name))
        kept = self.containers.find(definition)
        assert kept is not None
        return kept.first

    async def call(self, name: str, body: Any) -> Any:
        """Asks the actor of a resource, as a node would; who is cancelled takes the question back."""
        system = self._system
        ref = self.find(Holder(Holding.RESOURCE, name))
        return await call(ref, body, system.nobody, system.create_future())

    def tell(self, name: str, message: Any) -> None:
        """Tells the actor of a resource."""
        self.find(Holder(Holding.RESOURCE, name)).put(message, self._system.nobody)

    async def stop(self) -> None:
        """Stops those of the session; optimizers first, since they write to the others."""
        shared_ones = [ref for holder, ref in self.refs.items() if self._is_shared(holder)]
        try:
            # An optimizer finds its variables as it starts, so in reverse it stops before them.
            for holder, ref in reversed(tuple(self.refs.items())):
                if not self._is_shared(holder):
                    await self._system.stop(ref)
        finally:  # ORDER: what an optimizer still does to shared state comes before
            for ref in shared_ones:
                # They live on, and forget what the session wrote: nobody will retry it.
                ref.signal(Forget(self._source))

    def _is_shared(self, holder: Holder) -> bool:
        return holder.kind is Holding.RESOURCE and self._graph.resources[holder.name].shared_name is not None

    def _forget(self) -> None:
        """Lets go of shared actors that a reset has stopped, and of the optimizers that trained them."""
        self._forgotten = self.resets
        gone = set()
        for holder, ref in tuple(self.refs.items()):
            if self._is_shared(holder):
                kept = self.containers.find(self._graph.resources[holder.name])
                # gone, or already made anew by another session
                if kept is None or kept.ref is not ref:
                    gone.add(holder.name)
                    del self.refs[holder]
        # An optimizer's moments belong to the values that are gone: it begins anew as well.
        for holder, ref in tuple(self.refs.items()):
            if holder.kind is Holding.OPTIMIZER and gone.intersection(self._trained_by(holder.name)):
                ref.stop()
                del self.refs[holder]

    def _trained_by(self, key: str) -> tuple[str, ...]:
        node = _update(self._graph, key)
        return tuple(node.attrs["resources"])

    def _spawn(self, holder: Holder) -> Ref:
        if holder.kind is Holding.OPTIMIZER:
            return self._spawn_optimizer(holder)
        if holder.kind is not Holding.RESOURCE:
            return self._spawn_performer(holder)
        definition = self._graph.resources[holder.name]
        key = shared_key(definition)
        contents = {name: self._constant(port) for name, port in definition.contents.items()}
        # A shared resource is written by several sessions: none of them counts its writes as its own.
        make = partial(
            self._make, definition, ActorInputs(self.write_counts if key is None else WriteCounts(), contents)
        )
        if key is None:
            return self._start(f"{self._source}/{definition.kind}/{holder.name}", make)
        kept = self.containers.open(definition, contents)
        if kept is None:
            # INVARIANT: nothing suspends between looking and adding, so that two sessions cannot both make
            # it.
            kept = SharedResource(
                self._start(f"shared/{key.container}/{definition.kind}/{key.name}", make),
                InitialValue(key.name, shared=True),
            )
            self.containers.add(definition, kept, contents)
        return kept.ref

    def _make(self, definition: ResourceDef, given: ActorInputs) -> Actor:
        actor = make_actor(definition, given)
        grace_s = self._starvation_s
        private = definition.shared_name is None  # else others may fill it whom nobody counts here
        if isinstance(actor, StarvableActor) and grace_s is not None and private:
            told = partial(self._fillers, definition.name)
            what = definition.kind.replace("_", " ")
            actor.detector = StarvationDetector(definition.name, what, grace_s, self._producers, told)
        return actor

    def _fillers(self, name: str) -> list[str]:
        """Says which nodes of the graph put something into a resource."""
        nodes = (n for n in self._graph.nodes if n.attrs.get("resource") == name and feeds(n))
        return [f"{node.name!r} ({node.where.defined_at})" for node in nodes]

    def _constant(self, port: Port) -> Array:
        node = self._graph.nodes[port.node]
        if opdef.lookup(node.op).effect is not Effect.CONSTANT:
            message = f"the contents of a resource are constants, got {node.op} {node.name!r}"
            raise GraphError(message, where=node.where)
        return self._graph.constants[node.attrs["constant"]]

    def _spawn_optimizer(self, holder: Holder) -> Ref:
        key = holder.name
        node = _update(self._graph, key)
        # ORDER: its variables are found, and so started, before it: see `stop`.
        variables = {v: self.find(Holder(Holding.RESOURCE, v)) for v in node.attrs["resources"]}
        source = Source(f"{self._source}/optimizer/{key}")
        order = in_order(variables, self._graph.resources)

        def make() -> OptimizerActor:
            try:
                actor = optimizer_actor(self._graph.objects[key])
                tell_of_rows(actor, self._graph, key, variables)
                return actor.bind(variables, source, self._submit, order, self.write_counts)
            # It is made when its first step runs: the error says where `minimize` stood.
            except ActorflowError as error:
                raise error.at(node.where) from error.__cause__

        return self._start(f"{self._source}/{holder.kind.value}/{key}", make)

    def _spawn_performer(self, holder: Holder) -> Ref:
        """Starts what runs code of the user for nodes, and the actor of the user if it is to be made."""
        key, objects = holder.name, self._graph.objects
        found = objects[key]
        if isinstance(found, UserFunction):
            return self._start(f"{self._source}/{key}", lambda: user_code_actor_of(key, found))
        if isinstance(found, RunningActor):
            # An actor of the user's own, made elsewhere: asked, never stopped, and only in its own system.
            check_here(found.ref, self._system)
            return self._start(f"{self._source}/{key}", lambda: asker(key, objects, found.ref))
        # Made for this session, so it ends with who asks it.
        made = self._start(f"{self._source}/{key}", partial(user_actor, key, found))
        return self._start(f"{self._source}/asks/{key}", lambda: asker(key, objects, made, owns=True))

    def _start(self, name: str, make: Callable[[], Any]) -> Ref:
        free, n = name, 1
        while free in self._system.actors:  # the one before a reset may not have ended yet
            n += 1
            free = f"{name}~{n}"
        return self._system.spawn(make, name=free, max_messages=self._max_messages)


def optimizer_actor(optimizer: Any) -> OptimizerActor:
    """Returns a fresh actor for what `minimize` was given: a Transform, or what makes an OptimizerActor.

    Raises:
        GraphError: when it is neither, or cannot be made.
    """
    if isinstance(optimizer, Transform):
        return OptimizerActor(optimizer)
    hint = "pass an af.optim rule, a subclass of af.OptimizerActor, or lambda: MyOptimizer(...)"
    try:
        actor = optimizer()
    # It says itself what is wrong.
    except ActorflowError:
        raise
    except Exception as error:
        message = f"the optimizer passed to minimize could not be made: {describe(error)}"
        raise GraphError(message, hint=hint) from error
    if not isinstance(actor, OptimizerActor):
        message = f"the optimizer passed to minimize must make an OptimizerActor, it made {actor!r}"
        raise GraphError(message, hint=hint)
    return actor


def tell_of_rows(actor: OptimizerActor, graph: Graph, key: str, names: Collection[str]) -> None:
    """Tells of which of the named variables an actor of the user's takes rows as dense gradients."""
    # `sparse` said anywhere below OptimizerActor, True or False, is a decision of the user's.
    meant = any("sparse" in vars(kind) for kind in type(actor).__mro__ if kind not in OptimizerActor.__mro__)
    # A Transform's rows were told when the update was built, and who says `sparse = False` means it.
    if actor.sparse or meant or isinstance(graph.objects[key], Transform):
        return
    node = _update(graph, key)
    for name, rows in zip(node.attrs["resources"], node.attrs["sparse"], strict=True):
        definition = graph.resources[name]
        assert isinstance(definition, VariableDef)
        whole = definition.spec
        if rows and name in names and is_worth_a_word(whole, None):
            message = (
                f"rows of {name!r} {whole} become dense in optimizer {actor.rule!r}, at {node.defined_at}: "
                "each step then computes all rows. Let its on_gradients take Rows, and say sparse = True in "
                "the class; sparse = False says that it is meant"
            )
            warnings.warn(DenseRows(message), stacklevel=1)


def _update(graph: Graph, optimizer: str) -> Node:
    """Returns the node that makes updates with an optimizer, wherever it stands."""
    graphs: list[Graph] = [graph, *graph.bodies.values()]
    for within in graphs:
        for node in within.nodes:
            if node.attrs.get("optimizer") == optimizer:
                return node
    message = f"the graph makes no update with {optimizer!r}"
    raise InternalError(message)
