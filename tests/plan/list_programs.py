"""Drawn loops that write and read lists of tensors at drawn places, and their gradients.

What such a program computes does not depend on where: `build` with one place gives the bits that are expected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import actorflow as af

SHAPE = (2,)


@dataclass(frozen=True)
class Arrayed:
    """A drawn loop; places are numbers, of which `build` makes scopes.

    Attributes:
        turns: How many.
        body: What a turn does: (kind, place, a second place).
        around: Where the loop is.
        made: Where the lists are made.
        read: Where what the loop has written is stacked.
        back: Where gradients are built.
        grows: Whether lists have no size.
        forks: Whether what is written in a turn depends on what is computed.
    """

    turns: int
    body: tuple[tuple[str, int, int], ...]
    around: int
    made: int
    read: int
    back: int
    grows: bool = True
    forks: bool = False


_PLACE = st.integers(0, 3)
KINDS = ("compute", "write", "again", "before", "branch", "inner")


@st.composite
def arrayed(draw: st.DrawFn, *, turns: int = 4) -> Arrayed:
    """A loop of up to `turns` turns of one to three statements."""
    body = draw(st.lists(st.tuples(st.sampled_from(KINDS), _PLACE, _PLACE), min_size=1, max_size=3))
    around, made, read, back = (draw(_PLACE) for _ in range(4))
    grows, forks = draw(st.booleans()), draw(st.booleans())
    return Arrayed(draw(st.integers(0, turns)), tuple(body), around, made, read, back, grows, forks)


def build(drawn: Arrayed, places: Sequence[str] = ("",), **options: Any) -> tuple[af.Graph, list[af.Tensor]]:
    """Builds the graph; returns it and what is computed: values and gradients."""

    def at(k: int) -> Any:
        return af.device(places[k % len(places)] or None)

    with af.Graph() as graph:
        x = af.arrays.identity(af.constant(np.array([0.7, -1.3])), name="x")
        w = af.Variable(np.array([1.1, 0.6]), name="w").as_tensor()
        size = None if drawn.grows else 2 * drawn.turns + 1
        with at(drawn.made):
            written = af.TensorArray("float64", size=size, element_shape=SHAPE).write(0, x)
            given = af.TensorArray("float64", size=drawn.turns + 1, element_shape=SHAPE)
            given = given.unstack(af.stack([af.sin(x * (k + 1.0)) for k in range(drawn.turns + 1)]))

        def begun(i: Any, h: Any, array: Any) -> Any:
            here, there = drawn.body[0][1], drawn.body[0][2]

            def written(place: int, y: Any) -> Any:
                with at(place):
                    return array.write(2 * i + 1, y)

            if not drawn.forks:
                return written(here, h)
            return af.cond(af.sum(h) > 0.5, lambda: written(here, h), lambda: written(there, -h), **options)

        def turn(i: Any, h: Any, array: Any) -> Any:
            for kind, here, there in drawn.body:
                h = _done(kind, i, h, array, given, w, at(here), at(there), options)
            array = begun(i, h, array)
            with at(drawn.body[-1][2]):
                array = array.write(2 * i + 2, h * h)
            return i + 1, h, array

        with at(drawn.around):
            _, h, array = af.while_loop(lambda i, *_: i < drawn.turns, turn, (0, x, written), **options)
        with at(drawn.read):
            rows = array.stack()
            y = af.sum(rows * rows) + af.sum(h)
        with at(drawn.back):
            gradients = [af.arrays.identity(g) for g in af.gradients(y, [w, x]) if g is not None]
    return graph, [rows, y, *gradients]


def _done(
    kind: str, i: Any, h: Any, array: Any, given: Any, w: Any, here: Any, there: Any, options: Any
) -> Any:
    """What one statement makes of the value that is carried."""
    match kind:
        case "compute":
            with here:
                return af.sin(h * w)
        case "write":
            with here:
                array = array.write(2 * i + 1, h * w)
            with there:
                return array.read(2 * i + 1) + h
        case "again":
            with here:
                return h + af.sum(array.gather(af.stack([0, i])), 0)
        case "before":
            with here:
                return h * given.read(i)
        case "branch":

            def taken() -> Any:
                with here:
                    return array.write(2 * i + 1, h).read(2 * i + 1) * w

            def other() -> Any:
                with there:
                    return h + given.read(i)

            return af.cond(af.sum(h) > 0.0, taken, other, **options)
    assert kind == "inner"

    def inner(j: Any, z: Any) -> Any:
        with here:
            return j + 1, af.tanh(z * given.read(j)) + w

    with there:
        return af.while_loop(lambda j, _: j < i, inner, (0, h), **options)[1]


PARTED = Arrayed(4, (("write", 1, 2), ("branch", 0, 1), ("before", 0, 2)), 0, 1, 2, 1, forks=True)
"""Lists that are written and read on different devices in each turn, in other places than they are made."""
