"""Asks TensorFlow all cases, and writes the page about where actorflow differs.

    python -m tests.conformance record     writes what TensorFlow comes to
    python -m tests.conformance compare    asks again, and tells which cases differ from what is kept
    python -m tests.conformance page       writes docs/conformance.md from what is kept

The first two need TensorFlow: `make record-tf` sets it up.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from tests.conformance import page
from tests.conformance.case import cases
from tests.conformance.recording import KEPT, difference, read, written


def asked() -> tuple[str, dict[str, Any]]:
    """TensorFlow's version, and what it comes to in all cases."""
    from tests.conformance import theirs

    theirs.prepare()
    return theirs.VERSION, {name: theirs.outcome(case) for name, case in cases().items()}


def compared(version: str, outcomes: dict[str, Any]) -> list[str]:
    """Where outcomes differ from those that are kept, a line each."""
    kept_version, kept = read()
    lines = [f"{name}: is not kept" for name in sorted(outcomes.keys() - kept.keys())]
    lines += [f"{name}: is kept, and no case any more" for name in sorted(kept.keys() - outcomes.keys())]
    for name in sorted(kept.keys() & outcomes.keys()):
        if wrong := difference(kept[name], outcomes[name]):
            lines.append(f"{name}: {wrong}")
    if lines and version != kept_version:
        lines.append(f"kept is what TensorFlow {kept_version} came to, this is {version}")
    return lines


def main() -> int:
    """Does what was asked for, and returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance", description="programs beside TensorFlow"
    )
    parser.add_argument("what", choices=["record", "compare", "page"])
    what = parser.parse_args().what
    if what == "page":
        page.PAGE.write_text(page.text())
        return 0
    version, outcomes = asked()
    if what == "record":
        KEPT.write_text(written(version, outcomes))
        print(f"{len(outcomes)} cases, TensorFlow {version}, {KEPT.stat().st_size / 1024:.0f} KiB")
        return 0
    lines = compared(version, outcomes)
    print("\n".join([*lines, f"{len(outcomes)} cases, TensorFlow {version}: {len(lines)} differ"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
