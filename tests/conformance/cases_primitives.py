"""Graphs of Switch, Merge, Enter, Exit, NextIteration and LoopCond, built by hand."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.conformance.primitives import Primitives, Wire, primitive


@primitive("primitives: Switch hands its input to the output of its predicate")
def switch_hands_on(b: Primitives) -> Any:
    no, _ = b.switch(b.number(7), b.truth(False))
    _, yes = b.switch(b.number(8), b.truth(True))
    return b.run(no, yes)


@primitive("primitives: a dead output cannot be fetched")
def dead_fetch(b: Primitives) -> Any:
    return b.run(b.switch(b.number(7), b.truth(False))[1])


@primitive("primitives: what computes with a dead input is dead")
def dead_spreads(b: Primitives) -> Any:
    no, _ = b.switch(b.number(7), b.truth(True))
    return b.run(b.add(b.add(no, b.number(1)), b.number(2)))


@primitive("primitives: what comes after a dead node is dead")
def dead_control(b: Primitives) -> Any:
    no, yes = b.switch(b.number(7), b.truth(True))
    return [b.run(b.add(b.number(1), b.number(2), after=[b.add(wire, wire)])) for wire in (yes, no)]


@primitive("primitives: Merge gives the live input and its index")
def merge_of_both(b: Primitives) -> Any:
    found = []
    for pred in (False, True):
        no, yes = b.switch(b.number(7), b.truth(pred))
        found.append(b.run(*b.merge(b.add(no, b.number(1)), b.add(yes, b.number(2)))))
    return found


@primitive("primitives: Merge numbers its inputs as they stand")
def merge_in_another_order(b: Primitives) -> Any:
    no, yes = b.switch(b.number(7), b.truth(True))
    return b.run(*b.merge(yes, no)) + b.run(*b.merge(no, no, yes))


@primitive("primitives: a Merge of dead inputs alone is dead")
def merge_of_the_dead(b: Primitives) -> Any:
    no, _ = b.switch(b.number(7), b.truth(True))
    also, _ = b.switch(b.number(8), b.truth(True))
    return b.run(b.merge(no, also)[0])


@primitive("primitives: a branch in a branch")
def nested_branches(b: Primitives) -> Any:
    found = []
    for outer in (False, True):
        for inner in (False, True):
            no, yes = b.switch(b.number(1), b.truth(outer))
            low, high = b.switch(yes, b.switch(b.truth(inner), b.truth(outer))[1])
            within, _ = b.merge(b.add(low, b.number(10)), b.add(high, b.number(20)))
            found += b.run(*b.merge(b.add(no, b.number(100)), within))
    return found


@primitive("primitives: a dead predicate kills both outputs of a Switch")
def dead_predicate(b: Primitives) -> Any:
    pred, _ = b.switch(b.truth(True), b.truth(True))
    no, yes = b.switch(b.number(5), pred)
    return [b.run(no), b.run(yes), b.run(b.merge(no, yes)[0])]


def counted(b: Primitives, start: Wire, limit: Wire, parallel: int = 10) -> tuple[Wire, Wire]:
    """The counter and the sum of all numbers from `start` to `limit`, by a loop."""
    most = b.enter(limit, "loop", constant=True, parallel=parallel)
    one = b.enter(b.number(1), "loop", constant=True, parallel=parallel)
    i = b.loop_merge(b.enter(start, "loop", parallel=parallel), "loop")
    total = b.loop_merge(b.enter(start, "loop", parallel=parallel), "loop")
    go_on = b.loop_cond(b.less(i, most, "loop"), "loop")
    i_end, i_on = b.switch(i, go_on, "loop")
    total_end, total_on = b.switch(total, go_on, "loop")
    b.close(i, b.next_iteration(b.add(i_on, one, frame="loop"), "loop"))
    b.close(total, b.next_iteration(b.add(total_on, i_on, frame="loop"), "loop"))
    return b.exit(i_end, "loop"), b.exit(total_end, "loop")


def counting(b: Primitives, turns: int) -> Any:
    return b.run(*counted(b, b.number(0), b.number(turns)))


for turns in (0, 1, 7):
    primitive(f"primitives: a loop of {turns} turns")(partial(counting, turns=turns))


def counting_by(b: Primitives, parallel: int) -> Any:
    return b.run(*counted(b, b.number(0), b.number(20), parallel))


for parallel in (1, 2, 32):
    primitive(f"primitives: a loop with {parallel} turns at once")(partial(counting_by, parallel=parallel))


@primitive("primitives: a loop in a branch, taken or not")
def loop_in_a_branch(b: Primitives) -> Any:
    found = []
    for taken in (False, True):
        zero, start = b.switch(b.number(0), b.truth(taken))
        _, total = counted(b, start, b.number(5))
        found.append(b.run(*b.merge(zero, total)))
    return found


@primitive("primitives: what left a loop goes on")
def after_a_loop(b: Primitives) -> Any:
    i, total = counted(b, b.number(0), b.number(4))
    return b.run(b.add(i, total, b.number(100)))


@primitive("primitives: a loop after a loop")
def loop_after_a_loop(b: Primitives) -> Any:
    i, total = counted(b, b.number(0), b.number(4))
    most = b.enter(total, "second", constant=True)
    step = b.enter(i, "second", constant=True)
    x = b.loop_merge(b.enter(b.number(0), "second"), "second")
    end, on = b.switch(x, b.loop_cond(b.less(x, most, "second"), "second"), "second")
    b.close(x, b.next_iteration(b.add(on, step, frame="second"), "second"))
    return b.run(b.exit(end, "second"))


@primitive("primitives: a branch in a loop")
def branch_in_a_loop(b: Primitives) -> Any:
    """Numbers below 3 count ten times."""
    f = "loop"
    most, one, three = (b.enter(b.number(n), f, constant=True) for n in (6, 1, 3))
    many = b.enter(b.number(100), f, constant=True)
    i = b.loop_merge(b.enter(b.number(0), f), f)
    total = b.loop_merge(b.enter(b.number(0), f), f)
    go_on = b.loop_cond(b.less(i, most, f), f)
    _, i_on = b.switch(i, go_on, f)
    total_end, total_on = b.switch(total, go_on, f)
    large, small = b.switch(total_on, b.less(i_on, three, f), f)
    joined, _ = b.merge(b.add(large, i_on, frame=f), b.add(small, many, frame=f), frame=f)
    b.close(i, b.next_iteration(b.add(i_on, one, frame=f), f))
    b.close(total, b.next_iteration(joined, f))
    return b.run(b.exit(total_end, f))


@primitive("primitives: a loop in a loop")
def loop_in_a_loop(b: Primitives) -> Any:
    """Adds j for all j < i < 5."""
    outer, inner = "outer", "outer/inner"
    most, one, zero = (b.enter(b.number(n), "outer", constant=True) for n in (5, 1, 0))
    i = b.loop_merge(b.enter(b.number(0), "outer"), outer)
    total = b.loop_merge(b.enter(b.number(0), "outer"), outer)
    go_on = b.loop_cond(b.less(i, most, outer), outer)
    _, i_on = b.switch(i, go_on, outer)
    total_end, total_on = b.switch(total, go_on, outer)
    limit, step = (b.enter(wire, "inner", outer, constant=True) for wire in (i_on, one))
    j = b.loop_merge(
        b.enter(b.add(zero, b.switch(zero, go_on, outer)[1], frame=outer), "inner", outer), inner
    )
    part = b.loop_merge(b.enter(total_on, "inner", outer), inner)
    again = b.loop_cond(b.less(j, limit, inner), inner)
    _, j_on = b.switch(j, again, inner)
    part_end, part_on = b.switch(part, again, inner)
    b.close(j, b.next_iteration(b.add(j_on, step, frame=inner), inner))
    b.close(part, b.next_iteration(b.add(part_on, j_on, frame=inner), inner))
    b.close(i, b.next_iteration(b.add(i_on, one, frame=outer), outer))
    b.close(total, b.next_iteration(b.exit(part_end, inner), outer))
    return b.run(b.exit(total_end, outer))
