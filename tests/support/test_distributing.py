"""Tests of clusters are one unit of work; every other file is one of its own."""

from __future__ import annotations

from pathlib import Path

from tests.support.distributing import CLUSTERS, unit

ROOT = Path(__file__).parents[2]


def test_clusters_are_one_unit_and_every_other_file_is_one() -> None:
    assert (
        unit("tests/kill/test_matrix.py::test_it[a::b]")
        == unit("tests/test_readme.py::test_it")
        == "clusters"
    )
    assert unit("tests/cluster/test_memory.py::test_it[x]") == "tests/cluster/test_memory.py"


def test_what_is_named_is_there() -> None:
    assert [path for path in CLUSTERS if not (ROOT / path).exists()] == []
