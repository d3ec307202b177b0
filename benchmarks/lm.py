"""Training an LSTM language model in one process: words a second, beside PyTorch and Keras."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from time import perf_counter

import numpy as np

import actorflow as af
from benchmarks.harness import Contest, Peer, Round, Size, Unit, absent
from benchmarks.peers import load
from benchmarks.registry import benchmark
from benchmarks.words import RATE, ROWS, STEPS, THREADS, UNITS, VOCABULARY, batch

LAYERS = (1, 2)
UPDATES = 2
"""A round has, at its usual size."""

PEERS = {
    "torch": ("PyTorch", "nn.LSTM, oneDNN's; its products use two threads at once"),
    "tensorflow": ("Keras on TensorFlow", "its LSTM in one tf.function with the gradients and the update"),
}

Update = Callable[[], Awaitable[float]]
"""() -> the loss before this update."""


@benchmark("lm", "words/s of training an LSTM-512 language model of 10,000 words, beside PyTorch and Keras")
async def contests(size: Size) -> AsyncGenerator[Contest]:
    """One layer, then two; forward, back, and the update of every variable."""
    words = STEPS * ROWS
    for layers in LAYERS:
        async with AsyncExitStack() as stack:
            ours = await _open(stack, layers)
            peers = []
            for package, (name, note) in PEERS.items():
                module = load(package)
                if module is None:
                    peers.append(absent(name, package))
                else:
                    theirs = stack.enter_context(module.open_lm(layers))
                    peers.append(Peer(name, _timed(theirs), note=note))
            about = f"{STEPS} steps, {ROWS} rows, {layers} x LSTM of {UNITS}, plain SGD, {THREADS} threads"
            n = size.operations(UPDATES * words, step=words)
            yield Contest(f"words_{layers}", Unit.WORDS, n, _timed(ours), peers, note=about)


async def _open(stack: AsyncExitStack, layers: int) -> Update:
    """Opens a session on the model."""
    with af.Graph(seed=0) as graph:
        words, following = (
            af.placeholder("int32", (STEPS, ROWS), name=name) for name in ("words", "following")
        )
        h = af.nn.Embedding(VOCABULARY, UNITS)(words)
        for _ in range(layers):
            h, _ = af.nn.rnn(af.nn.LSTMCell(UNITS, UNITS), h, time_major=True)
        logits = af.nn.Dense(UNITS, VOCABULARY)(af.reshape(h, (-1, UNITS)))
        loss = af.mean(af.nn.softmax_cross_entropy(logits, af.reshape(following, (-1,))))
        train = af.minimize(loss, af.optim.sgd(RATE))
    session = await stack.enter_async_context(af.Session(graph, threads=THREADS))
    fed = dict(zip((words, following), batch(), strict=True))

    async def update() -> float:
        found, _ = await session.run([loss, train], fed)
        return float(found)

    return update


def _timed(update: Update) -> Round:
    """Returns the round of updates that take n words; each loss is looked at."""

    async def round_(n: int) -> float:
        start = perf_counter()
        losses = [await update() for _ in range(n // (STEPS * ROWS))]
        seconds = perf_counter() - start
        if not all(0 < loss < 2 * np.log(VOCABULARY) for loss in losses):
            message = f"a loss must be near that of a guess, {np.log(VOCABULARY):.2f}, got {losses}"
            raise RuntimeError(message)
        return seconds

    return round_
