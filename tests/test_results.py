"""The page of results: what its commands name is there."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"


def commands(text: str) -> list[str]:
    """The last cells of the rows of all tables, where they are commands."""
    return re.findall(r"\| `([^`|]+)` \|$", text, re.MULTILINE)


def missing(command: str) -> str | None:
    """What a command names that is not there; None where all is."""
    words = [word for word in shlex.split(command) if "=" not in word or word.startswith("-")]
    program, *rest = words
    if program == "make":
        found = re.search(rf"^{re.escape(rest[0])}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return None if found else rest[0]
    if program == "python" and rest[0] == "-m":
        spec = importlib.util.find_spec(rest[1]) if (ROOT / rest[1].split(".")[0]).is_dir() else None
        if spec is None or spec.origin is None:
            return rest[1]
        file, options = Path(spec.origin), rest[2:]
    elif program == "python":
        file, options = ROOT / rest[0], rest[1:]
    elif program == "actorflow" and rest[0] == "train":
        return None if (ROOT / rest[1]).is_file() else rest[1]
    else:
        return program
    if not file.is_file():
        return rest[0]
    told = file.read_text() + "".join(path.read_text() for path in (ROOT / "examples").glob("*.py"))
    return next((word for word in options if word.startswith("--") and f'"{word}"' not in told), None)


def test_every_row_of_the_page_ends_with_a_command() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]

    assert len(commands(PAGE.read_text())) == len(
        [row for row in rows if "command that prints it" not in row]
    )


@pytest.mark.parametrize("command", commands(PAGE.read_text()))
def test_what_a_command_names_is_there(command: str) -> None:
    assert missing(command) is None


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("make austen", "austen"),
        ("python examples/emma.py", "examples/emma.py"),
        ("actorflow train examples/emma.py", "examples/emma.py"),
        ("python -m studies.emma", "studies.emma"),
        ("python examples/cartpole.py --speed 3", "--speed"),
        ("emma", "emma"),
    ],
)
def test_what_is_not_there_is_found(command: str, what: str) -> None:
    assert missing(command) == what
