"""Cuts a program into one a process; what an edge between two of them carries is sent and received.

Every process lowers the same graph in the same way and cuts it in the same way, so keys are numbers that
all of them count alike, and only these numbers travel. Where an edge leads from one process to another
stand a SEND and a RECV. Dead tokens travel as any other.

Every node of a part leads to one of its fetches or SENDs, so a part has ended once all of those have fired.

A loop may be over several processes (`plan.partition.control_loops`): what crosses within one is sent once a
turn, and says in which.

Pure: a function of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from actorflow.plan.partition.consumed_takes import consumed_takes
from actorflow.plan.partition.control_loops import with_control_loops
from actorflow.plan.placement.transfer_controls import (
    NO_CONTROLS,
    TransferControls,
    copy_controls,
    transfer_controls,
)
from actorflow.plan.program import Constant, Edge, NodeKind, PlanNode, Program
from actorflow.values.spec import spec

Process = str
_TOKEN = spec("bool", ())


@dataclass(frozen=True, slots=True)
class Transfer:
    """What leaves one process for another, once a step, or once a turn of the loop in which it lies.

    Attributes:
        edge: The tensor's name, `layer/add:0`; of a control edge `^layer/add`.
    """

    edge: str
    source: Process
    destination: Process


@dataclass(frozen=True, slots=True)
class Part:
    """What one process runs of a program.

    Attributes:
        program: Its `feeds` and `fetches` are some of those of the whole, in order.
        feeds: Which of the step's feeds start here.
        fetches: Which of the step's fetches end here.
        receives: The RECV node of each key, in the order in which what they bring is first needed.
        sends: How many SEND nodes there are.
        takes: The numbers of those takes of its nodes that are used up where this part does not see it,
            by node.
        transfer_controls: For which of its nodes the copies between its devices wait.
        consumed_takes: The numbers of such takes that its nodes use up, wherever they were made, by node.
    """

    program: Program
    feeds: tuple[int, ...]
    fetches: tuple[int, ...]
    receives: Mapping[int, int]
    sends: int
    takes: Mapping[int, int]
    consumed_takes: Mapping[int, tuple[int, ...]]
    transfer_controls: TransferControls


@dataclass(frozen=True, slots=True)
class Partitioning:
    """A program in parts.

    Attributes:
        parts: By process; processes that have nothing to do are not there.
        transfers: What crosses; the key of each is its index.
    """

    parts: Mapping[Process, Part]
    transfers: tuple[Transfer, ...]


def partition_program(
    program: Program,
    process_of: Callable[[str], Process],
    home: Process,
    within: Callable[[str], str] = str,
    controls: TransferControls = NO_CONTROLS,
) -> Partitioning:
    """Returns the parts of a program that has no copies yet.

    Args:
        program: Its nodes name devices; a node without one is at home.
        process_of: The process of a device.
        home: The process where the fetches lie.
        within: What a process calls a device of its own.
        controls: (output, device) -> nodes of that device for which the transfer waits: its sender hears from
            them by a bare token. Only where one device of that process takes the value.

    Raises:
        PlacementError: when a loop over several processes has no predicate.
    """
    return _Partitioner(program, process_of, home, within, controls).result()


@dataclass(slots=True)
class _PartDraft:
    """A part in the making: what is in it so far, and where nodes of the whole program have gone."""

    nodes: list[PlanNode] = field(default_factory=list)
    feeds: list[int] = field(default_factory=list)
    fetches: list[int] = field(default_factory=list)
    feed_nodes: list[int] = field(default_factory=list)
    fetch_nodes: list[int] = field(default_factory=list)
    receives: dict[int, int] = field(default_factory=dict)
    sends: int = 0
    takes: dict[int, int] = field(default_factory=dict)
    consumed_takes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    transfer_controls: dict[tuple[Edge, str], tuple[int, ...]] = field(default_factory=dict)
    waiting: dict[int, tuple[int, ...]] = field(default_factory=dict)
    index: dict[int, int] = field(default_factory=dict)

    def add(self, node: PlanNode) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1


class _Partitioner:
    """One partitioning: first which edges cross, then the parts, in the order of the program."""

    def __init__(
        self,
        program: Program,
        process_of: Callable[[str], Process],
        home: Process,
        within: Callable[[str], str],
        controls: TransferControls,
    ) -> None:
        of = [process_of(n.device) if n.device else home for n in program.nodes]
        # Fetches lie in one process, the home of the step.
        for i in program.fetches:
            of[i] = home
        # ORDER: control loops before all else, since they add nodes, and edges that cross.
        program, self._of = with_control_loops(program, of)
        self._program = program
        self._nodes = program.nodes
        self._within = within
        self._held = transfer_controls(program, self._of, process_of, controls)
        self._copied = copy_controls(program, self._of, process_of, controls)
        self._fed = {i: k for k, i in enumerate(program.feeds)}
        self._fetched = {i: k for k, i in enumerate(program.fetches)}
        self._drafts: dict[Process, _PartDraft] = {}
        self._transfers: list[Transfer] = []
        self._keys: dict[tuple[Edge | int, Process], int] = {}
        self._leaving: dict[int, list[tuple[int, Edge | int]]] = {}  # by node: key, and what it carries

    def result(self) -> Partitioning:
        # ORDER: 1. what crosses gets its keys; 2. every node gets its place; 3. edges lead to places, which
        # edges that lead back have only now; 4. and 5. what waits for places and edges.
        self._find_transfers()
        for i, node in enumerate(self._nodes):
            # A feed starts on every process that needs it: Start comes there in any case, and no token could
            # come earlier.
            if i not in self._fed:
                self._place(i, node)
        for i, node in enumerate(self._nodes):
            if i not in self._fed:
                self._join(i, node)
        for process, draft in self._drafts.items():
            self._hold_back(process, draft)
        self._number_takes()
        return Partitioning(
            {p: self._part(d) for p, d in sorted(self._drafts.items())}, tuple(self._transfers)
        )

    # -- which edges cross -------------------------------------------------------------------------

    def _find_transfers(self) -> None:
        data: dict[tuple[Edge, Process], None] = {}
        bare: dict[tuple[int, Process], None] = {}
        # One transfer for each tensor and destination, however many nodes there need it.
        for i, node in enumerate(self._nodes):
            there = self._of[i]
            for source in node.inputs:
                if isinstance(source, Edge) and self._crosses(source.node, there):
                    data[source, there] = None
            for c in node.controls:
                if self._crosses(c, there):
                    bare[c, there] = None
        found: list[tuple[int, int, Process, Edge | int]] = [(e.node, e.output, to, e) for e, to in data]
        for (held_back, _), after in (*self._held.items(), *self._copied.items()):
            # Whoever is to hold a transfer back has to tell its sender.
            here = self._of[held_back.node]
            bare.update(((c, here), None) for c in after if self._crosses(c, here))
        found += [(c, -1, to, c) for c, to in bare if not self._says_all(c, to, data)]
        # In the order of the program, which is the same in all processes: so is the number of each.
        for maker, output, to, what in sorted(found, key=lambda f: f[:3]):
            key = len(self._transfers)
            name = self._nodes[maker].name
            edge = f"{name}:{output}" if output >= 0 else f"^{name}"
            self._transfers.append(Transfer(edge, self._of[maker], to))
            self._keys[what, to] = key
            self._leaving.setdefault(maker, []).append((key, what))

    def _says_all(self, node: int, to: Process, data: Mapping[tuple[Edge, Process], None]) -> bool:
        """Tells whether a control edge needs no transfer of its own.

        The value of a node's only output says as well that the node has fired, and whether it is dead; but
        one that is held back would say so too late.
        """
        value = (Edge(node), to)
        return value in data and value not in self._held and self._outputs(node) == 1

    def _crosses(self, node: int, to: Process) -> bool:
        return node not in self._fed and self._of[node] != to

    def _outputs(self, node: int) -> int:
        return len(self._nodes[node].outputs)

    # -- the parts ---------------------------------------------------------------------------------

    def _draft(self, process: Process) -> _PartDraft:
        return self._drafts.setdefault(process, _PartDraft())

    def _place(self, i: int, node: PlanNode) -> None:
        """Puts a node into its part, after what it receives and before what it sends."""
        here = self._of[i]
        draft = self._drafts.setdefault(here, _PartDraft())
        for source in (*node.inputs, *node.controls):
            if not isinstance(source, Constant):
                self._bring(draft, here, source)
        # ORDER: RECVs stand before whoever takes them, SENDs behind whoever made it.
        at = draft.index[i] = draft.add(node)
        if i in self._fetched:
            draft.fetches.append(self._fetched[i])
            draft.fetch_nodes.append(at)
        for key, what in self._leaving.get(i, ()):
            send = draft.add(self._send(key, node, at, what))
            draft.sends += 1
            after = (
                self._held.get((what, self._transfers[key].destination)) if isinstance(what, Edge) else None
            )
            if after:
                draft.waiting[send] = after

    def _bring(self, draft: _PartDraft, here: Process, source: Edge | int) -> None:
        """Makes the FEED or RECV node for what a node of a part needs, unless it is there."""
        maker = source.node if isinstance(source, Edge) else source
        if maker in self._fed:
            self._feed(draft, maker)
        elif self._of[maker] != here:
            self._receive(draft, here, self._what(source, here))

    def _what(self, source: Edge | int, here: Process) -> Edge | int:
        """Returns what is transferred for an edge: of a control edge it may be the node's value."""
        # A control edge has no transfer of its own where the node's value comes to that process anyway: its
        # RECV serves.
        return source if (source, here) in self._keys or isinstance(source, Edge) else Edge(source)

    def _join(self, i: int, node: PlanNode) -> None:
        """Leads the edges of a node to where their makers are in its part, now that all have a place."""
        here = self._of[i]
        draft = self._drafts[here]

        def source(edge: Edge) -> Edge:
            if edge.node in draft.index:
                return Edge(draft.index[edge.node], edge.output)
            return Edge(self._receive(draft, here, edge))

        at = draft.index[i]
        draft.nodes[at] = replace(
            draft.nodes[at],
            inputs=tuple(s if isinstance(s, Constant) else source(s) for s in node.inputs),
            controls=self._after(draft, here, node.controls),
            # As that process calls its own devices.
            device=self._within(node.device) if node.device else "",
        )

    def _after(self, draft: _PartDraft, here: Process, makers: Sequence[int]) -> tuple[int, ...]:
        """Returns those nodes of a part that say that `makers` have fired."""

        def control(maker: int) -> int:
            found = draft.index.get(maker)
            return self._receive(draft, here, self._what(maker, here)) if found is None else found

        return tuple(dict.fromkeys(map(control, makers)))

    def _hold_back(self, here: Process, draft: _PartDraft) -> None:
        """Lets what a part sends, and the copies in it, wait for their controls."""
        for send, after in draft.waiting.items():
            draft.nodes[send] = replace(draft.nodes[send], controls=self._after(draft, here, after))
        for (edge, device), after in self._copied.items():
            if self._of[edge.node] == here:
                at = Edge(draft.index[edge.node], edge.output)
                draft.transfer_controls[at, self._within(device)] = self._after(draft, here, after)

    def _number_takes(self) -> None:
        """Numbers the takes that some part uses up without seeing where they were made."""
        seen: dict[Process, dict[int, frozenset[int]]] = {}
        # What a step took out of a queue in one process may be used in another, where nobody sees the take.
        whole = consumed_takes(self._program)
        unseen: set[int] = set()
        for writer, takes in whole.items():
            draft = self._drafts[self._of[writer]]
            if self._of[writer] not in seen:
                # As the part sees it by itself: what lies in it needs no number.
                seen[self._of[writer]] = consumed_takes(Program(tuple(draft.nodes)))
            local = seen[self._of[writer]].get(draft.index[writer], frozenset())
            unseen |= {t for t in takes if draft.index.get(t) not in local}
        # sorted: all processes count alike
        number = {take: k for k, take in enumerate(sorted(unseen))}
        for take, k in number.items():
            draft = self._drafts[self._of[take]]
            draft.takes[draft.index[take]] = k
        for writer, takes in whole.items():
            numbers = tuple(sorted(number[t] for t in takes if t in number))
            if numbers:
                draft = self._drafts[self._of[writer]]
                draft.consumed_takes[draft.index[writer]] = numbers

    def _feed(self, draft: _PartDraft, node: int) -> None:
        if node not in draft.index:
            draft.index[node] = draft.add(self._nodes[node])
            draft.feeds.append(self._fed[node])
            draft.feed_nodes.append(draft.index[node])

    def _receive(self, draft: _PartDraft, here: Process, what: Edge | int) -> int:
        key = self._keys[what, here]
        # Once for a part, however many nodes need it.
        if key not in draft.receives:
            maker = self._nodes[what.node if isinstance(what, Edge) else what]
            carried = maker.outputs[what.output] if isinstance(what, Edge) else _TOKEN
            transfer = self._transfers[key]
            draft.receives[key] = draft.add(
                PlanNode(
                    name=transfer.edge,
                    op="recv",
                    kind=NodeKind.RECV,
                    inputs=(),
                    attrs={"key": key, "source": transfer.source},
                    outputs=(carried,),
                    frame=_frame_of(maker),
                    where=maker.where,
                )
            )
        return draft.receives[key]

    def _send(self, key: int, maker: PlanNode, at: int, what: Edge | int) -> PlanNode:
        transfer = self._transfers[key]
        return PlanNode(
            name=f"{transfer.edge}>{transfer.destination}",
            op="send",
            kind=NodeKind.SEND,
            # A bare token waits for its node instead of taking a value.
            inputs=(Edge(at, what.output),) if isinstance(what, Edge) else (),
            controls=() if isinstance(what, Edge) else (at,),
            attrs={"key": key, "destination": transfer.destination},
            frame=_frame_of(maker),
            where=maker.where,
        )

    def _part(self, draft: _PartDraft) -> Part:
        whole = self._program
        # Each part says what it touches itself.
        touched: set[str] = set()
        for node in draft.nodes:
            touched.update(node.attrs.get("resources", ()))
            if "resource" in node.attrs:
                touched.add(node.attrs["resource"])
        program = Program(
            nodes=tuple(draft.nodes),
            feeds=tuple(draft.feed_nodes),
            fetches=tuple(draft.fetch_nodes),
            variables=whole.variables & touched,
            parallel_iterations=whole.parallel_iterations,
        )
        return Part(
            transfer_controls=dict(draft.transfer_controls),
            program=program,
            feeds=tuple(draft.feeds),
            fetches=tuple(draft.fetches),
            receives=dict(draft.receives),
            sends=draft.sends,
            takes=dict(draft.takes),
            consumed_takes=dict(draft.consumed_takes),
        )


def _frame_of(maker: PlanNode) -> tuple[str, ...]:
    """The frame in which what a node gives is met: an Exit gives to the one around its own."""
    return maker.frame[:-1] if maker.kind is NodeKind.EXIT else maker.frame
