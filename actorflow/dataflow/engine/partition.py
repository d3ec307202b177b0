"""The partition actor: a program made into node actors, and the steps that run through them.

It is made once for a program and used by every step of it, many at a time. Installing gives every
node its offsets, its kernel and its closure; a step costs one `IterationState` and one token a feed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from actorflow.actors.ref import Ref, Sender
from actorflow.actors.scheduling.dispatch import Dispatch
from actorflow.dataflow.engine.atomic_blocks import body_inside, release
from actorflow.dataflow.engine.calls import Body, Completion, body_of
from actorflow.dataflow.engine.compiled_body import Operand, compile_body, cost_of
from actorflow.dataflow.engine.firing import compile_node
from actorflow.dataflow.engine.fused_firing import compile_together
from actorflow.dataflow.engine.iteration_state import FrameTemplate, IterationState, is_alive
from actorflow.dataflow.engine.kernel_calls import counter, measure_kernel, submit_kernel
from actorflow.dataflow.engine.loop_driver import drive_loop
from actorflow.dataflow.engine.node import NodeActor
from actorflow.dataflow.engine.step import Step
from actorflow.dataflow.engine.token_sender import TokenSender, send_later
from actorflow.dataflow.state.register import Source
from actorflow.errors import ActorflowError, InternalError, PlacementError
from actorflow.kernels.definition import registry
from actorflow.kernels.definition.scalar_operators import Described, between, operator, scalar
from actorflow.kernels.device.device import Estimate, Shaped
from actorflow.kernels.device.devices import AnyDevice
from actorflow.kernels.device.gpu import Gpu
from actorflow.plan.partition.consumed_takes import consumed_takes
from actorflow.plan.program import Constant, Edge, Holder, Holding, NodeKind, PlanNode, Program
from actorflow.runtime.messages import DEAD, Call

Run = Callable[[IterationState, Sequence[Any]], None]

_HOLDS_ARRAYS_OF_THE_HOST = frozenset(
    # What these take is handed on as it is, not computed with: a constant for them need not be on a card.
    {
        NodeKind.FETCH,
        NodeKind.SEND,
        NodeKind.COPY,
        NodeKind.REQUEST,
        NodeKind.WAIT,
        NodeKind.RELEASE,
        NodeKind.LOOP_COND,
    }
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a partition is installed into.

    Attributes:
        devices: By name; the first is the host.
        find: Gives the actor that holds a variable, a queue or an optimizer.
        sender: Who a node's calls come from; it does not mind when they stand in the line, since a
            node has at most one for a live tag.
        source: Who writes, with `sequence` its growing numbers.
        token_sender: Takes what a step sends to other processes; None where programs are not cut.
    """

    dispatch: Dispatch
    devices: Mapping[str, AnyDevice]
    find: Callable[[Holder], Ref]
    sender: Sender
    source: Source
    sequence: Iterator[int]
    token_sender: TokenSender | None = None


