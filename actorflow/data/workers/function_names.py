"""Functions by name: what a module defines is found again in another process, and nothing else.

A name is `module:qualname`. The bytes of the source are compared, so both sides mean the same function.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from actorflow.errors import ConfigError

MAIN = "__actorflow_main__"
"""The name under which another process imports the script that runs here."""

_NAME = re.compile(r"[\w.]+:[\w.]+")
_TOP = "define it with def at the top of a module"


@dataclass(frozen=True, slots=True)
class FunctionName:
    """How a function is found.

    Attributes:
        module: To be imported; `MAIN` for the script that runs.
        qualname: Of the function in the module, with dots inside classes.
        file: The source file of the module; None where it has none, or is not known here.
        digest: Of the bytes of that file, None with it.
    """

    module: str
    qualname: str
    file: str | None = None
    digest: bytes | None = None

    def __str__(self) -> str:
        """As users write it."""
        return f"{'__main__' if self.module == MAIN else self.module}:{self.qualname}"


def name_function(function: Any) -> FunctionName:
    """Returns the name of a function, or the one that is written `"module:qualname"`.

    A `FunctionName` is returned as it is.

    Raises:
        ConfigError: when no other process could find it: a lambda, a function inside another one, a
            bound method, a partial, an object that can be called, a coroutine function, a function
            typed in at a prompt, or a name that now means something else.
    """
    if isinstance(function, FunctionName):
        return function
    if isinstance(function, str):
        if not _NAME.fullmatch(function):
            message = f"a function is named 'module:function', got {function!r}"
            raise ConfigError(message)
        there, _, within = function.partition(":")
        return FunctionName(there, within)
    if inspect.iscoroutinefunction(function):
        message = f"processes call plain functions, got the coroutine function {function.__qualname__}"
        raise ConfigError(message, hint="leave processes out, or make it a plain function")
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    # A partial, or an object that can be called, has what it needs in this process only.
    if not callable(function) or not isinstance(module, str) or not isinstance(qualname, str):
        raise _name_error(_kind(function), f"{_TOP}, which gives it what it needs")
    if "<lambda>" in qualname:
        raise _name_error("a lambda", _TOP)
    if "<locals>" in qualname:
        what = f"{function.__name__}, which is made by {qualname.partition('.<locals>')[0]} when that runs"
        raise _name_error(what, _TOP)
    home: Any = sys.modules.get(module)
    # As another process will look for it.
    try:
        found = _walk(home, qualname)
    except AttributeError:
        what = f"{module}:{qualname}, which is not there"
        raise _name_error(what, _TOP) from None
    # A method of one object: the object is not there.
    if inspect.ismethod(function) and found != function:
        what = f"a method of one {qualname.rpartition('.')[0]}"
        raise _name_error(what, _TOP)
    # The name means something else by now: a decorator's, or a later definition.
    if found is not function and not inspect.ismethod(function):
        what = f"{module}:{qualname}, which is another object there"
        raise _name_error(what, "does a decorator replace it? let that use functools.wraps")
    return _with_source(module, qualname, getattr(home, "__file__", None), getattr(home, "__spec__", None))


def find(name: FunctionName) -> Callable[..., Any]:
    """Imports the module of a name and returns the function.

    Raises:
        ConfigError: when the module is not to be found, its source is not the one of whoever asks,
            or there is no such function in it. What the import itself raises passes.
    """
    # Nothing in the module may run a pipeline meanwhile: it would again in every process.
    with _finding():
        module = _import(name)
    found = _source(module)
    # Both sides must mean the same function: an edit in between, or another file of that name, would not
    # show.
    if name.digest is not None and _digest(found) != name.digest:
        which = f"{found} is not {name.file}" if found != name.file else f"{found} has changed"
        message = f"{name} must have one source in all processes, but {which}"
        raise ConfigError(message, hint="run it again; two files of one name hide each other on sys.path")
    try:
        function = _walk(module, name.qualname)
    except AttributeError as error:
        message = f"there is no function {name}: {error}"
        raise ConfigError(message) from None
    if not callable(function):
        message = f"{name} must be a function, got {type(function).__name__}"
        raise ConfigError(message)
    return function  # type: ignore[no-any-return]


class _Finding:
    """Whether a module is being imported for a function in it."""

    now = False


def is_finding() -> bool:
    """Tells whether this process imports a module to find a function, so nothing in it may run yet."""
    return _Finding.now


@contextmanager
def _finding() -> Iterator[None]:
    _Finding.now = True
    try:
        yield
    finally:
        _Finding.now = False


def _with_source(module: str, qualname: str, file: str | None, spec: Any) -> FunctionName:
    """The name with its source; of `__main__` under the name that another process may import."""
    source = str(Path(file).resolve()) if file and file.endswith(".py") and Path(file).is_file() else None
    if module == "__main__":
        if spec is not None and spec.name != "__main__":  # python -m package.module
            module = spec.name
        elif source is None:
            message = (
                f"{qualname} is defined at a prompt or in a text without a file, where no process finds it"
            )
            raise ConfigError(message, hint="write it into a module, and import it from there")
        else:
            # Under another name than `__main__`, so that what stands behind `if __name__ == "__main__"` does
            # not run again.
            module = MAIN
    return FunctionName(module, qualname, source, _digest(source))


def _name_error(what: str, hint: str) -> ConfigError:
    message = f"processes find a function by its name in a module, got {what}"
    return ConfigError(message, hint=hint)


def _kind(function: Any) -> str:
    if isinstance(function, functools.partial):
        return f"a partial of {getattr(function.func, '__qualname__', function.func)!s:.60}"
    return f"a {type(function).__qualname__}"


def _walk(home: Any, qualname: str) -> Any:
    return functools.reduce(getattr, qualname.split("."), home)


def _import(name: FunctionName) -> ModuleType:
    if name.module == MAIN:
        return _load(name)
    try:
        return importlib.import_module(name.module)
    except ModuleNotFoundError as error:
        # The module itself, or a package around it, and not what it imports.
        missing = error.name is not None and f"{name.module}.".startswith(f"{error.name}.")
        if missing and name.file is not None:  # a file that was loaded by its path there too
            return _load(name)
        if not missing:
            raise  # a module that it imports
        message = f"the module of {name} is not on sys.path: {error}"
        raise ConfigError(message) from None


def _load(name: FunctionName) -> ModuleType:
    """Imports a file by its path."""
    assert name.file is not None
    spec = importlib.util.spec_from_file_location(name.module, name.file)
    if spec is None or spec.loader is None or not Path(name.file).is_file():
        message = f"the file of {name} is not there: {name.file}"
        raise ConfigError(message)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name.module] = module  # dataclasses look their module up while they are made
    spec.loader.exec_module(module)
    return module


def _source(module: ModuleType) -> str | None:
    file = getattr(module, "__file__", None)
    return None if file is None else str(Path(file).resolve())


def _digest(file: str | None) -> bytes | None:
    return None if file is None else hashlib.sha256(Path(file).read_bytes()).digest()
