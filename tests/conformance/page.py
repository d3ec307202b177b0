"""docs/conformance.md: what is compared, and the table of cases in which both sides differ on purpose."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from textwrap import fill
from typing import Any

from tests.conformance.case import cases
from tests.conformance.recording import encoded, read

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"

HEAD = """\
# Beside TensorFlow

Small programs are written twice, for TensorFlow's graphs of version 1 (`tf.compat.v1`, `tf.raw_ops`) and for
actorflow. What TensorFlow {version} came to is kept in `tests/conformance/recorded.json`, and every run of the
tests compares. There are

{counts}.

A program comes to arrays, with their dtypes, or to a failure of some kind:

| | TensorFlow raises | actorflow raises |
|---|---|---|
| out of range | `OutOfRangeError` | `OutOfRange` |
| cancelled | `CancelledError` | `QueueClosed` |
| deadline | `DeadlineExceededError` | `DeadlinePassed` |
| invalid | `InvalidArgumentError` in the step | any other error in the step |
| refused when built | `ValueError`, `TypeError` | `SpecError`, `GraphError` |

`make record-tf` installs TensorFlow in `.venv-tf`, asks it again, and tells what differs from what is kept.
`python -m tests.conformance record` keeps what it finds; then `python -m tests.conformance page` writes this page.

## What differs, and why

| case | TensorFlow | actorflow | because |
|---|---|---|---|
"""


def shown(value: Any) -> str:
    """An encoded outcome in a cell: arrays without their dtypes."""

    def bare(part: Any) -> Any:
        if isinstance(part, dict):
            return next(iter(part.values()))
        return [bare(p) for p in part] if isinstance(part, list) else part

    plain = bare(value)
    return plain if isinstance(plain, str) else f"`{json.dumps(plain)}`"


def text() -> str:
    """The page, from the cases and from what is kept."""
    version, kept = read()
    groups = Counter(name.partition(":")[0] for name in cases())
    counts = fill(", ".join(f"{count} of {group}" for group, count in groups.items()), 110)
    rows = [
        f"| {name} | {shown(kept[name])} | {shown(encoded(case.instead))} | {case.because} |"
        for name, case in cases().items()
        if case.because
    ]
    return HEAD.format(counts=counts, version=version) + "\n".join(rows) + "\n"
