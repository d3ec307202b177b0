"""A repr calls an object what its class is called today."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "actorflow"

# Class -> what it says of itself, for a reason.
OTHER_NAMES = {
    "Address": "Ref",  # users know it by that name alone, and it is one
}

Classes = dict[str, list[ast.ClassDef]]


def classes(root: Path) -> Classes:
    """The classes of a tree by name: several where modules have one of the same name."""
    found: Classes = {}
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(node)
    return found


def own_repr(node: ast.ClassDef) -> ast.FunctionDef | None:
    """The `__repr__` that a class defines itself."""
    functions = (part for part in node.body if isinstance(part, ast.FunctionDef))
    return next((f for f in functions if f.name == "__repr__"), None)


def written_names(function: ast.FunctionDef) -> Iterator[str]:
    """The names in `<Name ...>` and `Name(...)`, where a repr has them as text."""
    for node in ast.walk(function):
        text = node.value if isinstance(node, ast.Constant) else ""
        if isinstance(text, str) and (found := re.match(r"<([A-Z]\w*)|([A-Z]\w*)\(", text)):
            yield found[1] or found[2]


def heirs(name: str, found: Classes) -> Iterator[str]:
    """The classes below one that have its repr."""
    for nodes in found.values():
        for node in nodes:
            above = {
                b.id if isinstance(b, ast.Name) else getattr(b, "attr", "") for b in map(_plain, node.bases)
            }
            if name in above and own_repr(node) is None:
                yield node.name
                yield from heirs(node.name, found)


def _plain(base: ast.expr) -> ast.expr:
    return base.value if isinstance(base, ast.Subscript) else base


def wrong(root: Path) -> list[str]:
    """A sentence for each repr that says another name than its class has."""
    found = classes(root)
    said = []
    for name, nodes in found.items():
        for node in nodes:
            function = own_repr(node)
            for text in () if function is None else written_names(function):
                if text != OTHER_NAMES.get(name, name):
                    said.append(f"{name} says {text}")
                said += [f"{heir} says {text}" for heir in heirs(name, found) if name not in OTHER_NAMES]
    return said


def test_a_repr_says_the_name_of_its_class() -> None:
    assert wrong(ROOT) == [], "write type(self).__name__, or the name of today"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("class A:\n    def __repr__(self): return f'<B {self.x}>'", ["A says B"]),
        ("class A:\n    def __repr__(self):\n        if x: return 'A()'\n        return f'B({x})'", ["A says B"]),
        ("class A:\n    def __repr__(self): return '<B, not set>' if x else f'<A {x}>'", ["A says B"]),
        ("class A:\n    def __repr__(self): return f'<A {x}>'\nclass B(A[int]): ...\nclass C(B): ...",
         ["B says A", "C says A"]),
        ("class A:\n    def __repr__(self): return f'<{type(self).__name__} {x}>'\nclass B(A): ...", []),
        ("class A:\n    def __repr__(self): return 'DEAD'", []),
    ],
)  # fmt: skip
def test_another_name_is_seen(text: str, found: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(text)

    assert wrong(tmp_path) == found
