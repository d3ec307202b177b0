"""Decoding as programs: `greedy`, `sample` and `beam_search` over a step that the user gives.

Each is one loop in the graph, which ends as soon as all sequences have ended. The step is a function
(tokens, state) -> (logits, next state), where tokens (rows,) are the last of each sequence. Prompts are
read before, for instance by `af.nn.rnn` over all but their last token; decoding begins with that token and
the state that was left.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from actorflow.errors import SpecError, Where
from actorflow.graph.builder import Tensor, as_tensor
from actorflow.graph.inputs_graph import in_graph_of_inputs
from actorflow.nn.cells import State, rows_of, zeros_of
from actorflow.ops.array.arrange import swapaxes
from actorflow.ops.array.constants import constant, zeros_like
from actorflow.ops.array.fill import arange
from actorflow.ops.array.identity import cast
from actorflow.ops.array.indexing import take_along_axis
from actorflow.ops.array.shape import expand_dims, squeeze
from actorflow.ops.array.slicing import slice
from actorflow.ops.array.sort import topk
from actorflow.ops.control.bodies import hint_of_none, state_like
from actorflow.ops.control.mapping import fill_turns, turns
from actorflow.ops.definition.arguments import api_function, number_or_none
from actorflow.ops.math.elementwise import add, divide
from actorflow.ops.math.logic import equal, greater_equal, less, logical_not, logical_or, where
from actorflow.ops.math.random_choices import random_categorical
from actorflow.ops.math.reduce import any as any_of
from actorflow.ops.math.reduce import argmax
from actorflow.ops.nn.softmax import log_softmax
from actorflow.ops.state.handle import can_be_called
from actorflow.runtime.call_site import source_line
from actorflow.values.checks import is_whole
from actorflow.values.pytree import flatten

Step = Callable[[Tensor, State], tuple[Any, State]]
"""(the last tokens (rows,), state) -> (logits (rows, tokens), next state)."""

NEVER = float("-inf")
"""The score of what does not come."""


class Decoded(NamedTuple):
    """What was decoded: tokens, lengths and scores of each row.

    Attributes:
        tokens: (rows, longest) int32, of `beam_search` (rows, width, longest); behind the end of a sequence
            `end`, or 0 where there is none.
        lengths: (rows,) or (rows, width) int32: how many tokens a sequence has, with its `end`.
        scores: The same shape, float32: the sum of the logarithms of their probabilities.
    """

    tokens: Tensor
    lengths: Tensor
    scores: Tensor


@api_function
@in_graph_of_inputs
def greedy(
    step: Any, first: Any, state: Any, *, end: int | None, longest: int, name: str | None = None
) -> Decoded:
    """Goes on from `first` with the most probable token each time; of equals with the lowest.

    Shapes:   first (rows,), the state as `step` takes it -> tokens (rows, longest); see `Decoded`
    Dtypes:   first integers; logits floating
    Gradient: to what the scores depend on; none through the choice of tokens.
    Raises:   SpecError for what does not fit.

    Args:
        step: (the last tokens, state) -> (logits, next state); called once, to build.
        first: The token with which each sequence begins, which is not among the results.
        state: The state before it.
        end: The token that ends a sequence; None if none does.
        longest: How many tokens a sequence has at most.
        name: Of the loop.

    >>> with af.Graph():
    ...     cell, words = af.nn.GRUCell(8, 16), af.nn.Embedding(50, 8)
    ...     logits = af.nn.Dense(16, 50)
    ...     def step(tokens, state):
    ...         output, state = cell(words(tokens), state)
    ...         return logits(output), state
    ...     first = af.placeholder("int32", (None,), name="first")
    ...     found = af.nn.greedy(step, first, cell.initial(af.arrays.shape(first)[0]), end=0, longest=20)
    ...     print(found.tokens.spec, found.scores.spec)
    (None, 20) int32 (None,) float32
    """
    return _decode("greedy", step, lambda logits: argmax(logits, -1), first, state, end, longest, name)


@api_function
@in_graph_of_inputs
def sample(
    step: Any,
    first: Any,
    state: Any,
    *,
    end: int | None,
    longest: int,
    temperature: Any = 1.0,
    top_k: int | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> Decoded:
    """Goes on from `first` with tokens that are drawn by their probabilities; other ones in every step.

    Scores are those of the model, whatever the temperature. Otherwise as `greedy`.

    Args:
        step: As of `greedy`.
        first: As of `greedy`.
        state: As of `greedy`.
        end: As of `greedy`.
        longest: As of `greedy`.
        temperature: Divides the logits: near 0 the most probable token comes, from 1 on unlikely ones more
            and more. A positive number, or a scalar that is computed in the step.
        top_k: Draws from so many of the most probable tokens, and from those as probable as the last.
        seed: Of the draws.
        name: Of the loop.
    """
    warm = number_or_none(temperature)
    if warm is not None and not 0 < warm < float("inf"):
        raise refusal(
            "sample", f"takes a positive temperature, got {temperature!r:.60}", "greedy is that of 0"
        )
    if top_k is not None:
        check_count("sample", "top_k", top_k)

    heat = as_tensor(temperature)
    if heat.spec.rank not in (0, None) or heat.dtype.kind not in "iuf":
        raise refusal("sample", f"takes a temperature that is a number, or a scalar of one, got {heat.spec}")

    def choose(logits: Tensor) -> Tensor:
        if top_k is not None:
            # The least of the k best: what is as probable as that stays as well.
            least = slice(topk(logits, top_k)[0], (..., builtins.slice(-1, None)))
            # -inf is a weight of 0, which is never drawn.
            logits = where(greater_equal(logits, least), logits, constant(NEVER, logits.dtype))
        # Logits over the temperature: the softmax of that is p^(1/T), normalised.
        return random_categorical(divide(logits, cast(heat, logits.dtype)), seed=seed)

    return _decode("sample", step, choose, first, state, end, longest, name)


def _decode(
    what: str,
    step: Step,
    choose: Callable[[Tensor], Tensor],
    first: Any,
    state: State,
    end: int | None,
    longest: int,
    name: str | None,
) -> Decoded:
    """One sequence for each row, of tokens that `choose` takes of logits."""
    check_settings(what, end, longest)
    first = first_tokens(what, first)
    # A structure outside, a list of tensors in the loop.
    leaves, whole = flatten(state)
    scores = cast(zeros_like(first), "float32")

    def turn(
        i: Tensor, tokens: Tensor, scores: Tensor, lengths: Tensor, ended: Tensor, *state: Tensor
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        logits, after = call_step(what, step, tokens, whole(state))
        chosen = cast(choose(logits), "int32")
        # The model's probabilities, whatever `choose` did to the logits.
        gains = squeeze(take_along_axis(log_softmax(logits), expand_dims(chosen, -1), -1), -1)
        # What has ended gains nothing.
        scores = add(scores, where(ended, constant(0.0, "float32"), cast(gains, "float32")))
        lengths = add(lengths, cast(logical_not(ended), "int32"))
        if end is not None:
            # ORDER: the end is written over what was chosen before it is asked who has ended.
            chosen = where(ended, constant(end, "int32"), chosen)
            ended = logical_or(ended, equal(chosen, end))
        return [chosen, scores, lengths, ended, *flatten(after)[0]], [chosen]

    (_, scores, lengths, *_), (tokens,) = turns(
        longest,
        turn,
        # `first` less than itself is False in its shape, which may be known in the step alone.
        [first, scores, zeros_like(first), less(first, first), *map(as_tensor, leaves)],
        goes_on=lambda tokens, scores, lengths, ended, *state: any_of(logical_not(ended)),
        name=name or what,
    )
    # As long as the longest may be: shapes do not depend on when all had ended.
    like = zeros_of([longest, rows_of(first, 0)], "int32")
    return Decoded(
        fill_after_end(swapaxes(fill_turns(tokens, like, reverse=False), 0, 1), lengths, end), lengths, scores
    )


# ------------------------------------------------------------------------------------------ shared


def call_step(what: str, step: Step, tokens: Tensor, state: State) -> tuple[Tensor, State]:
    """What the user's step makes of tokens; SpecError unless it gives logits and a state."""
    given: Any = step
    if not callable(given) or not can_be_called(given, tokens, state):
        raise refusal(what, f"takes a step, a function of tokens and state, got {step!r:.60}")
    made: Any = given(tokens, state)
    if not isinstance(made, tuple) or len(made) != 2:
        got = f"{made!r:.60}"
        raise refusal(what, f"takes a step that returns (logits, state), got {got}", hint_of_none(made))
    logits = as_tensor(made[0])
    if logits.spec.rank not in (2, None) or logits.dtype.kind != "f":
        raise refusal(what, f"takes a step that gives floating logits (rows, tokens), got {logits.spec}")
    rule, where = f"a step of {what} returns the next state as it is given one", source_line()
    return logits, state_like(state, made[1], rule, Where(op=what, defined_at=where))


