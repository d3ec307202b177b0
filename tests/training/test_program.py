"""What is said of a program before it runs."""

from __future__ import annotations

from typing import Any

import pytest

from actorflow.errors import ProgramError, SpecError
from actorflow.graph.graph import Graph
from tests.support.recorded import program, scalar


async def _awaited(process: Any) -> None:
    pass


def test_a_program_wants_scalars_of_its_own_graph() -> None:
    graph = Graph()

    with pytest.raises(SpecError, match=r"loss must be a scalar, got shape \(3,\)"):
        program(lambda _: [], graph=graph, loss=scalar(graph, (3,)))
    with pytest.raises(ProgramError, match="loss must be a tensor of the program's graph"):
        program(lambda _: [], graph=graph, loss=scalar(Graph()))
    with pytest.raises(ProgramError, match="norm must be a tensor"):
        program(lambda _: [], metrics={"norm": 3.0})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"epochs": 0}, "at least one epoch, got 0"),
        ({"epochs": True}, "at least one epoch, got True"),
        ({"epochs": "3"}, "at least one epoch, got '3'"),
        ({"train": None}, "train must be what to fetch for an update, got None\n  try:   pass what minimize"),
        ({"batches": [1, 2]}, r"batches must be a function, got \[1, 2\]"),
        ({"batches": None}, "batches must be a function, got None"),
        ({"evaluate": 3}, "evaluate must be a function, got 3"),
        ({"actors": 3}, "actors must be a function, got 3\n  try:   def actors"),
        ({"actors": Graph}, "actors must be a function, got <class"),
        ({"actors": lambda: None}, "actors must take one argument, the process, got actors"),
        ({"actors": _awaited}, "actors must be a plain function, got an async one"),
        ({"test": {"accuracy": 1.0}}, "test must be a function, got {'accuracy': 1.0}"),
    ],
)
def test_what_a_program_gets_wrong_is_said_before_a_step_runs(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ProgramError, match=said):
        program(**({"batches": lambda _: []} | wrong))
