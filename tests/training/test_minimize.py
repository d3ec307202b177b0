"""`minimize`: what is trained, and what cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from tests.optim.test_laws import RULES


def test_only_trainable_variables_on_the_path_are_updated() -> None:
    with af.Graph() as graph:
        a = af.Variable(1.0, name="a")
        b = af.Variable(1.0, name="b", trainable=False)
        c = af.Variable(1.0, name="c")
        train = af.minimize(a * b, af.optim.sgd(0.5))
        values = [v.read() for v in (a, b, c)]

    async def main() -> list[float]:
        async with af.Session(graph) as session:
            await session.run(train)
            return [float(v) for v in await session.run(values)]

    assert af.run(main()) == [0.5, 1, 1]


def test_chosen_variables_alone_are_updated() -> None:
    with af.Graph() as graph:
        a, b = af.Variable(1.0, name="a"), af.Variable(1.0, name="b")
        train = af.minimize(a * b, af.optim.sgd(0.5), [b])
        values = [a.read(), b.read()]

    async def main() -> list[float]:
        async with af.Session(graph) as session:
            await session.run(train)
            return [float(v) for v in await session.run(values)]

    assert af.run(main()) == [1, 0.5]


def test_a_variable_off_the_path_is_named() -> None:
    with af.Graph():
        a, b = af.Variable(1.0, name="a"), af.Variable(1.0, name="b")
        with pytest.raises(errors.GraphError, match="does not depend on 'b'"):
            af.minimize(a * 2.0, af.optim.sgd(0.5), [a, b])


def test_a_loss_without_variables_has_nothing_to_minimize() -> None:
    with af.Graph():
        x = af.placeholder("float32", (), name="x")
        with pytest.raises(errors.GraphError, match="so there is nothing to minimize"):
            af.minimize(x * 2.0, af.optim.sgd(0.5))


def test_a_variable_that_is_read_twice_gets_both_gradients() -> None:
    with af.Graph() as graph:
        w = af.Variable(np.array(3.0), name="w")
        first = w.read()
        second = w.read()
        train = af.minimize(first * second, af.optim.sgd(1.0))
        value = w.read()

    async def main() -> float:
        async with af.Session(graph) as session:
            await session.run(train)
            return float(await session.run(value))

    assert af.run(main()) == 3 - 6


def test_a_variable_may_be_the_loss() -> None:
    with af.Graph() as graph:
        w = af.Variable(3.0, name="w")
        train = af.minimize(w, af.optim.sgd(1.0))
        value = w.read()

    async def main() -> list[float]:
        async with af.Session(graph) as session:
            return [float(v) for v in await session.run([train, value])]

    assert af.run(main()) == [1, 2]


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (lambda: 3.0, "a loss is a tensor of the graph, got float"),
        (lambda: af.Variable(np.ones(2)), r"a loss is a floating scalar, got .* \(2,\) float64"),
        (lambda: af.constant(3), r"a loss is a floating scalar, got constant:0 \(\) int32"),
    ],
)
def test_what_is_no_loss_is_refused(loss: Any, text: str) -> None:
    with af.Graph(), pytest.raises(errors.ActorflowError, match=text):
        af.minimize(loss(), af.optim.sgd(0.1))


def test_a_loss_over_reads_on_both_sides_of_a_write_is_refused() -> None:
    with af.Graph():
        w = af.Variable(2.0, name="w")
        first = w.read()
        w.assign(first * first)
        loss = first * 10 + w * w

        with pytest.raises(errors.GradientError, match="one value of variable 'w' only"):
            af.minimize(loss, af.optim.sgd(0.1))


@pytest.mark.parametrize("name", RULES)
def test_every_rule_trains_variables_as_it_would_arrays(name: str) -> None:
    """Bit for bit: the optimizer's actor, the staging and the threads add nothing."""
    rule = RULES[name]
    params = {"a": np.array([[1.0, -2.0, 0.5]]), "b": np.array([[0.3], [0.7], [-0.1]]), "w": np.array(0.2)}
    with af.Graph() as graph:
        a, b, w = (af.Variable(p, name=n) for n, p in params.items())
        loss = af.sum(af.tanh(a @ b)) * w + af.sum(a * a) + w * w
        grads = dict(zip("abw", af.gradients(loss, [a, b, w]), strict=True))
        if rule.filter:
            rule = af.optim.chain(rule, af.optim.sgd(0.1))
        train = af.minimize(loss, rule)
        values = dict(zip("abw", (a.read(), b.read(), w.read()), strict=True))

    async def main() -> tuple[list[Any], list[Any]]:
        seen, slopes = [], []
        async with af.Session(graph) as session:
            for _ in range(3):
                slopes.append(await session.run(grads))
                await session.run(train)
                seen.append(await session.run(values))
        return seen, slopes

    seen, slopes = af.run(main())

    state = rule.init(params)
    for after, slope in zip(seen, slopes, strict=True):
        deltas, state = rule.update(slope, state, params)
        params = {n: p + deltas[n] for n, p in params.items()}
        assert {n: p.tobytes() for n, p in params.items()} == {n: p.tobytes() for n, p in after.items()}


