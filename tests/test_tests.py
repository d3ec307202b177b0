"""How the tests are written: they ask public things, and what many of them need stands once, in `tests/support`.

Each rule is tried on a small tree with an offence of its kind.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

MOST_PRIVATE = 59
"""Touches of private attributes of others in all tests; there were 339. Ask by `stats`, `dump` or a property."""

MOST_COPIES = 3
"""In so many files at most the same helper stands; the fourth that needs it finds it in `tests/support`."""

LEAST_NODES = 12
"""Nodes of the syntax tree from which on a helper is worth a place: less is `return 1`, or `pass`."""

OWN = ("self", "cls", "mcs")
PUBLIC_WITH_A_LINE = {
    "_asdict",
    "_exit",
    "_field_defaults",
    "_fields",
    "_make",
    "_name_",
    "_replace",
    "_value_",
}


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules(tests: Path) -> list[Path]:
    return sorted(tests.rglob("*.py"))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in PUBLIC_WITH_A_LINE


def _is_own(of: ast.expr, inside: tuple[str, ...]) -> bool:
    """Whether an object is what the code that looks at it is part of: `self`, `super()`, or its own class."""
    if isinstance(of, ast.Call):
        return isinstance(of.func, ast.Name) and of.func.id in ("super", "type")
    return isinstance(of, ast.Name) and of.id in (*OWN, *inside)


def touches(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The lines at which a private attribute of somebody else is touched, as `x._y` or `getattr(x, "_y")`."""
    ahead: list[tuple[ast.AST, tuple[str, ...]]] = [(tree, ())]
    while ahead:
        node, inside = ahead.pop()
        match node:
            case ast.Attribute(value=of, attr=name):
                if _is_private(name) and not _is_own(of, inside):
                    yield node.lineno, name
            case ast.Call(func=ast.Name(id="getattr"), args=[of, ast.Constant(value=str(name)), *_]):
                if _is_private(name) and not _is_own(of, inside):
                    yield node.lineno, name
            case ast.ClassDef(name=name):
                inside = (*inside, name)
        ahead.extend((below, inside) for below in ast.iter_child_nodes(node))


def private_touches(tests: Path) -> list[str]:
    return [
        f"{path.relative_to(tests)}:{line} {name}"
        for path in modules(tests)
        for line, name in sorted(touches(_parsed(path)))
    ]


def check_private_touches(tests: Path, most: int = MOST_PRIVATE) -> None:
    found = private_touches(tests)
    assert len(found) <= most, f"{len(found)} touches of what is private, {most} at most:\n" + "\n".join(
        found
    )


def helpers(tree: ast.AST) -> Iterator[tuple[str, list[ast.stmt], int]]:
    """The functions that are no tests: name, code without docstring, and how large that is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("test_"):
            body = node.body if ast.get_docstring(node) is None else node.body[1:]
            size = sum(1 for statement in body for _ in ast.walk(statement))
            if size >= LEAST_NODES:
                yield node.name, body, size


def check_copies(tests: Path) -> None:
    sizes: dict[int, list[tuple[Path, str, list[ast.stmt]]]] = defaultdict(list)
    for path in modules(tests):
        for name, body, size in helpers(_parsed(path)):
            sizes[size].append((path.relative_to(tests), name, body))
    files: dict[tuple[str, ...], dict[Path, str]] = defaultdict(dict)
    for alike in sizes.values():
        if len(alike) > MOST_COPIES:
            for path, name, body in alike:
                files[tuple(map(ast.unparse, body))][path] = name
    copied = [
        ", ".join(f"{path} {name}" for path, name in at.items())
        for at in files.values()
        if len(at) > MOST_COPIES
    ]
    assert not copied, f"a helper of more than {MOST_COPIES} files stands in tests/support:\n" + "\n".join(
        copied
    )


# -- the rules ---------------------------------------------------------------------------------------


def test_tests_touch_little_that_is_private() -> None:
    check_private_touches(TESTS)


def test_no_helper_is_written_in_many_files() -> None:
    check_copies(TESTS)


# -- the rules find offences -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "assert made._inside == 1",
        "made._inside = 1",
        "del made()._inside",
        "found = made.part._inside.public",
        "found = getattr(made, '_inside')",
        "found = getattr(made, '_inside', None)",
        "class Other:\n    def look(self, made): return made._inside",
    ],
)
def test_a_touch_of_what_is_private_is_found(line: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(f"{line}\n")
    with pytest.raises(
        AssertionError, match=r"1 touches of what is private, 0 at most:\s+test_it.py:\d _inside"
    ):
        check_private_touches(tmp_path, 0)


@pytest.mark.parametrize(
    "line",
    [
        "assert made.inside == 1",
        "found = made._replace(a=1)",
        "found = made.__dict__",
        "_inside = 1",
        "class Own:\n    def look(self): return self._inside + super()._inside + Own._inside",
    ],
)
def test_what_is_public_or_ones_own_may_be_touched(line: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(f"{line}\n")
    check_private_touches(tmp_path, 0)


def test_a_helper_that_is_written_once_too_often_is_found(tmp_path: Path) -> None:
    for n in range(MOST_COPIES + 1):
        code = f"def run_{n}(graph, body):\n    '''Text {n}.'''\n    return af.run(in_session(graph, body))\n"
        (tmp_path / f"test_{n}.py").write_text(code)
        if n < MOST_COPIES:
            check_copies(tmp_path)
    with pytest.raises(AssertionError, match="a helper of more than 3 files stands in tests/support"):
        check_copies(tmp_path)
