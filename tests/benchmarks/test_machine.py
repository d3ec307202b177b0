from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
from typing import Any

import pytest

from benchmarks import machine


async def described() -> machine.Machine:
    return machine.describe(["numpy", "no-such-library"], machine.Company())


def test_the_machine_is_plain_data_that_names_no_host_and_no_path() -> None:
    found = asyncio.run(described())

    text = json.dumps(found)
    assert platform.node() not in text
    assert "/home" not in text
    assert os.getcwd() not in text
    assert sys.prefix not in text


def test_the_machine_names_loop_and_versions() -> None:
    found = asyncio.run(described())

    assert found["loop"] == "asyncio"
    assert found["python"].endswith(platform.python_version())
    assert found["cpus"] >= 1
    assert found["peers"] == {"numpy": found["numpy"], "no-such-library": None}


@pytest.mark.parametrize(
    ("before", "after", "cores"),
    [
        ((0.0, 100.0, 5.0), (2.0, 104.0, 6.0), 1.5),
        ((0.0, 100.0, 5.0), (2.0, 102.0, 7.01), 0.0),
        (None, None, None),
    ],
)
def test_company_is_what_is_busy_beside_this_process(
    before: Any, after: Any, cores: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = iter([before, after])
    monkeypatch.setattr(machine, "_clocks", lambda: next(clocks))

    assert machine.Company().cores() == cores


@pytest.mark.parametrize("name", machine.SLOWING)
def test_the_command_starts_again_without_a_variable_that_slows_numpy(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setenv(name, "SkylakeX")
    monkeypatch.setenv("KEPT", "1")
    monkeypatch.setattr(os, "execve", lambda *given: started.append(given))

    machine.shed_slowing_variables()

    ((program, arguments, environment),) = started
    assert program == sys.executable
    assert arguments == [sys.executable, *sys.orig_argv[1:]]
    assert name not in environment
    assert environment["KEPT"] == "1"


def test_a_clean_environment_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in machine.SLOWING:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "execve", lambda *given: pytest.fail("started again"))

    machine.shed_slowing_variables()
