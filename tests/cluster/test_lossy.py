"""Links that may lose mantissa: half the bytes, and values within 2⁻⁷."""

from __future__ import annotations

from typing import Any

import numpy as np

import actorflow as af
from actorflow import sim
from actorflow.transport.codec.types import Lossy
from actorflow.transport.rules.link_settings import LinkSettings


def wide(seed: int = 0) -> af.Program:
    """A regression in one variable of 16 KiB."""
    rng = np.random.default_rng(seed)
    batch = {"x": rng.normal(size=(8, 64)).astype("float32"), "y": rng.normal(size=(8, 64)).astype("float32")}
    with af.Graph(seed=seed) as graph:
        x = af.placeholder("float32", (None, 64), name="x")
        y = af.placeholder("float32", (None, 64), name="y")
        w = af.Variable(af.init.he((64, 64)), name="w")
        loss = af.mean((x @ w - y) ** 2)
        train = af.minimize(loss, af.optim.sgd(0.1))
    return af.Program(graph=graph, loss=loss, train=train, batches=lambda _epoch: [batch] * 4, epochs=1)


def trained(links: LinkSettings) -> Any:
    async def main() -> Any:
        async with af.Cluster.simulated(wide(), workers=2, links=links) as cluster:
            *_, last = [done async for done in af.Trainer(cluster).run()]
            return last.loss, await cluster.run("w")

    return sim.run(main).result


def test_training_over_lossy_links_comes_close_to_that_over_exact_ones() -> None:
    exact_loss, exact = trained(LinkSettings())
    lossy_loss, lossy = trained(LinkSettings(lossy=Lossy.BFLOAT16))

    assert not np.array_equal(exact, lossy), "something was lost"
    largest = float(np.abs(exact).max())
    np.testing.assert_allclose(lossy, exact, rtol=0, atol=2 * 2**-7 * largest)  # what is read, and gradients
    assert abs(lossy_loss - exact_loss) < 0.02 * exact_loss
    low = lossy.view(np.uint32) & 0xFFFF
    assert not low.any(), "what was read came with 16 bits of each number"


def test_small_arrays_and_other_dtypes_are_exact_on_lossy_links() -> None:
    async def main() -> Any:
        with af.Graph() as graph, af.device("/job:ps"):
            small = af.Variable(np.array([1 / 3], np.float32), name="small")
            big = af.Variable(np.full(4096, 1 / 3), name="big")
        with graph:
            loss = af.mean((small.as_tensor() - 1.0) ** 2)
            train = af.minimize(loss, af.optim.sgd(0.1))
        program = af.Program(graph=graph, loss=loss, train=train, batches=lambda _epoch: [{}], epochs=1)
        links = LinkSettings(lossy=Lossy.BFLOAT16)
        async with af.Cluster.simulated(program, links=links) as cluster:
            return await cluster.run([small, big])

    small, big = sim.run(main).result
    assert small[0] == np.float32(1 / 3)
    assert (big == 1 / 3).all()
