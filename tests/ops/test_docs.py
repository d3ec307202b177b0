"""The examples in the docstrings of ops run and print what they say."""

from __future__ import annotations

import doctest
from types import ModuleType, SimpleNamespace

import pytest

import actorflow.ops
from actorflow.graph import autodiff, opdef
from actorflow.graph.graph import Graph
from actorflow.ops import array, broadcast, elementwise, linalg, logic, passing, reduce, shape, source

MODULES = [array, autodiff, broadcast, elementwise, linalg, logic, passing, reduce, shape, source]
AF = SimpleNamespace(Graph=Graph, **{name: getattr(actorflow.ops, name) for name in actorflow.ops.__all__})


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_examples_run(module: ModuleType) -> None:
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in finder.find(module, globs={"af": AF}):
        runner.run(test)

    assert runner.summarize().failed == 0


def test_every_op_has_a_docstring_that_tells_of_its_gradient() -> None:
    silent = [
        name
        for name, d in opdef.table().items()
        if "gradient" not in (d.constructor.__doc__ or "").lower()
        and d.constructor.__module__ in {m.__name__ for m in MODULES}
    ]

    assert silent == []
