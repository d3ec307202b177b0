"""What `af.data` gives."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import actorflow as af
from actorflow.data import public

ROOT = Path(__file__).parents[2]


def test_the_names_are_those_of_public() -> None:
    assert sorted(af.data.__all__) == sorted(public.__all__)
    for name in af.data.__all__:
        assert getattr(af.data, name) is getattr(public, name)


def test_a_source_begins_a_pipeline_at_the_line_of_the_user() -> None:
    pipeline = af.data.numbers(3)

    assert isinstance(pipeline, af.data.Pipeline)
    assert pipeline._place.line.startswith("tests/data/test_public_names.py:")
    assert inspect.signature(af.data.numbers).return_annotation == "Pipeline"


def test_an_unknown_name_is_told() -> None:
    with pytest.raises(AttributeError, match="module 'actorflow.data' has no attribute 'array'"):
        _ = af.data.array  # type: ignore[attr-defined]


def test_the_package_alone_imports_nothing() -> None:
    program = (
        "import sys, actorflow.data; print([m for m in sys.modules if m.startswith(('actorflow.', 'numpy'))])"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )

    assert done.stdout == "['actorflow.data']\n"
