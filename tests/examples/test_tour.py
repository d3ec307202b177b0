"""The program of the tour: what the page shows is the file, and it learns."""

from __future__ import annotations

from pathlib import Path

import pytest

import actorflow as af
from actorflow.training.trainer import train
from tests.examples.scripts import script

ROOT = Path(__file__).parents[2]


def test_the_tour_shows_the_program_as_it_is() -> None:
    _, _, program = (ROOT / "examples/tour.py").read_text().partition("import annotations\n\n")

    assert f"```python\n{program}```" in (ROOT / "docs/tour.md").read_text()


def test_the_program_of_the_tour_finds_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    program = script(monkeypatch, "tour").build(seed=0)

    async def main() -> float:
        async with af.Session(program.graph) as session:
            losses = [event.loss async for event in train(program, session)]
        return losses[-1]

    assert af.run(main()) < 1e-3