CLIMBING = {
    "a limit": af.optim.clip_by_norm(1.0),
    "a decay": af.optim.weight_decay(0.1),
    "a positive factor": af.optim.scale(2.0),
    "a chain of limits": af.optim.chain(af.optim.clip_by_value(1.0), af.optim.l2(0.1)),
    "a limit for some": af.optim.masked(af.optim.clip_by_norm(1.0), "a"),
    "a partition with a limit": af.optim.partition({"a": af.optim.sgd(0.1), "*": af.optim.centralise()}),
    "a mean of limits": af.optim.accumulate(af.optim.clip_by_value(1.0), 2),
    "a user's own": af.optim.Transform(init=lambda p: (), update=lambda g, s, p: (dict(g), s), filter=True),
}


@pytest.mark.parametrize("rule", CLIMBING.values(), ids=CLIMBING.keys())
def test_what_only_passes_gradients_is_refused_for_it_would_climb(rule: af.optim.Transform) -> None:
    with af.Graph():
        a = af.Variable(1.0, name="a")
        with pytest.raises(
            errors.GraphError, match=f"down the gradient, got {rule.name}, which pass"
        ) as caught:
            af.minimize(a * a, rule)

    assert "af.optim.sgd(0.1)" in str(caught.value)


def test_an_actor_of_what_only_passes_gradients_is_refused_too() -> None:
    with af.Graph() as graph:
        a = af.Variable(1.0, name="a")
        train = af.minimize(a * a, lambda: af.OptimizerActor(af.optim.clip_by_norm(1.0)))

    async def main() -> None:
        async with af.Session(graph) as session:
            await session.run(train)

    with pytest.raises(errors.GraphError, match="got clip_by_norm, which passes gradients") as caught:
        af.run(main())
    assert "node train/apply_gradients" in str(caught.value)


@pytest.mark.parametrize(
    "rule",
    [
        af.optim.chain(af.optim.clip_by_norm(100.0), af.optim.sgd(0.1)),
        af.optim.chain(af.optim.sgd(0.1), af.optim.clip_by_value(100.0)),
        af.optim.chain(af.optim.masked(af.optim.sgd(0.1), "a"), af.optim.masked(af.optim.l2(0.1), "c")),
        af.optim.scale(-0.1),
        af.optim.partition({"a": af.optim.sgd(0.1), "*": af.optim.freeze()}),
        af.optim.masked(af.optim.sgd(0.1), only="a"),
    ],
    ids=["in front", "behind", "masks", "a negative factor", "the rest frozen", "the rest masked"],
)
def test_a_rule_with_limits_around_it_descends_and_names_outside_stay(rule: af.optim.Transform) -> None:
    with af.Graph() as graph:
        a, b = af.Variable(1.0, name="a"), af.Variable(2.0, name="b")
        train = af.minimize(a * a + b * b, rule)
        values = [a.read(), b.read()]

    async def main() -> list[float]:
        async with af.Session(graph) as session:
            await session.run(train)
            return [float(v) for v in await session.run(values)]

    moves = rule.name == "scale" or "clip" in str(rule.config)
    assert af.run(main()) == pytest.approx([0.8, 1.6 if moves else 2.0])


def test_an_update_takes_the_optimizer_itself() -> None:
    with af.Graph() as graph:
        a = af.Variable([1.0, 2.0], name="a")
        done = af.apply_gradients([[1.0, 1.0]], [a], af.optim.sgd(0.5))

    async def main() -> Any:
        async with af.Session(graph) as session:
            await session.run(done)
            return await session.run(a)

    np.testing.assert_array_equal(af.run(main()), [0.5, 1.5])
