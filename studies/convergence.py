"""How fast and how well policies train: `make study`.

Every policy trains the same network on the same digits, on a simulated cluster in virtual time. A worker
computes 0.1 s at a batch; with stragglers 8 % of batches take longer, by 0.5 s in the mean and with a Pareto
tail of shape 2: by more than 4.5 s in one of a hundred of them.

All go through the data equally often, each at the learning rate with which it reaches the loss soonest on
another seed (`--tune` finds that, and writes rates.json).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from studies.runs import AWARE, LOCAL, TARGET, WINDOW, Result, Run, done
from studies.tables import table

POLICIES = ("sync", "backup", "stale:1", "stale:4", "async", AWARE)
WORKERS = (2, 4, 8)
SEEDS = (0, 1, 2)
EPOCHS = 8

RATES = (0.05, 0.1, 0.2, 0.4, 0.8)
TUNING_SEED = 100
FOUND = Path(__file__).with_name("rates.json")


def kinds() -> Iterator[tuple[str, int]]:
    """Yields each policy with each number of workers; with one worker every policy is local."""
    yield LOCAL, 1
    yield from ((policy, workers) for policy in POLICIES for workers in WORKERS)


def key(policy: str, workers: int) -> str:
    """Returns the name of a kind of run in rates.json."""
    return f"{policy} {workers}"


def planned() -> list[Run]:
    """Returns the runs of the study, each at the rate that was found for it."""
    rates = json.loads(FOUND.read_text())["rates"]
    return [
        Run(policy, workers, stragglers, seed, rates[key(policy, workers)], EPOCHS)
        for policy, workers in kinds()
        for stragglers in (False, True)
        for seed in SEEDS
    ]


def tuning() -> list[Run]:
    """Returns the runs by which rates are chosen: no stragglers, and a seed that the study does not use."""
    return [
        Run(policy, workers, False, TUNING_SEED, rate, EPOCHS)
        for policy, workers in kinds()
        for rate in RATES
    ]


def quick() -> list[Run]:
    """Returns a few short runs, one of each kind with two workers."""
    some = [(LOCAL, 1), *((policy, 2) for policy in POLICIES)]
    return [
        Run(policy, workers, stragglers, 0, 0.2, 1)
        for policy, workers in some
        for stragglers in (False, True)
    ]


def all_done(runs: Sequence[Run], jobs: int) -> list[Result]:
    """Runs them in so many processes, and returns what came of them, in their order."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    results: dict[Run, Result] = {}
    context = multiprocessing.get_context("spawn")
    with (
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
        ProcessPoolExecutor(jobs, mp_context=context) as pool,
    ):
        bar = progress.add_task("runs", total=len(runs))
        for future in as_completed([pool.submit(done, run) for run in runs]):
            result = future.result()
            results[result.run] = result
            progress.update(bar, advance=1, description=key(result.run.policy, result.run.workers))
    return [results[run] for run in runs]


def best(results: Sequence[Result]) -> dict[str, float]:
    """Returns the rate for each kind of run: the soonest at the loss; if none was, the lowest loss."""

    def rank(result: Result) -> tuple[bool, float, float]:
        return result.reached_s is None, result.reached_s or 0.0, result.loss

    return {
        key(policy, workers): min(
            (r for r in results if (r.run.policy, r.run.workers) == (policy, workers)), key=rank
        ).run.rate
        for policy, workers in kinds()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the study, prints the table, and writes what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m studies.convergence", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few short runs, to see that all works")
    parser.add_argument("--tune", action="store_true", help=f"find the rates, and write {FOUND.name}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write the figure (needs matplotlib)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)"
    )
    given = parser.parse_args(arguments)

    runs = tuning() if given.tune else quick() if given.quick else planned()
    results = all_done(runs, given.jobs)
    if given.tune:
        tuned = {"rates": best(results), "runs": [asdict(result) for result in results]}
        FOUND.write_text(json.dumps(tuned, indent=1) + "\n")
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    if given.tune:
        print(json.dumps(best(results), indent=1))
        return 0
    print(table(results))
    print(f"\nThe loss is reached when its mean over {WINDOW} gradients is below {TARGET:g}.")
    if given.plot is not None:
        from studies.plot import draw  # needs matplotlib

        draw(results, given.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
