"""The page of all modules, docs/modules.md, out of docstrings: `python -m tests.rooms` writes it (`make docs`)."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).parents[1]
PAGE = TOP / "docs" / "modules.md"
BEGINNING = """\
# Modules

Written by `make docs` from the first lines of docstrings: changes go there. The rooms stand in the order of the
layers, high to low, as `pyproject.toml` has them: a module imports only what stands in its own room or in one further
down. [architecture.md](architecture.md#the-house) says why.
"""


def rooms() -> list[str]:
    """The rooms, high to low, as pyproject.toml has them; in parentheses those that are not there yet."""
    told = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = [c["layers"] for c in told if c.get("containers") == ["actorflow"]]
    return [name.strip() for layer in layers for name in layer.replace("|", ":").split(":")]


def headline(path: Path) -> str:
    """The first sentences of a docstring, as one line."""
    said = ast.get_docstring(ast.parse(path.read_text())) or ""
    return said.partition("\n\n")[0].replace("\n", " ")


def page(root: Path = TOP / "actorflow") -> str:
    """Returns the page: a chapter for each room, with the rooms within it, and a table of modules for each."""
    lines = BEGINNING.splitlines()
    for name in rooms():
        path = root / name
        if path.is_dir():
            within = sorted(p.parent for p in path.rglob("*/__init__.py"))
            for folder in [path, *within]:
                lines += _folder(folder, root)
        elif (file := path.with_suffix(".py")).exists():
            lines += ["", f"## `{name}`", "", headline(file)]
        else:
            lines += ["", f"## `{name}`", "", "Not built yet."]
    return "\n".join(lines) + "\n"


def _folder(folder: Path, root: Path) -> Iterator[str]:
    name = ".".join(folder.relative_to(root).parts)
    yield from ["", f"{'###' if '.' in name else '##'} `{name}`", "", headline(folder / "__init__.py")]
    modules = [p for p in sorted(folder.glob("*.py")) if p.stem != "__init__"]
    if modules:
        yield from ["", "| module | what it is |", "|---|---|"]
        for module in modules:
            told = headline(module).replace("|", "\\|")
            yield f"| `{name}.{module.stem}` | {told} |"


if __name__ == "__main__":
    PAGE.write_text(page())
