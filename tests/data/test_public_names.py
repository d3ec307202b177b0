"""What `af.data` gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.data import public
from tests.support.python import run_python

ROOT = Path(__file__).parents[2]


def test_the_names_are_those_of_public() -> None:
    assert sorted(af.data.__all__) == sorted(public.__all__)
    for name in af.data.__all__:
        assert getattr(af.data, name) is getattr(public, name)


def test_no_name_is_hidden_by_a_module_of_the_package() -> None:
    inside = {path.stem for path in (ROOT / "actorflow" / "data").iterdir()}

    assert not inside & set(af.data.__all__)


def test_a_source_begins_a_pipeline_at_the_line_of_the_user() -> None:
    pipeline = af.data.numbers(3)

    assert isinstance(pipeline, af.data.Pipeline)
    assert pipeline._call_site.line.startswith("tests/data/test_public_names.py:")
    assert inspect.signature(af.data.numbers).return_annotation == "Pipeline"


@pytest.mark.parametrize(
    "begin",
    [
        lambda: af.data.arrays([1, 2]),
        lambda: af.data.arrays((np.zeros(2), np.zeros(3))),
        lambda: af.data.numbers(-1),
        lambda: af.data.generator(3),
        lambda: af.data.queue(3),
        lambda: af.data.text_lines("nowhere.txt"),
        lambda: af.data.csv("nowhere.csv"),
        lambda: af.data.npy("nowhere.npy"),
        lambda: af.data.npz("nowhere.npz"),
        lambda: af.data.idx("nowhere"),
        lambda: af.data.records("nowhere", 8),
        lambda: af.data.tfrecord("nowhere"),
        lambda: af.data.numbers(3).map("nowhere:f"),
        lambda: af.data.numbers(3).map("nowhere"),
        lambda: af.data.numbers(3).map(abs, random="bit"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_begin_says_so_at_the_line_of_the_user(begin: Callable[[], Any]) -> None:
    with pytest.raises(errors.ActorflowError) as caught:
        begin()

    line = begin.__code__.co_firstlineno
    assert f"  where: defined at tests/data/test_public_names.py:{line}" in str(caught.value)


@pytest.mark.parametrize("random", ["bit", "True", 1, None, b"bits"])
def test_a_chance_of_another_kind_is_told_all_three(random: Any) -> None:
    with pytest.raises(errors.ConfigError, match="map takes random as True, False or 'bits', got "):
        af.data.numbers(3).map(abs, random=random)


def test_an_unknown_name_is_told() -> None:
    with pytest.raises(AttributeError, match="module 'actorflow.data' has no attribute 'array'"):
        _ = af.data.array  # type: ignore[attr-defined]


def test_the_package_alone_imports_nothing() -> None:
    program = (
        "import sys, actorflow.data; print([m for m in sys.modules if m.startswith(('actorflow.', 'numpy'))])"
    )

    done = run_python("-c", program, cwd=ROOT, check=True)

    assert done.stdout == "['actorflow.data']\n"
