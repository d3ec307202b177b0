"""Where the time of a synchronous update over processes goes: what each process and thread of it uses.

    python -m studies.update_cost [PROGRAM ...] [--workers N] [--updates N]

Programs are those of `benchmarks.programs` (scalar, mlp, …). For each it trains on a local cluster of one ps,
and prints milliseconds an update: of the clock, and of a processor by process: on its event loop, on threads
that run kernels, and on those of the network. What the kernel counts (/proc), so it costs the run nothing.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import actorflow as af
from benchmarks import programs
from benchmarks.sync_step import one_thread

WARM_UP = 20
"""Updates before the first one that counts."""

LOOP, KERNELS, NETWORK = "loop", "kernels", "network"


@dataclass(frozen=True, slots=True)
class Cost:
    """What an update takes, in milliseconds.

    Attributes:
        clock_ms: By the clock.
        used_ms: Of a processor, by process and kind of thread.
    """

    clock_ms: float
    used_ms: Mapping[str, Mapping[str, float]]

    @property
    def total_ms(self) -> float:
        """Of processors, all processes together."""
        return sum(sum(kinds.values()) for kinds in self.used_ms.values())


def used(pid: int, proc: Path = Path("/proc")) -> dict[str, float]:
    """Returns the milliseconds that a process has used, by kind of thread; {} where nobody can say."""
    found: dict[str, float] = {}
    for thread in (proc / str(pid) / "task").glob("*"):
        try:
            name = (thread / "comm").read_text().strip()
            nanoseconds = int((thread / "schedstat").read_text().split()[0])
        except OSError:  # it has ended
            continue
        kind = LOOP if thread.name == str(pid) else NETWORK if name.startswith("ZMQ") else KERNELS
        found[kind] = found.get(kind, 0.0) + nanoseconds / 1e6
    return found


async def cost(what: str, workers: int, updates: int) -> Cost:
    """Trains a program of `benchmarks.programs`, and returns what an update takes."""
    with one_thread():
        cluster = af.Cluster.local(getattr(programs, what), workers=workers)
        async with cluster:
            pids = {"chief": os.getpid(), **cluster.pids()}
            trainer = af.Trainer(cluster, af.Sync())
            before: dict[str, dict[str, float]] = {}
            start = clock_s = 0.0
            async with aclosing(trainer.run(steps=WARM_UP + updates)) as events:
                async for event in events:
                    if not isinstance(event, af.types.UpdateDone):
                        continue
                    if event.step == WARM_UP:
                        before, start = {name: used(pid) for name, pid in pids.items()}, perf_counter()
                    elif event.step == WARM_UP + updates:
                        clock_s = perf_counter() - start
            after = {name: used(pid) for name, pid in pids.items()}
    kinds = {
        name: {kind: (ms - before[name].get(kind, 0.0)) / updates for kind, ms in sorted(after[name].items())}
        for name in pids
    }
    return Cost(1e3 * clock_s / updates, kinds)


def table(what: str, found: Cost) -> str:
    """Returns a row for each process, and one for all."""
    head = f"{what}: {found.clock_ms:.2f} ms an update, {found.total_ms:.2f} of processors"
    rows = [
        f"  {name:<8} {sum(kinds.values()):6.2f}   "
        + ", ".join(f"{kind} {ms:.2f}" for kind, ms in kinds.items() if ms >= 0.005)
        for name, kinds in found.used_ms.items()
    ]
    return "\n".join([head, *rows])


def main(arguments: list[str] | None = None) -> int:
    """Prints the costs."""
    parser = argparse.ArgumentParser(prog="python -m studies.update_cost", description=__doc__)
    parser.add_argument("programs", nargs="*", default=["scalar", "mlp"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--updates", type=int, default=300)
    given = parser.parse_args(arguments)
    for what in given.programs:
        print(table(what, af.run(cost(what, given.workers, given.updates))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
