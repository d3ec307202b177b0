"""Drawn programs of loops, branches and calls over whole numbers: as graphs, and in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

import actorflow as af
from actorflow import ops

MODULUS = 97
SUPPLY = 200
"""How many elements a queue has at the beginning from which a program takes."""

Block = list[tuple[Any, ...]]
"""Statements; each adds values to those that are known, which later ones name by index, modulo their number."""


@dataclass
class Drawn:
    """A drawn program.

    Attributes:
        inputs: What is known at the beginning, and fed.
        block: Its statements.
    """

    inputs: list[int]
    block: Block


_INDEX = st.integers(0, 40)
_PARALLEL = (1, 2, 8, 32)


@st.composite
def blocks(draw: st.DrawFn, depth: int, trips: int, *, state: bool, size: int = 3) -> Block:
    """Some statements, with loops and branches within them to that depth."""
    kinds = ["op", "op", "const"] + (["add_to", "read", "put", "take"] if state else ["random"])
    if depth:
        kinds += ["loop", "loop", "cond", "cond", "case", "call"]
    found: Block = []
    for _ in range(draw(st.integers(0 if depth < 2 else 1, size))):
        kind = draw(st.sampled_from(kinds))
        inner = blocks(depth - 1, min(trips, 3), state=state, size=2)
        match kind:
            case "op":
                name = draw(st.sampled_from(["add", "subtract", "multiply", "maximum"]))
                found.append((kind, name, draw(_INDEX), draw(_INDEX)))
            case "const":
                found.append((kind, draw(st.integers(0, 9))))
            case "random" | "take":
                found.append((kind,))
            case "read":
                found.append((kind, draw(st.integers(0, 1))))
            case "put":
                found.append((kind, draw(_INDEX)))
            case "add_to":
                found.append((kind, draw(st.integers(0, 1)), draw(_INDEX)))
            case "loop":
                first = draw(st.lists(_INDEX, min_size=1, max_size=3))
                after = [draw(_INDEX) for _ in first]
                most = draw(st.sampled_from([None, None, 0, 2]))
                limit = draw(st.integers(0, trips))
                found.append(
                    (
                        kind,
                        draw(_INDEX),
                        limit,
                        first,
                        draw(inner),
                        after,
                        draw(st.sampled_from(_PARALLEL)),
                        most,
                    )
                )
            case "cond" | "case" | "call":
                number = {"cond": 2, "case": draw(st.integers(1, 3)), "call": 1}[kind]
                results = draw(st.integers(1, 2))
                branches = [(draw(inner), [draw(_INDEX) for _ in range(results)]) for _ in range(number)]
                found.append((kind, draw(_INDEX), branches))
    return found


@st.composite
def programs(draw: st.DrawFn, *, trips: int = 20, state: bool = False) -> Drawn:
    """A program of one to four statements."""
    inputs = draw(st.lists(st.integers(0, MODULUS - 1), min_size=1, max_size=3))
    return Drawn(inputs, draw(blocks(3, trips, state=state, size=4)))


# ---------------------------------------------------------------------------------------- as a graph


@dataclass
class Built:
    """A graph of a program.

    Attributes:
        fed: The placeholders.
        out: What is computed.
        devices: Where sums are computed.
        done: What is fetched besides, for its effect.
        supplied: Queues from which it takes, by the place of the statement.
        filled: Queues into which it puts.
    """

    graph: af.Graph
    fed: list[af.Tensor]
    out: list[af.Tensor]
    done: list[Any] = field(default_factory=list)
    devices: Sequence[str] = ("",)
    variables: list[Any] = field(default_factory=list)
    supplied: dict[tuple[int, ...], Any] = field(default_factory=dict)
    filled: dict[tuple[int, ...], Any] = field(default_factory=dict)


def build(drawn: Drawn, devices: Sequence[str] = ("",), **options: Any) -> Built:
    """Builds the graph, its sums on several devices; `options` are those of every loop and branch."""
    with af.Graph() as graph:
        fed = [af.placeholder("int64", (), name=f"x{k}") for k in range(len(drawn.inputs))]
        built = Built(graph, fed, [], devices=devices)
        built.variables = [af.Variable(np.int64(k), name=f"v{k}") for k in range(2)]
        _queues(built, drawn.block, ())
        built.out = _build(built, drawn.block, list(fed), (), options)
    return built


def _queues(built: Built, block: Block, at: tuple[int, ...]) -> None:
    for k, statement in enumerate(block):
        here = (*at, k)
        name = "_".join(map(str, here))
        match statement[0]:
            case "take":
                built.supplied[here] = af.state.FIFOQueue(SUPPLY, "int64", (), name=f"take_{name}")
            case "put":
                built.filled[here] = af.state.FIFOQueue(SUPPLY, "int64", (), name=f"put_{name}")
            case "loop":
                _queues(built, statement[4], here)
            case "cond" | "case" | "call":
                for b, (inner, _) in enumerate(statement[2]):
                    _queues(built, inner, (*here, b))
            case _:
                pass


def _build(built: Built, block: Block, known: list[Any], at: tuple[int, ...], options: Any) -> list[Any]:
    for k, statement in enumerate(block):
        made = _built(built, statement, known, (*at, k), options)
        known = known + (list(map(af.arrays.identity, made)) if touches(statement) else made)
    return known


def touches(statement: tuple[Any, ...]) -> bool:
    """Whether a statement has others within it that touch state: it happens even if one branch alone uses it."""
    match statement[0]:
        case "read" | "add_to" | "take" | "put":
            return True
        case "loop":
            return any(map(touches, statement[4]))
        case "cond" | "case" | "call":
            return any(touches(inner) for block, _ in statement[2] for inner in block)
    return False


def _of(known: Sequence[Any], index: int) -> Any:
    return known[index % len(known)]


def _whole(x: Any) -> Any:
    return x % np.int64(MODULUS)


def _built(
    built: Built, statement: tuple[Any, ...], known: list[Any], at: tuple[int, ...], options: Any
) -> list[Any]:
    match statement:
        case ("op", name, a, b):
            with af.device(_of(built.devices, a + b) or None):
                return [_whole(getattr(ops, name)(_of(known, a), _of(known, b)))]
        case ("const", value):
            return [af.constant(np.int64(value))]
        case ("random",):
            return [af.random.integers(0, MODULUS, dtype="int64")]
        case ("read", v):
            return [_whole(built.variables[v].read())]
        case ("add_to", v, a):
            return _effect(built, built.variables[v].assign_add(_of(known, a)), at)
        case ("take",):
            return [_one(built.supplied[at].dequeue())]
        case ("put", a):
            return _effect(built, built.filled[at].enqueue(_of(known, a)), at)
        case ("cond", index, branches):
            no, yes = (_branch(built, branch, known, (*at, b), options) for b, branch in enumerate(branches))
            return list(af.cond(_of(known, index) > np.int64(40), yes, no, **options))
        case ("case", index, branches):
            functions = [
                _branch(built, branch, known, (*at, b), options) for b, branch in enumerate(branches)
            ]
            return list(af.switch_case(_of(known, index) % np.int64(4) - np.int64(1), functions, **options))
        case ("call", _, (branch,)):
            return list(af.autodiff.recompute(_branch(built, branch, known, (*at, 0), options))())
    return _loop(built, statement, known, at, options)


def _loop(
    built: Built, statement: tuple[Any, ...], known: list[Any], at: tuple[int, ...], options: Any
) -> list[Any]:
    _, index, limit, first, inner, after, parallel, most = statement
    end = _of(known, index) % np.int64(limit + 1)

    def body(i: Any, *carried: Any) -> list[Any]:
        found = _build(built, inner, [*known, *carried, i], at, options)
        return [i + np.int64(1), *(_of(found, a) for a in after)]

    _, *ends = af.while_loop(
        lambda i, *_: i < end,
        body,
        [np.int64(0), *(_of(known, a) for a in first)],
        parallel_iterations=parallel,
        max_iterations=most,
        **options,
    )
    return list(ends)


def _effect(built: Built, made: Any, at: tuple[int, ...]) -> list[Any]:
    """Has what is built outside of all bodies fetched: elsewhere it happens by itself."""
    if len(at) == 1:
        built.done.append(made)
    return []


def _one(made: Any) -> Any:
    return made[0] if isinstance(made, list | tuple) else made


def _branch(
    built: Built, branch: tuple[Block, list[int]], known: list[Any], at: tuple[int, ...], options: Any
) -> Any:
    inner, results = branch

    def build() -> list[Any]:
        found = _build(built, inner, list(known), at, options)
        return [af.arrays.identity(_of(found, r)) for r in results]

    return build


# --------------------------------------------------------------------------------------- in Python


@dataclass
class World:
    """The state that a program leaves.

    Attributes:
        taken: How many elements each statement has taken.
        put: What each statement has put somewhere.
    """

    variables: list[int] = field(default_factory=lambda: [0, 1])
    taken: dict[tuple[int, ...], int] = field(default_factory=dict)
    put: dict[tuple[int, ...], list[int]] = field(default_factory=dict)


def evaluate(drawn: Drawn, world: World) -> list[int]:
    """Returns what a program computes, one statement after the other; changes the world as it says."""
    return _run(world, drawn.block, list(drawn.inputs), ())


def _run(world: World, block: Block, known: list[int], at: tuple[int, ...]) -> list[int]:
    for k, statement in enumerate(block):
        known = known + _ran(world, statement, known, (*at, k))
    return known


_OPS: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": max,
}


def _ran(world: World, statement: tuple[Any, ...], known: list[int], at: tuple[int, ...]) -> list[int]:
    match statement:
        case ("op", name, a, b):
            return [_OPS[name](_of(known, a), _of(known, b)) % MODULUS]
        case ("const", value):
            return [value]
        case ("read", v):
            return [world.variables[v] % MODULUS]
        case ("add_to", v, a):
            world.variables[v] += _of(known, a)
            return []
        case ("take",):
            world.taken[at] = world.taken.get(at, 0) + 1
            return [world.taken[at] - 1]
        case ("put", a):
            world.put.setdefault(at, []).append(_of(known, a))
            return []
        case ("loop", index, limit, first, inner, after, _, most):
            end = _of(known, index) % (limit + 1)
            carried = [_of(known, a) for a in first]
            for i in range(end if most is None else min(end, most)):
                found = _run(world, inner, [*known, *carried, i], at)
                carried = [_of(found, a) for a in after]
            return carried
        case ("cond", index, branches):
            return _taken(world, branches, int(_of(known, index) > 40), known, at)
        case ("case", index, branches):
            chosen, last = _of(known, index) % 4 - 1, len(branches) - 1
            return _taken(world, branches, chosen if 0 <= chosen < last else last, known, at)
        case ("call", _, branches):
            return _taken(world, branches, 0, known, at)
    raise AssertionError(statement)


def _taken(world: World, branches: Any, b: int, known: list[int], at: tuple[int, ...]) -> list[int]:
    inner, results = branches[b]
    found = _run(world, inner, list(known), (*at, b))
    return [_of(found, r) for r in results]
