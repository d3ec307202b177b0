"""What `import actorflow` gives: these names, each of them explained and annotated."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import actorflow as af
from actorflow import ops, public
from tests.busy import HANG_S

ROOT = Path(__file__).parents[1]


def members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public names of a module: `__all__`, or what it defines itself."""
    names = getattr(module, "__all__", None)
    for name in vars(module) if names is None else names:
        value = getattr(module, name)
        if names is not None or (
            not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
        ):
            yield name, value


def functions(name: str, value: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """A function, or the methods and properties that a class of ours defines."""
    if inspect.isfunction(value):
        yield name, value
    if not inspect.isclass(value):
        return
    for attribute, found in vars(value).items():
        method: Any = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
        ours = inspect.isfunction(method) and method.__module__.startswith("actorflow.")
        if ours and (not attribute.startswith("_") or attribute == "__init__"):
            yield f"{name}.{attribute}", method


NAMED = [(name, getattr(af, name)) for name in af.__all__]
MODULES = {n: v for n, v in NAMED if inspect.ismodule(v)} | {"optim.schedules": af.optim.schedules}
ALL = dict(
    [
        *NAMED,
        *MODULES.items(),
        *((f"{module}.{name}", v) for module, m in MODULES.items() for name, v in members(m)),
    ]
)
CALLABLE = {n: f for name, value in ALL.items() for n, f in functions(name, value)}


def test_the_names_are_those_of_the_ops_and_of_public() -> None:
    assert list(af.__all__) == sorted(af.__all__)
    assert set(af.__all__) == {*ops.__all__, *public.__all__}
    assert set(MODULES) == {
        "data",
        "datasets",
        "errors",
        "init",
        "nn",
        "optim",
        "optim.schedules",
        "supervision",
        "testing",
    }


def test_nothing_else_is_shown() -> None:
    everything: dict[str, Any] = {}

    exec("from actorflow import *", everything)

    assert everything.keys() - {"__builtins__"} == set(af.__all__)
    assert {name for name in dir(af) if not name.startswith("__")} == set(af.__all__)
    with pytest.raises(AttributeError, match="module 'actorflow' has no attribute 'relo'"):
        _ = af.relo  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", ["from actorflow import errors", "import actorflow.ops", "import actorflow.session.session"]
)
def test_every_name_is_there_whatever_was_imported_before(first: str) -> None:
    code = f"{first}\nimport actorflow as af\nfor name in af.__all__:\n    getattr(af, name)\nprint(len(vars(af)))"

    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=HANG_S
    )

    assert ran.stderr == ""
    assert int(ran.stdout) > len(af.__all__)


def test_no_name_is_hidden_by_a_module_of_the_package() -> None:
    inside = {path.stem for path in (ROOT / "actorflow").iterdir()}

    assert inside & set(af.__all__) == {
        "data",
        "datasets",
        "errors",
        "nn",
        "optim",
        "testing",
    }  # these are the modules


def test_a_name_says_what_it_gives() -> None:
    docs = {n: inspect.getdoc(of) if inspect.isfunction(of) else of.__doc__ for n, of in ALL.items()}
    firsts = {name: (doc or "").strip().split("\n\n")[0] for name, doc in docs.items()}

    assert {n: first for n, first in firsts.items() if first[-1:] not in (".", ":") or len(first) <= 20} == {}


def test_a_function_is_explained_and_annotated() -> None:
    signatures = {name: inspect.signature(function) for name, function in CALLABLE.items()}
    blank = [
        f"{name}({p.name})"
        for name, signature in signatures.items()
        for p in signature.parameters.values()
        if p.annotation is p.empty and p.name not in ("self", "cls")
    ]

    assert blank == []
    assert [n for n, signature in signatures.items() if signature.return_annotation is signature.empty] == []
    assert [n for n, of in CALLABLE.items() if not (of.__doc__ or n.endswith("__init__"))] == []
