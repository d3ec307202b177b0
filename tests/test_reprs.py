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

Class = tuple[str, str]
"""The module of a class, as imports name it, and the name."""


class Tree:
    """The classes of a package, with the names that each of their modules imports."""

    def __init__(self, root: Path) -> None:
        self.classes: dict[Class, ast.ClassDef] = {}
        self._imported: dict[Class, Class] = {}
        for path in sorted(root.rglob("*.py")):
            module = ".".join(path.relative_to(root.parent).with_suffix("").parts)
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    self.classes[module, node.name] = node
                elif isinstance(node, ast.ImportFrom):
                    for alias in node.names:
                        self._imported[module, alias.asname or alias.name] = (node.module or "", alias.name)

    def heirs(self, above: Class) -> Iterator[str]:
        """The classes below one that have its repr."""
        for (module, name), node in self.classes.items():
            if own_repr(node) is None and above in [self._class_of(module, base) for base in node.bases]:
                yield name
                yield from self.heirs((module, name))

    def _class_of(self, module: str, base: ast.expr) -> Class | None:
        """The class that an expression names in a module: `A`, `A[int]`, `module.A`."""
        match base:
            case ast.Name(id=name):
                return self._imported.get((module, name), (module, name))
            case ast.Subscript(value=inner):
                return self._class_of(module, inner)
            case ast.Attribute(value=ast.Name(id=holder), attr=name):
                return ".".join(self._imported.get((module, holder), ("", holder))), name
        return None


def own_repr(node: ast.ClassDef) -> ast.FunctionDef | None:
    """The `__repr__` that a class defines itself."""
    functions = (part for part in node.body if isinstance(part, ast.FunctionDef))
    return next((f for f in functions if f.name == "__repr__"), None)


def written_names(function: ast.FunctionDef | None) -> Iterator[str]:
    """The names in `<Name ...>` and `Name(...)`, where a repr has them as text."""
    for node in ast.walk(function) if function is not None else ():
        text = node.value if isinstance(node, ast.Constant) else ""
        if isinstance(text, str) and (found := re.match(r"<([A-Z]\w*)|([A-Z]\w*)\(", text)):
            yield found[1] or found[2]


def wrong(root: Path) -> list[str]:
    """A sentence for each repr that says another name than its class has."""
    tree = Tree(root)
    said = []
    for known, node in tree.classes.items():
        name = known[1]
        for text in written_names(own_repr(node)):
            if text != OTHER_NAMES.get(name, name):
                said.append(f"{name} says {text}")
            if name not in OTHER_NAMES:
                said += [f"{heir} says {text}" for heir in tree.heirs(known)]
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
        ("def f():\n    from here import a\n    class B(a.A): ...\nclass A:\n    def __repr__(self): return 'A()'",
         ["B says A"]),
        ("class A:\n    def __repr__(self): return f'<A {x}>'\ndef f():\n    from b import A\n    class B(A): ...", []),
    ],
)  # fmt: skip
def test_another_name_is_seen(text: str, found: list[str], tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here/a.py").write_text(text)

    assert wrong(tmp_path / "here") == found
