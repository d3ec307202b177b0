"""An optimizer as a pair of pure functions over arrays, and the table that names it.

    state = transform.init(params)
    deltas, state = transform.update(grads, state, params)
    params = {name: params[name] + deltas[name] for name in params}

`params`, `grads` and `deltas` are dicts from name to array; the state is a tree of dicts and
tuples with arrays at its leaves. Knows no graph: who owns the arrays, and when deltas are applied,
is others' business.

A gradient may be sparse: `SparseRows`, which has the rows of the parameter that it touches (int64
indices, distinct and ascending) and their values. A transform that says `sparse=True` is handed
it as it is. Then for each name whose gradient is SparseRows, and for no other:

    deltas[name]   is SparseRows with the same indices (or an array, if every row is to change)
    a leaf of the state that has the parameter's rows
                   comes back as SparseRows too, with its new rows; the others keep what they were. An array
                   replaces the leaf as a whole, and the array that was there leaves it as it is.

So a sparse update costs what its rows cost, and touches no other row of parameters and state, bit
for bit ("lazy"): a mean that a dense update would have let decay stands still meanwhile. Any other
transform is handed `dense(grad)`, which is always right and costs as much as the table.

A rule whose arithmetic goes row by row is written once for both, with `values.sparse`:

    for name, grad in grads.items():
        g = values_of(grad)                       # the rows' values, or the dense gradient itself
        m = beta * rows_of(state[name], grad) + g     # a copy of the same rows, or the whole array itself
        new_state[name] = as_rows(m, grad)        # SparseRows again, or the array
        deltas[name] = as_rows(-lr * m, grad)

`rows_of` gives a copy for SparseRows and the array itself otherwise: so do not write into what it gives. A
leaf with a number for each row, say, is `SparseRows(grad.indices, numbers, (grad.shape[0],))`. A state has
SparseRows only in what `update` returns; what it is given has whole arrays.

Laws (tests/optim/test_laws.py): no input is changed; a delta has the shape and dtype of its
parameter, and every leaf of the state keeps its own; equal inputs give equal bits. Of rows: where
all rows are touched the update is that of the dense gradient, and other rows stay as they were.

Source: the (init, update) pairs of optax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from inspect import signature
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from actorflow.errors import ConfigError
from actorflow.runtime.name_hints import RULES, check_keywords, missing_method
from actorflow.values.arrays import Array
from actorflow.values.checks import check

Arrays = Mapping[str, Array]
"""Arrays by the name of their variable; gradients and deltas may be SparseRows."""

State = Any
"""A tree: a dict by strings, a tuple, an array, or (from `update`) SparseRows for an array."""

Config = Mapping[str, Any]
"""Plain data: None, bool, int, float, str, and tuples and dicts of those."""

Init = Callable[[Arrays], State]
Update = Callable[[Arrays, State, Arrays], tuple[dict[str, Array], State]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """A rule that turns gradients into deltas: what to add to the parameters.

    Attributes:
        name: What `from_config` calls it, so that other processes can make the same one.
        config: Its settings, plain data. Two transforms are equal when name and config are.
        init: params -> state before the first update.
        update: (grads, state, params) -> (deltas, state after). Changes none of its inputs. The
            names in `grads` are those of the params that were given to `init`.
        sparse: Whether `update` takes SparseRows among the gradients, as the module says. Left out, it is
            handed dense gradients only.
        filter: Whether what `update` gives are gradients still, as from a limit on them, and no
            deltas: added to the parameters they would climb. `minimize` wants a rule behind it.
        joint: The name of the rule in it that looks at all parameters at once, such as a norm over all
            of them; empty when what becomes of a parameter depends on that one alone. A joint rule
            cannot be run over several shards, each of which has some of the parameters.

    Raises:
        ConfigError: when name, config, init or update is of another kind.
    """

    name: str = "custom"
    config: Config = field(default_factory=lambda: MappingProxyType({}))
    sparse: bool = field(default=False, compare=False, repr=False)
    filter: bool = field(default=False, compare=False, repr=False)
    joint: str = field(default="", compare=False, repr=False)
    init: Init = field(compare=False, repr=False)
    update: Update = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        check("name", self.name, isinstance(self.name, str), "a string")
        config: Any = self.config
        check("config", config, isinstance(config, Mapping), "a dict of plain data")
        check("joint", self.joint, isinstance(self.joint, str), "the name of a rule, or empty")
        check("init", self.init, callable(self.init), "a function of params")
        check("update", self.update, callable(self.update), "a function of grads, state and params")

    if not TYPE_CHECKING:  # type checkers would take any name for one that there is

        def __getattr__(self, name: str) -> Any:
            raise missing_method(self, name, RULES)

    def __hash__(self) -> int:
        # Configs are dicts, which have no hash; equal transforms have equal names.
        return hash(self.name)

    @property
    def takes_dense(self) -> str:
        """The name of the rule in it that takes dense gradients only; empty where all take rows."""
        if self.sparse:
            return ""
        # Looked for in the config: the parts themselves are within its functions.
        parts = (part.takes_dense for part in _parts_in(self.config))
        return next(filter(None, parts), self.name)


def _parts_in(config: Any) -> Iterator[Transform]:
    """The rules that a config describes, but for those that nobody registered."""
    if isinstance(config, Mapping) and set(config) >= {"name", "config"}:
        # A rule that nobody has registered cannot be made again, and is passed over.
        if config["name"] in _RULES:
            yield made(config)
    elif isinstance(config, Mapping | tuple):
        for part in config.values() if isinstance(config, Mapping) else config:
            yield from _parts_in(part)


Rule = TypeVar("Rule", bound=Callable[..., Transform])
Made = TypeVar("Made")

_RULES: dict[str, Callable[..., Transform]] = {}


def rule(name: str) -> Callable[[Rule], Rule]:
    """Registers a function that makes transforms, so that `from_config` finds it under `name`.

    The function takes the entries of a transform's config as keyword arguments.

    Raises:
        ConfigError: when another function has that name.
    """

    def register(make: Rule) -> Rule:
        if name in _RULES:
            message = f"names of optimizers are unique, {name!r} is taken by {_RULES[name]!r}"
            raise ConfigError(message)
        _RULES[name] = make
        return check_keywords(f"af.optim.{name}")(make)  # type: ignore[return-value]

    return register


def table() -> Mapping[str, Callable[..., Transform]]:
    """Returns what makes the transforms that are registered, by name."""
    return _RULES


def from_config(name: str, config: Config) -> Transform:
    """Returns the transform that has this name and config.

    Raises:
        ConfigError: when no rule has that name (lists those there are), or refuses the config.
    """
    given: Any = name
    make = _RULES.get(given) if isinstance(given, str) else None
    if make is None:
        message = f"there is no optimizer {name!r}; there are {', '.join(sorted(_RULES))}"
        raise ConfigError(message, hint="register its function with @optim.rule, and import its module")
    return call_with_config(make, f"optimizer {name!r}", config)


def call_with_config(make: Callable[..., Made], what: str, config: Any) -> Made:
    """Returns what `make` makes of a config; raises ConfigError when it does not take those settings."""
    check(f"the config of {what}", config, isinstance(config, Mapping), "a dict of its settings")
    # Bound before it is called: a TypeError from within would look like a wrong setting.
    try:
        bound = signature(make).bind(**config)
    except TypeError as error:
        message = f"{what} cannot be made from {dict(config)}: {error}"
        raise ConfigError(message) from error
    return make(*bound.args, **bound.kwargs)


def described(transform: Transform) -> dict[str, Any]:
    """Returns the plain data that `made` takes."""
    return {"name": transform.name, "config": transform.config}


def made(data: Any) -> Transform:
    """Returns the transform that `described` described; raises ConfigError for anything else."""
    fits = isinstance(data, Mapping) and set(data) >= {"name", "config"}
    check("a transform as plain data", data, fits, "a dict of 'name' and 'config'")
    return from_config(data["name"], data["config"])


def joint_of(parts: Iterable[Transform]) -> str:
    """Returns the name of the first rule in the parts that looks at all parameters at once; empty if none."""
    return next((part.joint for part in parts if part.joint), "")


def check_transform(name: str, value: Any) -> None:
    """Raises ConfigError unless the value is a Transform."""
    # The rule itself where a call of it was meant.
    uncalled = callable(value) and hasattr(value, "__name__")
    hint = f"call it: {value.__name__}(...)" if uncalled else "for example sgd(0.1)"
    check(name, value, isinstance(value, Transform), "a Transform", hint)
