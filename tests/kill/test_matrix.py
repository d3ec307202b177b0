"""One seed of the matrix: whatever process of a real cluster is killed or stopped, it ends as the table says."""

from __future__ import annotations

from pathlib import Path

import pytest

from actorflow.launch.process_id import ProcessId
from actorflow.training.program_file import ProgramFile
from tests.cluster.replaying import replayed
from tests.kill.harming import PROGRAM, PS, Outcome, harmed
from tests.kill.judging import judge, judge_updates
from tests.kill.matrix import MATRIX, Cell, Harm, Role
from tests.kill.notes import Life, updated

SURVIVING = Path(__file__).parents[2] / "docs" / "surviving.md"


@pytest.mark.parametrize("cell", MATRIX, ids=lambda cell: cell.name)
def test_it_ends_as_the_table_says(cell: Cell) -> None:
    judge(cell, harmed(cell, 0))


def test_readers_have_the_same_table() -> None:
    rows = [line for line in SURVIVING.read_text().splitlines() if line.startswith("| ") and "SIG" in line]
    told = {(at[0], at[1]): (at[2], at[3]) for at in ([c.strip() for c in r.split("|")[1:-1]] for r in rows)}
    assert told == {(cell.role.value, cell.harm.value): (cell.fate.value, str(cell.code)) for cell in MATRIX}


def test_every_role_and_harm_has_a_cell() -> None:
    assert {(cell.role, cell.harm) for cell in MATRIX} == {(role, harm) for role in Role for harm in Harm}
    assert len(MATRIX) == len(Role) * len(Harm)


# -- what judges can fail ------------------------------------------------------------------------------------


def _lives() -> list[Life]:
    """A chief and two shards that made three updates."""
    pid = ProcessId.own()
    chief, shards = Life("chief", pid), [Life("ps0", pid), Life("ps1", pid)]
    for v in (1, 2, 3):
        chosen = [[rank, 2 * v + rank, [0, 2 * v + rank], v - 1] for rank in (0, 1)]
        data = {
            "version": v,
            "chosen": chosen,
            "bases": [[v - 1] * 2] * 2,
            "steps": [2 * v, 2 * v + 1],
            "dropped_by": [],
            "alive": 2,
        }
        chief.lines += [{"begun": data}, {"told": data}]
        for number, shard in enumerate(shards):
            pairs = [[rank, contribution] for rank, contribution, _, _ in chosen]
            shard.lines.append({"applied": {"shard": number, "version": v, "chosen": pairs}})
    return [chief, *shards]


def _judge(lives: list[Life]) -> None:
    judge_updates(lives, [updated(data) for data in lives[0].of("told")])


def test_a_run_that_lost_nothing_passes() -> None:
    _judge(_lives())


def test_an_acknowledged_update_that_a_shard_lost_is_found() -> None:
    lives = _lives()
    del lives[1].lines[-1]
    with pytest.raises(AssertionError, match="never applied"):
        _judge(lives)


def test_an_update_that_a_shard_applied_twice_is_found() -> None:
    lives = _lives()
    lives[2].lines.append(lives[2].lines[-1])
    with pytest.raises(AssertionError, match="was applied 2 times"):
        _judge(lives)


def _with_values(made: int, noted: tuple[int, int], has: int | None = None) -> list[Life]:
    """Lives of which ps0 has `w` after so many updates, by its own count; really after `has`."""
    lives = _lives()
    told = [updated(data) for data in lives[0].of("told")]
    program = ProgramFile(PROGRAM).program(0)
    lives[1].values = {"w": replayed(program, told[: made if has is None else has], PS)["w"]}
    lives[1].counts, lives[1].noted = {"w": made}, noted
    return lives


@pytest.mark.parametrize(("made", "noted"), [(2, (2, 2)), (3, (3, 3)), (3, (2, 2)), (2, (1, 2))])
def test_a_shard_may_look_at_its_values_before_its_last_update(made: int, noted: tuple[int, int]) -> None:
    """Three updates are noted in the end: the third came after it looked, or while it did."""
    lives = _with_values(made, noted)
    judge_updates(lives, [updated(data) for data in lives[0].of("told")], whole=False)


def test_values_that_are_not_those_of_the_updates_are_found() -> None:
    for has in (1, 2):
        with pytest.raises(AssertionError, match="not what serial SGD gives"):
            _judge(_with_values(3, (3, 3), has))


@pytest.mark.parametrize("made", [1, 4])
def test_values_that_do_not_have_what_the_shard_had_noted_are_found(made: int) -> None:
    lives = _with_values(made, (2, 2))
    with pytest.raises(AssertionError, match=f"has {made} updates, when it noted 2 to 2"):
        judge_updates(lives, [updated(data) for data in lives[0].of("told")], whole=False)


def test_a_run_that_went_on_to_its_end_has_all_values() -> None:
    with pytest.raises(AssertionError, match="3 were told of"):
        _judge(_with_values(2, (2, 2)))


def test_a_cell_that_ends_otherwise_is_found() -> None:
    out = Outcome(victim="ps0", code=0)
    with pytest.raises(AssertionError, match="code 0"):
        judge(next(cell for cell in MATRIX if cell.name == "ps-kill"), out)
