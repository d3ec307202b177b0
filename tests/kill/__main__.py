"""`make kill SEEDS=5`: every cell of the matrix, for so many seeds; a line a cell, and a table."""

from __future__ import annotations

import argparse
import sys
import time

from tests.kill.harming import Outcome, harmed
from tests.kill.judging import judge
from tests.kill.matrix import MATRIX, Cell


def _one(cell: Cell, seed: int) -> tuple[Outcome, str]:
    """Returns what came of a cell, and what is wrong with it."""
    out = Outcome()
    try:
        out = harmed(cell, seed)
        judge(cell, out)
    except AssertionError as error:
        return out, str(error)
    return out, ""


def main() -> int:
    """Runs it and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="how many of each cell")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first seed")
    parser.add_argument("--cell", metavar="TEXT", default="", help="only cells with this in their name")
    args = parser.parse_args()
    cells = [cell for cell in MATRIX if args.cell in cell.name]
    rows: dict[str, list[tuple[Outcome, str]]] = {cell.name: [] for cell in cells}
    began = time.monotonic()
    for seed in range(args.first, args.first + args.seeds):
        for cell in cells:
            out, wrong = _one(cell, seed)
            rows[cell.name].append((out, wrong))
            where = f"{out.victim} after update {out.at}, code {out.code}, ended in {out.ended_s:.1f} s"
            print(
                f"seed {seed}  {cell.name:16} {where:58} {out.seconds:5.1f} s  {'FAILS' if wrong else 'ok'}"
            )
            if wrong:
                print(wrong)
            sys.stdout.flush()
    print(f"\n{'cell':16} {'outcome':34} {'exit':>4}  {'ended after, s':>14}  {'s':>6}  ok")
    for cell in cells:
        done = rows[cell.name]
        ended = [out.ended_s for out, _ in done]
        span = f"{min(ended):.1f} - {max(ended):.1f}"
        took = sum(out.seconds for out, _ in done)
        good = sum(not wrong for _, wrong in done)
        print(
            f"{cell.name:16} {cell.fate.value:34} {cell.code:4}  {span:>14}  {took:6.1f}  {good}/{len(done)}"
        )
    bad = sum(bool(wrong) for done in rows.values() for _, wrong in done)
    total = args.seeds * len(cells)
    print(f"{total - bad} of {total} as the table says, in {time.monotonic() - began:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
