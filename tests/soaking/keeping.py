"""Writes an `@example(...)` above the `@given(` of a law, and sees to it that `example` is imported."""

from __future__ import annotations

import ast
from pathlib import Path


class NotKept(Exception):
    """The example could not be written; the message says why."""


def keep(source: Path, law: str, example: str) -> None:
    """Puts `example` into `source`, above the `@given(` of the function or method `law`.

    Raises:
        NotKept: when there is no such law, or the example stands there already.
    """
    text = source.read_text()
    given = _given(ast.parse(text), law, source)
    lines = text.splitlines(keepends=True)
    at = given.lineno - 1
    column = lines[at].index("@")
    block = [f"{' ' * column}{line}\n" for line in example.splitlines()]
    if ast.dump(ast.parse(example[1:], mode="eval")) in _examples(text, law, source):
        raise NotKept(f"{law} in {source} has it already")
    lines[at:at] = block
    changed = _with_import("".join(lines))
    ast.parse(changed, str(source))
    source.write_text(changed)


def _law(tree: ast.Module, law: str, source: Path) -> ast.FunctionDef | ast.AsyncFunctionDef:
    inside: list[ast.stmt] = tree.body
    for name in law.split("."):
        found = [
            each
            for each in inside
            if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and each.name == name
        ]
        if not found:
            raise NotKept(f"{source} defines no {law}")
        if not isinstance(found[-1], ast.ClassDef):
            return found[-1]
        inside = found[-1].body
    raise NotKept(f"{law} in {source} is a class")


def _called(decorator: ast.expr) -> str:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _given(tree: ast.Module, law: str, source: Path) -> ast.expr:
    for decorator in _law(tree, law, source).decorator_list:
        if _called(decorator) == "given":
            return decorator
    raise NotKept(f"{law} in {source} has no @given(")


def _examples(text: str, law: str, source: Path) -> set[str]:
    decorators = _law(ast.parse(text), law, source).decorator_list
    return {ast.dump(ast.Expression(each)) for each in decorators if _called(each) == "example"}


def _with_import(text: str) -> str:
    """Returns the module with `example` imported from hypothesis, where it names none yet."""
    tree = ast.parse(text)
    imports = [each for each in tree.body if isinstance(each, ast.ImportFrom)]
    if any((alias.asname or alias.name) == "example" for each in imports for alias in each.names):
        return text
    lines = text.splitlines(keepends=True)
    ours = [each for each in imports if each.module == "hypothesis" and each.level == 0]
    if ours:
        old = ours[0]
        assert old.end_lineno is not None
        names = sorted([*old.names, ast.alias("example")], key=lambda a: (_kind(a.name), a.name))
        said = [alias.name + (f" as {alias.asname}" if alias.asname else "") for alias in names]
        whole = "".join(lines[old.lineno - 1 : old.end_lineno])
        if "#" not in whole and ";" not in whole:
            lines[old.lineno - 1 : old.end_lineno] = [f"from hypothesis import {', '.join(said)}\n"]
        else:
            lines.insert(old.end_lineno, "from hypothesis import example\n")
    else:
        lines.insert(_after_docstring(tree), "from hypothesis import example\n")
    return "".join(lines)


def _kind(name: str) -> int:
    """The order in which ruff sorts names: constants, classes, the rest."""
    return 0 if name.isupper() else 1 if name[0].isupper() else 2


def _after_docstring(tree: ast.Module) -> int:
    for each in tree.body:
        docstring = isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
        future = isinstance(each, ast.ImportFrom) and each.module == "__future__"
        if not docstring and not future:
            decorators: list[ast.expr] = getattr(each, "decorator_list", [])
            return min(each.lineno, *(d.lineno for d in decorators)) - 1 if decorators else each.lineno - 1
    raise AssertionError("a module with a law is more than its docstring")
