"""Optimizers that were written for one process, unchanged on seven: two hold parameters, four compute.

Of four gradients the first three make an update. In the middle worker1 is killed by SIGKILL; training goes on
with the other three, and whoever looks after the processes starts it again: it takes its place by itself.

    python examples/optimizers_on_processes.py                   examples/lookahead.py
    python examples/optimizers_on_processes.py staleness_aware   examples/staleness_aware.py
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import actorflow as af

POLICY = af.Backup(3, 4)
VICTIM = "worker1"
KILLED_AT = 20  # updates
EVERY = 15


async def train(cluster: Any, policy: af.Policy, *, killed_at: int, **limits: int) -> af.Trainer:
    """Trains, kills a worker on the way, prints progress, and returns the trainer, with its record."""
    trainer = af.Trainer(cluster, policy)
    lost = 0
    async for event in trainer.run(**limits):
        if isinstance(event, af.types.RunDone):
            tested = ", ".join(f"test {name} {value:.3f}" for name, value in event.test.items())
            print(f"done after {event.step} updates, {event.train_s:.1f} s  {tested}")
        elif isinstance(event, af.types.UpdateDone):
            if event.step == killed_at:
                pid, lost = cluster.supervisor.pids()[VICTIM], cluster.incarnations()[VICTIM]
                os.kill(pid, signal.SIGKILL)
                print(f"update {event.step}: {VICTIM}, process {pid}, is killed")
            elif lost and cluster.incarnations().get(VICTIM, lost) > lost:
                lost = 0
                print(f"update {event.step}: {VICTIM} is back")
            if event.step % EVERY == 0:
                loss, alive = event.loss, event.update.alive
                print(f"update {event.step:3}, epoch {event.epoch}: loss {loss:.3f}, {alive} workers alive")
    return trainer


async def main(name: str, epochs: int) -> None:
    """Trains the program of an example, for some epochs."""
    program = Path(__file__).with_name(f"{name}.py")
    async with af.Cluster.local(program, ps=2, workers=4) as cluster:
        print(cluster, "with", dict(zip(cluster.ps, cluster.layout.trained, strict=True)))
        await train(cluster, POLICY, killed_at=KILLED_AT, epochs=epochs)


if __name__ == "__main__":
    af.run(main(sys.argv[1] if len(sys.argv) > 1 else "lookahead", epochs=20))
