"""A language model that reads Jane Austen's six novels word by word: an LSTM, and its perplexity.

Every twentieth chapter is held out. The others lie in 32 rows, which are read side by side, 32 words at a
time; the state of the LSTM goes on from one step to the next, and the gradient ends where the step begins.

    python examples/austen_lm.py [--epochs N] [--seed N] [--quick] [--plot FILE]
    actorflow train examples/austen_lm.py
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from typing import Any

import numpy as np
from curves import draw
from novels import ROWS, UNKNOWN, novels

import actorflow as af
from actorflow.training.events import EpochDone, StepDone
from actorflow.training.trainer import train

UNITS = 128
STEPS = 32
EPOCHS, RATE, WARMUP, LIMIT = 3, 4e-3, 100, 1.0


def rate(updates: int) -> Any:
    """Returns the learning rate of a run of so many updates: up along a line, down along a cosine."""
    return af.optim.schedules.warmup(WARMUP, af.optim.schedules.cosine(RATE, updates=updates))


class Model(af.nn.Layer):
    """Scores of the next word. One table turns words into vectors, and vectors into scores of words."""

    def __init__(self, words: int) -> None:
        super().__init__("model", None)
        with self.scope():
            self.words = af.nn.Embedding(words, UNITS, weights=af.init.normal(0.05), name="words")
            self.cell = af.nn.LSTMCell(UNITS, UNITS, name="lstm")
            self.bias = self.variable("bias", np.zeros(words, "float32"))
        self.variables = [*self.words.variables, *self.cell.variables, self.bias]

    def __call__(self, numbers: Any, state: Any) -> tuple[Any, Any]:
        """Of numbers (rows, steps) and a state: scores (rows · steps, words), and the state after them."""
        outputs, state = af.nn.rnn(self.cell, self.words(numbers), initial=state)
        return self.scores(af.reshape(outputs, (-1, UNITS))), state

    def scores(self, h: Any) -> Any:
        """Returns scores (n, words) of h (n, units)."""
        return af.matmul(h, self.words.table, transpose_b=True) + self.bias

    def writes(self, first: int, count: int) -> Any:
        """Returns the numbers of `count` words after a first one, drawn by how likely they are."""

        def turn(before: Any, _: Any) -> Any:
            word, state = before
            output, state = self.cell(self.words(word), state)
            return UNKNOWN + 1 + af.random.categorical(self.scores(output)[:, UNKNOWN + 1 :]), state

        drawn, _ = af.scan(turn, af.arange(count), (af.constant([first], "int64"), self.cell.initial(1)))
        return af.reshape(drawn, (-1,))


def program(seed: int, epochs: int = EPOCHS, quick: bool = False) -> tuple[af.Program, Model]:
    """Returns what to train, and the model in it."""
    words, trained, held_out = novels(quick)

    with af.Graph(seed=seed) as graph:
        numbers = af.placeholder("int32", (ROWS, None), name="numbers")
        goes_on = af.placeholder("float32", (), name="goes_on")  # 0 where a text begins
        model = Model(len(words))
        held = [af.Variable(np.zeros((ROWS, UNITS), "float32"), name=name, trainable=False) for name in "hc"]
        scores, after = model(numbers[:, :-1], tuple(part.read() * goes_on for part in held))
        loss = af.mean(af.nn.softmax_cross_entropy(scores, af.reshape(numbers[:, 1:], (-1,))))
        carry = [part.assign(value) for part, value in zip(held, after, strict=True)]
        rule = af.optim.adam(rate(epochs * math.ceil(trained.shape[1] / STEPS)))
        with warnings.catch_warnings():  # the table is the last layer too, so every step changes all its rows
            warnings.simplefilter("ignore", af.errors.DenseRows)
            update = af.minimize(loss, af.optim.chain(af.optim.clip_by_global_norm(LIMIT), rule))

    def parts(rows: Any) -> Iterator[Mapping[Any, Any]]:
        for at in range(0, rows.shape[1] - 1, STEPS):
            yield {numbers: rows[:, at : at + STEPS + 1], goes_on: float(at > 0)}

    async def evaluate(session: af.Session) -> dict[str, float]:
        losses = [(await session.run([loss, carry], part))[0] for part in parts(held_out)]
        return {"perplexity": math.exp(np.mean(losses))}

    made = af.Program(
        graph=graph,
        loss=loss,
        train=[update, carry],
        batches=lambda epoch: list(parts(trained)),
        epochs=epochs,
        evaluate=evaluate,
    )
    return made, model


def build(seed: int) -> af.Program:
    """Returns the program that `actorflow train` runs."""
    return program(seed)[0]


async def main(epochs: int, seed: int, quick: bool, plot: str) -> float:
    """Trains, says how it goes, lets the model write, and returns the perplexity on what was held out."""
    words, trained, held_out = novels(quick)
    print(f"{trained.size} words to train with, {held_out.size} held out, {len(words)} different ones")
    made, model = program(seed, epochs, quick)
    with made.graph:
        text = model.writes(words.index("."), 60)
    lately: deque[float] = deque(maxlen=100)
    curve, found = [], []
    async with af.Session(made.graph) as session, aclosing(train(made, session)) as run:
        async for event in run:
            read = event.step * ROWS * STEPS
            if isinstance(event, StepDone):
                lately.append(event.loss)
                curve.append((read, math.exp(np.mean(lately))))
                if event.step % 50 == 0:
                    pace = f"{read / event.train_s:.0f} words/s"
                    print(
                        f"step {event.step}/{event.total}: perplexity {curve[-1][1]:.1f}, {pace}", flush=True
                    )
            elif isinstance(event, EpochDone):
                found.append((read, event.scores["perplexity"]))
                print(f"epoch {event.epoch}: perplexity {found[-1][1]:.2f} on what was held out", flush=True)
        print("it writes:", " ".join(words[k] for k in await session.run(text)))
    axes = {"xlabel": "words read", "ylabel": "perplexity", "yscale": "log"}
    draw(plot, {"read, mean of 100 steps": (curve, "-"), "held out": (found, "o")}, **axes)
    return found[-1][1]


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """Returns what the script takes, and its twin in PyTorch."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="seven chapters, to see that it runs")
    return parser


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--plot", default="austen.svg", metavar="FILE", help="where the curve is drawn")
    chosen = parser.parse_args()
    af.run(main(chosen.epochs, chosen.seed, chosen.quick, chosen.plot))
