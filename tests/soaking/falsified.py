"""What a failure of a law leaves: the `@example(...)` that keeps it, and the first lines of the error.

Hypothesis tells what it found by notes on the exception, `<some words>: test_name(x=0, ...)`. The
call is read as Python, not by its words. A note that begins with `@example(` comes from a simulated
run and is taken as it stands.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LINES_OF_ERROR, LINES_OF_NOTES = 10, 30


@dataclass(frozen=True, slots=True)
class Falsified:
    """One distinct failure of a law; `example` can be pasted as it is unless `why_not` says otherwise."""

    error: str
    example: str | None
    why_not: str | None


def falsified(
    error: BaseException, name: str, free: Collection[str], namespace: Mapping[str, Any]
) -> list[Falsified]:
    """Returns each failure inside `error` once.

    Args:
        error: what the law raised; a group holds one error for each distinct failure.
        name: of the test function.
        free: parameters that hypothesis does not draw (fixtures, parametrized values, self).
        namespace: of the test module, where an example must make sense.
    """
    found: dict[Falsified, None] = {}
    for leaf in _leaves(error):
        example, why_not = _example(_notes(leaf) + _notes(error), name, free)
        if example is not None:
            example, missing = _in_scope(example, namespace)
            why_not = f"the test module has no {', '.join(missing)}" if missing else None
        found[Falsified(_first_lines(leaf), example, why_not)] = None
    return list(found)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _notes(error: BaseException) -> list[str]:
    return [str(note) for note in getattr(error, "__notes__", ())]


def _first_lines(error: BaseException) -> str:
    said = f"{type(error).__name__}: {error}".splitlines()[:LINES_OF_ERROR]
    told = "\n".join(_notes(error)).splitlines()[:LINES_OF_NOTES]
    return "\n".join([*said, *told])


def _example(notes: list[str], name: str, free: Collection[str]) -> tuple[str | None, str | None]:
    for note in notes:
        lines = note.splitlines()
        for first, line in enumerate(lines):
            if line.startswith("@example("):
                return _ready_made(lines[first:])
    for note in notes:
        words, colon, rest = note.partition(": ")
        if not colon or not rest.startswith(f"{name}("):
            continue
        try:
            call = ast.parse(rest.strip(), mode="eval").body
        except SyntaxError:
            return None, "its arguments do not print as Python: " + " ".join(rest.split())
        if not isinstance(call, ast.Call) or call.args or any(each.arg is None for each in call.keywords):
            return None, "its arguments have no names: " + " ".join(rest.split())
        if "explicit" in words:
            return None, "it is an @example of the law already"
        drawn = [each for each in call.keywords if each.arg not in free]
        return f"@{ast.unparse(ast.Call(ast.Name('example'), [], drawn))}", None
    return None, "hypothesis told no arguments (a state machine has none)"


def _ready_made(lines: list[str]) -> tuple[str | None, str | None]:
    for n in range(1, len(lines) + 1):
        text = "\n".join(lines[:n])
        if _decorator(text) is not None:
            return text, None
    return None, f"the note is not Python: {lines[0]}"


def _decorator(text: str) -> ast.expr | None:
    try:
        (defined,) = ast.parse(f"{text}\ndef law(): ...").body
    except (SyntaxError, ValueError):
        return None
    return defined.decorator_list[0] if isinstance(defined, ast.FunctionDef) else None


class _Floats(ast.NodeTransformer):
    """Spells the floats whose repr is a bare name."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.parse(f"float({node.id!r})", mode="eval").body if node.id in ("inf", "nan") else node


def _in_scope(example: str, namespace: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Returns the example as the module can say it, and the names that the module lacks."""
    decorator = _decorator(example)
    assert isinstance(decorator, ast.Call), example
    names = {node.id for node in ast.walk(decorator) if isinstance(node, ast.Name)}
    if names & ({"inf", "nan"} - set(namespace)):
        decorator = _Floats().visit(decorator)
        example = f"@{ast.unparse(decorator)}"
    arguments = [*decorator.args, *(each.value for each in decorator.keywords)]
    nodes = [node for each in arguments for node in ast.walk(each)]
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return example, sorted(n for n in used - bound if n not in namespace and not hasattr(builtins, n))
