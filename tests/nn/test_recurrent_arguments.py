"""What the verbs over sequences are given by mistake: every argument of every verb."""

from __future__ import annotations

from typing import Any

import pytest

import actorflow as af
from tests.nn.test_arguments import WRONG, parameters

Step = tuple[af.Tensor, Any]


def step(tokens: af.Tensor, state: af.Tensor) -> Step:
    return af.one_hot(tokens, 5), state


def arguments(verb: str) -> dict[str, Any]:
    """What a verb takes."""
    if verb in ("rnn", "bidirectional"):
        x = af.placeholder("float32", (None, 3, 4), name="x")
        cells: dict[str, Any] = {"cell": af.nn.GRUCell(4, 8)}
        if verb == "bidirectional":
            cells = {"forward": af.nn.RNNCell(4, 8), "backward": af.nn.LSTMCell(4, 8)}
        return {**cells, "x": x}
    if verb == "stack_cells":
        return {"cells": [af.nn.RNNCell(4, 8)]}
    ids = af.placeholder("int32", (None,), name="ids")
    wide = {"width": 2} if verb == "beam_search" else {}
    return {"step": step, "first": ids, "state": ids, "end": 0, "longest": 3, **wide}


VERBS = ("rnn", "bidirectional", "stack_cells", "greedy", "sample", "beam_search")
GIVEN = [(v, p) for v in VERBS for p in parameters(getattr(af.nn, v))]


@pytest.mark.parametrize(("verb", "argument"), GIVEN)
def test_a_verb_builds_or_refuses(verb: str, argument: str) -> None:
    faults = []
    for what, wrong in WRONG.items():
        with af.Graph():
            try:
                getattr(af.nn, verb)(**{**arguments(verb), argument: wrong()})
            except af.ActorflowError:  # some of ours are a TypeError or ValueError as well
                continue
            except (TypeError, ValueError, AttributeError, ArithmeticError, LookupError) as error:
                faults.append(f"{argument}={what}: {error!r}")

    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("flag", ["reverse", "time_major", "unroll", "recompute"])
@pytest.mark.parametrize("value", ["no", 0, 1, None])
def test_a_flag_is_a_bool(flag: str, value: Any) -> None:
    with af.Graph(), pytest.raises(af.errors.SpecError, match=f"rnn takes True or False as {flag}"):
        af.nn.rnn(**{**arguments("rnn"), flag: value})
