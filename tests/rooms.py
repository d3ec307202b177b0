"""The tables of rooms in docs/architecture.md, out of docstrings: `python -m tests.rooms` writes them (`make docs`)."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

TOP = Path(__file__).parents[1]
PAGE = TOP / "docs" / "architecture.md"
BEGIN, END = "<!-- rooms: written by `make docs` -->\n", "<!-- end of rooms -->\n"


def rooms() -> list[str]:
    """The rooms, high to low, as pyproject.toml has them; in parentheses those that are not there yet."""
    told = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = [c["layers"] for c in told if c.get("containers") == ["actorflow"]]
    return [name.strip() for layer in layers for name in layer.replace("|", ":").split(":")]


def headline(path: Path) -> str:
    """The first sentences of a docstring, as one line."""
    said = ast.get_docstring(ast.parse(path.read_text())) or ""
    return said.partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def tables(root: Path = TOP / "actorflow") -> str:
    """Returns a table of the rooms, and one of each room that has rooms within."""
    lines = ["| room | what it is |", "|---|---|"]
    for name in rooms():
        path = root / name
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        lines.append(f"| `{name}` | {headline(file)} |" if file.exists() else f"| {name} | not built yet |")
    for name in rooms():
        within = sorted(p.parent for p in (root / name).rglob("*/__init__.py"))
        if within:
            lines += ["", f"Inside `{name}`:", "", "| room | what it is |", "|---|---|"]
            lines += [
                f"| `{'.'.join(p.relative_to(root).parts)}` | {headline(p / '__init__.py')} |" for p in within
            ]
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    """Returns the page with these tables in the place that is marked for them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"docs/architecture.md has no line {BEGIN!r}"
    assert end, f"docs/architecture.md has no line {END!r}"
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
