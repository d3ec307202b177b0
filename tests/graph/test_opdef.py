"""Names of ops are unique, and a program that is loaded twice may define its ops again."""

from __future__ import annotations

from typing import Any

import pytest

import actorflow.ops  # noqa: F401  fills the table
from actorflow.errors import GraphError
from actorflow.graph import opdef
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import unary

PROGRAM = """
@op("fresh", spec=unary("fresh"))
@api_function
def fresh(x): ...
"""


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opdef, "_TABLE", dict(opdef.table()))


def load(path: str, program: str = PROGRAM) -> Any:
    found = {"op": opdef.op, "api_function": api_function, "unary": unary}
    exec(compile(program, path, "exec", dont_inherit=True), found)
    return found["fresh"]


def test_a_name_that_is_taken_is_refused() -> None:
    load("a.py")

    with pytest.raises(GraphError, match="op names are unique, 'fresh' is taken by <function fresh"):
        load("b.py")
    with pytest.raises(GraphError, match="op names are unique"):
        load("a.py", "\n" + PROGRAM)


def test_the_same_line_of_the_same_file_defines_it_again() -> None:
    """As when a program is run, and imported by its file as well."""
    load("a.py")

    again = load("a.py")

    assert opdef.lookup("fresh").constructor is again
