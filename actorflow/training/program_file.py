"""Imports a program and calls its `build(seed)`; every way to get that wrong has its error.

`program_name` says how one is named.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from actorflow.errors import ActorflowError, DiskFull, ProgramError, Where
from actorflow.graph.graph import Graph
from actorflow.runtime import program_name, sigint
from actorflow.runtime.disk import is_full, no_room
from actorflow.training.program import Program


class ProgramFile:
    """A program, imported, whose `build` takes a seed.

    A file's folder becomes importable, as it is for a script, and for a module the present folder; the
    `__name__` of a file is not `__main__`.

    Args:
        path: The file, or a text that names it or a module: see `program_name`.

    Attributes:
        path: The file.
        name: What names it in other processes of this host.

    Raises:
        ProgramError: when there is no such file, it cannot be imported, or `build` is missing.
    """

    def __init__(self, path: Path | str) -> None:
        where, build = program_name.split_name(str(path))
        if program_name.is_file(where, build):
            self.path = Path(where)
            module = _import(self.path)
            self.name = str(self.path.resolve())
        else:
            self.path, module = _import_module(where)
            self.name = where
        self._module = module
        self._name = build or "build"
        if build is not None:
            self.name += f":{build}"
        self._build: Callable[[int], Any] = self._find(module)

    @classmethod
    def of(cls, build: Callable[[int], Any]) -> str:
        """Returns what names a program by its `build`, a function of a module or of the main script.

        Raises:
            ProgramError: other processes could not find the function.
        """
        name, qualified = getattr(build, "__module__", None), getattr(build, "__qualname__", "<")
        module = sys.modules.get(name or "")
        if module is None or not qualified.isidentifier() or getattr(module, qualified, None) is not build:
            message = f"other processes import build by its name, got {_function(build)}"
            raise ProgramError(message, hint="define it with def, at the top of a file")
        spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None)
        if module.__name__ == "__main__" and spec is not None:  # python -m package.module
            return f"{spec.name}:{qualified}"
        if module.__name__ == "__main__" or module.__name__.startswith(program_name.FILES):
            if file is None or not file.endswith(".py"):
                message = f"other processes import build from its file, and {module.__name__} has none"
                raise ProgramError(message, hint="write it to a file, and pass the path of that")
            return f"{Path(file).resolve()}:{qualified}"
        return f"{module.__name__}:{qualified}"

    def program(self, seed: int) -> Program:
        """Returns what `build(seed)` makes; raises ProgramError when that is not a Program."""
        made = self._call(seed)
        if not isinstance(made, Program):
            message = f"build(seed) must return an af.Program, got {_describe(made)}"
            raise ProgramError(message, where=self._where())
        if made.actors is None and _spawns(getattr(self._module, "actors", None)):
            message = f"the program of {self.path.name} has no actors, and the file defines actors(process)"
            raise ProgramError(message, where=self._where(), hint="return af.Program(..., actors=actors)")
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
        found = getattr(module, self._name, None)
        if not callable(found):
            missing = f"{self.path} has none" if found is None else f"{self.path} has {found!r} of that name"
            names = ", ".join(_defines(module))
            message = f"a program file must define {self._name}(seed), but {missing}"
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
        with _blame(self.path, f"build({seed}) must not fail"):
            return self._build(seed)

    def _where(self) -> Where:
        code = getattr(self._build, "__code__", None)
        line = "" if code is None else f":{code.co_firstlineno}"
        return Where(defined_at=f"{self.path.name}{line}")


def _function(build: Any) -> str:
    return f"{getattr(build, '__module__', '?')}.{getattr(build, '__qualname__', repr(build)[:60])}"


def import_program(where: Path | str) -> ModuleType:
    """Imports a file, or a module by its name; raises ProgramError where that fails."""
    return _import(where) if isinstance(where, Path) else _import_module(where)[1]


def _import_module(name: str) -> tuple[Path, ModuleType]:
    path = program_name.module(name)
    with _blame(path, f"{name} must import without an error"):
        return path, importlib.import_module(name)


def _import(path: Path) -> ModuleType:
    program_name.check_file(path)
    spec = importlib.util.spec_from_file_location(f"{program_name.FILES}{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up while they are made
    sys.path.insert(0, str(path.resolve().parent))
    with _blame(path, f"{path} must import without an error"):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _blame(path: Path, rule: str) -> Iterator[None]:
    """Turns what the user's code raises in the block into a ProgramError, unless it is an error of ours.

    Where a disk is full, that is DiskFull.

    Also what would end this process in a way of its own, as sys.exit does. Ctrl-C passes.
    """
    with sigint.guard_sigint() as watch:
        try:
            yield
        except ActorflowError:
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and watch.came is not False:
                raise
            raise _program_error(path, rule, error) from error


def _program_error(path: Path, rule: str, error: BaseException) -> ProgramError | DiskFull:
    """The error for a failure of the user's code, placed at the innermost line of the user's file."""
    lines = [
        f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name == path.name
    ]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    hint = None
    if isinstance(error, SystemExit):
        hint = 'leave what ends a script under if __name__ == "__main__":'
    if isinstance(error, ModuleNotFoundError):
        hint = f"install the package with the module {error.name!r} in this environment"
    where = Where(defined_at=path.name if line is None else f"{path.name}:{line}")
    if is_full(error):
        return no_room(rule.partition(" must ")[0], error, where)
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


def _spawns(actors: Any) -> bool:
    """Whether it is meant to spawn the actors of a process."""
    return inspect.isfunction(actors) and list(inspect.signature(actors).parameters) == ["process"]


def _describe(value: Any) -> str:
    return "None; does it return anything?" if value is None else type(value).__name__
