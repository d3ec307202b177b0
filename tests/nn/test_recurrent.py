"""Cells over whole sequences: as a loop, unrolled, row by row, backwards, both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow.errors import GraphError, KernelError, SpecError
from actorflow.values.pytree import flatten
from tests.support.arrays import drawn
from tests.support.sessions import run_step
from tests.support.strategies import examples

Make = Callable[..., Any]
KINDS: dict[str, Make] = {
    "rnn": af.nn.RNNCell,
    "lstm": af.nn.LSTMCell,
    "gru": af.nn.GRUCell,
    "gru of the paper": lambda *sizes, **given: af.nn.GRUCell(*sizes, reset_after=False, **given),
}


def close(one: Any, other: Any, rtol: float = 1e-5) -> None:
    for a, b in zip(flatten(one)[0], flatten(other)[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@given(
    kind=st.sampled_from(list(KINDS)),
    reverse=st.booleans(),
    time_major=st.booleans(),
    recompute=st.booleans(),
    static=st.booleans(),
    lengths=st.none() | st.lists(st.integers(0, 5), min_size=1, max_size=3),
)
@settings(max_examples=examples(12), deadline=None)
def test_a_loop_gives_the_bits_of_the_unrolled_graph(
    kind: str, reverse: bool, time_major: bool, recompute: bool, static: bool, lengths: list[int] | None
) -> None:
    rows, steps = 2 if lengths is None else len(lengths), 5
    sizes: tuple[Any, Any] = (rows if static else None, steps)
    with af.Graph(seed=1) as graph:
        x = af.placeholder("float32", (*(sizes[::-1] if time_major else sizes), 3), name="x")
        ends = None if lengths is None else af.placeholder("int64", (sizes[0],), name="ends")
        cell = KINDS[kind](3, 4)
        ways = [
            af.nn.rnn(
                cell, x, ends, reverse=reverse, time_major=time_major, recompute=recompute, unroll=unroll
            )
            for unroll in (False, True)
        ]
        grads = [
            af.gradients(af.sum(outputs**2) + sum(af.sum(s) for s in flatten(state)[0]), [x, *cell.variables])
            for outputs, state in ways
        ]
    fed: dict[Any, Any] = {x: drawn(*((steps, rows) if time_major else (rows, steps)), 3)}
    if ends is not None:
        fed[ends] = np.array(lengths, np.int64)

    (one, other), (slopes, others) = run_step(graph, [ways, grads], fed)

    assert ways[0][0].shape == (*(sizes[::-1] if time_major else sizes), 4)
    for a, b in zip(flatten(one)[0], flatten(other)[0], strict=True):
        np.testing.assert_array_equal(a, b)
    close(slopes, others)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_each_row_is_what_it_would_be_alone(kind: str, reverse: bool) -> None:
    lengths, steps = [4, 0, 2, 6, 1], 7
    with af.Graph(seed=1) as graph:
        x = af.placeholder("float64", (None, None, 3), name="x")
        ends = af.placeholder("int32", (None,), name="ends")
        cell = KINDS[kind](3, 4, dtype="float64")
        outputs, state = af.nn.rnn(cell, x, ends, reverse=reverse)
        (slope,) = af.gradients(af.sum(outputs**2), [x])
        alone, last = af.nn.rnn(cell, x, reverse=reverse)
        (slope_alone,) = af.gradients(af.sum(alone**2), [x])
    given_x = drawn(5, steps, 3, dtype="float64") * 100  # beyond its end it is no matter what it is

    async def main() -> Any:
        async with af.Session(graph) as session:
            together = await session.run([outputs, state, slope], {x: given_x, ends: lengths})
            rows = [
                await session.run([alone, last, slope_alone], {x: given_x[r : r + 1, :n]})
                for r, n in enumerate(lengths)
            ]
            return together, rows

    (found, after, grad), rows = af.run(main())

    for r, n in enumerate(lengths):
        y, end, g = rows[r]
        np.testing.assert_allclose(found[r, :n], y[0], rtol=1e-12)
        assert not found[r, n:].any()
        close([leaf[r] for leaf in flatten(after)[0]], [leaf[0] for leaf in flatten(end)[0]], 1e-12)
        np.testing.assert_allclose(grad[r, :n], g[0], rtol=1e-9, atol=1e-12)
        assert not grad[r, n:].any()


def test_steps_that_no_sequence_has_are_not_computed() -> None:
    class Fragile(af.nn.Cell):
        def __init__(self) -> None:
            super().__init__("fragile", 1, 1, "float32", None)

        def step(self, projected: af.Tensor, state: af.Tensor) -> tuple[af.Tensor, af.Tensor]:
            return af.math.check_numerics(projected + state), state

    with af.Graph() as graph:
        x = af.placeholder("float32", (2, 5, 1), name="x")
        ends = af.placeholder("int32", (2,), name="ends")
        found = [af.nn.rnn(Fragile(), x, ends, reverse=reverse)[0] for reverse in (False, True)]
    values = np.ones((2, 5, 1), np.float32)
    values[:, 3:] = np.nan

    one, other = run_step(graph, found, {x: values, ends: [3, 2]})

    assert one[:, :, 0].tolist() == other[:, :, 0].tolist() == [[1, 1, 1, 0, 0], [1, 1, 0, 0, 0]]


@pytest.mark.parametrize("recompute", [False, True])
def test_gradients_agree_with_differences_in_both_orders(recompute: bool) -> None:
    with af.Graph(seed=3) as graph:
        x, ends = af.constant(drawn(2, 3, 2, dtype="float64")), af.constant([3, 2])
        cell = af.nn.LSTMCell(2, 2, dtype="float64")
        h = af.constant(drawn(2, 2, dtype="float64"))
        outputs, (_, c) = af.nn.rnn(cell, x, ends, (h, h * 2), recompute=recompute)
        ys, xs = [outputs, c], [x, h, *cell.variables]

    af.run(af.testing.check_gradients(ys, xs, order=2, directions=2))
    assert graph.nodes


def test_recomputing_keeps_fewer_values() -> None:
    kept = []
    for recompute in (False, True):
        with af.Graph(seed=3) as graph:
            cell = af.nn.GRUCell(2, 2)
            outputs, _ = af.nn.rnn(cell, af.ones((3, 4, 2)), recompute=recompute)
            af.gradients(outputs, cell.variables)
        loop = next(node for node in graph.nodes if node.op == "while_loop")
        kept.append(len(loop.attrs["saved"]))

    assert kept[1] < kept[0]


def test_both_ways_see_the_whole_sequence() -> None:
    lengths = [3, 5, 1]
    with af.Graph(seed=2) as graph:
        x, ends = af.constant(drawn(3, 5, 2)), af.constant(lengths)
        there, back = af.nn.LSTMCell(2, 3), af.nn.GRUCell(2, 4)
        outputs, states = af.nn.bidirectional(there, back, x, ends)
        one, first = af.nn.rnn(there, x, ends)
        turned, second = af.nn.rnn(back, af.nn.reverse_sequence(x, ends), ends)
        other = af.nn.reverse_sequence(turned, ends)
        again, _ = af.nn.bidirectional(there, back, x, initial=states)

    found, a, b, ends_, wanted = run_step(graph, [outputs, one, other, states, (first, second)])

    assert outputs.shape == again.shape == (3, 5, 7)
    np.testing.assert_allclose(found, np.concatenate([a, b], -1), rtol=1e-5, atol=1e-6)
    close(ends_, wanted)


@pytest.mark.parametrize("shape", [(0, 4, 2), (3, 0, 2), (0, 0, 2)])
@pytest.mark.parametrize("with_lengths", [True, False])
def test_nothing_gives_nothing(shape: tuple[int, ...], with_lengths: bool) -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (None, None, 2), name="x")
        ends = af.placeholder("int32", (None,), name="ends")
        cell = af.nn.LSTMCell(2, 3)
        both = [
            af.nn.rnn(cell, x, ends if with_lengths else None, reverse=reverse) for reverse in (False, True)
        ]
        grads = af.gradients(both[0][0], cell.variables)

    found, slopes = run_step(
        graph, [both, grads], {x: np.zeros(shape, np.float32), ends: np.zeros(shape[:1], np.int32)}
    )

    for outputs, state in found:
        assert outputs.shape == (*shape[:2], 3)
        assert [leaf.shape for leaf in state] == [(shape[0], 3)] * 2
    assert not any(slope.any() for slope in slopes)


def test_sequences_in_buckets_are_learned() -> None:
    """From a pipeline to a trained cell: which sign the first number of 1 to 12 had."""
    rng = np.random.default_rng(0)
    sequences = [rng.normal(size=(n, 1)).astype(np.float32) for n in rng.integers(1, 13, 64)]
    elements = [{"x": x, "length": np.int32(len(x)), "y": np.int32(x[0, 0] > 0)} for x in sequences]
    pipeline = (
        af.data.generator(lambda: elements).repeat(30).bucket(lambda e: len(e["x"]), [4, 8], [16, 16, 16])
    )
    with af.Graph(seed=0) as graph:
        x = af.placeholder("float32", (None, None, 1), name="x")
        lengths, y = (af.placeholder("int32", (None,), name=name) for name in ("length", "y"))
        _, (h, _) = af.nn.rnn(af.nn.LSTMCell(1, 8), x, lengths)
        logits = af.nn.Dense(8, 2)(h)
        loss = af.mean(af.nn.softmax_cross_entropy(logits, y))
        train = af.minimize(loss, af.optim.adam(0.02))

    async def main() -> list[float]:
        losses, widths = [], set()
        async with af.Session(graph) as session:
            async for batch in pipeline:
                fed = {x: batch["x"], lengths: batch["length"], y: batch["y"]}
                losses.append(float((await session.run([loss, train], fed))[0]))
                widths.add(batch["x"].shape[1])
        assert max(widths) == 12
        assert min(widths) <= 3  # short sequences are among themselves
        return losses

    losses = af.run(main())

    assert np.mean(losses[-10:]) < 0.3 < 0.5 < np.mean(losses[:5])


def test_what_does_not_fit_is_refused() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (3, None, 2), name="x")
        cell = af.nn.LSTMCell(2, 3, name="memory")
        with pytest.raises(SpecError, match="rnn runs a cell, got Dense"):
            af.nn.rnn(af.nn.Dense(2, 3), x)
        with pytest.raises(SpecError, match="rnn runs over sequences"):
            af.nn.rnn(cell, x[0])
        with pytest.raises(SpecError, match=r"takes x \(…, 2\) float32"):
            af.nn.rnn(cell, af.zeros((3, 4, 5)))
        with pytest.raises(SpecError, match="rnn takes an integer length for each row, got"):
            af.nn.rnn(cell, x, [1, 2])
        with pytest.raises(SpecError, match="rnn takes an integer length for each row, got"):
            af.nn.rnn(cell, x, [1.0, 2.0, 3.0])
        with pytest.raises(SpecError, match="rnn unrolls a known number of steps"):
            af.nn.rnn(cell, x, unroll=True)
        with pytest.raises(GraphError, match=r"the state of cell 'memory' is built as \(\*, \*\), got \*"):
            af.nn.rnn(cell, x, initial=af.zeros((3, 3)))
        ends = af.placeholder("int32", (None,), name="ends")
        found, _ = af.nn.rnn(cell, x, ends)

    for wrong, error, told in (
        ([4, 5, 1], KernelError, r"lengths of rnn must lie in \[0, 4\], the number of steps, got 5"),
        ([4, -1, 1], KernelError, r"lengths of rnn must lie in \[0, 4\], .* got -1"),
        ([4, 1], SpecError, r"rnn takes lengths for 3 rows, got lengths \(2,\) for x \(4, 3, 2\)"),
    ):
        with pytest.raises(error, match=told):
            run_step(graph, found, {x: drawn(3, 4, 2), ends: wrong})
