from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import optim
from actorflow.optim import schedules
from actorflow.runtime import program_name
from actorflow.values.fingerprint import fingerprint
from tests.support.hash_seeds import printed


class Colour(Enum):
    RED = 1
    BLUE = 2


class Mine(af.OptimizerActor):
    pass


class Other(af.OptimizerActor):
    pass


def scaled(factor: Any) -> Callable[..., Any]:
    def rule(x: float, twice: bool = False) -> Any:
        return x * factor * (1 + twice)

    return rule


def custom(factor: float) -> optim.Transform:
    def update(grads: Any, state: Any, params: Any) -> Any:
        return {name: -factor * g for name, g in grads.items()}, state

    return optim.Transform(init=lambda params: (), update=update)


def cyclic() -> Callable[[int], int]:
    def fact(n: int) -> int:
        return 1 if n == 0 else n * fact(n - 1)

    return fact


MAKE: dict[str, Callable[[], Any]] = {
    "sgd": lambda: optim.sgd(0.25),
    "another rate": lambda: optim.sgd(0.5),
    "adam": lambda: optim.adam(0.25),
    "schedule": lambda: optim.adam(schedules.exponential(0.1, 0.5, 3)),
    "another schedule": lambda: optim.adam(schedules.exponential(0.1, 0.9, 3)),
    "user's schedule": lambda: optim.adam(schedules.Schedule("mine", {}, scaled(0.5))),
    "another user's schedule": lambda: optim.adam(schedules.Schedule("mine", {}, scaled(0.25))),
    "chain": lambda: optim.chain(optim.clip_by_value(1.0), optim.sgd(0.25)),
    "another chain": lambda: optim.chain(optim.clip_by_value(2.0), optim.sgd(0.25)),
    "user's rule": lambda: custom(0.5),
    "another user's rule": lambda: custom(0.25),
    "class": lambda: Mine,
    "another class": lambda: Other,
    "function": lambda: lambda: Mine(optim.sgd(0.1)),
    "another function": lambda: lambda: Mine(optim.sgd(0.2)),
    "partial": lambda: partial(scaled(1.0), twice=True),
    "another partial": lambda: partial(scaled(1.0), twice=False),
    "closure": lambda: scaled(1.0),
    "closure of an array": lambda: scaled(np.arange(3)),
    "closure of another": lambda: scaled(np.arange(4)),
    "closure of text": lambda: scaled(np.array([b"a"], object)),
    "closure of a set": lambda: scaled({"a", "b", "c"}),
    "closure of a dict": lambda: scaled({"a": 1, "b": 2}),
    "closure of an enum": lambda: scaled(Colour.RED),
    "closure of another enum": lambda: scaled(Colour.BLUE),
    "itself": cyclic,
    "zero": lambda: 0.0,
    "minus zero": lambda: -0.0,
    "integer": lambda: 0,
    "truth": lambda: False,
}


@pytest.mark.parametrize("name", MAKE)
def test_what_is_built_twice_is_alike(name: str) -> None:
    assert fingerprint(MAKE[name]()) == fingerprint(MAKE[name]())


def test_what_is_built_otherwise_is_told_apart() -> None:
    told = {name: fingerprint(make()) for name, make in MAKE.items()}

    same = [(a, b) for a in told for b in told if a < b and told[a] == told[b]]

    assert same == []


def test_the_order_of_a_dict_does_not_count() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})


def test_what_cannot_be_described_is_named_by_its_type() -> None:
    class Opaque:
        def __init__(self, secret: int) -> None:
            self.secret = secret

    assert fingerprint(Opaque(1)) == fingerprint(Opaque(2))
    assert "Opaque" in fingerprint(Opaque(1))
    assert "0x" not in fingerprint(scaled(object()))


def test_it_is_the_same_in_another_process() -> None:
    code = (
        "from tests.values.test_fingerprint import *; print([fingerprint(make()) for make in MAKE.values()])"
    )
    found = printed(code)

    assert found == {f"{[fingerprint(make()) for make in MAKE.values()]}\n"}


def test_a_module_of_a_package_has_one_name_by_its_file_and_by_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    file = package / "part.py"
    by_file, by_module, alone = ModuleType("program_part"), ModuleType("__main__"), ModuleType("program_one")
    by_file.__file__ = by_module.__file__ = str(file)
    alone.__file__ = str(tmp_path / "one.py")
    by_module.__spec__ = ModuleSpec("package.inner.part", None)
    monkeypatch.setitem(sys.modules, "program_part", by_file)
    monkeypatch.setitem(sys.modules, "program_one", alone)
    monkeypatch.setitem(sys.modules, "__main__", by_module)

    names = [program_name.of_module(name) for name in ("program_part", "__main__", "program_one")]

    assert names == ["package.inner.part", "package.inner.part", "one"]
    by_module.__spec__ = None
    assert program_name.of_module("__main__") == "package.inner.part"
