"""Drawn programs of loops and branches, as data that is read twice: as bodies, and turn by turn.

All values are 2x2 matrices of doubles. What a program computes is smooth wherever no predicate changes, and
stays small. `bodies` builds it with `while_loop`, `cond` and `recompute`. `turns` builds the nodes that each
turn would have, and computes at the same time with numpy what they give: so it knows how many turns there are
and which branches are taken. With complex numbers the same interpretation gives derivatives: what a step of
1e-30 along the imaginary axis changes there is exact to the last digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

import actorflow as af

Array: TypeAlias = Any
Expression: TypeAlias = Any

TABLE = 4  # rows


@dataclass(frozen=True)
class Op:
    """One more value, of two that are visible."""

    name: str
    a: int
    b: int


@dataclass(frozen=True)
class Row:
    """Two rows of the table: which, the number of the turn says."""

    a: int
    b: int


@dataclass(frozen=True)
class Block:
    """Some statements, and which of the values that are visible after them come out."""

    statements: tuple[Any, ...]
    results: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """Goes on for `trips` turns, or until the sum of its first variable is above `stop`."""

    trips: int
    stop: float | None
    most: int | None
    begins: tuple[int, ...]
    body: Block


@dataclass(frozen=True)
class Branch:
    """Takes the first block where the sum of a value is above a bound."""

    of: int
    bound: float
    taken: Block
    other: Block


@dataclass(frozen=True)
class Again:
    """A block whose values are computed again for the gradient."""

    body: Block


ONE: Mapping[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "sin": (lambda x: af.sin(x), np.sin),
    "tanh": (lambda x: af.tanh(x), np.tanh),
    "transpose": (lambda x: af.transpose(x), np.transpose),
    "halve": (lambda x: x * 0.5, lambda x: x * 0.5),
}
TWO: Mapping[str, tuple[Callable[[Any, Any], Any], Callable[[Array, Array], Array]]] = {
    "add": (lambda a, b: a + b, np.add),
    "multiply": (lambda a, b: a * b, np.multiply),
    "matmul": (lambda a, b: (a @ b) * 0.25, lambda a, b: (a @ b) * 0.25),
    "where": (
        lambda a, b: af.where(a > b, a, af.sin(b)),
        lambda a, b: np.where(a.real > b.real, a, np.sin(b)),
    ),
}


@dataclass(frozen=True)
class Drawn:
    """A program and what it is given."""

    block: Block
    x: tuple[float, ...]
    variable: tuple[float, ...]
    table: tuple[float, ...]

    @property
    def given(self) -> list[Array]:
        """The placeholder, the variable and the table, as arrays."""
        return [
            np.array(self.x).reshape(2, 2),
            np.array(self.variable).reshape(2, 2),
            np.array(self.table).reshape(TABLE, 2),
        ]


@st.composite
def drawn_programs(draw: st.DrawFn, depth: int = 3, trips: int = 20) -> Drawn:
    """Programs in which loops and branches are nested up to `depth` deep, and loops turn up to `trips` times."""
    number = st.integers(-8, 8).map(lambda n: n / 8)

    def numbers(n: int) -> tuple[float, ...]:
        return tuple(draw(st.lists(number, min_size=n, max_size=n)))

    def block(visible: int, depth: int, trips: int, results: int, *, outermost: bool = False) -> Block:
        made: list[Any] = []
        n = visible
        for k in range(draw(st.integers(1, 3))):
            statement, more = step(n, depth, trips, nested=outermost and not k)
            made.append(statement)
            n += more
        last = n - 1
        return Block(tuple(made), (last, *(draw(st.integers(0, n - 1)) for _ in range(results - 1))))

    def step(n: int, depth: int, trips: int, *, nested: bool) -> tuple[Any, int]:
        index = st.integers(0, n - 1)
        kinds = ["op", "op", "row"] if depth == 0 else ["op", "row", "loop", "loop", "branch", "again"]
        kind = draw(st.sampled_from(["loop", "branch", "again"] if nested else kinds))
        if kind == "op":
            return Op(draw(st.sampled_from([*ONE, *TWO])), draw(index), draw(index)), 1
        if kind == "row":
            return Row(draw(st.integers(0, 3)), draw(st.integers(0, 3))), 1
        if kind == "again":
            return Again(block(n, depth - 1, trips, 1)), 1
        results = draw(st.integers(1, 2))
        if kind == "branch":
            taken, other = (block(n, depth - 1, trips, results) for _ in range(2))
            return Branch(draw(index), draw(number), taken, other), results
        count = draw(st.integers(0, trips))
        loop = Loop(
            count,
            draw(st.none() | number),
            draw(st.none() | st.integers(0, trips)),
            tuple(draw(index) for _ in range(results)),
            block(n + results, depth - 1, 3, results),
        )
        return loop, results

    whole = block(3, depth, trips, 1, outermost=True)
    return Drawn(whole, numbers(4), numbers(4), numbers(2 * TABLE))


# -- as bodies -----------------------------------------------------------------------------------------


@dataclass
class Bodies:
    """Builds a program with bodies.

    Attributes:
        again: Whether what is computed again is; else it is built where it stands.
        options: For every loop.
    """

    again: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)

    def block(self, block: Block, visible: Sequence[Any], table: Any, turn: Any) -> list[Any]:
        """Returns the results; see `Drawn`."""
        values = list(visible)
        for statement in block.statements:
            values.extend(self.step(statement, values, table, turn))
        return [values[k] for k in block.results]

    def step(self, s: Any, values: list[Any], table: Any, turn: Any) -> list[Any]:
        match s:
            case Op(name, a, b):
                return [ONE[name][0](values[a]) if name in ONE else TWO[name][0](values[a], values[b])]
            case Row(a, b):
                rows = af.stack([(turn + a) % TABLE, (turn * 3 + b) % TABLE])
                return [af.gather(table, rows)]
            case Again(body):
                function = lambda: self.block(body, values, table, turn)[0]  # noqa: E731
                return [af.autodiff.recompute(function)() if self.again else function()]
            case Branch(of, bound, taken, other):
                return list(
                    af.cond(
                        af.sum(values[of]) > bound,
                        lambda: self.block(taken, values, table, turn),
                        lambda: self.block(other, values, table, turn),
                    )
                )
            case Loop(trips, stop, most, begins, body):

                def goes_on(i: Any, *variables: Any) -> Any:
                    more = i < trips
                    return more if stop is None else more & (af.sum(variables[0]) <= stop)

                def turned(i: Any, *variables: Any) -> list[Any]:
                    results = self.block(body, [*values, *variables], table, i)
                    return [i + 1, *(af.sin(r) for r in results)]

                begun = [af.constant(0), *(values[k] for k in begins)]
                return list(af.while_loop(goes_on, turned, begun, max_iterations=most, **self.options)[1:])
        raise AssertionError(s)


# -- turn by turn --------------------------------------------------------------------------------------


@dataclass
class Turns:
    """Builds every turn of a program, of pairs: a tensor, and what it is; `tensors=False` only computes."""

    tensors: bool = True

    def block(self, block: Block, visible: Sequence[Any], table: Any, turn: int) -> list[Any]:
        """Returns the results, as pairs."""
        values = list(visible)
        for statement in block.statements:
            values.extend(self.step(statement, values, table, turn))
        return [values[k] for k in block.results]

    def op(self, pair: tuple[Any, Any], *args: Any) -> Any:
        of_tensors, of_arrays = pair
        made = of_tensors(*(a[0] for a in args)) if self.tensors else None
        return made, of_arrays(*(a[1] for a in args))

    def step(self, s: Any, values: list[Any], table: Any, turn: int) -> list[Any]:
        match s:
            case Op(name, a, b):
                return [
                    self.op(ONE[name], values[a]) if name in ONE else self.op(TWO[name], values[a], values[b])
                ]
            case Row(a, b):
                rows = [(turn + a) % TABLE, (turn * 3 + b) % TABLE]
                return [self.op((lambda t: af.gather(t, rows), lambda t: t[rows]), table)]
            case Again(body):
                return self.block(body, values, table, turn)
            case Branch(of, bound, taken, other):
                chosen = taken if np.sum(values[of][1]).real > bound else other
                return self.block(chosen, values, table, turn)
            case Loop(trips, stop, most, begins, body):
                variables = [values[k] for k in begins]
                i = 0
                while i < trips and (most is None or i < most):
                    if stop is not None and np.sum(variables[0][1]).real > stop:
                        break
                    results = self.block(body, [*values, *variables], table, i)
                    variables = [self.op((af.sin, np.sin), r) for r in results]
                    i += 1
                return variables
        raise AssertionError(s)


def plain(drawn: Drawn, given: Sequence[Array]) -> Array:
    """What a program gives: the sum of its result, computed without a graph."""
    x, variable, table = ((None, array) for array in given)
    start = [x, variable, (None, CONSTANT)]
    (made,) = Turns(tensors=False).block(drawn.block, start, table, 0)
    return np.sum(made[1])


CONSTANT = np.array([[0.5, -0.25], [1.0, 0.75]])


def slopes(drawn: Drawn) -> list[Array]:
    """The derivative of what a program gives, for each element of what it is given."""
    found = []
    for k, of in enumerate(drawn.given):
        slope = np.zeros(of.shape)
        for at in np.ndindex(*of.shape):
            moved = [array.astype(complex) for array in drawn.given]
            moved[k][at] += 1e-30j
            slope[at] = plain(drawn, moved).imag / 1e-30
        found.append(slope)
    return found
