"""Whether a run that was harmed has kept what is promised, however it ended."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.coord.rules.messages import Updated
from actorflow.sim import checkers
from actorflow.sim.history import Operation, Status
from actorflow.training.program_file import ProgramFile
from tests.cluster.replaying import replayed
from tests.kill.harming import PROGRAM, PS, STEPS, Outcome
from tests.kill.matrix import Cell, Fate, Harm
from tests.kill.notes import Life, updated

STALL = 2
"""Updates that may still come when somebody was stopped whom all wait for: they were on their way."""


def judge(cell: Cell, out: Outcome) -> None:
    """Asserts that a cell ended as its table says, and that nothing is lost, doubled or left."""
    told = _told(out.lives)
    assert out.code == cell.code, _shown(out)
    for pattern in cell.says:
        assert re.search(pattern.format(victim=out.victim), out.text), _shown(out)
    assert "Traceback" not in out.text + "".join(out.logs.values()), _shown(out)
    assert not out.orphans, f"left behind: {out.orphans}\n{_shown(out)}"
    assert not out.left, f"left behind: {out.left}"
    if cell.fate is Fate.GOES_ON:
        assert len(told) == STEPS, _shown(out)
    else:
        assert len(told) < STEPS, _shown(out)
    if cell.stalls is True:
        assert out.during <= STALL, f"{out.during} updates without {out.victim}"
    elif cell.stalls is False:
        assert out.during >= 1, f"no update without {out.victim}"
    victim = out.victim if cell.harm is Harm.KILL else None
    judge_updates(out.lives, told, killed=victim, whole=cell.fate is Fate.GOES_ON)


def judge_updates(
    lives: Sequence[Life], told: Sequence[Updated], *, killed: str | None = None, whole: bool = True
) -> None:
    """Asserts that no update is lost or doubled that was acknowledged and that a surviving shard holds."""
    begun = {u.version: u for life in lives if life.name == "chief" for u in map(updated, life.of("begun"))}
    shards = [life for life in lives if life.name.startswith("ps") and life.name != killed]
    assert len({life.name for life in shards}) == len(shards), "a shard that survives has one life"
    assert [u.version for u in told] == list(range(1, len(told) + 1))
    for u in told:
        assert u.chosen == begun[u.version].chosen
    verdict = checkers.exactly_once(history(begun, told, shards))
    assert verdict.ok, verdict
    versions = [_judge_shard(life, begun) for life in shards]
    assert all(version >= len(told) for version in versions), "what is told is made"
    assert max(versions) - min(versions) <= 1, "half a commit is finished by the next"
    if whole:
        assert versions == [len(told)] * PS, "what is made is told"
        counts = {made for life in shards for made in life.counts.values()}
        assert counts <= {len(told)}, f"variables have {counts} updates, {len(told)} were told of"
    for life in shards:
        _judge_values(life, begun)


def _judge_shard(life: Life, begun: Mapping[int, Updated]) -> int:
    """Asserts that a shard made one update after the other, each as it was begun; returns its version."""
    applied = life.of("applied")
    assert [each["version"] for each in applied] == list(range(1, len(applied) + 1)), life.name
    for each in applied:
        expected = [[rank, number] for rank, number, _, _ in begun[each["version"]].chosen]
        assert sorted(each["chosen"]) == sorted(expected), f"{life.name} made another update {each}"
    return len(applied)


def _judge_values(life: Life, begun: Mapping[int, Updated]) -> None:
    """Asserts that what a shard told of its variables is what serial SGD gives over as many updates.

    How many each has is compared with what the shard had noted when it looked, not with what it noted until it
    was gone: it goes on meanwhile.
    """
    program = ProgramFile(PROGRAM).program(0)
    before, after = life.noted
    for name, value in life.values.items():
        made, whose = life.counts[name], f"{name} of {life.name}"
        assert before <= made <= after + 1, f"{whose} has {made} updates, when it noted {before} to {after}"
        expected = replayed(program, [begun[v] for v in range(1, made + 1)], PS)[name]
        what = f"{whose} is not what serial SGD gives over {made} updates"
        assert value.tobytes() == expected.tobytes(), what


def history(begun: Mapping[int, Updated], told: Sequence[Updated], shards: Sequence[Life]) -> list[Operation]:
    """Returns what happened to contributions: sent to every shard that survives, and applied there.

    One whose update was told of was acknowledged; of what was only begun nobody knows. Processes have no
    clock in common, so that events are put in the order of the versions.
    """
    acknowledged = {u.version for u in told}
    found: list[Operation] = []
    for life in shards:
        for version, u in begun.items():
            status = Status.OK if version in acknowledged else Status.INFO
            for rank, number, _, _ in u.chosen:
                found.append(_operation(rank, "push", (number, 0), life.name, version, 0, status))
        for each in life.of("applied"):
            for rank, number in each["chosen"]:
                found.append(
                    _operation(
                        life.name, "apply", (rank, number, 0), life.name, each["version"], 1, Status.OK
                    )
                )
    return found


def _operation(
    client: Any, op: str, args: tuple[int, ...], key: str, version: int, inner: int, status: Status
) -> Operation:
    invoked, returned = 4 * version + inner, 4 * version + 3 - inner
    open_ = status is Status.INFO
    return Operation(
        client,
        op,
        args,
        status=status,
        invoked=invoked,
        returned=None if open_ else returned,
        returned_s=None if open_ else 0.0,
        key=key,
    )


def _told(lives: Sequence[Life]) -> list[Updated]:
    return [updated(data) for life in lives if life.name == "chief" for data in life.of("told")]


def _shown(out: Outcome) -> str:
    logs = "".join(f"\n-- {name}\n{text[-3000:]}" for name, text in sorted(out.logs.items()) if text)
    return f"{out.victim} after {out.at} updates, code {out.code}\n{out.text[-4000:]}{logs}"
