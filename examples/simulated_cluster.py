"""Digits on a cluster of seven processes that are all simulated, while one straggles and one crashes.

Two processes hold the parameters, four compute gradients, and one decides: of four gradients the first
three make an update, so nobody waits for a slow worker, or for one that is dead. worker3 stalls now and
then. worker1 crashes in the middle and is back two seconds later; it takes its place again by itself.
Meanwhile the other three are all needed, and an update takes as long as the stalls of worker3.

Time is virtual: a second of the cluster is no second here, and every run prints the same.

    python examples/simulated_cluster.py
"""

from __future__ import annotations

from collections import Counter

import digits

import actorflow as af
from actorflow import sim

WORK_S = 0.1  # how long a worker computes at a batch
STALLS = sim.Straggler(jitter_s=0.005, p=0.3, stall_s=1.0)
CRASH_AT = 10  # updates
AWAY_S = 2.0
LIMITS = sim.Limits(max_steps=10_000_000)  # a run that takes more has got stuck


def told(event: af.types.UpdateDone, took_s: float, left_out: Counter[int]) -> str:
    """Returns a line about one update."""
    slow = ", ".join(f"worker{rank} {n}" for rank, n in sorted(left_out.items())) or "nobody"
    return (
        f"{event.train_s:5.1f} s  update {event.step:3}, epoch {event.epoch}: took {took_s:.1f} s, loss"
        f" {event.loss:.3f}, {event.update.alive} alive; left out so far: {slow}"
    )


@sim.world("chief", ps=2, worker=4, latency_s=0.001, limits=LIMITS)
async def run(world: sim.World, epochs: int, every: int) -> af.types.RunDone:
    """Trains on the hosts of a world, harms two of them, prints progress, and returns how it ended."""
    world.straggle("worker3", STALLS)
    program = digits.build(seed=0)
    async with af.Cluster.simulated(program, ps=2, workers=4, work_s=WORK_S, world=world) as cluster:
        print(cluster, "with", dict(zip(cluster.ps, cluster.layout.trained, strict=True)))
        left_out: Counter[int] = Counter()
        before_s = 0.0
        async for event in af.Trainer(cluster, af.Backup(3, 4)).run(epochs=epochs):
            if isinstance(event, af.types.UpdateDone):
                used = {rank for rank, *_ in event.update.chosen}
                left_out.update(set(range(4)) - used)
                took_s, before_s = event.train_s - before_s, event.train_s
                if event.step % every == 0 or took_s > 5 * WORK_S:
                    print(told(event, took_s, left_out))
                if event.step == CRASH_AT:
                    print(f"{event.train_s:5.1f} s  worker1 crashes, and is back in {AWAY_S:g} s")
                    world.crash("worker1")
                    world.restart_later("worker1", AWAY_S)
            elif isinstance(event, af.types.RunDone):
                return event
    raise AssertionError("a run ends with RunDone")


if __name__ == "__main__":
    done = run(epochs=4, every=5)
    print(f"test accuracy {done.test['accuracy']:.3f} after {done.train_s:.1f} virtual seconds")