class Partition:
    """A program installed in this process.

    Attributes:
        nodes: Its actors, by index of the program.
        sends: How many times a step hears that something has left for other processes: every value outside
            of loops, and the end of every loop from which values leave.
        receives: The nodes that pass on what others send, by key.
    """

    def __init__(self, program: Program, around: Surroundings) -> None:
        self.program = program
        self.dispatch = around.dispatch
        self.layouts: dict[tuple[str, ...], FrameTemplate] = {}
        self.nodes = [NodeActor(plan, self._layout(plan.frame), self) for plan in program.nodes]
        self._around = around
        self._host = next(iter(around.devices.values()))
        self._copies: dict[tuple[str, int], Any] = {}  # of constants, by device and identity
        self._estimates: dict[tuple[str, str], Estimate] = {}
        # ORDER: edges, offsets, `run`, closures, and last what fires together: each is made from those
        # before.
        self._connect()
        self._number()
        self._units: dict[NodeActor, float] = {}
        functions = {node: self._equip(node) for node in self.nodes}
        for node, function in functions.items():
            compile_node(node, function)
        # An instrument is told of every firing, so none may hide in that of another.
        if self.dispatch.instrument is None:
            compile_together(
                self.nodes,
                {
                    node: (function, self._units.get(node, 0.0))
                    for node, function in functions.items()
                    # What may be called in a closure: surely short, with one output.
                    if function is not None and len(node.targets) == 1
                },
            )
        # ORDER: over whatever was compiled for them.
        for k, i in enumerate(program.fetches):
            self.nodes[i].fire = _fetch(self.nodes[i], k)
        self.sends = self._sending([node for node in self.nodes if node.plan.kind is NodeKind.SEND])
        self.receives = {n.plan.attrs["key"]: n for n in self.nodes if n.plan.kind is NodeKind.RECV}
        self._feeds = [self.nodes[i] for i in program.feeds]
        self._root = self._layout(())

    def __repr__(self) -> str:
        return f"<Partition of {len(self.nodes)} node actors>"

    def start(self, step: Step, feeds: Sequence[Any]) -> None:
        """Starts a step: every feed node gets its value, every source enters the ring.

        The caller sees to it that the ring is pumped.
        """
        layout = self._root
        live = step.state = IterationState(step, layout.first, layout.slots)
        ring = self.dispatch.ring
        for node in layout.sources:
            ring.append((node, live))
        for node, value in zip(self._feeds, feeds, strict=True):
            live.slots[node.slot] = value
            ring.append((node, live))

    def arrive(self, step: Step, key: int, value: Any, turns: tuple[int, ...] = ()) -> None:
        """Offers what another process has sent to the step: an array, or DEAD; drops what comes late.

        What comes for a turn of a loop that has not begun here waits for it. The caller sees to it that the
        ring is pumped.
        """
        live = step.state
        # What comes for a step that has ended is dropped.
        if live is None or live.error is not None:
            return
        node = self.receives[key]
        path = node.layout.path
        # From loop to loop, the outermost first, down to the tag that is meant.
        for depth, turn in enumerate(turns, 1):
            frame = (live.children or {}).get(path[:depth])
            inner = None if frame is None else frame.iterations.get(turn)
            # Not begun here: the other process is ahead. It is offered again, from the top, when that turn
            # begins.
            if inner is None:
                again = partial(self.arrive, step, key, value, turns)
                step.keep_early(path[:depth], turns[:depth], again)
                return
            live = inner
        # As `offer` would; a RECV waits for this token and perhaps for control edges.
        live.slots[node.slot] = value
        live.counts[node.i] -= 1
        if not live.counts[node.i]:
            self.dispatch.ring.append((node, live))

    def _sending(self, sends: Sequence[NodeActor]) -> int:
        """Says how values leave; returns how many times a step hears of that."""
        loops: set[str] = set()
        for node in sends:
            node.fire = send_later(node, self._token_sender(node.plan))
            path = node.layout.path
            # Every loop around it has to say when it ends, since only then is it sure that no more leaves.
            for depth in range(1, len(path) + 1):
                self._layout(path[:depth]).sends = True
            # The outermost loop stands for all within it: the step hears of its end once.
            loops.update(path[:1])
        return len(loops) + sum(not node.layout.path for node in sends)

    def kernel_seconds(self) -> dict[tuple[str, str], float]:
        """Returns what kernels take by what was measured, by node and device; small ones are not measured."""
        return {at: estimate.seconds for at, estimate in self._estimates.items() if estimate.seconds}

    def abort(self, live: IterationState, error: BaseException) -> None:
        """Ends the step of `live` with `error`."""
        live.step.abort(error)

    def waits(self, step: Step) -> list[str]:
        """Returns what a step waits for, one phrase each; empty when it only waits for its turn."""
        if step.state is None:
            return []
        found = [f"{ref.name!r} to answer {reply}" for reply, ref in (step.calls or {}).items()]
        # Kernels on threads are listed by address; loops between two turns say themselves where they are.
        found += [f"{at} on a thread" if isinstance(at, str) else str(at) for at in step.running]
        for live in is_alive(step.state):
            layout = self._root if live.frame is None else live.frame.layout
            # What a tag began with: a constant that has come is not awaited any more.
            around = layout if live.frame is None else live.frame
            template = around.later if live.iteration else around.first
            for node in self.nodes:
                left = live.counts[node.i] if node.layout is layout else 0
                if left and node.plan.kind is NodeKind.RECV:
                    found.append(f"{node.address!r} from {node.plan.attrs['source']!r}")
                # Some of its inputs have come: nodes that got nothing yet only wait for these.
                elif 0 < left < template[node.i]:
                    found.append(f"{left} of {template[node.i]} inputs of {node.address}")
        return found

    # -- installing --------------------------------------------------------------------------------

    def _layout(self, path: tuple[str, ...]) -> FrameTemplate:
        if path not in self.layouts:
            parallel = self.program.parallel_iterations.get(path, 1)
            self.layouts[path] = FrameTemplate(path, parallel_iterations=parallel)
        return self.layouts[path]

    def _connect(self) -> None:
        """Gives every node the targets of its outputs."""
        idle = self._idle()
        for i, (node, plan) in enumerate(zip(self.nodes, self.program.nodes, strict=True)):
            for port, source in enumerate(plan.inputs):
                if isinstance(source, Edge) and i not in idle:
                    # Of an idle node the targets go to whoever feeds it.
                    maker = idle.get(source.node, source)
                    self.nodes[maker.node].targets[maker.output].append((node, port))
            if i in idle:
                # It never fires, so the turn must not wait for it.
                node.layout.fires -= 1
            for i in plan.controls:
                self.nodes[i].control_targets.append(node)
            if plan.kind is NodeKind.ENTER:
                node.to_layout = self._layout((*plan.frame, plan.attrs["frame"]))
                # A new entry waits for so many constants before its nodes fire together: see `fused_firing`.
                node.to_layout.constants += bool(plan.attrs.get("is_constant"))
        for i, taken in consumed_takes(self.program).items():
            self.nodes[i].uses = [self.nodes[k] for k in sorted(taken)]

    def _idle(self) -> dict[int, Edge]:
        """The nodes that only say that their input decides over another turn, and where that comes from."""
        nodes = self.program.nodes
        awaited = {c for node in nodes for c in node.controls}
        # Whoever takes what they give takes their input, and they never fire: of a loop of two scalars 8.85 →
        # 8.26 µs a turn.
        return {
            i: node.inputs[0]
            for i, node in enumerate(nodes)
            if node.kind is NodeKind.LOOP_COND
            and isinstance(node.inputs[0], Edge)
            # Something waits for it, or it for something: then it has to fire.
            and not node.controls
            and i not in awaited
        }

    def _number(self) -> None:
        """Gives every node its place in the flat state of its frame."""
        kinds = [plan.kind for plan in self.program.nodes]
        for node, plan in zip(self.nodes, self.program.nodes, strict=True):
            layout = node.layout
            node.i = len(layout.first)
            node.slot = len(layout.slots)
            layout.fires += 1
            # From outside: their one slot is filled by whoever feeds the step, or by a link.
            if plan.kind in (NodeKind.FEED, NodeKind.RECV):
                node.n_in = 1
                layout.first.append(1 + node.controls)
                layout.later.append(1 + node.controls)
                layout.slots.append(None)
                continue
            if plan.kind is NodeKind.EXIT:
                layout.exits.append(node)
            edges = [source for source in plan.inputs if isinstance(source, Edge)]
            back = [e for e in edges if kinds[e.node] is NodeKind.NEXT_ITERATION]
            if node.merge:
                # The turn that enters waits for the Enters, every later one for the back edges; a merge of
                # branches waits for all in both.
                layout.first.extend((len(edges) - len(back), node.controls))
                layout.later.extend((len(back) or len(edges), node.controls))
                # the live value and its index
                layout.slots.extend((None, None))
                if not edges or len(edges) < len(plan.inputs):
                    raise InternalError("a merge takes one edge or more, and no constants", where=plan.where)
                continue
            # A back edge leads into the next turn, where only a merge expects other inputs than in the first.
            if back:
                raise InternalError("a next_iteration leads to a merge", where=plan.where)
            layout.first.append(len(edges) + node.controls)
            layout.later.append(len(edges) + node.controls)
            # Constants lie in their slots from the start, in every tag.
            layout.slots.extend(
                self._constant(s.value, plan) if isinstance(s, Constant) else None for s in plan.inputs
            )
            # Nothing will complete it: it is put into the ring when its tag starts.
            if not edges and not node.controls:
                layout.sources.append(node)

    def _equip(self, node: NodeActor) -> Callable[..., Any] | None:
        """Gives a node what it does with a firing; returns the function if that may be compiled in."""
        plan = node.plan
        match plan.kind:
            case NodeKind.KERNEL | NodeKind.RANDOM:
                return self._kernel(node)
            case NodeKind.ROUTINE:
                node.run = self._compiled_body(node)
            case NodeKind.COPY:
                node.run = self._copy(node)
            case NodeKind.REQUEST | NodeKind.WAIT:
                node.run = self._request(node) if "block" not in plan.attrs else self._request_inside(node)
            case NodeKind.RELEASE:
                node.run = self._release(node)
            case NodeKind.SWITCH:
                # Of a value the side that is not chosen gets DEAD, so that it ends.
                node.run = lambda live, args: node.emit(live, (DEAD, args[0]) if args[1] else (args[0], DEAD))
            case NodeKind.FEED | NodeKind.RECV | NodeKind.LOOP_COND | NodeKind.PASS:
                node.run = lambda live, args: node.emit(live, args[0])
                return _pass
            case _:
                node.run = lambda live, args: node.emit(live, args[0])
        return None

    def _token_sender(self, plan: PlanNode) -> TokenSender:
        if self._around.token_sender is None:
            raise InternalError("a program that sends was installed where nothing takes it", where=plan.where)
        return self._around.token_sender

    def _kernel(self, node: NodeActor) -> Callable[..., Any] | None:
        plan = node.plan
        device = self._device(plan)
        try:
            kernel = registry.find(plan.op, device.library)
        except PlacementError as error:
            # The registry knows op and library, but not which line of the user asked.
            raise error.at(plan.where) from None
        function = kernel.bind(plan.attrs)
        if isinstance(device, Gpu):
            node.run = submit_kernel(node, device.submit, function, random=plan.kind is NodeKind.RANDOM)
            return None
        # It needs its tag, which a compiled closure does not hand on.
        if plan.kind is NodeKind.RANDOM:
            node.run = lambda live, args: node.emit(live, function(*args, counter=counter(live)))
            return None
        # Known shapes tell beforehand that it is short: it is never measured.
        cost = self._static_cost(kernel, plan)
        if cost is not None and device.surely_inline(cost):
            self._units[node] = cost
            short = between(function, self._describe_inputs(plan))
            # An operator of Python stands in for it: it takes numbers of numpy sooner than arrays without
            # axes.
            node.operand = short is not function
            node.run = lambda live, args: node.emit(live, short(*args))
            return short
        # One for node and device, which the session reports as what the kernel takes.
        estimate = self._estimates[plan.name, device.name] = Estimate(kernel, dict(plan.attrs))
        node.run = measure_kernel(node, device, function, estimate)
        return None

    def _compiled_body(self, node: NodeActor) -> Run:
        plan = node.plan
        assert plan.routine is not None
        device = self._device(plan)

        def bind(inner: PlanNode) -> Callable[..., Any]:
            try:
                return registry.find(inner.op, device.library).bind(inner.attrs)
            except PlacementError as error:
                raise error.at(inner.where) from None

        def cost(inner: PlanNode, given: Sequence[Any]) -> float:
            return registry.find(inner.op, device.library).cost(*given, **inner.attrs)

        place = Operand(plan.op, plan.where)
        arrive = device.upload if isinstance(device, Gpu) else None
        found = compile_body(
            plan.routine, len(plan.inputs), bind, partial(self._bring, device), place, arrive
        )
        return drive_loop(node, device, found, units=cost_of(plan.routine, cost))

    def _device(self, plan: PlanNode) -> AnyDevice:
        return self._around.devices.get(plan.device) or self._host

    def _constant(self, value: Any, plan: PlanNode) -> Any:
        """Returns a constant as an array of the device that computes with it."""
        # What hands it on unchanged keeps the host's.
        if plan.kind in _HOLDS_ARRAYS_OF_THE_HOST:
            return value
        found = self._bring(self._device(plan), value)
        if plan.kind is NodeKind.KERNEL and not isinstance(self._device(plan), Gpu):
            # An operator takes a number of numpy sooner than an array without axes.
            return scalar(found) if self._is_between_scalars(plan) else found
        return found

    def _describe_inputs(self, plan: PlanNode) -> list[Described]:
        """What is known of the inputs of a node."""
        nodes = self.program.nodes
        return [nodes[s.node].outputs[s.output] if isinstance(s, Edge) else s.value for s in plan.inputs]

    def _is_between_scalars(self, plan: PlanNode) -> bool:
        function = registry.find(plan.op, self._device(plan).library).bind(plan.attrs)
        return operator(function, self._describe_inputs(plan)) is not None

    def _bring(self, device: AnyDevice, value: Any) -> Any:
        """Returns a constant as an array of a device, which gets it once."""
        if not isinstance(device, Gpu):
            return value
        # by identity: the program keeps the value alive for as long as this dictionary lives
        key = (device.name, id(value))
        if key not in self._copies:
            self._copies[key] = device.constant(value)
        return self._copies[key]

    def _copy(self, node: NodeActor) -> Run:
        """Returns how a value comes from one device to another: the card does it, if there is one."""
        source, target = self._around.devices[node.plan.attrs["source"]], self._device(node.plan)
        if isinstance(target, Gpu):
            return submit_kernel(node, target.submit, target.upload)
        if isinstance(source, Gpu):
            return submit_kernel(node, source.collect, source.download)
        kernel = registry.find("copy", target.library)
        return measure_kernel(node, target, kernel.function, Estimate(kernel, {}))

    def _static_cost(self, kernel: registry.Kernel, plan: PlanNode) -> float | None:
        """Returns the cost of a kernel whose input shapes are all known, else None."""
        args: list[Any] = []
        for source in plan.inputs:
            if isinstance(source, Constant):
                args.append(source.value)
                continue
            shape = self.nodes[source.node].plan.outputs[source.output].shape
            if shape is None:
                return None
            sizes = tuple(n for n in shape if n is not None)
            if len(sizes) < len(shape):
                return None
            # by shapes alone: no array exists yet
            args.append(Shaped(sizes))
        return kernel.cost(*args, **plan.attrs)

    def _request(self, node: NodeActor) -> Run:
        plan = node.plan
        assert plan.resource is not None
        try:
            ref = self._around.find(plan.resource)
        except ActorflowError as error:
            # found or made when the plan is installed, so the error has to be placed here
            raise error.at(plan.where) from error.__cause__
        sender = self._around.sender
        body: Body = body_of(plan, self._around.source, self._around.sequence)
        may_wait = plan.kind is NodeKind.WAIT

        def run(live: IterationState, args: Sequence[Any]) -> None:
            reply = Completion(node, live)
            call = Call(reply, body(args))
            # ORDER: noted before it is asked: an answer may come at once, and takes itself off.
            if may_wait:
                live.step.wait_in(ref, reply)
            ref.put(call, sender)

        return run

    def _request_inside(self, node: NodeActor) -> Run:
        """As `_request`, for a node of an atomic block, which says for whom it asks."""
        plan = node.plan
        assert plan.resource is not None
        ref = self._around.find(plan.resource)
        body = body_inside(plan, self._around.source, self._around.sequence)
        may_wait = plan.kind is NodeKind.WAIT

        def run(live: IterationState, args: Sequence[Any]) -> None:
            reply = Completion(node, live)
            # ORDER: as in `_request`.
            if may_wait:
                live.step.wait_in(ref, reply)
            ref.put(Call(reply, body(live.step, args)), self._around.sender)

        return run

    def _release(self, node: NodeActor) -> Run:
        attrs = node.plan.attrs
        refs = [self._around.find(Holder(Holding.RESOURCE, name)) for name in attrs["resources"]]
        block = attrs["block"]
        locks = [n for n in self.nodes if n.plan.op == "lock_variable" and n.plan.attrs["block"] == block]
        return release(node, refs, locks)


def _fetch(node: NodeActor, k: int) -> Callable[[IterationState], None]:
    slot, plan = node.slot, node.plan

    def fire(live: IterationState) -> None:
        live.step.arrive(k, live.slots[slot], plan)

    return fire


def _pass(value: Any) -> Any:
    return value
