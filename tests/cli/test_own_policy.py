"""`--policy file.py:Class` names a policy of one's own; what does not is refused before anything starts."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

import actorflow as af
from actorflow.cli.arguments import policy
from actorflow.cli.own_policy import OwnPolicy, make_policy
from actorflow.errors import ConfigError

FILE = """
import actorflow as af

def make(): return af.StaleSync(2)
def needs(n): return af.StaleSync(n)
ready = af.Async()
number = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policies_of_a_test.py"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize(("name", "right"), [("make", af.StaleSync(2)), ("ready", af.Async())])
def test_a_function_or_an_instance_gives_the_policy(file: Path, name: str, right: af.Policy) -> None:
    assert make_policy(policy(f"{file}:{name}")) == right


def test_its_text_names_it_again(file: Path) -> None:
    given = policy(f"{file}:make")
    assert isinstance(given, OwnPolicy)
    assert policy(str(given)) == given


@pytest.mark.parametrize("text", ["sync", "backup:3/4", "backup:auto/4", "async", "stale:2"])
def test_texts_of_policies_mean_what_they_did(text: str) -> None:
    assert policy(text) == af.Policy.parse(text)


@pytest.mark.parametrize(
    ("name", "says"), [("needs", "without arguments"), ("number", "is a int"), ("absent", "has no absent")]
)
def test_what_makes_no_policy_is_named(file: Path, name: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make_policy(policy(f"{file}:{name}"))


def test_a_file_that_is_not_there_is_refused_on_the_command_line() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="there is no program file"):
        policy("absent.py:Own")
