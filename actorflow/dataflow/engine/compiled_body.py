"""Writes a routine out as one Python function: kernels in a row, with loops and branches around them.

Nothing of the actor model happens inside: a node that runs a routine is one firing. What is written is a
generator that stops after every turn of a loop and says how many of it there have been, so that whoever
drives it can end it, go on later, or go on on a thread. A routine without loops is a plain function.

Gain over running turns as nodes: see `benchmarks control_flow`.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from traceback import walk_tb
from typing import Any
from weakref import finalize
from zlib import crc32

from actorflow.dataflow.engine.node import of_kernel
from actorflow.errors import Where
from actorflow.kernels.definition.scalar_operators import Described, operator, scalar
from actorflow.kernels.device.device import Shaped
from actorflow.plan.program import Constant, Edge, NodeKind, PlanNode, Program
from actorflow.plan.routine import ControlFlow, Routine
from actorflow.runtime.tag import Tag
from actorflow.values.arrays import as_array, as_dtype, truth
from actorflow.values.spec import ListSpec, Spec
from actorflow.values.tensor_list import TensorList

Bind = Callable[[PlanNode], Callable[..., Any]]
"""(node) -> its kernel with the attributes filled in."""

_LARGE_BYTES = 64 * 1024  # of a value that is let go of as soon as nobody needs it
_COUNT = as_dtype("int32")
_FILE = "<routine "
_DEEPEST = 15  # levels of indentation; Python has no more than 20 loops in each other
_files = count()


@dataclass(frozen=True, slots=True)
class Operand:
    """What a line computes.

    Attributes:
        op: The op.
        where: The node.
        loops: The loops around it, outermost first: the name of each, and of what counts its turns.
    """

    op: str
    where: Where
    loops: tuple[tuple[str, str], ...] = ()


_NOWHERE = Operand("", Where())


@dataclass(frozen=True, slots=True)
class CompiledBody:
    """A routine as a function.

    Attributes:
        function: (step, frame, turn, *inputs) -> the outputs; a generator function if it `turns`, which
            puts them into the list that it is given first.
        turns: Whether there are loops.
        source: What was written.
        places: For each file and line the node that it computes, and the loops around that.
    """

    function: Callable[..., Any]
    turns: bool
    source: str
    places: Mapping[tuple[str, int], Operand]

    def locate(self, error: BaseException, tag: Tag) -> BaseException:
        """Returns an error of one of its kernels as one of ours, at the node that failed, and in its turn."""
        place: Operand | None = None
        values: dict[str, Any] = {}
        # Outermost first: the last line of ours is that of the kernel. Names are unique across functions that
        # call each other, so the turns of all loops around it are among the locals.
        for frame, line in walk_tb(error.__traceback__):
            if frame.f_code.co_filename.startswith(_FILE):
                place = self.places.get((frame.f_code.co_filename, line))
                values.update(frame.f_locals)
        if place is None:
            return error
        # One frame deeper for each loop around; `frame` of the tag that it was given is the start.
        for name, turn in place.loops:
            tag = Tag(tag.step, (*tag.frame, (name, tag.iteration)), values[turn])
        where = replace(place.where, frame=str(tag)) if tag.frame else place.where
        return of_kernel(place.op, error, where)

    def between(self, turns: Iterator[Any], done: int) -> str:
        """Says in which loop a generator that it made stands, and in which turn.

        Args:
            turns: The generator.
            done: What it said last: how many turns of that loop have been.
        """
        inner: Any = turns
        # A loop that was written as a function of its own is a generator within this one.
        while inner.gi_yieldfrom is not None:
            inner = inner.gi_yieldfrom
        place = None
        if inner.gi_frame is not None:  # else it has ended
            place = self.places.get((inner.gi_code.co_filename, inner.gi_frame.f_lineno))
        return "" if place is None or not place.loops else f"turn {done} of loop {place.loops[-1][0]!r}"


def compile_body(
    routine: Routine,
    inputs: int,
    bind: Bind,
    constant: Callable[[Any], Any],
    place: Operand = _NOWHERE,
    arrive: Callable[[Any], Any] | None = None,
) -> CompiledBody:
    """Writes a routine out and compiles it.

    Args:
        routine: The routine.
        inputs: How many inputs the node has: of a branch the number of the branch comes first.
        bind: Gives kernels.
        constant: Brings a constant to the device.
        place: The node that runs it.
        arrive: Brings an array of the host to the device while the routine runs; None where it is there.
    """
    return _Writer(bind, constant, arrive).whole(routine, inputs, place)


class _Writer:
    """One function in the making: its lines, the names of its values and what it refers to."""

    def __init__(
        self,
        bind: Bind,
        constant: Callable[[Any], Any],
        arrive: Callable[[Any], Any] | None,
        names: Iterator[int] | None = None,
        loops: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.bind = bind
        self.constant = constant
        self.arrive = arrive
        self.lines: list[str] = []
        self.places: dict[int, Operand] = {}
        self.apart: dict[tuple[str, int], Operand] = {}  # the places of what stands in functions of its own
        self.loops = loops  # around what is being written
        self.known: dict[str, Any] = {
            # The number of turns is made on the host; on a card the program goes on with it there.
            "whole": _whole if arrive is None else lambda turns: arrive(_whole(turns)),
            "listed": TensorList.of,
            "absent": truth(False),
            "crc32": crc32,
        }
        self.names = count() if names is None else names
        self.turns = False
        self.depth = 1
        self.step = ("frame", "turn", "mark")  # names of: frame path, turn, its checksum

    def whole(self, routine: Routine, inputs: int, place: Operand) -> CompiledBody:
        names = [self.fresh() for _ in range(inputs)]
        # As `kernel_calls.counter` has it: the numbers drawn are those that the nodes of the lowered form
        # draw.
        if routine.draws:
            self.write("mark = crc32(repr(frame).encode()) if frame else 0")
        outputs = self.write_body(routine, names, place)
        told = "".join(f"{name}, " for name in outputs)
        if self.turns:
            # Into a list: what a generator returns is lost on the `for` that drives it.
            self.write(f"out.append(({told}))")
        else:
            # One output is sent as it is, several as a sequence: see `NodeActor.emit`.
            self.write(f"return ({told})" if len(outputs) != 1 else f"return {outputs[0]}")
        head = "out, step, frame, turn" if self.turns else "step, frame, turn"
        file = f"{_FILE}{next(_files)}>"
        source = "\n".join([f"def routine({', '.join([head, *names])}):", *self.lines, ""])
        scope = dict(self.known)
        exec(compile(source, file, "exec"), scope)
        # So that a traceback shows the line that failed.
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        # The lines go with the function, or a session that plans for ever would keep them all.
        finalize(scope["routine"], linecache.cache.pop, file, None).atexit = False
        places = {(file, line): at for line, at in self.places.items()}
        return CompiledBody(scope["routine"], self.turns, source, {**places, **self.apart})

    # -- lines -----------------------------------------------------------------------------------------

    def fresh(self) -> str:
        return f"v{next(self.names)}"

    def refer(self, prefix: str, value: Any) -> str:
        name = f"{prefix}{len(self.known)}"
        self.known[name] = value
        return name

    def write(self, line: str, place: Operand | None = None) -> None:
        self.lines.append("    " * self.depth + line)
        if place is not None:
            # the `def` is line 1
            self.places[len(self.lines) + 1] = place

    # -- flow ------------------------------------------------------------------------------------------

    def write_body(self, routine: Routine, inputs: Sequence[str], place: Operand) -> list[str]:
        """Writes a routine; returns the names of its outputs, those of a node."""
        if self.depth > _DEEPEST:
            return self.on_its_own(routine, inputs, place)
        if routine.control_flow is ControlFlow.LOOP:
            return self.loop(routine, inputs, place)
        if routine.control_flow is ControlFlow.CALL:
            # A call has one body and no turn of its own: it is written out in place.
            results = self.program(routine.bodies[0], inputs)
            return self.outputs(routine, 0, results)
        return self.branch(routine, inputs, place)

    def on_its_own(self, routine: Routine, inputs: Sequence[str], place: Operand) -> list[str]:
        """Writes a routine as a function of its own, and calls it."""
        # The same counter of names: `locate` looks for the turns of all functions in one dictionary.
        writer = _Writer(self.bind, self.constant, self.arrive, self.names, self.loops)
        made = writer.whole(routine, len(inputs), place)
        self.apart.update(made.places)
        function = self.refer("f", made.function)
        names = [self.fresh() for _ in range(routine.outputs)]
        # It computes the checksum itself, if it draws.
        args = ", ".join(["step", *self.step[:2], *inputs])
        found = ", ".join(names)
        if made.turns:
            self.turns = True
            out = self.fresh()
            # The turns go on to whoever drives the outer generator.
            self.write(f"{out} = []")
            self.write(f"yield from {function}({out}, {args})", place)
            self.write(f"({found},) = {out}[0]" if names else "pass")
        else:
            self.write(f"{found} = {function}({args})" if names else f"{function}({args})", place)
        return names

    def outputs(self, routine: Routine, body: int, results: Sequence[str]) -> list[str]:
        """The results, and of what is kept that which comes from this body."""
        # Of what other bodies would have kept for the gradient there is nothing.
        kept = [results[k[1]] if k is not None and k[0] == body else "absent" for k in routine.kept]
        return [*results[: routine.results], *kept]

    def branch(self, routine: Routine, inputs: Sequence[str], place: Operand) -> list[str]:
        chosen, given = inputs[0], inputs[1:]
        names = [self.fresh() for _ in range(routine.results + len(routine.kept))]
        number = self.fresh()
        # once: each test then compares two ints
        self.write(f"{number} = int({chosen})", place)
        last = len(routine.bodies) - 1
        for b, program in enumerate(routine.bodies):
            # The last body needs no test, and one body alone needs no branch.
            test = "True" if not last else f"{number} == {b}"
            self.write("else:" if b == last > 0 else f"{'if' if b == 0 else 'elif'} {test}:")
            self.depth += 1
            found = self.outputs(routine, b, self.program(program, given))
            self.write(f"{', '.join(names)} = {', '.join(found)}" if names else "pass")
            self.depth -= 1
        return names

    def loop(self, routine: Routine, inputs: Sequence[str], place: Operand) -> list[str]:
        self.turns = True
        # An operator of Python takes a number sooner than an array without axes.
        scalars = {i for program in routine.bodies for i in self.scalars(program)}
        count_ = routine.results
        # Loop variables get names of their own, since each turn assigns them; of the rest those that change
        # form.
        inside = [self.fresh() for _ in range(count_)]
        inside += [self.fresh() if i in scalars else name for i, name in enumerate(inputs[count_:], count_)]
        loop_vars, given = inside[:count_], inside[count_:]
        turn, lists = self.fresh(), [self.fresh() if k is not None else None for k in routine.kept]
        for i, (own, source) in enumerate(zip(inside, inputs, strict=True)):
            # before the loop, once for all turns
            if own != source:
                self.write(f"{own} = {source}{'[()]' if i in scalars else ''}")
        self.write(f"{turn} = 0")
        for name in lists:
            if name is not None:
                self.write(f"{name} = []")
        outer, around = self.step, self.loops
        # The places of all lines of the body say in which loops they stand, for errors and for `dump`.
        self.loops = (*around, (routine.frame, turn))
        # The path and its checksum are the same in all turns of this entry.
        if routine.draws:
            frame, mark = self.fresh(), self.fresh()
            self.write(f"{frame} = (*{outer[0]}, ({routine.frame!r}, {outer[1]}))")
            self.write(f"{mark} = crc32(repr({frame}).encode())")
            self.step = (frame, turn, mark)
        self.write("while True:" if routine.most is None else f"while {turn} < {routine.most}:")
        self.depth += 1
        (test,) = self.program(routine.bodies[0], [*loop_vars, *given])
        # Tested before the body, as the nodes do: a loop may turn not at all.
        self.write(f"if not {test}:", place)
        self.write("    break")
        results = self.program(routine.bodies[1], [*loop_vars, *given])
        # ORDER: before the loop variables change, of which a result may be one.
        for name, kept in zip(lists, routine.kept, strict=True):
            if name is not None and kept is not None:
                self.write(f"{name}.append({results[kept[1]]})")
        # In one assignment: results may be the loop variables in another order.
        self.write(f"{', '.join(loop_vars)} = {', '.join(results[:count_])}")
        self.write(f"{turn} += 1")
        # Stops here, with the turn whole: whoever drives it may end the loop or move it to a thread.
        self.write(f"yield {turn}", replace(place, loops=self.loops))
        self.depth -= 1
        self.step, self.loops = outer, around
        # The gradient turns as often.
        trips = self.fresh()
        self.write(f"{trips} = whole({turn})")
        return [*loop_vars, trips, *("absent" if name is None else f"listed({name})" for name in lists)]

    def program(self, program: Program, inputs: Sequence[str]) -> list[str]:
        """Writes the nodes of a body; returns the names of its fetches."""
        names: dict[Edge, str] = {Edge(i): name for i, name in zip(program.feeds, inputs, strict=True)}
        last = _last_uses(program)
        for i, node in enumerate(program.nodes):
            # The first are there as names, the last are what is returned.
            if node.kind in (NodeKind.FEED, NodeKind.FETCH):
                continue
            given = [self.source(source, names) for source in node.inputs]
            place = Operand(node.op, node.where, self.loops)
            if node.kind is NodeKind.ROUTINE:
                assert node.routine is not None
                made = self.write_body(node.routine, given, place)
            # Between scalars numpy's ufuncs look for types for a microsecond; its operators do not.
            elif sign := self.sign(program, node):
                made = [self.fresh()]
                a, b = (self.source(source, names, scalars=True) for source in node.inputs)
                self.write(f"{made[0]} = {a} {sign} {b}", place)
            else:
                kernel = self.refer("k", self.bind(node))
                # The last number of the counter is the kernel's own: see `kernel_calls.counter`.
                if node.kind is NodeKind.RANDOM:
                    given.append(f"counter=(step, {self.step[1]}, {self.step[2]}, 0)")
                made = [self.fresh() for _ in node.outputs]
                self.write(f"{', '.join(made)} = {kernel}({', '.join(given)})", place)
            names.update((Edge(i, k), name) for k, name in enumerate(made))
            gone = [names[e] for e in last.get(i, ()) if e in names and names[e].isidentifier()]
            # Large arrays go as soon as nobody needs them: locals would live until the function returns.
            if gone:
                self.write(" = ".join([*gone, "None"]))
        return [self.source(program.nodes[i].inputs[0], names) for i in program.fetches]

    def source(self, source: Edge | Constant, names: Mapping[Edge, str], *, scalars: bool = False) -> str:
        if isinstance(source, Edge):
            return names[source]
        value = self.constant(source.value)
        return self.refer("c", scalar(value) if scalars else value)

    # -- scalars ---------------------------------------------------------------------------------------

    def sign(self, program: Program, node: PlanNode) -> str | None:
        """The operator that does what a node does, if there is one."""
        if node.kind is not NodeKind.KERNEL or len(node.inputs) != 2:
            return None
        return operator(self.bind(node), [_describe(program, source) for source in node.inputs])

    def scalars(self, program: Program) -> set[int]:
        """Which feeds of a program are operands; as scalars, not arrays without axes, they cost least."""
        feeds = {feed: i for i, feed in enumerate(program.feeds)}
        sources = [s for node in program.nodes if self.sign(program, node) for s in node.inputs]
        return {feeds[s.node] for s in sources if isinstance(s, Edge) and s.node in feeds}


def _describe(program: Program, source: Edge | Constant) -> Described:
    if isinstance(source, Edge):
        return program.nodes[source.node].outputs[source.output]
    return source.value


def _last_uses(program: Program) -> dict[int, list[Edge]]:
    """For each node the large values that nobody needs after it."""
    last: dict[Edge, int] = {}
    for i, node in enumerate(program.nodes):
        last.update((s, i) for s in node.inputs if isinstance(s, Edge))
    gone: dict[int, list[Edge]] = {}
    for edge, i in last.items():
        maker = program.nodes[edge.node]
        if (
            # what a body is given is not its to drop
            maker.kind is NodeKind.KERNEL
            # returned at the end
            and program.nodes[i].kind is not NodeKind.FETCH
            and _is_large(maker.outputs[edge.output])
        ):
            gone.setdefault(i, []).append(edge)
    return gone


def _is_large(spec: Spec) -> bool:
    if isinstance(spec, ListSpec) or not spec.is_static:
        # Nobody knows how much it is, so it counts as large.
        return True
    size = spec.dtype.itemsize
    for n in spec.shape or ():
        size *= n or 0
    return size >= _LARGE_BYTES


def _whole(turns: int) -> Any:
    return as_array(turns, _COUNT)


def cost_of(routine: Routine, cost: Callable[[PlanNode, Sequence[Any]], float]) -> float | None:
    """Returns what one turn, or one call, of a routine costs in units; None where shapes do not tell.

    Args:
        routine: The routine.
        cost: (node, its inputs as arrays or as `Shaped`) -> units.
    """
    total = 0.0
    for program in routine.programs():
        for node in program.nodes:
            if node.kind not in (NodeKind.KERNEL, NodeKind.RANDOM):
                continue
            given: list[Any] = []
            for source in node.inputs:
                if isinstance(source, Constant):
                    given.append(source.value)
                    continue
                spec = program.nodes[source.node].outputs[source.output]
                if not spec.is_static and not isinstance(spec, ListSpec):
                    return None
                given.append(Shaped(tuple(n or 0 for n in spec.shape or ())))
            total += cost(node, given)
    return total
