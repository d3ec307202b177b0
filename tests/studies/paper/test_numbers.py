from __future__ import annotations

from typing import get_args

import pytest

from studies.paper.numbers import Figure, Origin, figure

FIGURES = {"backup": "backups", "sync-step": "workers", "ps-scaling": "ps_tasks"}


@pytest.mark.parametrize("name", FIGURES)
def test_every_number_says_where_it_is_from_and_what_it_is(name: str) -> None:
    given = figure(name)

    for fact in (*given.paper.values(), *given.parameters.values()):
        assert fact.origin in get_args(Origin)
        assert fact.note
    assert not [key for key, fact in given.paper.items() if fact.origin in ("fitted", "assumed")]


@pytest.mark.parametrize(("name", "axis"), FIGURES.items())
def test_every_curve_has_a_number_at_every_place_of_its_axis(name: str, axis: str) -> None:
    given = figure(name)
    places = given.paper[axis].value

    for key, fact in given.paper.items():
        if key not in FIGURES.values():
            assert len(fact.value) == len(places), key
            assert [given.reported(key, axis, at) for at in places] == fact.value


def test_a_place_that_the_paper_does_not_have_has_no_number() -> None:
    assert figure("sync-step").reported("scalar", "workers", 11) is None


def test_the_cards_of_figure_9_are_those_of_figure_7() -> None:
    steps, words = figure("sync-step"), figure("ps-scaling")

    for name in ("nic_bytes_s", "message_s", "latency_s"):
        assert steps[name] == words[name]
    assert isinstance(words, Figure)
