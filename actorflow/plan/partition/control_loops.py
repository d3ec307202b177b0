"""Loops over several processes: who takes part in the turns of one, and how it hears that there is another.

A turn of a loop is a tag of its own in every process that computes something of it. One that carries a loop
variable begins turns by that. Each of the others gets a small loop that carries nothing but the fact of a
turn. So turns begin and end in every process by the same rule as in one.

Pure: a function of the program, like the partitioning, which is made of what comes out.

Source: the control loops of TensorFlow (Abadi et al., white paper 2015, section 4.4; `graph_partition.cc`);
the answer to the leader is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from actorflow.errors import PlacementError
from actorflow.plan.program import Constant, Edge, NodeKind, PlanNode, Program
from actorflow.values import arrays
from actorflow.values.spec import ListSpec, Spec, spec

Process = str
Frame = tuple[str, ...]

_TOKEN = spec("bool", ())
_INDEX = spec("int32", ())


def with_control_loops(program: Program, of: Sequence[Process]) -> tuple[Program, list[Process]]:
    """Returns the program with control loops, and the process of each of its nodes.

    Args:
        program: Loops are in their tagged form.
        of: The process of each node.

    Raises:
        PlacementError: when a loop over several processes has no predicate that says when it ends.
    """
    if not any(node.frame for node in program.nodes):
        return program, list(of)
    return ControlLoop(program, of).result()


class ControlLoop:
    """One use of the rule: nodes are appended, so all indices stay what they are."""

    def __init__(self, program: Program, of: Sequence[Process]) -> None:
        self.program = program
        self.nodes = list(program.nodes)
        self.of = list(of)

    def result(self) -> tuple[Program, list[Process]]:
        """Returns the program with its control loops, and the process of each node."""
        # ORDER: nodes first stand where they must; then it is known who takes part in a frame.
        self._settle_next()
        self._settle_enters()
        for frame, members in self._members().items():
            self._control(frame, members)
        return replace(self.program, nodes=tuple(self.nodes)), self.of

    def _settle_next(self) -> None:
        """Puts every NextIteration where its Merge is."""
        for i, node in enumerate(self.nodes):
            for source in node.inputs:
                if isinstance(source, Edge) and self.nodes[source.node].kind is NodeKind.NEXT_ITERATION:
                    # So that no edge crosses between turns: every transfer belongs to one tag.
                    self.of[source.node] = self.of[i]

    def _settle_enters(self) -> None:
        """Puts an Enter into each process that uses what it brings in: inner ones first, which use others."""
        depths = {len(node.frame) for node in self.nodes if node.kind is NodeKind.ENTER}
        # The inner ones first: an Enter is a user of the one outside of it.
        for depth in sorted(depths, reverse=True):
            self._settle_enters_at(depth)

    def _settle_enters_at(self, depth: int) -> None:
        users: dict[int, dict[Process, list[int]]] = {}
        for i, node in enumerate(self.nodes):
            makers = [s.node for s in node.inputs if isinstance(s, Edge)]
            for maker in dict.fromkeys((*makers, *node.controls)):
                if self.nodes[maker].kind is NodeKind.ENTER and len(self.nodes[maker].frame) == depth:
                    users.setdefault(maker, {}).setdefault(self.of[i], []).append(i)
        for enter, there in users.items():
            # One of them is the Enter itself, the others get copies of it.
            first, *others = there
            if self.of[enter] in there:
                others = [p for p in there if p != self.of[enter]]
            else:
                self.of[enter] = first
            for process in others:
                node = self.nodes[enter]
                copy = self._add(replace(node, name=f"{node.name}@{process}"), process)
                for user in there[process]:
                    self._redirect(user, enter, copy)

    def _redirect(self, user: int, before: int, after: int) -> None:
        node = self.nodes[user]
        self.nodes[user] = replace(
            node,
            inputs=tuple(
                Edge(after, s.output) if isinstance(s, Edge) and s.node == before else s for s in node.inputs
            ),
            controls=tuple(after if c == before else c for c in node.controls),
        )

    def _members(self) -> dict[Frame, list[Process]]:
        """The processes that have something of each frame or of one within it, outer frames first."""
        found: dict[Frame, dict[Process, None]] = {}
        for i, node in enumerate(self.nodes):
            # Who has something of an inner loop has to take part in the turns of those around it.
            for depth in range(1, len(node.frame) + 1):
                found.setdefault(node.frame[:depth], {})[self.of[i]] = None
        return {frame: sorted(found[frame]) for frame in sorted(found, key=lambda f: (len(f), f))}

    def _control(self, frame: Frame, members: Sequence[Process]) -> None:
        """Gives all members of a frame but its leader a control loop."""
        # Turns begin and end there by themselves.
        if len(members) == 1:
            return
        conds = [i for i, n in enumerate(self.nodes) if n.frame == frame and n.kind is NodeKind.LOOP_COND]
        if not conds:
            node = next(n for n in self.nodes if n.frame == frame)
            message = f"a loop over several processes needs a predicate, {'/'.join(frame)!r} has none"
            raise PlacementError(message, where=node.where, hint="place it in one process")
        # The process that owns the predicate leads: it is never further ahead of anybody than
        # `parallel_iterations` turns, since its own turn has not ended before all others have told it that
        # they have begun.
        cond, leader = conds[0], self.of[conds[0]]
        entering = self._entering(frame)
        for process in members:
            # A loop variable begins turns by itself.
            turn = self._carried_merge(frame, process)
            if turn is None:
                turn = self._loop(frame, process, cond, entering)
            if process != leader:
                self._answer(frame, turn, process, leader)

    def _carried_merge(self, frame: Frame, process: Process) -> int | None:
        """The Merge of a loop variable of a process, which begins turns there by itself; None without one."""
        for i, node in enumerate(self.nodes):
            if node.kind is NodeKind.MERGE and node.frame == frame and self.of[i] == process:
                makers = [self.nodes[s.node].kind for s in node.inputs if isinstance(s, Edge)]
                if NodeKind.NEXT_ITERATION in makers:
                    return i
        return None

    def _entering(self, frame: Frame) -> tuple[Edge | Constant, tuple[int, ...]]:
        """What a control loop is entered with, and after which nodes: small, and dead when the loop is."""
        enters = [
            i
            for i, n in enumerate(self.nodes)
            if n.kind is NodeKind.ENTER and (*n.frame, n.attrs["frame"]) == frame
        ]
        enters.sort(key=lambda i: isinstance(self.nodes[i].outputs[0], ListSpec))  # these are not small
        for i in enters:
            node = self.nodes[i]
            source = node.inputs[0]
            if isinstance(source, Edge):
                # Of what enters only the number of the merge's input travels: small, and dead exactly when
                # the loop is.
                token = PlanNode(
                    name=f"{'/'.join(frame)}/entered",
                    op="merge",
                    kind=NodeKind.MERGE,
                    inputs=(source,),
                    outputs=(self.nodes[source.node].outputs[source.output], _INDEX),
                    frame=frame[:-1],
                    where=node.where,
                )
                return Edge(self._add(token, self.of[i]), 1), node.controls
        # Only constants enter: the loop is never dead, and a truth will do.
        return Constant(arrays.truth(True)), self.nodes[enters[0]].controls

    def _loop(
        self, frame: Frame, process: Process, cond: int, entering: tuple[Edge | Constant, tuple[int, ...]]
    ) -> int:
        """Gives a process a control loop; returns its Merge, which fires when a turn begins."""
        title, where = f"{'/'.join(frame)}@{process}", self.nodes[cond].where
        source, controls = entering
        token = _TOKEN if isinstance(source, Constant) else _INDEX

        def add(
            role: str, kind: NodeKind, inputs: tuple[Edge | Constant, ...], outputs: tuple[Spec, ...]
        ) -> int:
            is_enter = kind is NodeKind.ENTER
            node = PlanNode(
                name=f"{title}/{role}",
                op=kind.value,
                kind=kind,
                inputs=inputs,
                controls=controls if is_enter else (),
                attrs={"frame": frame[-1]} if is_enter else {},
                outputs=outputs,
                frame=frame[:-1] if is_enter else frame,
                where=where,
            )
            return self._add(node, process)

        # Entered when the loop is, it goes on as the predicate of the turn says, which it is sent.
        enter = add("enter", NodeKind.ENTER, (source,), (token,))
        merge = add("turn", NodeKind.MERGE, (Edge(enter),), (token, _INDEX))
        switch = add("another", NodeKind.SWITCH, (Edge(merge), Edge(cond)), (token, token))
        following = add("next", NodeKind.NEXT_ITERATION, (Edge(switch, 1),), (token,))
        # ORDER: last, since what leads back comes from behind.
        self.nodes[merge] = replace(self.nodes[merge], inputs=(Edge(enter), Edge(following)))
        return merge

    def _answer(self, frame: Frame, turn: int, process: Process, leader: Process) -> None:
        """Has the leader's turn wait until a process has begun it."""
        # A node of the leader's turn that waits for the other's Merge: the turn ends only when it has fired.
        begun = PlanNode(
            name=f"{'/'.join(frame)}@{process}/begun",
            op="merge",
            kind=NodeKind.MERGE,
            inputs=(Edge(turn, 1),),
            outputs=(_INDEX, _INDEX),
            frame=frame,
            where=self.nodes[turn].where,
        )
        self._add(begun, leader)

    def _add(self, node: PlanNode, process: Process) -> int:
        self.nodes.append(node)
        self.of.append(process)
        return len(self.nodes) - 1
