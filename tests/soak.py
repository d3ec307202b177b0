"""Runs the laws on fresh examples until the time is up; `make soak MINUTES=20` is this.

python -m tests.soak --minutes 20                all laws, sharing the time; goes on where it stopped
python -m tests.soak --minutes 5 -k queue        some of them
python -m tests.soak --minutes 5 --write         and what failed becomes an @example in its file
python -m tests.soak --repeat LAW --seed N --examples M      one slice again

The slices in flight when the time is up are finished. What failed is also in failures.txt beside the state.
Exit status: 0 nothing failed, 1 something did, 2 the command line or the laws are wrong. Ctrl-C ends
it early, in order.
"""

from __future__ import annotations

import argparse
import fcntl
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from actorflow.runtime.clock import Entropy, SystemClock
from tests.soaking import keeping, report
from tests.soaking.crew import Worker, WorkerLost
from tests.soaking.report import Failure
from tests.soaking.soak import SHRINK_LIMIT_S, CannotSoak, Plan, Soak
from tests.soaking.state import load, put_aside
from tests.soaking.worker import Ask, Collected, Told


def main(given: Sequence[str] | None = None) -> int:
    """Does what the command line asks for and returns the exit status."""
    options = _arguments(given)
    options.state.parent.mkdir(parents=True, exist_ok=True)
    plan = Plan(options.minutes, options.state, options.workers, options.k, options.laws, options.limit)
    try:
        with _alone(options.state):
            if options.repeat is not None:
                return _repeat(
                    plan, Ask(options.repeat, options.seed, options.examples, True, SHRINK_LIMIT_S)
                )
            return _soak(plan, fresh=options.fresh, write=options.write)
    except (CannotSoak, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=_positive, default=5.0, metavar="N", help="how long; 5")
    parser.add_argument("--workers", type=_count, default=2, metavar="N", help="processes; 2")
    parser.add_argument("-k", default="", metavar="EXPR", help="only laws that match, as in pytest")
    parser.add_argument("--state", type=Path, default=Path(".soak/state.json"), metavar="FILE")
    parser.add_argument("--fresh", action="store_true", help="put the state aside and start from nothing")
    parser.add_argument("--write", action="store_true", help="write what failed into the files of the laws")
    parser.add_argument("--laws", default="tests", metavar="PATH", help="where the laws are; tests")
    parser.add_argument(
        "--limit", type=_positive, default=60.0, metavar="S", help="a slice hangs after; 60 s"
    )
    parser.add_argument("--repeat", metavar="LAW", help="run one slice again, with --seed and --examples")
    parser.add_argument("--seed", type=int, metavar="N")
    parser.add_argument("--examples", type=_count, metavar="N")
    options = parser.parse_args(given)
    if (options.repeat is None) != (options.seed is None) or (options.repeat is None) != (
        options.examples is None
    ):
        parser.error("--repeat LAW, --seed N and --examples N go together")
    return options


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be above 0, got {text}")
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, got {text}")
    return number


@contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Holds the state for this process; the system lets go of it however the process ends."""
    with state.with_name(state.name + ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotSoak(f"another soak is using {state}\n  try: --state another/state.json") from None
        yield


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _soak(plan: Plan, *, fresh: bool, write: bool) -> int:
    if fresh and plan.state.exists():
        _say(f"the state so far is kept as {put_aside(plan.state)}")
    state, message = load(plan.state)
    if message:
        _say(message)
    soak = Soak(plan, state, SystemClock(), Entropy(), _say)
    soak.run()
    _say("")
    _say(report.table(state.shares, soak.slices, soak.laws))
    if soak.slices:
        last = soak.slices[-1]
        _say(f"\nThe seed of each slice is in {plan.state}. One again, the last for instance:")
        _say(f"  {report.repeat(plan.laws, last.law, last.seed, last.examples)}")
    if not soak.failures:
        return 0
    _say(f"\n{len(soak.failures)} failures, kept in {plan.failures}:\n")
    for each in soak.failures:
        _say(report.failure(each, plan.laws))
        if write:
            _say(_written(each) + "\n")
    return 1


def _written(found: Failure) -> str:
    """Writes the example of a failure into its file and says so, or says why not."""
    example, why_not = found.what.example, found.what.why_not
    if example is None or why_not is not None:
        return f"not written: {why_not}"
    try:
        keeping.keep(Path(found.source), found.function, example)
    except (keeping.NotKept, OSError) as error:
        return f"not written: {error}"
    return f"written into {found.source}; make lint may want it formatted"


def _repeat(plan: Plan, ask: Ask) -> int:
    """Runs one slice again, this time shrinking what fails."""
    worker = Worker(plan.state.parent / "repeat.log", plan.laws, "")
    try:
        collected = _next(worker)
        if not isinstance(collected, Collected) or collected.broken or ask.law not in collected.laws:
            raise CannotSoak(f"{plan.laws} has no law {ask.law}\n  try: -k, to see the names of the laws")
        worker.ask(ask)
        told = _next(worker)
    except WorkerLost as lost:
        _say(f"{ask.law}: its worker is gone: {lost}")
        return 1
    finally:
        worker.stop()
    assert isinstance(told, Told)
    _say(f"{told.outcome}: {told.ran} examples in {told.seconds:.1f} s")
    for each in told.failures:
        _say(
            report.failure(
                Failure(ask.law, ask.seed, ask.examples, told.source, told.function, each), plan.laws
            )
        )
    return int(told.outcome == "failed")


def _next(worker: Worker) -> Collected | Told:
    while (answer := worker.hear()) is None:
        pass
    return answer


if __name__ == "__main__":
    sys.exit(main())
