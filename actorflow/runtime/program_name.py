"""The text that names a program, which means the same in every process that can see the files.

    digits.py               a file that defines build(seed)
    digits.py:make          a file, and what builds there
    package.module:build    a module that can be imported, and what builds there

Nothing is imported here: whoever only starts processes needs the name, not the program.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

from actorflow.errors import ProgramError
from actorflow.runtime import sigint

_NAMED = re.compile(r"(?P<where>.+):(?P<build>[^\W\d]\w*)\Z")

FILES = "program_"
"""Before the names of modules that were imported by their files."""


def of_module(name: str) -> str:
    """Returns the one name of a module, whatever it is called in the process that asks.

    A script is `__main__` where it was started, and is imported by its file elsewhere: it has the name that
    it would have if it were imported. All others have their own.
    """
    module = sys.modules.get(name)
    if name == "__main__" and (spec := getattr(module, "__spec__", None)) is not None:
        return str(spec.name)  # python -m package.module
    file = getattr(module, "__file__", None)
    # The name that imports by file give a module, so both processes call it alike.
    if file is None or name not in ("__main__", f"{FILES}{Path(file).stem}"):
        return name
    path = Path(file).resolve()  # other processes are given the file, not the link to it
    parts = [path.stem]
    for folder in path.parents:  # as `python -m package.module` names the same file
        if not (folder / "__init__.py").is_file():
            break
        parts.append(folder.name)
    return ".".join(reversed(parts))


def split_name(named: str) -> tuple[str, str | None]:
    """Returns the file or module, and what builds there if that is said."""
    # A path that exists wins over what looks like module:build.
    found = None if named.endswith(".py") or Path(named).exists() else _NAMED.match(named)
    return (named, None) if found is None else (found["where"], found["build"])


def is_file(where: str, build: str | None) -> bool:
    """Whether these parts name a file; else it is a module."""
    return where.endswith(".py") or build is None


def full(named: str) -> str:
    """Returns what names the program in other processes of this host.

    Raises:
        ProgramError: there is no such file or module.
    """
    where, build = split_name(named)
    if is_file(where, build):
        check_file(Path(where))
        where = str(Path(where).resolve())
    else:
        # Looked for and not kept: another process imports it.
        module(where)
    return where if build is None else f"{where}:{build}"


def check_file(path: Path) -> None:
    """Raises ProgramError for what is no Python file."""
    if not path.exists():
        near = sorted(p.name for p in path.parent.glob("*.py")) if path.parent.is_dir() else []
        message = f"there is no program file {path}"
        raise ProgramError(message, hint=f"{path.parent} has {', '.join(near[:8])}" if near else None)
    if not path.is_file() or path.suffix != ".py":
        message = f"a program file is a Python file, got {path}"
        raise ProgramError(message)


def module(name: str) -> Path:
    """Finds a module, which may lie in the present folder; imports the packages around it.

    Raises:
        ProgramError: there is none.
    """
    # As `python -m` looks from the present folder.
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        # Finding a module imports the packages around it.
        with sigint.guard_sigint():
            spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        message = f"there is no module {name}"
        raise ProgramError(message, hint=f"modules are looked for from {Path.cwd()} on; a file ends with .py")
    return Path(spec.origin)
