"""The table of ops: what is known about a kind of computation, by name.

`ops` fills the table; `graph.builder` and `graph.autodiff` read it. An op is a constructor, a
spec rule, a gradient rule and, in `kernels`, one array function of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from inspect import unwrap
from typing import Any, TypeVar

from actorflow.errors import GraphError, SpecError
from actorflow.graph.node import Attr
from actorflow.values.spec import ListSpec, Spec

SpecRule = Callable[[Sequence[Spec], Mapping[str, Attr]], Sequence[Spec]]
"""(input specs, attributes) -> output specs; raises SpecError without a place."""

GradientRule = Callable[..., Sequence[Any]]
"""(use, gradient of each output or None) -> gradient of each input or None; see `autodiff.Use`."""


@dataclass(frozen=True, slots=True)
class Promoting:
    """The spec rule of an op whose inputs must have one dtype, from input `first` on.

    The builder converts inputs of other dtypes to the one that all mix to (see `dtypes`) before
    the rule is asked; those that do not mix it leaves, for the rule to refuse.
    """

    rule: SpecRule
    first: int = 0

    def __call__(self, inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        """What the rule says."""
        return self.rule(inputs, attrs)


Constructor = TypeVar("Constructor", bound=Callable[..., Any])


class Effect(Enum):
    """What a node touches beside its inputs; decides who runs it and in which order."""

    PURE = "pure"  # a kernel; same inputs, same outputs
    RANDOM = "random"  # a kernel that is handed a seed and a counter
    FEED = "feed"  # its value comes with the step
    ARGUMENT = "argument"  # its value is given by the node that runs the body in which it stands
    FUNCTION = "function"  # runs bodies; what these touch, its attributes say
    FLOW = "flow"  # made by plans only: leads values into branches and turns, and out of them
    CONSTANT = "constant"  # its value lies in the graph's table
    READ = "read"  # asks the actor of attrs["resource"]; ordered after writes before it
    WRITE = "write"  # tells it; ordered after reads and writes before it
    COMMIT = "commit"  # a training update of all attrs["resources"], in one commit group
    WAIT = "wait"  # asks it, and may wait there for long; not ordered with others
    ASK = "ask"  # runs code of the user; calls of attrs["actor"] with attrs["ordered"] in program order
    LOCK = "lock"  # locks it for an atomic block of attrs["resources"], waiting for others to unlock it
    UNLOCK = "unlock"  # ends that block: all that was written in it becomes visible


class _NotDifferentiable:
    """Marks an op through which no gradient flows, on purpose: the path just ends there."""

    def __repr__(self) -> str:
        return "NOT_DIFFERENTIABLE"


NOT_DIFFERENTIABLE = _NotDifferentiable()


@dataclass(frozen=True, slots=True)
class OpDef:
    """An entry of the table.

    Attributes:
        gradient: The rule, NOT_DIFFERENTIABLE, or None when nobody has written one yet (then a
            gradient through the op is an error that names the path).
        asked_with: Sets of attributes with which the rule may be asked for its dtypes (`accepts`).
        sparse: Whether the rule takes IndexedSlices for the gradient of an output; else it is handed
            the dense tensor. Every rule may give them.
        fills: Whether it puts into attrs["resource"] what others wait for there.
        takes_lists: Whether inputs and outputs may be lists of tensors.
    """

    name: str
    constructor: Callable[..., Any]
    spec: SpecRule
    gradient: GradientRule | _NotDifferentiable | None
    effect: Effect
    asked_with: tuple[Mapping[str, Attr], ...] = ()
    sparse: bool = False
    fills: bool = False
    takes_lists: bool = False


_TABLE: dict[str, OpDef] = {}
_FLOW: dict[str, OpDef] = {}  # what no user builds


def op(
    name: str,
    *,
    spec: SpecRule,
    gradient: GradientRule | _NotDifferentiable | None = None,
    effect: Effect = Effect.PURE,
    takes_bytes: bool = False,
    takes_lists: bool = False,
    asked_with: tuple[Mapping[str, Attr], ...] = (),
    sparse: bool = False,
    fills: bool = False,
) -> Callable[[Constructor], Constructor]:
    """Registers the decorated constructor as op `name`.

    With `takes_bytes` its spec rule is asked about bytes too, with `takes_lists` about lists of tensors.
    For all other ops they are refused before, as inputs and as results. `asked_with` is for an op whose
    attributes `accepts` cannot find by itself, or that takes other dtypes with others: some sets of them,
    all of the keys.

    Raises:
        GraphError: when another op has that name.
    """

    def register(constructor: Constructor) -> Constructor:
        # A program that is run and imported as well defines it twice, and so does a cell of a notebook: on
        # the same line of the same file it is the same.
        if name in _TABLE and not _is_same(_TABLE[name].constructor, constructor):
            message = f"op names are unique, {name!r} is taken by {_TABLE[name].constructor!r}"
            raise GraphError(message)
        rule = _guard(name, spec, takes_bytes=takes_bytes, takes_lists=takes_lists)
        _TABLE[name] = OpDef(
            name, constructor, rule, gradient, effect, asked_with, sparse, fills, takes_lists
        )
        return constructor

    return register


def _is_same(before: Callable[..., Any], now: Callable[..., Any]) -> bool:
    """Whether both were defined on the same line of the same file."""
    codes = [getattr(unwrap(made), "__code__", None) for made in (before, now)]
    places = {(code.co_filename, code.co_firstlineno) for code in codes if code is not None}
    return None not in codes and len(places) == 1


def flow_op(name: str, spec: SpecRule) -> None:
    """Gives nodes that only plans build an op: `lookup` knows it, the table of what users build does not."""
    _FLOW[name] = OpDef(name, flow_op, spec, NOT_DIFFERENTIABLE, Effect.FLOW, takes_lists=True)


def _guard(name: str, spec: SpecRule, *, takes_bytes: bool, takes_lists: bool) -> SpecRule:
    """The rule of an op behind a guard that refuses what it is not for: bytes, lists, or both."""
    if takes_bytes and takes_lists:
        return spec
    # Inside of `Promoting`, which has to stay outermost: the builder looks for it.
    asked = spec.rule if isinstance(spec, Promoting) else spec

    def check(specs: Sequence[Spec], does: str, bytes_hint: str, list_hint: str) -> None:
        for one in specs:
            if not takes_bytes and one.dtype.kind == "O":
                message = f"{name} {does} no bytes, got {one}"
                raise SpecError(message, hint=bytes_hint)
            if not takes_lists and isinstance(one, ListSpec):
                message = f"{name} {does} no lists, got a {one}"
                raise SpecError(message, hint=list_hint)

    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        check(inputs, "takes", "af.strings.to_number and af.io.decode_raw make numbers of bytes", _OF_A_LIST)
        outputs = asked(inputs, attrs)
        check(
            outputs,
            "makes",
            "af.strings.as_bytes makes bytes of numbers",
            "register it with takes_lists=True",
        )
        return outputs

    return Promoting(rule, spec.first) if isinstance(spec, Promoting) else rule


_OF_A_LIST = "a list gives tensors: af.TensorArray reads one, or stacks them all"


def lookup(name: str) -> OpDef:
    """Returns the entry of op `name`; raises GraphError listing near names when there is none."""
    found = _TABLE.get(name) or _FLOW.get(name)
    if found is None:
        near = sorted(n for n in _TABLE if n[:3] == name[:3]) or sorted(_TABLE)
        message = f"there is no op {name!r}; near it are {', '.join(near[:12])}"
        raise GraphError(message)
    return found


def table() -> Mapping[str, OpDef]:
    """Returns every op that users build by name; do not change it."""
    return _TABLE
