from __future__ import annotations

import types
from threading import get_ident

import pytest

from actorflow.sim.engine import patch


@pytest.fixture
def place() -> types.ModuleType:
    made = types.ModuleType("place")
    vars(made)["read"] = lambda: "real"
    return made


def test_a_stand_in_acts_on_the_simulated_thread_alone(
    place: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams = [patch.Patch(place, "read", lambda: "simulated")]

    patch.replace(seams)
    elsewhere = place.read()
    monkeypatch.setattr(patch.running, "thread", get_ident())
    here = place.read()
    patch.restore(seams)

    assert (elsewhere, here, place.read()) == ("real", "simulated", "real")


def test_a_stand_in_stays_itself_in_the_body_of_a_class(place: types.ModuleType) -> None:
    made = patch.Patch(place, "read", lambda: "simulated")

    class Reader:
        read = made.stand_in

    assert Reader().read() == "real"


def test_a_method_gets_its_instance_and_the_real_method(monkeypatch: pytest.MonkeyPatch) -> None:
    class Door:
        def open(self, how: str) -> str:
            return f"really {how}"

    seams: list[patch.Patch] = [
        patch.MethodPatch(Door, "open", lambda real, door, how: [real(door, how), door])
    ]
    door = Door()

    patch.replace(seams)
    elsewhere = door.open("wide")
    monkeypatch.setattr(patch.running, "thread", get_ident())
    here: object = door.open("wide")
    patch.restore(seams)

    assert elsewhere == "really wide"
    assert here == ["really wide", door]
    assert door.open("shut") == "really shut"
