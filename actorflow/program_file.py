"""Imports a program file and calls its `build(seed)`; every way to get that wrong has its error."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from actorflow import interrupt
from actorflow.errors import ActorflowError, ProgramError, Where
from actorflow.graph.graph import Graph
from actorflow.program import Program


class ProgramFile:
    """A program file, imported, whose `build` takes a seed.

    The file's folder becomes importable, as it is for a script; its `__name__` is not `__main__`.

    Raises:
        ProgramError: when there is no such file, it cannot be imported, or `build` is missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._build: Callable[[int], Any] = self._find(_import(path))

    def program(self, seed: int) -> Program:
        """Returns what `build(seed)` makes; raises ProgramError when that is not a Program."""
        made = self._call(seed)
        if not isinstance(made, Program):
            message = f"build(seed) must return an af.Program, got {_describe(made)}"
            raise ProgramError(message, where=self._where())
        return made

    def graph(self, seed: int) -> Graph:
        """Returns the graph that `build(seed)` makes, alone or in a Program; ProgramError otherwise."""
        made = self._call(seed)
        if isinstance(made, Program):
            return made.graph
        if not isinstance(made, Graph):
            message = f"build(seed) must return an af.Program or an af.Graph, got {_describe(made)}"
            raise ProgramError(message, where=self._where())
        return made

    def _find(self, module: ModuleType) -> Callable[[int], Any]:
        found = getattr(module, "build", None)
        if not callable(found):
            missing = f"{self.path} has none" if found is None else f"{self.path} has {found!r} of that name"
            names = ", ".join(_defines(module))
            message = f"a program file must define build(seed), but {missing}"
            hint = f"define it beside {names}" if names else "examples/digits.py is a complete program file"
            raise ProgramError(message, hint=hint)
        self._build = found
        if inspect.iscoroutinefunction(found):
            message = "build must be a plain function, got an async one"
            raise ProgramError(message, where=self._where(), hint="write def build(seed), without async")
        signature = inspect.signature(found)
        try:
            signature.bind(0)
        except TypeError as error:
            message = f"build must take one argument, the seed, got build{signature}: {error}"
            raise ProgramError(message, where=self._where()) from None
        return self._build

    def _call(self, seed: int) -> Any:
        try:
            with interrupt.kept():
                return self._build(seed)
        except ActorflowError:
            raise
        except Exception as error:
            raise _failed(self.path, f"build({seed}) must not fail", error) from error

    def _where(self) -> Where:
        code = getattr(self._build, "__code__", None)
        line = "" if code is None else f":{code.co_firstlineno}"
        return Where(defined_at=f"{self.path.name}{line}")


def _import(path: Path) -> ModuleType:
    if not path.exists():
        near = sorted(p.name for p in path.parent.glob("*.py")) if path.parent.is_dir() else []
        message = f"there is no program file {path}"
        raise ProgramError(message, hint=f"{path.parent} has {', '.join(near[:8])}" if near else None)
    if not path.is_file() or path.suffix != ".py":
        message = f"a program file is a Python file, got {path}"
        raise ProgramError(message)
    spec = importlib.util.spec_from_file_location(f"program_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up while they are made
    sys.path.insert(0, str(path.resolve().parent))
    try:
        with interrupt.kept():
            spec.loader.exec_module(module)
    except ActorflowError:
        raise
    except Exception as error:
        raise _failed(path, f"{path} must import without an error", error) from error
    return module


def _failed(path: Path, rule: str, error: Exception) -> ProgramError:
    """The error for a failure of the user's code, placed at the innermost line of the user's file."""
    lines = [
        f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name == path.name
    ]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    hint = None
    if isinstance(error, ModuleNotFoundError):
        hint = f"install the package with the module {error.name!r} in this environment"
    where = Where(defined_at=path.name if line is None else f"{path.name}:{line}")
    return ProgramError(rule, where=where, hint=hint)


def _defines(module: ModuleType) -> list[str]:
    """Names of the functions, classes and values that the file itself defines."""
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and getattr(value, "__module__", module.__name__) == module.__name__
    )


def _describe(value: Any) -> str:
    return "None; does it return anything?" if value is None else type(value).__name__
