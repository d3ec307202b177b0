"""The passes that make a program cheaper, by name; each is pure and can be left out.

    simplify    arithmetic without effect, and what the shapes tell already
    fold        what depends on constants alone
    cse         what is computed twice
    sweep       what nobody asks for any more

Laws (tests/plan/passes/test_pass_table.py): with any choice of passes, and in any order, a program gives the
same bits, fails where it failed, and asks the same of the same actors. Pruning is none of them:
what the fetches do not depend on is not run, which is part of what a step means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from actorflow.errors import ConfigError
from actorflow.plan.passes.common_subexpressions import cse
from actorflow.plan.passes.constant_folding import fold_constants
from actorflow.plan.passes.dead_code import eliminate_dead_code
from actorflow.plan.passes.simplify import simplify
from actorflow.plan.program import Program

Pass = Callable[[Program], Program]

PASSES: Mapping[str, Pass] = MappingProxyType(
    {"simplify": simplify, "fold": fold_constants, "cse": cse, "sweep": eliminate_dead_code}
)

ALL: tuple[str, ...] = tuple(PASSES)
"""Every pass, in the order in which they help each other most."""

_MOST_ROUNDS = 4  # one pass can make work for another


def check_passes(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the names of passes as a tuple; raises ConfigError naming the one that does not exist."""
    found = (names,) if isinstance(names, str) else tuple(names)
    for name in found:
        if name not in PASSES:
            message = f"there is no pass {name!r}; there are {', '.join(PASSES)}"
            raise ConfigError(message, hint="passes=() runs the graph as it is")
    return found


def apply_passes(program: Program, names: Iterable[str]) -> Program:
    """Returns the program after the passes of these names, until they change nothing more."""
    passes = [PASSES[name] for name in names]
    for _ in range(_MOST_ROUNDS):
        before = program
        for run in passes:
            program = run(program)
        # INVARIANT: a pass that finds nothing returns the very object.
        if program is before:
            break
    return program
