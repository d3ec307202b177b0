"""Who is where: the same for all, in whichever order and however often they hear of it; and who dials whom."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorflow as af
from actorflow.actors.system import ActorSystem
from actorflow.cluster.process.directory import Directory, dials, merge_table, place
from actorflow.cluster.process.messages import AddressTable, AnnounceAddress
from actorflow.errors import CoordinationError, Misplaced

NAMES = ["ps0", "ps1", "worker0", "worker1"]


def here(name: str, incarnation: int) -> AnnounceAddress:
    return AnnounceAddress(name, incarnation, (f"at {name} in life {incarnation}",))


entries = st.builds(here, st.sampled_from(NAMES), st.integers(1, 4))
heard = st.lists(entries, max_size=12)


@given(said=heard, data=st.data())
def test_who_has_heard_of_the_same_lives_has_the_same_table(said: list[AnnounceAddress], data: Any) -> None:
    """Any order, any of them again, any of them by way of another table."""
    one = merge_table(AddressTable(), said)
    again = data.draw(
        st.permutations(said + data.draw(st.lists(st.sampled_from(said)) if said else st.just([])))
    )
    cut = data.draw(st.integers(0, len(again)))
    other = merge_table(
        merge_table(AddressTable(), again[:cut]), merge_table(AddressTable(), again[cut:]).entries
    )

    assert one == other
    latest = {name: max((e.incarnation for e in said if e.name == name), default=0) for name in NAMES}
    assert {e.name: e.incarnation for e in one.entries} == {name: n for name, n in latest.items() if n}


@given(said=heard, late=entries)
def test_what_is_no_news_leaves_the_table_itself(said: list[AnnounceAddress], late: AnnounceAddress) -> None:
    table = merge_table(AddressTable(), said)
    known = table.find(late.name)
    assert (merge_table(table, [late]) is table) == (
        known is not None and known.incarnation >= late.incarnation
    )


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(["begins anew", "asks", "is told late"])),
        max_size=30,
    )
)
def test_whatever_is_lost_or_late_all_end_with_the_table_of_the_directory(
    steps: list[tuple[str, str]],
) -> None:
    """What the directory tells may be lost with a session; whoever asks again then has all."""
    directory, tables = AddressTable(), dict.fromkeys(NAMES, AddressTable())
    lives, told = dict.fromkeys(NAMES, 1), [AddressTable()]
    for name, what in steps:
        if what == "begins anew":
            lives[name] += 1
            tables[name] = AddressTable()
        elif what == "asks":
            directory = merge_table(directory, [here(name, lives[name])])
            told.append(directory)
            tables[name] = merge_table(tables[name], directory.entries)
        else:
            tables[name] = merge_table(tables[name], told[len(told) // 2].entries)
    for _ in range(2):  # once all have asked, and what that changed was told
        for name in NAMES:
            directory = merge_table(directory, [here(name, lives[name])])
            tables[name] = merge_table(tables[name], directory.entries)

    assert set(tables.values()) == {directory}
    assert {e.name: e.incarnation for e in directory.entries} == lives


def test_of_two_processes_exactly_one_dials_the_other() -> None:
    names = ["chief", "ps0", "ps2", "ps10", "worker0", "worker9", "worker10"]
    assert sorted(set(names), key=place) == names
    for k, name in enumerate(names):
        assert [other for other in names if dials(name, other)] == names[:k]


class _Told:
    """A ref that notes what it is told."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def signal(self, message: Any) -> None:
        self.got.append(message)


async def _asked(*said: Any) -> tuple[list[Any], dict[str, _Told], list[AddressTable]]:
    refs: Any = {name: _Told() for name in NAMES}
    heard: list[AddressTable] = []
    async with ActorSystem() as system:
        directory = system.spawn(Directory, here("chief", 9), refs, heard.append)
        answers = [await directory.ask(message) for message in said]
    return answers, refs, heard


def test_the_directory_tells_news_to_all_who_have_asked_but_not_to_whom_it_answers() -> None:
    first, second = here("ps0", 1), here("worker1", 1)
    answers, refs, heard = af.run(_asked(first, second, second))

    whole = AddressTable((here("chief", 9), first, second))
    assert answers == [AddressTable((here("chief", 9), first)), whole, whole]
    assert heard == [answers[0], whole]
    assert {name: ref.got for name, ref in refs.items() if ref.got} == {"ps0": [whole]}


def test_the_directory_refuses_what_is_not_of_its_cluster() -> None:
    with pytest.raises(CoordinationError, match="a directory takes where a process of its cluster is, got"):
        af.run(_asked("here I am"))


def test_the_directory_refuses_who_has_no_place_and_says_so_at_the_chief(caplog: Any) -> None:
    with pytest.raises(Misplaced, match="there are 2 workers, numbers 0 to 1, got worker7"):
        af.run(_asked(here("worker7", 1)))
    assert [record.message for record in caplog.records] == [
        "worker7 is refused: a process has a place in its cluster: there are 2 workers, numbers 0 to 1, got worker7"
    ]