def first_tokens(what: str, first: Any) -> Tensor:
    """The tokens with which sequences begin, as int32."""
    found = as_tensor(first)
    if found.dtype.kind not in "iu" or found.spec.rank != 1:
        raise refusal(what, f"begins with a vector of integers, a token for each row, got {found.spec}")
    return cast(found, "int32")


def fill_after_end(tokens: Tensor, lengths: Tensor, end: int | None) -> Tensor:
    """Tokens (…, longest) with `end` behind the end of each sequence."""
    if end is None:
        return tokens
    assert tokens.shape
    assert tokens.shape[-1] is not None
    # Within the length; the `end` of a sequence counts to it.
    within = less(arange(tokens.shape[-1], dtype="int32"), expand_dims(lengths, -1))
    return where(within, tokens, constant(end, "int32"))


def check_settings(what: str, end: Any, longest: Any) -> None:
    """SpecError for an end or a length that is none."""
    check_count(what, "longest", longest)
    if end is not None and not is_whole(end, 0, 2**31 - 1, plain=True):
        raise refusal(what, f"takes the number of a token as end, or None, got {end!r:.60}")


def check_count(what: str, name: str, count: Any) -> None:
    """SpecError unless it is an integer of 1 or more."""
    if not is_whole(count, 1, plain=True):
        raise refusal(what, f"takes an integer of 1 or more as {name}, got {count!r:.60}")


def refusal(what: str, rule: str, hint: str | None = None) -> SpecError:
    """The error that says `rule` of a function, at the user's line."""
    return SpecError(f"{what} {rule}", where=Where(op=what, defined_at=source_line()), hint=hint)
