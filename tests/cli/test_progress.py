"""What the live line shows where there is little room."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from actorflow.cli.progress import Live
from actorflow.trainer import StepDone

FACTS = ["epoch 12", "step 1,234/5,670", "loss 0.1235", "accuracy 0.9876", "100 steps/s", "98,765 messages/s"]


@pytest.mark.parametrize(("columns", "shown"), [(100, 6), (84, 5), (80, 5), (60, 4), (30, 2), (13, 1)])
def test_the_live_line_drops_whole_figures_from_the_right(columns: int, shown: int) -> None:
    file = io.StringIO()
    console = Console(file=file, width=columns, height=5, force_terminal=True, color_system=None)
    event = StepDone(
        epoch=12,
        step=1234,
        total=5670,
        loss=0.12345,
        metrics={"accuracy": 0.98764},
        train_s=12.34,
        messages=1218760,
    )

    live = Live(console, seed=0)
    with live:
        live.show(event)

    drawn = [line.rstrip() for line in file.getvalue().splitlines()]
    assert "  ".join(FACTS[:shown]) in drawn
