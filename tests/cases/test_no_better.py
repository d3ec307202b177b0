"""The word that a run ended no better than it began: not of what could not be better, and at the user's line."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from actorflow.errors import NoBetter


def program(noise: float, start: float = 0.0, rate: float = 0.1) -> af.Program:
    """A linear model of three numbers, with noise in what it is to give; it is right at 1."""
    with af.Graph(seed=0) as graph:
        x = af.placeholder("float32", (None, 3))
        y = af.placeholder("float32", (None, 1))
        w = af.Variable(np.full((3, 1), start, "float32"), name="w")
        loss = af.mean(af.square(x @ w - y))
        train = af.minimize(loss, af.optim.sgd(rate))
    rng = np.random.default_rng(1)
    batches = []
    for _ in range(24):
        rows = rng.normal(size=(8, 3)).astype("float32")
        right = rows @ np.ones((3, 1), "float32") + noise * rng.normal(size=(8, 1)).astype("float32")
        batches.append({x: rows, y: right})
    return af.Program(graph=graph, loss=loss, train=train, epochs=3, batches=lambda _: batches)


def said(made: af.Program, *runs: af.Policy, again: int = 0) -> list[list[Any]]:
    """Trains with a trainer each, the last one `again` as well; what each run warned of."""
    told: list[list[Any]] = []

    async def once(trainer: af.Trainer) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            async for _ in trainer.run():  # the line
                pass
        told.append([each for each in caught if each.category is NoBetter])

    async def main() -> None:
        async with af.Cluster.simulated(made, ps=1, workers=2, work_s=0.1) as cluster:
            for policy in runs[:-1]:
                await once(af.Trainer(cluster, policy))
            trainer = af.Trainer(cluster, runs[-1])
            for _ in range(1 + again):
                await once(trainer)

    sim.run(main)
    return told


@pytest.mark.parametrize("noise", [0.0, 1.0])
@pytest.mark.parametrize("then", [af.Sync(), af.Async()], ids=str)
def test_a_trained_model_may_be_trained_on(noise: float, then: af.Policy) -> None:
    assert said(program(noise), af.Sync(), then, then, again=2) == [[], [], [], [], []]


def test_a_model_that_is_right_from_the_beginning_may_be_trained() -> None:
    assert said(program(0.0, start=1.0), af.Sync()) == [[]]


def test_one_that_is_right_but_for_rounding_may_be_trained() -> None:
    assert said(program(0.0, start=float(np.float32(1 + 3e-7)), rate=1e-6), af.Sync()) == [[]]


def test_what_gets_worse_is_told_at_the_line_that_trains() -> None:
    ((warning,),) = said(program(0.0, start=1.5, rate=0.0), af.Sync())

    assert "ended no better than it began" in str(warning.message)
    assert warning.filename == __file__
    assert "# the line" in Path(__file__).read_text(encoding="utf-8").splitlines()[warning.lineno - 1]
