"""Beam search against all sequences that there are."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow.errors import SpecError
from tests.nn.test_decoding import greedily, log_probabilities, step
from tests.support.sessions import run_step
from tests.support.strategies import examples

TOKENS = 4


def all_sequences(
    token: int, state: int, end: int | None, longest: int, penalty: float
) -> list[tuple[float, list[int]]]:
    """Every sequence with its score, the best first; filled with `end`."""
    found = {}
    for drawn in product(range(TOKENS), repeat=longest):
        cut = list(drawn)
        if end is not None and end in cut:
            cut = cut[: cut.index(end) + 1]
        last, at, score = token, state, 0.0
        for one in cut:
            gains, at = log_probabilities(at, last)
            score, last = score + gains[one], one
        whole = cut + [0 if end is None else end] * (longest - len(cut))
        found[tuple(whole)] = score / ((5 + len(cut)) / 6) ** penalty
    return sorted(((score, list(tokens)) for tokens, score in found.items()), reverse=True)


@given(
    longest=st.integers(1, 3),
    end=st.sampled_from([None, 0, 3]),
    penalty=st.sampled_from([0.0, 0.6, 1.0]),
    static=st.booleans(),
    firsts=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=2),
)
@settings(max_examples=examples(8), deadline=None)
def test_a_search_that_is_wide_enough_finds_the_best_of_all_sequences(
    longest: int, end: int | None, penalty: float, static: bool, firsts: list[tuple[int, int]]
) -> None:
    width = TOKENS**longest
    rows = len(firsts)
    with af.Graph() as graph:
        first = af.placeholder("int32", (rows if static else None,), name="first")
        state = af.placeholder("int32", (rows if static else None,), name="state")
        found = af.nn.beam_search(
            step, first, state, width=width, end=end, longest=longest, length_penalty=penalty
        )

    fed = {first: [f for f, _ in firsts], state: [s for _, s in firsts]}
    tokens, lengths, scores = run_step(graph, found, fed)

    assert found.tokens.spec.shape == (rows if static else None, width, longest)
    for r, (token, at) in enumerate(firsts):
        wanted = all_sequences(token, at, end, longest, penalty)
        n = len(wanted)
        np.testing.assert_allclose(scores[r, :n], [score for score, _ in wanted], rtol=1e-4)
        assert np.isneginf(scores[r, n:]).all()
        assert (np.diff(scores[r, :n]) <= 0).all()
        assert sorted(map(tuple, tokens[r, :n].tolist())) == sorted(tuple(t) for _, t in wanted)
        by_tokens = {tuple(t): score for score, t in wanted}
        mine = [by_tokens[tuple(t)] for t in tokens[r, :n].tolist()]
        np.testing.assert_allclose(scores[r, :n], mine, rtol=1e-4)
        if end is not None:
            sizes = [t.index(end) + 1 if end in t else longest for t in tokens[r, :n].tolist()]
            assert lengths[r, :n].tolist() == sizes


@pytest.mark.parametrize("end", [None, 2])
def test_a_width_of_one_is_greedy(end: int | None) -> None:
    with af.Graph() as graph:
        first, state = af.constant([0, 1, 2, 3], "int32"), af.constant([3, 0, 1, 1], "int32")
        found = af.nn.beam_search(step, first, state, width=1, end=end, longest=5)

    tokens, lengths, scores = run_step(graph, found)

    for r in range(4):
        wanted, length, score = greedily(r, [3, 0, 1, 1][r], end, 5)
        assert tokens[r, 0].tolist() == wanted + [end] * (5 - length)
        assert lengths[r, 0] == length
        np.testing.assert_allclose(scores[r, 0], score, rtol=1e-5)


def test_states_of_several_tensors_follow_their_sequences() -> None:
    with af.Graph(seed=5) as graph:
        cell, words = af.nn.LSTMCell(3, 4), af.nn.Embedding(4, 3, weights=af.init.normal(stddev=2.0))
        logits = af.nn.Dense(4, 4, weights=af.init.normal(stddev=2.0))

        def on(tokens: af.Tensor, state: object) -> tuple[af.Tensor, object]:
            output, state = cell(words(tokens), state)
            return logits(output), state

        first = af.constant([1, 2], "int32")
        wide = af.nn.beam_search(on, first, cell.initial(2), width=64, end=None, longest=3)
        best = af.gather(wide.tokens, 0, 1)  # (rows, 3)
        # The score of the best sequence, computed by running the cell over it.
        inputs = af.concat([af.expand_dims(first, 1), best[:, :2]], 1)
        outputs, _ = af.nn.rnn(cell, words(inputs))
        gains = af.take_along_axis(af.nn.log_softmax(logits(outputs)), af.expand_dims(best, -1), -1)
        again, best_score = af.sum(gains[:, :, 0], 1), wide.scores[:, 0]

    scores, wanted = run_step(graph, [best_score, again])

    np.testing.assert_allclose(scores, wanted, rtol=1e-5)


def test_what_does_not_fit_is_refused() -> None:
    with af.Graph():
        ids = af.placeholder("int32", (None,), name="ids")
        with pytest.raises(SpecError, match="beam_search takes an integer of 1 or more as width, got 0"):
            af.nn.beam_search(step, ids, ids, width=0, end=0, longest=3)
        with pytest.raises(SpecError, match="beam_search takes a length_penalty of 0 or more, got -1"):
            af.nn.beam_search(step, ids, ids, width=2, end=0, longest=3, length_penalty=-1)
        unknown = af.placeholder("float32", (None, None), name="unknown")
        with pytest.raises(SpecError, match="needs to know how many tokens there are"):
            af.nn.beam_search(lambda t, s: (unknown, s), ids, ids, width=2, end=0, longest=3)
