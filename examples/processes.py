"""Handwritten digits on five real processes of this machine, one of which is killed.

The chief is this process. It starts one that holds the parameters and three that compute gradients; of
three gradients the first two make an update. After an eighth of the updates a worker is killed: the other
two go on, and it is started again and takes its place by itself.

    python examples/processes.py
"""

from __future__ import annotations

import asyncio
import os
import signal

import numpy as np

import actorflow as af

BATCH = 32
HELD_OUT = slice(None, None, 6)  # images that nobody trains with


def build(seed: int) -> af.Program:
    """Returns the program; every process builds it, and gets the same."""
    images, labels = af.datasets.digits()
    images = images.reshape(-1, 64)
    train_images, train_labels = np.delete(images, HELD_OUT, 0), np.delete(labels, HELD_OUT)

    with af.Graph(seed=seed) as graph:
        x = af.placeholder("float32", (None, 64), name="x")
        y = af.placeholder("int64", (None,), name="y")
        w1 = af.Variable(af.init.he((64, 128)), name="w1")
        w2 = af.Variable(af.init.he((128, 10)), name="w2")
        logits = af.nn.relu(x @ w1) @ w2
        loss = af.mean(af.nn.softmax_cross_entropy(logits, y))
        train = af.minimize(loss, af.optim.adam(2e-3))
        right = af.mean(af.cast(af.equal(af.argmax(logits, axis=-1), y), "float32"))

    def batches(epoch: int) -> list[dict[str, np.ndarray]]:
        order = np.random.default_rng([seed, epoch]).permutation(len(train_images))
        parts = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
        return [{"x": train_images[part], "y": train_labels[part]} for part in parts]

    async def test(session: af.Session) -> dict[str, float]:
        held_out = {x: images[HELD_OUT], y: labels[HELD_OUT]}
        return {"accuracy": float(await session.run(right, held_out))}

    return af.Program(graph=graph, loss=loss, train=train, batches=batches, epochs=1000, test=test)


async def main(steps: int = 800) -> af.types.RunDone:
    """Trains, kills worker1 after an eighth of the updates, and returns how it ended.

    A machine that does much else may need longer to start a worker than to make the updates: the last
    eighth waits for it.
    """
    former: int | None = None  # the life that ended, until the next one is there
    async with af.Cluster.local(build, ps=1, workers=3) as cluster:
        async for event in af.Trainer(cluster, af.Backup(2, 3)).run(steps=steps):
            if isinstance(event, af.types.RunDone):
                return event
            if not isinstance(event, af.types.UpdateDone):
                continue
            if event.step % 100 == 0:
                print(f"update {event.step:4}: loss {event.loss:.3f}, {event.update.alive} workers alive")
            if event.step == steps // 8:
                former = cluster.incarnations()["worker1"]
                os.kill(cluster.pids()["worker1"], signal.SIGKILL)
                print("worker1 is killed")
            if former is not None and event.step >= steps * 7 // 8:
                async with asyncio.timeout(180):
                    while cluster.incarnations().get("worker1", 0) <= former:  # noqa: ASYNC110  no event tells of it
                        await asyncio.sleep(0.1)
            if former is not None and cluster.incarnations().get("worker1", 0) > former:
                former = None
                print(f"update {event.step:4}: worker1 is back")
    raise AssertionError("a run ends with RunDone")


if __name__ == "__main__":
    done = af.run(main())
    print(f"test accuracy {done.test['accuracy']:.3f} after {done.step} updates in {done.train_s:.1f} s")
