"""The diagrams of docs/states.md are those of the tables, and each module tells its table in text."""

from __future__ import annotations

import re
import sys
from enum import Enum
from xml.etree import ElementTree as ET

import pytest

from tests import diagrams
from tests.arcs import draw
from tests.diagrams import FIGURES, PAGE, Machine, files, label, machines, missing_lines, stale, text_table

MACHINES = machines()


class Light(Enum):
    """What a light shows."""

    RED = "red"
    GREEN = "green"
    OFF = "off"


class Press(Enum):
    """What is done to it."""

    GO_ON = 1
    STOP = 2


LIGHT = Machine(
    "tests.light",
    {
        (Light.RED, Press.GO_ON): Light.GREEN,
        (Light.GREEN, Press.GO_ON): Light.GREEN,
        (Light.GREEN, Press.STOP): Light.OFF,
    },
)


def test_there_are_tables_and_each_file_says_what_they_do() -> None:
    assert {"transport.rules.handshake", "dataflow.state.queue_rule"} <= {m.module for m in MACHINES}
    assert stale() == []


def test_a_file_that_is_behind_or_of_no_table_is_named() -> None:
    written = files()
    first = FIGURES / MACHINES[0].figure
    changed = {**written, PAGE: "another page", FIGURES / "new.svg": "<svg/>"}
    del changed[first]

    assert sorted(stale(changed)) == [
        f"docs/figures/states/{first.name} is of no table: remove it",
        "docs/figures/states/new.svg is not what the tables say: renew it with `make docs`",
        "docs/states.md is not what the tables say: renew it with `make docs`",
    ]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.module)
def test_a_module_has_its_table_at_its_head(machine: Machine) -> None:
    assert missing_lines(machine) == []


def test_a_line_that_the_head_of_a_module_lacks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "\n".join(text_table(LIGHT)[:-1]).replace("  ", "     ")
    monkeypatch.setitem(sys.modules, "actorflow.tests.light", type("Light", (), {"__doc__": said}))

    assert missing_lines(LIGHT) == ["off    .      ."]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.module)
def test_every_state_is_reached_and_every_event_leads_somewhere(machine: Machine) -> None:
    reached = {machine.states[0]}
    while more := {end for (start, _), end in machine.table.items() if start in reached} - reached:
        reached |= more

    assert reached == set(machine.states)
    assert {event for _, event in machine.table} == set(machine.events)


def test_the_text_of_a_table() -> None:
    assert text_table(LIGHT) == [
        "       go on  stop",
        "red    green  .",
        "green  green  off",
        "off    .      .",
    ]


def test_a_diagram_has_a_box_a_state_and_an_arc_a_pair() -> None:
    drawn = diagrams.diagram(LIGHT)
    texts = [node.text for node in ET.fromstring(drawn).iter() if node.tag.endswith("}text")]

    assert texts == ["go on", "stop", "red", "green", "↻ go on", "off"]
    assert len(re.findall('class="arc"', drawn)) == 3  # and the one that says where it begins
    assert diagrams.diagram(LIGHT) == drawn


def test_a_diagram_of_another_table_is_another() -> None:
    """The check that finds a stale diagram can fail."""
    names, arrows = ["a", "b"], {("a", "b"): ["x"]}

    assert len({draw(names, arrows), draw(names, {("b", "a"): ["x"]}), draw(names, {("a", "b"): ["y"]})}) == 3


def test_arcs_that_share_a_side_of_a_box_touch_it_apart() -> None:
    drawn = draw(["a", "b", "c"], {("a", "b"): ["x"], ("a", "c"): ["y"], ("b", "c"): ["z"]})
    touched = [
        place for arc in re.findall(r'd="M([\d.]+) \d+C.* ([\d.]+) \d+" marker', drawn) for place in arc
    ]

    assert len(touched) == len(set(touched)) == 6


def test_a_name_is_told_as_it_is_written_or_in_words() -> None:
    assert (label(Light.RED), label(Press.GO_ON)) == ("red", "go on")
