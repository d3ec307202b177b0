"""What is known of every op, as rows: read off the tables of ops and kernels, never written by hand."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import actorflow.kernels  # noqa: F401  fills the table of kernels
from actorflow import ops, public
from actorflow.graph import opdef
from actorflow.graph.accepts import Accepted, find_accepted
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Effect, OpDef
from actorflow.kernels.definition import registry
from actorflow.values.arrays import BYTES, NAMES, as_dtype, is_floating, name_of

ON_HOST = "host"
HEADINGS = ("op", "call", "dtypes", "gradient", "devices", "effect")


@dataclass(frozen=True, slots=True)
class Row:
    """An op and what a reader of the table wants to know of it.

    Attributes:
        group: The module of its constructor, in one word.
        call: How it is called; with `af.` in front when it is one of the API functions.
        summary: The first line of the docstring.
    """

    op: str
    group: str
    call: str
    dtypes: str
    gradient: str
    devices: str
    effect: str
    summary: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells below HEADINGS."""
        return self.op, self.call, self.dtypes, self.gradient, self.devices, self.effect


def rows() -> list[Row]:
    """Returns a row for each op that actorflow brings, by group and name."""
    ours = (d for d in opdef.table().values() if d.constructor.__module__.startswith("actorflow."))
    return sorted(map(row, ours), key=lambda r: (r.group, r.op))


def row(definition: OpDef) -> Row:
    """Returns the row of one op."""
    takes = find_accepted(definition)
    return Row(
        op=definition.name,
        group=definition.constructor.__module__.rpartition(".")[2],
        call=call(api_function(definition)),
        dtypes=_dtypes(definition, takes),
        gradient=_gradient(definition),
        devices=_devices(definition, takes),
        effect=definition.effect.value,
        summary=summary(api_function(definition)),
    )


def api_function(definition: OpDef) -> Callable[..., Any]:
    """Returns the API function of the op's name, which may do more than the constructor; else that."""
    users = getattr(ops, definition.name, None) if definition.name in ops.__all__ else None
    return definition.constructor if users is None else users


def groups() -> Iterator[tuple[str, str, list[Row]]]:
    """Yields each group with the first line of its module and its rows."""
    found: dict[str, list[Row]] = {}
    for one in rows():
        found.setdefault(one.group, []).append(one)
    for group, members in found.items():
        yield group, summary(inspect.getmodule(opdef.lookup(members[0].op).constructor)), members


def find_composed() -> dict[str, Callable[..., Any]]:
    """Returns the API functions that are no ops themselves but put some together."""
    told = {id(api_function(d)) for d in opdef.table().values()}
    verbs = {id(getattr(ops, name)) for name in ops.__all__}
    return {
        name: value
        for name, value in sorted(public.everything())
        if inspect.isfunction(value)
        and id(value) not in told
        and (id(value) in verbs or value.__name__ in _BUILDING)
    }


_BUILDING = ("hessian_vector_product", "jvp", "minimize")  # not in `ops`


def summary(of: Any) -> str:
    """Returns the first paragraph of a docstring as one line."""
    return " ".join((inspect.getdoc(of) or "").partition("\n\n")[0].split())


def call(constructor: Callable[..., Any]) -> str:
    """Returns how a constructor is called, for example `af.sum(x, axis=None, keepdims=False)`."""
    users = _written().get(id(constructor))
    return f"{constructor.__qualname__ if users is None else f'af.{users}'}{arguments(constructor)}"


@cache
def _written() -> dict[int, str]:
    """What users write behind `af.` for a function or class, by its identity."""
    return {id(value): name for name, value in public.everything()}


def arguments(constructor: Callable[..., Any]) -> str:
    """Returns the arguments in parentheses, without annotations and `name`."""
    parts: list[str] = []
    starred = False
    for p in inspect.signature(constructor).parameters.values():
        if p.name in ("self", "name"):  # every API function takes a name
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        prefix = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        default = "" if p.default is p.empty else f"={p.default!r}"
        parts.append(f"{prefix}{p.name}{default}")
    return f"({', '.join(parts)})"


# ---------------------------------------------------------------------------------- dtypes

_GROUPS: dict[str, frozenset[str]] = {
    "bool": frozenset({"bool"}),
    "integers": frozenset(n for n in NAMES if as_dtype(n).kind in "iu"),
    "floating": frozenset(n for n in NAMES if is_floating(as_dtype(n))),
    "complex": frozenset(n for n in NAMES if as_dtype(n).kind == "c"),
}
_WORDS = {
    ("integers", "floating", "complex"): "numbers",
    ("bool", "integers", "floating", "complex"): "numbers, bool",
}


def words(names: Sequence[str]) -> str:
    """Returns dtypes in few words: whole groups by their name, the rest one by one."""
    if set(names) == {*NAMES, name_of(BYTES)}:
        return "any"
    whole = tuple(group for group, members in _GROUPS.items() if members <= set(names))
    held = frozenset().union(*(_GROUPS[group] for group in whole))
    first = _WORDS.get(whole, ", ".join(whole))
    return ", ".join(part for part in (first, *(n for n in names if n not in held)) if part) or "none"


def _dtypes(definition: OpDef, takes: Accepted | None) -> str:
    if takes is None:
        return "unknown"
    if not takes.inputs:
        return f"makes {words(takes.outputs)}" if takes.outputs else "-"
    leaders = dict.fromkeys(takes.alike)
    if len(leaders) == 1:
        return words(takes.inputs[0])
    names = _input_names(definition, len(takes.inputs))
    parts = []
    for leader in leaders:
        members = [name for name, alike in zip(names, takes.alike, strict=True) if alike == leader]
        parts.append(f"{', '.join(members)}: {words(takes.inputs[leader])}")
    return "; ".join(parts)


def _input_names(definition: OpDef, count: int) -> list[str]:
    """What the constructor calls its tensors; numbers where it takes them in another way."""
    parameters = inspect.signature(definition.constructor).parameters.values()
    named = [p.name for p in parameters if "Any" in str(p.annotation) and p.name != "dtype"]
    return named if len(named) == count else [f"input {i}" for i in range(count)]


# -------------------------------------------------------------------------- the other facts


def _gradient(definition: OpDef) -> str:
    if definition.gradient is NOT_DIFFERENTIABLE:
        return "none"
    return "missing" if definition.gradient is None else "yes"


def _devices(definition: OpDef, takes: Accepted | None) -> str:
    if definition.effect not in (Effect.PURE, Effect.RANDOM):
        return ON_HOST
    libraries = {library for op, library in registry.table() if op == definition.name}
    if not libraries:
        return "missing"
    if not libraries & {registry.EVERY, "cupy"}:
        names = () if takes is None else (*takes.outputs, *(n for one in takes.inputs for n in one))
        return "no card: bytes" if name_of(BYTES) in names else "numpy"
    if definition.effect is Effect.RANDOM:
        return "numpy; CuPy: drawn on the host, copied"
    return "numpy, CuPy"
