"""Greedy decoding and sampling against plain loops of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import SpecError
from tests.support.sessions import run_step, run_steps

TABLE = np.random.default_rng(3).normal(size=(4, 4, 5)).astype(np.float32) * 2  # [state, token] -> logits


def step(tokens: Any, state: Any) -> tuple[Any, Any]:
    """Logits by state and token; the next state is made of both."""
    state = (state + tokens) % 4
    return af.arrays.gather_nd(af.constant(TABLE[:, :, :4]), af.stack([state, tokens], 1)), state


def log_probabilities(state: int, token: int) -> tuple[np.ndarray, int]:
    state = (state + token) % 4
    logits = TABLE[state, token, :4].astype(np.float64)
    return logits - np.log(np.exp(logits).sum()), state


def greedily(token: int, state: int, end: int | None, longest: int) -> tuple[list[int], int, float]:
    found: list[int] = []
    score = 0.0
    for _ in range(longest):
        gains, state = log_probabilities(state, token)
        token = int(gains.argmax())
        found.append(token)
        score += gains[token]
        if token == end:
            break
    return found, len(found), score


@pytest.mark.parametrize("end", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("static", [True, False])
def test_greedy_is_the_plain_loop(end: int | None, static: bool) -> None:
    firsts, states, longest = [0, 1, 2, 3, 1], [0, 3, 1, 2, 2], 6
    with af.Graph() as graph:
        first = af.placeholder("int32", (5 if static else None,), name="first")
        state = af.placeholder("int32", (5 if static else None,), name="state")
        found = af.nn.greedy(step, first, state, end=end, longest=longest)

    tokens, lengths, scores = run_step(graph, found, {first: firsts, state: states})

    assert found.tokens.spec.shape == (5 if static else None, longest)
    for r in range(5):
        wanted, length, score = greedily(firsts[r], states[r], end, longest)
        assert tokens[r].tolist() == wanted + [end] * (longest - length)
        assert lengths[r] == length
        np.testing.assert_allclose(scores[r], score, rtol=1e-5)


def test_decoding_ends_when_all_sequences_have_ended() -> None:
    with af.Graph() as graph:
        turns = af.constant([0, 0], "int32")

        def counted(tokens: Any, state: Any) -> tuple[Any, Any]:
            ends = af.equal(state, 2)
            logits = af.where(af.expand_dims(ends, 1), [[5.0, 0.0]], [[0.0, 5.0]])
            return af.math.check_numerics(af.where(af.expand_dims(state > 2, 1), np.nan, logits)), state + 1

        found = af.nn.greedy(counted, turns, turns, end=0, longest=50)

    tokens, lengths, _ = run_step(graph, found)  # a fourth turn would be an error

    assert lengths.tolist() == [3, 3]
    assert tokens[:, :4].tolist() == [[1, 1, 0, 0]] * 2


def test_samples_come_as_often_as_their_probabilities_say() -> None:
    logits = np.log(np.array([[0.5, 0.3, 0.15, 0.05]], np.float32))

    def of(**settings: Any) -> np.ndarray:
        with af.Graph(seed=7) as graph:
            first = af.zeros((4000,), "int32")
            found = af.nn.sample(
                lambda tokens, state: (af.broadcast_to(logits, (4000, 4)), state),
                first,
                (),
                end=None,
                longest=2,
                **settings,
            )
        tokens: np.ndarray = run_step(graph, found.tokens)
        assert (tokens[:, 0] != tokens[:, 1]).any()  # each turn draws anew
        counts: np.ndarray = np.bincount(tokens.reshape(-1), minlength=4)
        return counts / tokens.size

    np.testing.assert_allclose(of(), [0.5, 0.3, 0.15, 0.05], atol=0.02)
    np.testing.assert_allclose(of(top_k=2), [0.625, 0.375, 0, 0], atol=0.02)
    squares = np.square([0.5, 0.3, 0.15, 0.05])
    np.testing.assert_allclose(of(temperature=0.5), squares / squares.sum(), atol=0.02)


def test_sampling_is_the_same_for_the_same_seed_and_step_and_other_in_the_next() -> None:
    def drawn() -> list[np.ndarray]:
        with af.Graph(seed=1) as graph:
            state = af.zeros((6,), "int32")
            found = af.nn.sample(step, state, state, end=None, longest=8, seed=4)
        return run_steps(graph, (found.tokens, {}), (found.tokens, {}))

    one, other = drawn(), drawn()

    assert (one[0] == other[0]).all()
    assert (one[1] == other[1]).all()
    assert (one[0] != one[1]).any()


def test_scores_of_samples_are_those_of_the_model() -> None:
    with af.Graph(seed=1) as graph:
        first = af.constant([0, 1, 2], "int32")
        found = af.nn.sample(step, first, first, end=3, longest=5, temperature=3.0)

    tokens, lengths, scores = run_step(graph, found)

    for r in range(3):
        token = state = r
        total = 0.0
        for wanted in tokens[r, : lengths[r]]:
            gains, state = log_probabilities(state, token)
            total, token = total + gains[wanted], int(wanted)
        np.testing.assert_allclose(scores[r], total, rtol=1e-5)


def test_a_prompt_is_read_and_gone_on_from() -> None:
    rng = np.random.default_rng(0)
    with af.Graph(seed=2) as graph:
        cell, words = af.nn.GRUCell(3, 6), af.nn.Embedding(7, 3, weights=af.init.normal(stddev=1.0))
        logits = af.nn.Dense(6, 7)
        prompts = af.placeholder("int32", (None, None), name="prompts")
        lengths = af.placeholder("int32", (None,), name="lengths")

        def words_on(tokens: Any, state: Any) -> tuple[Any, Any]:
            output, state = cell(words(tokens), state)
            return logits(output), state

        _, state = af.nn.rnn(cell, words(prompts), lengths - 1)
        last = af.take_along_axis(prompts, af.expand_dims(lengths - 1, 1), 1)[:, 0]
        found = af.nn.greedy(words_on, last, state, end=None, longest=4)
    several = rng.integers(0, 7, (3, 5)).astype(np.int32)

    async def alone() -> list[Any]:
        async with af.Session(graph) as session:
            whole = await session.run(found.tokens, {prompts: several, lengths: [2, 5, 1]})
            one = [
                await session.run(found.tokens, {prompts: several[r : r + 1, :n], lengths: [n]})
                for r, n in enumerate([2, 5, 1])
            ]
            return [whole, np.concatenate(one)]

    whole, one = af.run(alone())

    assert (whole == one).all()


def test_what_does_not_fit_is_refused() -> None:
    with af.Graph():
        ids = af.placeholder("int32", (None,), name="ids")
        floats = af.placeholder("float32", (None,), name="floats")
        with pytest.raises(SpecError, match="greedy begins with a vector of integers"):
            af.nn.greedy(step, floats, ids, end=0, longest=3)
        with pytest.raises(SpecError, match="greedy takes an integer of 1 or more as longest, got 0"):
            af.nn.greedy(step, ids, ids, end=0, longest=0)
        with pytest.raises(SpecError, match="sample takes the number of a token as end, or None, got -1"):
            af.nn.sample(step, ids, ids, end=-1, longest=3)
        with pytest.raises(SpecError, match="sample takes a positive temperature, got 0"):
            af.nn.sample(step, ids, ids, end=0, longest=3, temperature=0)
        with pytest.raises(SpecError, match="greedy takes a step that returns \\(logits, state\\)"):
            af.nn.greedy(lambda tokens, state: state, ids, ids, end=0, longest=3)
        with pytest.raises(SpecError, match="greedy takes a step that gives floating logits"):
            af.nn.greedy(lambda tokens, state: (tokens, state), ids, ids, end=0, longest=3)
