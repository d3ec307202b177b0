"""`actorflow ops`: lists the ops, explains one, or prints the table that docs/ops.md holds."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator
from difflib import get_close_matches
from textwrap import fill
from typing import TYPE_CHECKING, Any

from actorflow.cli import names
from actorflow.cli.display import optable
from actorflow.cli.display.text_table import columns
from actorflow.errors import ProgramError
from actorflow.graph import opdef
from actorflow.graph.opdef import OpDef

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_WIDTH = 105

NEVER_ON_A_CARD = (
    "adaptive_pool", "attention", "average_pool", "conv", "ctc", "indexed_slices", "losses", "max_pool",
    "normalise", "random_choices", "resize", "tensor_list", "tensor_list_rows",
)  # fmt: skip
"""Chapters of the page whose kernels no card has run yet: what came after the last run of `tests/gpu`."""

_CARD = """\
`sh tests/gpu/run.sh` compares every op and dtype with numpy on a card. The last card that it ran on (an \
H100 with CuPy 14.2) has seen all but the newest: those of the chapters {newest}, the truncated normal and \
the exponential of random, and `cast` as it is now. These have run against a stand-in for CuPy and, but for \
lists, against `array_api_strict` only."""

_INTRODUCTION = """\
# The ops

<!-- Written by `make docs` from the tables of ops and kernels. Changes go there. -->

What runs on a GPU today: every op whose devices say CuPy. Its kernel is the array function that numpy
runs, called with CuPy, one launch or a few for each op. Random numbers are drawn on the host and copied,
so that both draw the same. What says "host" lives beside the actors, in the host's memory: variables,
queues, feeds, constants; copy nodes stand between them and a card. What says "numpy" alone is refused
on a card when the plan is made. Convolutions by cuDNN and steps as CUDA graphs come later: until
then a card runs the general kernels.

{card}

**dtypes** are those that the inputs may have, as the op's own rule answers; inputs named together must
share one. [dtypes.md](dtypes.md) has the groups and what is converted by itself. **gradient** is yes, none
(no gradient flows through it, by its nature) or missing (nobody has written it yet: a gradient through it
is an error). **effect** says what it touches beside its inputs; `pure` is nothing. A call without `af.` is
built by other verbs or by gradients. Every verb takes `name=` as well.
"""


def add_to(commands: Commands) -> None:
    """Adds the command and its arguments."""
    parser = commands.add_parser(
        "ops",
        help="list the ops, or explain one",
        description="Lists every op with the first line of its docstring; with NAME, explains that one.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="an op, or anything of af, as nn.Dense")
    parser.add_argument("--table", action="store_true", help="print the facts of every op as a table")
    parser.add_argument("--markdown", action="store_true", help="print the table as docs/ops.md holds it")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Prints what is asked for; returns 0.

    Raises:
        ProgramError: when there is no op or API function of that name; lists near ones.
    """
    if args.name is not None:
        lines = explain(args.name)
    elif args.markdown:
        lines = markdown()
    else:
        lines = table() if args.table else list_ops()
    print("\n".join(lines))
    return 0


def list_ops() -> Iterator[str]:
    """Yields a line for each op: its name and what it gives."""
    yield from columns([(row.op, row.summary) for row in optable.rows()])
    yield ""
    yield "verbs made of other ops:"
    yield ""
    yield from columns([(name, optable.summary(verb)) for name, verb in optable.find_composed().items()])


def table() -> Iterator[str]:
    """Yields the facts of every op in columns, and a line of totals."""
    found = optable.rows()
    yield from columns([optable.HEADINGS, *(row.cells for row in found)])
    yield ""
    yield f"{len(found)} ops in {len({row.group for row in found})} groups"


def explain(name: str) -> Iterator[str]:
    """Yields the docstring of an op, or of anything else that users call, and the facts of an op."""
    plain = names.plain(name)
    definition = opdef.table().get(plain) or _op_of(plain)
    if definition is None:
        yield from _explain_other(plain)
        return
    row = optable.row(definition)
    yield row.call
    yield ""
    yield inspect.getdoc(optable.api_function(definition)) or ""
    yield ""
    facts = zip(optable.HEADINGS[2:], row.cells[2:], strict=True)
    yield from columns([*facts, ("module", definition.constructor.__module__)])


def _op_of(name: str) -> OpDef | None:
    """The op that users write so: `random.normal` is `random_normal`; None where it is another thing."""
    found = names.lookup(name)
    if found is None:
        return None
    return next((d for d in opdef.table().values() if optable.api_function(d) is found[1]), None)


def _explain_other(name: str) -> Iterator[str]:
    """The text for what is no op; raises ProgramError when nothing has that name."""
    found = names.lookup(name)
    if found is None:
        raise _unknown(name)
    whole, value = found
    yield optable.call(value) if whole in optable.find_composed() else f"af.{whole}{_arguments(value)}"
    yield ""
    yield inspect.getdoc(value) or ""
    if whole in optable.find_composed():
        yield ""
        yield "made of other ops"


def _arguments(value: Any) -> str:
    """The arguments of a function or class, `name=` and annotations left out."""
    try:
        return optable.arguments(value)
    except ValueError:  # a class of Python's own that does not say
        return "(...)"


def _unknown(name: str) -> ProgramError:
    message = f"there is no op {name!r}"
    if name in names.ELSEWHERE:
        here = names.ELSEWHERE[name]
        return ProgramError(f"{message}; here it is af.{here}", hint=f"`actorflow ops {here}` explains it")
    known = {*opdef.table(), *names.find_documented()}
    near = get_close_matches(name, known, n=6, cutoff=0.6)
    if near:
        message += f"; near it are {', '.join(near)}"
    return ProgramError(message, hint="`actorflow ops` lists them")


def markdown() -> Iterator[str]:
    """Yields the page docs/ops.md, line by line."""
    newest = ", ".join(NEVER_ON_A_CARD[:-1]) + f" and {NEVER_ON_A_CARD[-1]}"
    card = fill(_CARD.format(newest=newest), _WIDTH, break_on_hyphens=False)
    yield from _INTRODUCTION.format(card=card).splitlines()
    found = list(optable.groups())
    yield ""
    yield f"{sum(len(rows) for _, _, rows in found)} ops:"
    for group, told, rows in found:
        yield ""
        yield f"## {group}"
        yield ""
        yield told
        yield ""
        yield f"| {' | '.join(optable.HEADINGS)} | gives |"
        yield "|" + "---|" * (len(optable.HEADINGS) + 1)
        for row in rows:
            op, call, *rest = row.cells
            yield f"| {op} | {_code(call)} | {' | '.join(rest)} | {_escape(row.summary)} |"
    yield ""
    yield "## Verbs made of other ops"
    yield ""
    yield "They have no kernel of their own: dtypes, gradient and devices are those of what they build."
    yield ""
    yield "| call | gives |"
    yield "|---|---|"
    for function in optable.find_composed().values():
        yield f"| {_code(optable.call(function))} | {_escape(optable.summary(function))} |"


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{_escape(text)}`"
