"""Every promise of TensorFlow that a page lists names tests that are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAD = "| TensorFlow promises | the test that holds it | here |"
OURS = "| promised | the test that holds it | and finds |"


def rows(text: str, head: str) -> list[list[str]]:
    """The cells of the tables of a page that have this head."""
    found = []
    inside = False
    for line in text.splitlines():
        inside = line == head or (inside and line.startswith("|"))
        if inside and line != head and not line.startswith("|---"):
            found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def named(cell: str) -> list[str]:
    """The tests that a cell names."""
    return re.findall(r"`([^`]*)`", cell)


def promises(text: str, head: str = HEAD) -> list[tuple[str, list[str]]]:
    """The rows of the tables of a page: what is promised, and the tests that hold it."""
    return [(promise, named(held)) for promise, held, *_ in rows(text, head)]


@cache
def held_in(path: Path) -> frozenset[str]:
    """The names of the test functions of a module."""
    return frozenset(
        node.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def is_there(test: str) -> bool:
    """Whether `module::test` names a test function."""
    module, _, name = test.partition("::")
    path = ROOT / "tests" / module
    return path.is_file() and name in held_in(path)


@pytest.mark.parametrize(("page", "least"), [("queues", 28), ("resources", 24), ("control_flow", 27)])
def test_every_promise_is_held_by_tests_that_are_there(page: str, least: int) -> None:
    found = promises((ROOT / "docs" / f"{page}.md").read_text())

    assert len(found) >= least
    assert not [promise for promise, tests in found if not tests]
    assert not [test for _, tests in found for test in tests if not is_there(test)]


def test_every_promise_of_a_cluster_is_held_by_tests_that_are_there() -> None:
    page = (ROOT / "docs" / "consistency.md").read_text()
    found = promises(page, OURS)
    faults = [test for _, _, *last in rows(page, OURS) for cell in last for test in named(cell)]

    assert len(found) >= 24
    assert not [promise for promise, tests in found if not tests]
    assert not [test for _, tests in found for test in tests if not is_there(test)]
    assert len(faults) >= 13
    assert not [test for test in faults if not is_there(test)]


def test_a_promise_without_its_test_is_seen() -> None:
    page = (
        f"{HEAD}\n|---|---|---|\n| one | `a.py::test_b`, `test_promises.py::test_gone` | |\n\n| no | row | |"
    )

    assert promises(page) == [("one", ["a.py::test_b", "test_promises.py::test_gone"])]
    assert not is_there("a.py::test_b")
    assert not is_there("test_promises.py::test_gone")
    assert is_there("test_promises.py::test_a_promise_without_its_test_is_seen")
