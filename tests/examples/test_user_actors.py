"""The slot machines: a policy learns to play them, and they answer side by side."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from actorflow import sim

EXAMPLE = Path(__file__).parents[2] / "examples" / "user_actors.py"


@pytest.fixture
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("user_actors_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_policy_finds_the_best_arm_and_machines_answer_side_by_side(
    example: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> tuple[list[float], float]:
        policy = await example.play(steps=40, machines=16, delay_s=1.0)
        return policy.tolist(), asyncio.get_running_loop().time()

    (_, _, best), seconds = sim.run(main).result

    assert best > 0.8
    assert seconds < 42  # and not 16 times as many
    assert capsys.readouterr().out.startswith("step 0: reward")
