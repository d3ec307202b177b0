"""The devices of a session: which it may be given, and what it says about a card that is not there."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, cast

import pytest

import actorflow as af
from actorflow.errors import ConfigError, PlacementError
from actorflow.kernels.device.devices import Devices
from actorflow.runtime.clock import SystemClock
from actorflow.runtime.environment import ENVIRONMENT, Environment
from tests.kernels import fake_cupy


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/gpu:0", "a card is opened when the graph names it, '/gpu:0' need not be listed"),
        ("cpu:1", "a device that a session is given is /cpu:N, got 'cpu:1'"),
        ("/tpu:0", "a device that a session is given is /cpu:N, got '/tpu:0'"),
    ],
)
def test_a_session_is_given_processors_only(name: str, said: str) -> None:
    with af.Graph() as graph, pytest.raises(ConfigError, match=said):
        af.Session(graph, devices=[name])


def on_a_card(**options: Any) -> Any:
    with af.Graph() as graph, af.device("/gpu:0"):
        y = af.exp(af.constant(1.0))

    async def main() -> Any:
        async with af.Session(graph, **options) as session:
            return await session.run(y)

    return asyncio.run(main())


def test_without_cupy_a_card_is_unknown_and_the_hint_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)  # importing it raises

    with pytest.raises(PlacementError, match="unknown device '/gpu:0'; this session has /cpu:0") as caught:
        on_a_card()

    assert caught.value.hint is not None
    assert "pip install 'actorflow[gpu]'; CuPy cannot be imported" in caught.value.hint


def test_a_simulated_run_has_no_cards() -> None:
    async def main() -> tuple[tuple[str, ...], str | None]:
        token = ENVIRONMENT.set(cast("Environment", object()))
        devices = Devices(["/cpu:0"], asyncio.get_running_loop(), SystemClock(), threads=0)
        try:
            return devices.names_for(["/gpu:0"]), devices.hint
        finally:
            ENVIRONMENT.reset(token)
            await devices.close()

    with fake_cupy.installed():
        names, hint = asyncio.run(main())

    assert names == ("/cpu:0",)
    assert hint is not None
    assert hint.endswith("a simulated run has no cards")


def test_cupy_is_not_imported_before_a_graph_names_a_card() -> None:
    program = (
        "import asyncio, sys, actorflow as af\n"
        "with af.Graph() as graph: y = af.constant(1.0) + 2.0\n"
        "async def main():\n"
        "    async with af.Session(graph) as session: await session.run(y)\n"
        "asyncio.run(main())\n"
        "assert 'cupy' not in sys.modules"
    )

    async def main() -> int:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
        return await process.wait()

    assert asyncio.run(main()) == 0
