from __future__ import annotations

import types
from threading import get_ident

import pytest

from actorflow.sim import seam


@pytest.fixture
def place() -> types.ModuleType:
    made = types.ModuleType("place")
    vars(made)["read"] = lambda: "real"
    return made


def test_a_stand_in_acts_on_the_simulated_thread_alone(
    place: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams = [seam.Seam(place, "read", lambda: "simulated")]

    seam.replace(seams)
    elsewhere = place.read()
    monkeypatch.setattr(seam.running, "thread", get_ident())
    here = place.read()
    seam.restore(seams)

    assert (elsewhere, here, place.read()) == ("real", "simulated", "real")


def test_a_stand_in_stays_itself_in_the_body_of_a_class(place: types.ModuleType) -> None:
    made = seam.Seam(place, "read", lambda: "simulated")

    class Reader:
        read = made.stand_in

    assert Reader().read() == "real"


def test_a_method_gets_its_instance_and_the_real_method(monkeypatch: pytest.MonkeyPatch) -> None:
    class Door:
        def open(self, how: str) -> str:
            return f"really {how}"

    seams: list[seam.Seam] = [seam.MethodSeam(Door, "open", lambda real, door, how: [real(door, how), door])]
    door = Door()

    seam.replace(seams)
    elsewhere = door.open("wide")
    monkeypatch.setattr(seam.running, "thread", get_ident())
    here: object = door.open("wide")
    seam.restore(seams)

    assert elsewhere == "really wide"
    assert here == ["really wide", door]
    assert door.open("shut") == "really shut"
