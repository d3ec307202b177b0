"""Feeds the codec and links with damaged bytes; `make fuzz CASES=1000000` is this.

python -m tests.fuzz --cases 1000000               all targets, from a fresh seed
python -m tests.fuzz --cases 1000 --seed 7         the same cases every time
python -m tests.fuzz --repeat frames --seed 7 --case 4711      one case again, as it was told

Exit status: 0 nothing was found, 1 something was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from actorflow.runtime.clock import Entropy, SystemClock
from tests.fuzzing.running import Finding, case, fuzz
from tests.fuzzing.targets import TARGETS


def main(given: Sequence[str] | None = None) -> int:
    """Does what the command line asks for and returns the exit status."""
    options = _arguments(given)
    seed = Entropy().seed if options.seed is None else options.seed
    if options.repeat is not None:
        case(options.repeat, seed, options.case)
        sys.stdout.write("nothing was found\n")
        return 0
    clock = SystemClock()
    began = clock.now()

    def progress(done: int) -> None:
        rate = done / max(clock.now() - began, 1e-9)
        sys.stdout.write(f"\r{done:,} of {options.cases:,} cases, {rate:,.0f} a second")
        sys.stdout.flush()

    sys.stdout.write(f"seed {seed}\n")
    try:
        fuzz(options.cases, seed, progress)
    except Finding as finding:
        sys.stdout.write(f"\n{finding}\n")
        return 1
    sys.stdout.write("\nnothing was found\n")
    return 0


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=50_000, metavar="N", help="how many; 50000")
    parser.add_argument("--seed", type=int, metavar="N", help="of all of them; a fresh one")
    parser.add_argument("--repeat", choices=TARGETS, help="one case of this target")
    parser.add_argument("--case", type=int, default=0, metavar="N", help="which")
    return parser.parse_args(given)


if __name__ == "__main__":
    sys.exit(main())
