"""Histories that others recorded and judged: our verdicts must be theirs.

The files are not part of the project. ACTORFLOW_HISTORIES names their folder; without it, they are looked
for in ../shared/histories beside the root of the repository. `pytest -s` prints how many were judged and
how long that took.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import pytest

from actorflow.errors import HistoryError
from actorflow.sim import checkers, history
from actorflow.sim.checkers import KeyValue, Model, MultiRegister, Mutex, Register, Verdict
from actorflow.sim.history import History
from tests.sim.histories import accepts

FOLDER = Path(
    os.environ.get("ACTORFLOW_HISTORIES")
    or Path(__file__).resolve().parents[2].parent / "shared" / "histories"
)
LIMIT_S = 15.0
EMPTY = "porcupine/jepsen/etcd_095.log"  # it has no byte, and nobody gave a verdict

pytestmark = [
    pytest.mark.skipif(
        not FOLDER.is_dir(),
        reason=f"no public histories in {FOLDER}; set ACTORFLOW_HISTORIES to the folder that has them",
    ),
    pytest.mark.slow,
]


@dataclass(frozen=True, slots=True)
class Case:
    """A file, what it is judged against, and what others found; None where nobody said."""

    name: str
    read: Callable[[Path], History]
    model: Model
    expected: bool | None


def cases() -> list[Case]:
    return [*porcupine(), *knossos()]


def porcupine() -> list[Case]:
    lines = (FOLDER / "porcupine" / "verdicts.tsv").read_text().splitlines() if FOLDER.is_dir() else []
    verdicts = dict(line.split("\t") for line in lines)
    assert set(verdicts.values()) <= {"linearizable", "not"}
    found = []
    kinds: list[tuple[str, Callable[[Path], History], Model]] = [
        ("jepsen/*.log", history.read_jepsen, Register()),
        ("kv/*.txt", history.read_kv, KeyValue()),
    ]
    for pattern, read, model in kinds:
        for path in sorted((FOLDER / "porcupine").glob(pattern)):
            said = verdicts.pop(f"{path.parent.name}/{path.name}", None)
            name = f"porcupine/{path.parent.name}/{path.name}"
            found.append(Case(name, read, model, None if said is None else said == "linearizable"))
    assert not verdicts, f"verdicts without a file: {', '.join(verdicts)}"
    return found


def knossos() -> list[Case]:
    """The folder is the verdict."""
    models: dict[str, Model] = {
        "cas-register": Register(),
        "multi-register": MultiRegister({"x": 0, "y": 0}),
        "mutex": Mutex(),
    }
    return [
        Case(
            path.relative_to(FOLDER).as_posix(),
            history.read_knossos,
            models[path.parent.parent.name],
            path.parent.name == "good",
        )
        for path in sorted((FOLDER / "knossos").glob("*/*/*.edn"))
    ]


def test_every_public_verdict_is_ours() -> None:
    began = process_time()
    judged: list[tuple[Case, int, Verdict]] = []
    for case in cases():
        if case.name == EMPTY:
            with pytest.raises(HistoryError, match="no operation in it"):
                case.read(FOLDER / case.name)
            continue
        found = case.read(FOLDER / case.name)
        judged.append((case, len(found), checkers.linearizable(found, case.model)))
    seconds = process_time() - began  # of this process: others may be busy

    known = [(case, count, verdict) for case, count, verdict in judged if case.expected is not None]
    unjudged = [case.name for case, _, _ in judged if case.expected is None]
    unknown = [case.name for case, _, verdict in known if verdict.ok is None]
    wrong = [case.name for case, _, verdict in known if verdict.ok is (not case.expected)]
    operations = sum(count for _, count, _ in known)
    print(  # noqa: T201  with -s
        f"\n{len(known)} histories, {operations} operations, {len(wrong)} wrong, {len(unknown)} unknown,"
        f" {seconds:.1f} s; read but judged by nobody: {', '.join(unjudged) or 'none'}"
    )
    assert not wrong
    assert not unknown
    assert seconds < LIMIT_S
    assert len(known) >= 102
    assert not unjudged


@pytest.mark.parametrize(
    "case", [case for case in cases() if case.expected is False], ids=lambda case: case.name
)
def test_a_refuted_history_is_explained_in_a_picture(case: Case) -> None:
    verdict = checkers.linearizable(case.read(FOLDER / case.name), case.model)

    lines = verdict.explain().splitlines()
    assert "fits nowhere" in lines[0]
    assert "the state could only be" in verdict.explain()
    assert any(set(line.strip()) == {"^"} for line in lines)
    assert all(len(line) <= 100 for line in lines)
    assert len(lines) <= 60
    assert not verdict.ok


@pytest.mark.parametrize("case", [case for case in cases() if case.expected], ids=lambda case: case.name)
def test_a_confirmed_history_comes_with_an_order_that_the_model_accepts(case: Case) -> None:
    verdict = checkers.linearizable(case.read(FOLDER / case.name), case.model)

    assert verdict.order is not None
    assert accepts(verdict.order, case.model)
    latest = -1
    for operation in verdict.order:
        latest = max(latest, operation.invoked)
        assert operation.returned is None or operation.returned > latest
