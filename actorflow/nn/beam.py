"""Beam search: several sequences at a time, the best of all that go on from them each turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from actorflow.graph.builder import Tensor, as_tensor
from actorflow.graph.inputs_graph import in_graph_of_inputs
from actorflow.nn.cells import State, rows_of, zeros_of
from actorflow.nn.decoding import (
    NEVER,
    Decoded,
    Step,
    call_step,
    check_count,
    check_settings,
    fill_after_end,
    first_tokens,
    refusal,
)
from actorflow.ops.array.arrange import flatten as joined
from actorflow.ops.array.arrange import moveaxis, repeat
from actorflow.ops.array.constants import constant
from actorflow.ops.array.fill import arange
from actorflow.ops.array.identity import cast
from actorflow.ops.array.indexing import take_along_axis
from actorflow.ops.array.shape import expand_dims, reshape
from actorflow.ops.array.slicing import gather
from actorflow.ops.array.sort import topk
from actorflow.ops.control.mapping import fill_turns, turns
from actorflow.ops.control.tensor_list import list_read, list_size
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.math.arithmetic import floor_divide, remainder
from actorflow.ops.math.elementwise import add, divide, multiply, pow, subtract
from actorflow.ops.math.logic import equal, greater, logical_and, logical_not, logical_or, where
from actorflow.ops.math.reduce import any as any_of
from actorflow.ops.nn.softmax import log_softmax
from actorflow.values.pytree import flatten

Kept = tuple[Sequence[Any], Sequence[Any]]


@api_function
@in_graph_of_inputs
def beam_search(
    step: Any,
    first: Any,
    state: Any,
    *,
    width: int,
    end: int | None,
    longest: int,
    length_penalty: float = 0.0,
    name: str | None = None,
) -> Decoded:
    """The `width` best sequences that a search finds which goes on with that many at a time, the best first.

    In every turn it takes the best of all tokens behind all sequences so far; those that have ended stay as
    they are. Where there are fewer sequences than `width`, the others score -inf. With a width of all
    sequences there are it is an exhaustive search.

    The scores that are compared, and returned, are sums of log probabilities over ((5 + length) / 6) to the
    power `length_penalty`. Otherwise as `greedy`: `step` is given rows · width tokens, row after row.

    Shapes:   first (rows,), the state (rows, …) -> tokens (rows, width, longest); see `Decoded`
    Dtypes:   first integers; logits floating, of a known number of tokens
    Raises:   SpecError for what does not fit.

    Args:
        step: As of `greedy`.
        first: As of `greedy`.
        state: Of each row: a structure of tensors (rows, …).
        width: How many sequences it goes on with.
        end: As of `greedy`.
        longest: As of `greedy`.
        length_penalty: 0 for none; above it, longer sequences lose less.
        name: Of the loop.

    Source: Wu et al., "Google's neural machine translation system", 2016, section 7, for the penalty.
    """
    check_count("beam_search", "width", width)
    check_settings("beam_search", end, longest)
    if not 0 <= length_penalty < float("inf"):
        raise refusal("beam_search", f"takes a length_penalty of 0 or more, got {length_penalty!r:.60}")
    first = first_tokens("beam_search", first)
    leaves, whole = flatten(state)
    rows = rows_of(first, 0)
    nothing = zeros_of([rows, width], "int32")
    alone = constant([[0.0] + [NEVER] * (width - 1)], "float32")  # at first all sequences are the same
    initial = [
        # Step 1: every row as many times as the search is wide, row after row.
        repeat(first, width, 0),
        add(cast(nothing, "float32"), alone),
        nothing,
        greater(nothing, 0),
        *(repeat(as_tensor(leaf), width, 0) for leaf in leaves),
    ]
    # Step 2: turns, which keep of each sequence its last token and whom it went on from.
    beams = _Beams(step, whole, rows, width, end, float(length_penalty))
    (_, scores, lengths, *_), (tokens, parents) = turns(
        longest, beams.turn, initial, goes_on=_goes_on, name=name or "beam_search"
    )
    # Step 3: only now are the sequences put together, from their ends backwards.
    found = _trace_back(tokens, parents, nothing, longest)
    return Decoded(fill_after_end(found, lengths, end), lengths, beams.compare(scores, lengths))


def _goes_on(tokens: Tensor, scores: Tensor, lengths: Tensor, ended: Tensor, *state: Tensor) -> Tensor:
    """Whether a sequence that there is has not ended."""
    # What scores -inf is no sequence, so it need not end.
    return any_of(logical_and(logical_not(ended), greater(scores, NEVER)))


@dataclass(frozen=True, slots=True)
class _Beams:
    """One search; `scores` are sums of log probabilities, (rows, width) as lengths and ends."""

    step: Step
    whole: Callable[[Sequence[Tensor]], State]
    rows: Any
    width: int
    end: int | None
    penalty: float

    def turn(
        self, i: Tensor, tokens: Tensor, scores: Tensor, lengths: Tensor, ended: Tensor, *state: Tensor
    ) -> Kept:
        """The best of all that goes on by a token, or has ended."""
        # One call for all sequences of all rows.
        logits, after = call_step("beam_search", self.step, tokens, self.whole(state))
        count = None if logits.shape is None else logits.shape[1]
        if count is None:
            raise refusal("beam_search", f"needs to know how many tokens there are, got logits {logits.spec}")
        # In float32: sums over long sequences would lose halves' digits.
        gains = reshape(cast(log_softmax(logits), "float32"), (-1, self.width, count))
        if self.end is not None:
            # An ended sequence goes on by its end alone, which costs nothing: so it is kept once and not once
            # a token.
            stays = [NEVER] * count
            # An end that is no token is never chosen, and never ends anything.
            if self.end < count:
                stays[self.end] = 0.0
            gains = where(expand_dims(ended, -1), constant(stays, "float32"), gains)
        total = add(expand_dims(scores, -1), gains)
        # What has ended does not become longer.
        longer = add(lengths, cast(logical_not(ended), "int32"))
        # Compared with the penalty, kept without it: lengths go on.
        ranked = self.compare(total, expand_dims(longer, -1))
        # Over all tokens behind all sequences of a row.
        _, best = topk(joined(ranked, 1), self.width)
        # A place in the row is the sequence it went on from, times the number of tokens, plus the token.
        parents, chosen = floor_divide(best, count), cast(remainder(best, count), "int32")
        scores = take_along_axis(joined(total, 1), best, 1)
        # What belongs to a sequence moves with it.
        lengths = take_along_axis(longer, parents, 1)
        ended = _of(ended, parents)
        if self.end is not None:
            ended = logical_or(ended, equal(chosen, self.end))
        numbers = (
            arange(self.rows, dtype="int64")
            if isinstance(self.rows, int)
            else arange(cast(self.rows, "int64"))
        )
        # States of all rows lie behind each other: a row's sequences begin at its number times the width.
        origins = joined(add(parents, multiply(expand_dims(numbers, 1), self.width)))
        states = [gather(as_tensor(leaf), origins, 0) for leaf in flatten(after)[0]]
        return [joined(chosen), scores, lengths, ended, *states], [chosen, parents]

    def compare(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """Scores as they are compared."""
        if not self.penalty:
            return scores
        # The formula of the paper.
        sizes = divide(add(cast(lengths, "float32"), 5.0), 6.0)
        return divide(scores, pow(sizes, self.penalty))


def _of(x: Tensor, parents: Tensor) -> Tensor:
    return take_along_axis(x, parents, 1)


def _trace_back(tokens: Tensor, parents: Tensor, nothing: Tensor, longest: int) -> Tensor:
    """The sequences (rows, width, longest), each traced back from the end by whom it went on from."""
    # Fewer than `longest` where all had ended before.
    count = list_size(tokens)
    width = nothing.shape[1] if nothing.shape else None
    # At the end sequence k stands at place k.
    beam = add(cast(nothing, "int64"), arange(width or 0, dtype="int64"))

    def back(i: Tensor, beam: Tensor) -> Kept:
        # From the last turn to the first.
        at = subtract(subtract(count, 1), i)
        # ORDER: the token that stands there, and then whom it went on from.
        return [_of(list_read(parents, at), beam)], [_of(list_read(tokens, at), beam)]

    _, (found,) = turns(count, back, [beam], name="traced")
    # Turns that did not take place have zeros; `fill_after_end` writes over them.
    like = zeros_of([longest, rows_of(nothing, 0), width], "int32")
    return moveaxis(fill_turns(found, like, reverse=True), 0, 2)
