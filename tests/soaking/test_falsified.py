from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.soaking.falsified import falsified


def raised(*notes: str) -> AssertionError:
    error = AssertionError("assert 0")
    for note in notes:
        error.add_note(note)
    return error


@pytest.mark.parametrize(
    ("note", "kept"),
    [
        (
            "Falsifying example: test_x(\n    n=1,  # or any other\n    text='a(b',\n)",
            "@example(n=1, text='a(b')",
        ),
        ("Other words: test_x(\n    self=1,\n    op='add',\n    n=[-1.5],\n)", "@example(n=[-1.5])"),
        ("F: test_x(n=-inf, m=nan)", "@example(n=-float('inf'), m=float('nan'))"),
        ("F: test_x(n=Path('a'))", "@example(n=Path('a'))"),
        ("F: test_x(f=lambda a: [b + a for b in [1]])", "@example(f=lambda a: [b + a for b in [1]])"),
    ],
)
def test_what_hypothesis_tells_becomes_an_example(note: str, kept: str) -> None:
    (found,) = falsified(raised("before", note, "after"), "test_x", {"self", "op"}, {"Path": Path})

    assert (found.example, found.why_not) == (kept, None)
    assert found.error.startswith("AssertionError: assert 0\nbefore\n")


def test_a_module_that_names_inf_itself_is_left_its_name() -> None:
    (found,) = falsified(raised("F: test_x(n=inf)"), "test_x", (), {"inf": math.inf})

    assert found.example == "@example(n=inf)"


@pytest.mark.parametrize(
    ("note", "why_not"),
    [
        ("F: test_x(data=data(...), n=<object at 0x1>)", "do not print as Python"),
        ("F: test_x(n=Graph(Node()))", "the test module has no Graph, Node"),
        ("F: test_x(1)", "have no names"),
        ("Falsifying explicit example: test_x(n=1)", "an @example of the law already"),
        ("F:\nstate = Machine()\nstate.teardown()", "told no arguments"),
        ("@example(n=", "the note is not Python: @example(n="),
    ],
)
def test_what_cannot_be_pasted_says_why(note: str, why_not: str) -> None:
    (found,) = falsified(raised(note), "test_x", (), {})

    assert found.why_not is not None
    assert why_not in found.why_not


def test_the_note_of_a_simulated_run_goes_before_what_hypothesis_tells() -> None:
    ready = "seed 7 again:\n@example(\n    plan=Plan('a>b#1 +5'),\n)\nand more"

    (found,) = falsified(raised("F: test_x(plan=Plan(1, 2))", ready), "test_x", (), {"Plan": print})

    assert found.example == "@example(\n    plan=Plan('a>b#1 +5'),\n)"
    assert found.why_not is None


def test_each_distinct_failure_of_a_group_is_found_once() -> None:
    group = ExceptionGroup(
        "two", [raised("F: test_x(n=1)"), raised("F: test_x(n=2)"), raised("F: test_x(n=2)")]
    )

    found = falsified(group, "test_x", (), {})

    assert [each.example for each in found] == ["@example(n=1)", "@example(n=2)"]
