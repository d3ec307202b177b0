"""Different rules for different parameters, chosen by the names of the variables.

Names are matched with patterns of the shell, `*`, `?` and `[...]`, which also match `/`, and are case
sensitive: plain data, so that another process makes the same choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from actorflow.errors import ConfigError
from actorflow.optim.transform import (
    Arrays,
    Config,
    State,
    Transform,
    check_transform,
    described,
    joint_of,
    made,
    rule,
)
from actorflow.values.arrays import Array
from actorflow.values.checks import check, sequence
from actorflow.values.sparse import Touched, as_rows, values_of

Patterns = str | Sequence[str]
"""A pattern, or several of which one has to match."""


def masked(inner: Transform, only: Patterns = "*", unless: Patterns = ()) -> Transform:
    """Runs `inner` on the parameters that match `only` and not `unless`.

    What becomes of the others is for `inner` to say. One that passes gradients, such as a limit or a
    decay, leaves theirs as they are: `chain(masked(l2(1e-4), unless="*bias"), sgd(0.1))`. A
    rule is all that moves parameters, so the others stay where they are, and their deltas are zeros:
    `masked(adam(), only="head/*")` trains the head alone. `partition` gives them a rule of their own.

    State: that of `inner`, over the parameters chosen. Takes sparse gradients when `inner` does.
    Raises: ConfigError unless inner is a Transform, and for patterns that are no strings.
    Deviation: the masked of optax passes the others' gradients whatever it runs, and they are
        added to the parameters.
    """
    check_transform("inner", inner)
    chosen, spared = _patterns("only", only), _patterns("unless", unless)

    def mine(arrays: Arrays) -> dict[str, Array]:
        # Both by name, and of gradients, state and parameters alike.
        return {k: a for k, a in arrays.items() if _matches(k, chosen) and not _matches(k, spared)}

    def init(params: Arrays) -> State:
        return inner.init(mine(params))

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        deltas, after = inner.update(mine(grads), state, mine(params))
        # A filter passes what is not its own; a rule moves nothing else.
        others = {k: g if inner.filter else _zeros(g) for k, g in grads.items() if k not in deltas}
        # In the order of the gradients.
        return {name: deltas[name] if name in deltas else others[name] for name in grads}, after

    config = {"inner": described(inner), "only": chosen, "unless": spared}
    return Transform(
        name="masked", config=config, init=init, update=update, sparse=inner.sparse, filter=inner.filter,
        joint=inner.joint,
    )  # fmt: skip


@rule("masked")
def _mask_from_config(inner: Config, only: Patterns, unless: Patterns) -> Transform:
    return masked(made(inner), only, unless)


def partition(rules: Mapping[str, Transform]) -> Transform:
    """Gives each parameter the first rule whose pattern matches its name.

        partition({"embedding*": sgd(0.5), "encoder/*": freeze(), "*": adam()})

    State: a tuple, the state of each rule over its parameters. Takes sparse gradients when all rules do.
    Raises: ConfigError without a rule, and for what is none; at the first update, for a name that no
        pattern matches.
    """
    given: Any = rules
    fits = isinstance(given, Mapping) and len(given) > 0
    check("rules", rules, fits, "a dict of at least one pattern with its rule")
    for pattern, part in rules.items():
        check_transform(f"the rule of pattern {pattern!r}", part)
    patterns = _patterns("a pattern of partition", tuple(rules))
    parts = tuple(rules.values())

    def split(arrays: Arrays) -> list[dict[str, Array]]:
        shares: list[dict[str, Array]] = [{} for _ in parts]
        for name, array in arrays.items():
            # The first that matches: specific patterns stand before general ones.
            first = next((i for i, p in enumerate(patterns) if fnmatchcase(name, p)), None)
            if first is None:
                message = f"no pattern of partition matches {name!r}; they are {', '.join(patterns)}"
                raise ConfigError(
                    message, hint="end with '*': the rule of all others, freeze() to leave them"
                )
            shares[first][name] = array
        return shares

    def init(params: Arrays) -> State:
        # A rule is given its own parameters and never sees others.
        return tuple(part.init(share) for part, share in zip(parts, split(params), strict=True))

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        deltas: dict[str, Array] = {}
        after = []
        for part, g, before, p in zip(parts, split(grads), state, split(params), strict=True):
            moved, new = part.update(g, before, p)
            deltas.update(moved)
            after.append(new)
        # In the order of the gradients, whoever moved them.
        return {name: deltas[name] for name in grads}, tuple(after)

    config = {"rules": tuple({"pattern": p, **described(t)} for p, t in rules.items())}
    # One that passes gradients would climb, whatever the other rules do.
    sparse, passes = all(part.sparse for part in parts), any(part.filter for part in parts)
    return Transform(
        name="partition", config=config, init=init, update=update, sparse=sparse, filter=passes,
        joint=joint_of(parts),
    )  # fmt: skip


@rule("partition")
def _partition_from_config(rules: Any) -> Transform:
    parts = sequence("rules", rules)
    # From another process: plain data, of which anything may be wrong.
    fit = all(isinstance(r, Mapping) and isinstance(r.get("pattern"), str) for r in parts)
    check("rules", rules, fit, "dicts of 'pattern', 'name' and 'config'")
    return partition({r["pattern"]: made(r) for r in parts})


@rule("freeze")
def freeze() -> Transform:
    """Leaves parameters where they are: every delta is zeros, whatever the gradient.

    State: none, an empty tuple.
    """

    def update(grads: Arrays, state: State, params: Arrays) -> tuple[dict[str, Array], State]:
        return {name: _zeros(g) for name, g in grads.items()}, state

    # Sparse as it comes: zeros of a whole table would cost as much as that.
    return Transform(name="freeze", config={}, init=lambda params: (), update=update, sparse=True)


def _zeros(grad: Touched) -> Touched:
    """Deltas of zeros, of the rows of a gradient."""
    return as_rows(np.zeros_like(values_of(grad)), grad)


def _patterns(what: str, patterns: Any) -> tuple[str, ...]:
    listed = isinstance(patterns, str | Sequence) and not isinstance(patterns, bytes)
    check(what, patterns, listed, "a pattern of names, or several")
    found = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    check(what, patterns, all(isinstance(p, str) for p in found), "a pattern of names, or several")
    return found


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, p) for p in patterns)
