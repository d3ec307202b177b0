"""Loops and branches are what their turns are: same values, same gradients, of the second order too.

Programs are drawn (`tests.graph.turns`), nested up to three deep, with loops of 0 to 20 turns, and built twice in
one graph: with bodies, and turn by turn. What both give is compared with the plain interpretation as well, of
which derivatives are taken along the imaginary axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.ops.control import loop_gradients
from actorflow.ops.control.tensor_list import list_read
from actorflow.ops.control.tensor_list_rows import list_concat
from actorflow.plan.control import routines
from actorflow.plan.routine import Routine
from tests.graph.turns import (
    CONSTANT,
    Again,
    Array,
    Block,
    Bodies,
    Branch,
    Drawn,
    Loop,
    Op,
    Row,
    Turns,
    drawn_programs,
    plain,
    slopes,
)
from tests.support.strategies import FOUND, examples

PARALLEL = st.sampled_from([1, 2, 8, 32])


def gradients(y: Tensor, xs: list[Any]) -> list[Any]:
    """The gradients as tensors, zeros where none flows."""
    found = af.gradients(y, xs)
    return [af.zeros_like(x) if g is None else as_tensor(g) for g, x in zip(found, xs, strict=True)]


class Both:
    """A program in one graph, with bodies and turn by turn.

    Attributes:
        xs: The placeholder, a variable and a table of rows.
        bodies: The sum of what the program gives, by bodies.
        turns: The same by turns.
    """

    def __init__(self, drawn: Drawn, bodies: Bodies) -> None:
        self.drawn = drawn
        x, variable, table = drawn.given
        self.graph = af.Graph(seed=1)
        with self.graph:
            self.x = af.placeholder("float64", (2, 2), "x")
            v, t = af.Variable(variable, name="v"), af.Variable(table, name="t")
            constant = af.constant(CONSTANT)
            self.xs = [self.x, v, t]
            (built,) = bodies.block(drawn.block, [self.x, v, constant], t, 0)
            pairs = [(self.x, x), (v.as_tensor(), variable), (constant, CONSTANT)]
            ((unrolled, _),) = Turns().block(drawn.block, pairs, (t.as_tensor(), table), 0)
            self.bodies, self.turns = af.sum(built), af.sum(unrolled)

    def first(self, of: Tensor) -> list[Tensor]:
        with self.graph:
            return gradients(of, self.xs)

    def second(self, of: Tensor) -> list[Tensor]:
        """The gradient of the sum of squares of the gradient."""
        with self.graph:
            squares = [af.sum(g * g) for g in gradients(of, self.xs)]
            return gradients(squares[0] + squares[1] + squares[2], self.xs)

    def run(self, fetches: Any) -> Any:
        async def main() -> Any:
            async with af.Session(self.graph, threads=0) as session:
                return await session.run(fetches, {self.x: self.drawn.given[0]})

        return af.run(main())


def close(found: list[Array], wanted: list[Array], rtol: float = 1e-8) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-12)


# -- laws ----------------------------------------------------------------------------------------------


def check_first(drawn: Drawn, parallel: int = 10) -> None:
    """The value has the bits of the turns; the gradients are theirs, and the derivatives."""
    both = Both(drawn, Bodies(options={"parallel_iterations": parallel}))
    fetches = [both.bodies, both.turns, both.first(both.bodies), both.first(both.turns)]

    value, of_turns, slope, slope_of_turns = both.run(fetches)

    assert value == of_turns
    np.testing.assert_allclose(value, plain(drawn, drawn.given), rtol=1e-12, atol=1e-12)
    close(slope, slope_of_turns)
    close(slope, slopes(drawn))


@settings(max_examples=examples(24))
@given(drawn=drawn_programs(), parallel=PARALLEL)
def test_values_and_gradients_are_those_of_the_turns(drawn: Drawn, parallel: int) -> None:
    check_first(drawn, parallel)


@settings(max_examples=examples(10))
@given(drawn=drawn_programs(trips=4))
def test_gradients_of_gradients_are_those_of_the_turns(drawn: Drawn) -> None:
    both = Both(drawn, Bodies())

    second, of_turns = both.run([both.second(both.bodies), both.second(both.turns)])

    close(second, of_turns, 1e-7)


def check_again(drawn: Drawn) -> None:
    """What is computed again for the gradient has the bits of what is kept."""
    again, kept = Both(drawn, Bodies()), Both(drawn, Bodies(again=False))

    found = again.run([again.bodies, again.first(again.bodies)])
    wanted = kept.run([kept.bodies, kept.first(kept.bodies)])

    assert found[0] == wanted[0]
    for one, other in zip(found[1], wanted[1], strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


def wrapped(drawn: Drawn) -> Drawn:
    """The program inside a function that is computed again, inside a loop of two turns."""
    inner = Again(Block((*drawn.block.statements, Op("add", 3, drawn.block.results[0] + 1)), (-1,)))
    loop = Loop(2, None, None, (0,), Block((inner,), (-1,)))
    return Drawn(Block((loop,), (-1,)), drawn.x, drawn.variable, drawn.table)


@settings(max_examples=examples(10))
@given(drawn=drawn_programs(depth=2, trips=5))
def test_computing_again_changes_no_bit(drawn: Drawn) -> None:
    check_again(wrapped(drawn))


# -- programs that once failed, or that a fault must not pass -----------------------------------------

DEEP = Drawn(
    Block(
        (
            Loop(
                3,
                None,
                None,
                (0, 1),
                Block(
                    (
                        Row(1, 2),
                        Op("matmul", 3, 5),
                        Branch(
                            4,
                            0.25,
                            Block(
                                (
                                    Op("add", 6, 4),
                                    Loop(2, None, 1, (7,), Block((Op("sin", 8, 0),), (9,))),
                                ),
                                (8,),
                            ),
                            Block((Op("multiply", 6, 1), Op("add", 7, 6)), (8,)),
                        ),
                        Again(Block((Op("add", 7, 6), Op("multiply", 8, 1), Op("tanh", 9, 0)), (10,))),
                    ),
                    (8, 7),
                ),
            ),
        ),
        (3,),
    ),
    (0.5, -0.25, 0.75, 1.0),
    (0.125, 0.5, -0.5, 0.25),
    (0.5, 1.0, -0.25, 0.5, 0.75, -1.0, 0.25, 0.125),
)


def test_a_deep_program_is_what_its_turns_are() -> None:
    check_first(DEEP)
    check_again(DEEP)


FAULTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "a turn of the gradient sees the values of the first turn": (
        loop_gradients,
        "list_read",
        lambda values, i: list_read(values, i * 0),
    ),
    "of what all turns share only the last one counts": (
        loop_gradients,
        "add",
        lambda total, part: as_tensor(part),
    ),
    "rows of the table are lined up with the last turn first": (
        loop_gradients,
        "list_concat",
        lambda rows: af.flip(list_concat(rows), axis=0) if rows.dtype.kind == "f" else list_concat(rows),
    ),
    "max_iterations is forgotten": (
        routines,
        "Routine",
        lambda **fields: Routine(**{**fields, "most": None}),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_shows_in_a_deep_program(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])

    with pytest.raises(AssertionError):
        check_first(DEEP)


def test_the_law_finds_a_planted_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS["of what all turns share only the last one counts"])

    @settings(**FOUND, max_examples=100)
    @given(drawn=drawn_programs(trips=5))
    def law(drawn: Drawn) -> None:
        check_first(drawn)

    with pytest.raises(AssertionError):
        law()


LOOSE = Drawn(
    Block(
        (
            Branch(0, 0.0, Block((Row(0, 0), Row(0, 0)), (4, 0)), Block((Row(0, 0),), (3, 2))),
            Loop(0, None, None, (3,), Block((Op("sin", 4, 0),), (6,))),
        ),
        (5,),
    ),
    (0.0,) * 4,
    (0.0,) * 4,
    (0.0,) * 8,
)


def test_a_gradient_whose_shape_is_less_known_than_its_variable_goes_through_a_loop() -> None:
    both = Both(LOOSE, Bodies())

    second, of_turns = both.run([both.second(both.bodies), both.second(both.turns)])

    close(second, of_turns)
