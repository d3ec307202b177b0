"""Which dtypes an op takes: found by asking its spec rule, so that nobody writes them down twice.

A rule is asked with inputs of unknown rank, since it then looks at little but dtypes. What cannot be found so
is said to be unknown, never guessed; the conformance suite of the ops asks every rule again, with arrays, and
compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from inspect import Parameter, signature
from itertools import islice, product
from typing import Any

from actorflow.errors import ActorflowError
from actorflow.graph.node import Attr
from actorflow.graph.opdef import Effect, OpDef, SpecRule
from actorflow.values.arrays import NAMES, DType, as_dtype, name_of
from actorflow.values.spec import ListSpec, Spec

_NAMES = (*NAMES, "bytes")
_DTYPES: tuple[DType, ...] = tuple(map(as_dtype, _NAMES))
_KINDS = tuple(map(as_dtype, ("float32", "int32", "bool", "complex64", "bytes")))
_TRIED: tuple[Attr, ...] = (
    1,
    0,
    (1, 1),
    ((1, 1), (1, 1)),
    "float32",
    "",
    (),
    (1,),
    (0, 1),
    1.0,
    True,
    None,
    ("float32",),
    ((),),
)
_MOST_TRIED = 4_000  # sets of attributes
_MOST_INPUTS = 6


@dataclass(frozen=True, slots=True)
class Accepted:
    """The dtypes that an op has to do with.

    Attributes:
        inputs: For each input, the names of the dtypes it may have, of a list those of its elements. What
            takes any number of inputs was asked with one or two, which stand for all.
        alike: For each input, the first input whose dtype it must share; itself when it is free.
        outputs: The names of the dtypes that come out, of all outputs together.
    """

    inputs: tuple[tuple[str, ...], ...]
    alike: tuple[int, ...]
    outputs: tuple[str, ...]


def find_accepted(definition: OpDef) -> Accepted | None:
    """Returns what the spec rule of an op accepts; None when no attributes were found that please it."""
    parameters = list(signature(definition.constructor).parameters.values())
    tensors = {p.name for p in parameters if p.annotation == "Any" and p.name != "dtype"}
    expected = len(tensors)
    if definition.effect in (Effect.FEED, Effect.ARGUMENT, Effect.CONSTANT, Effect.RANDOM):
        expected = 0  # the value comes from elsewhere, if the rule is content without inputs
    # The number of inputs that the constructor lets expect first, and none at last: a rule may be content
    # without any.
    counts = sorted(range(_MOST_INPUTS + 1), key=lambda n: (n != expected, n == 0, n))
    for count in counts:
        for lists in _lists(definition, count):
            rule = _of_lists(definition.spec, lists)
            for base in _bases(count):
                if definition.asked_with:
                    worlds = [w for w in definition.asked_with if _gives(_ask_rule(rule, base, w))]
                else:
                    found = _pleasing(rule, parameters, base)
                    worlds = [] if found is None else [found]
                if worlds:
                    others = (
                        tensors - worlds[0].keys()
                    )  # a number is an attribute, a tensor would be an input
                    # An input too many would be ignored by the rule: only so many count as there are tensors
                    # to give.
                    kept = count if others == tensors else min(count, len(others))
                    every = definition.asked_with or tuple(worlds)
                    return _explore(rule, every, base[:kept])
    return None


def _lists(definition: OpDef, count: int) -> Iterable[tuple[bool, ...]]:
    """Which of the inputs may be lists, of an op that takes some: all that it may be; else none is."""
    return product((True, False), repeat=count) if definition.takes_lists else [(False,) * count]


def _of_lists(rule: SpecRule, lists: Sequence[bool]) -> SpecRule:
    """The rule, asked about lists of what it is asked with, where `lists` says so."""
    if not any(lists):
        return rule

    def asked(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        return rule([ListSpec(s) if is_list else s for s, is_list in zip(inputs, lists, strict=False)], attrs)

    return asked


def _bases(count: int) -> Iterator[tuple[DType, ...]]:
    """Dtypes to begin with: all alike, then mixed; of many inputs only floats and integers."""
    yield from ((dtype,) * count for dtype in _KINDS)
    # Mixed ones where they must differ, as indices do.
    if count > 1:
        yield from product(_KINDS if count < 4 else _KINDS[:2], repeat=count)


def _ask_rule(
    rule: SpecRule, dtypes: Sequence[DType], attrs: Mapping[str, Attr]
) -> Sequence[Spec] | str | None:
    """The specs that the rule gives, the attribute that it misses, or None: wrong ones make it stumble."""
    try:
        # Of unknown rank a rule looks at little but dtypes.
        return tuple(rule([Spec(None, dtype) for dtype in dtypes], attrs))
    # The attribute that it looked for and did not find: the next one to try values for.
    except KeyError as error:
        return str(error.args[0]) if error.args and isinstance(error.args[0], str) else None
    # Wrong attributes and dtypes make it stumble in its own way.
    except (
        ActorflowError,
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ):
        return None


def _pleasing(
    rule: SpecRule, parameters: Sequence[Parameter], base: Sequence[DType]
) -> Mapping[str, Attr] | None:
    """Attributes with which the rule takes `base`, None when none of those tried will do."""
    # Attributes come from the defaults of the constructor; where there is none, values are tried.
    defaults = {p.name: p.default for p in parameters if p.default is not Parameter.empty}
    tried: dict[str, tuple[Any, ...]] = {}
    while True:
        for values in islice(product(*tried.values()), _MOST_TRIED):
            attrs = dict(zip(tried, values, strict=True))
            answer = _ask_rule(rule, base, attrs)
            # One more attribute is needed: all values of those known are tried with each of its own.
            if isinstance(answer, str) and answer not in tried:
                first = (defaults[answer],) if answer in defaults else ()
                tried[answer] = (*first, *_TRIED)
                break
            if answer is not None and not isinstance(answer, str):
                return attrs
        else:
            return None


def _explore(rule: SpecRule, attrs: Sequence[Mapping[str, Attr]], base: Sequence[DType]) -> Accepted:
    """What the rule accepts around `base`, for every dtype that an attribute may name."""
    count = len(base)
    found: set[tuple[DType, ...]] = set()
    made: set[DType] = set()
    # An attribute may name a dtype that comes out, or that is taken.
    for world in (w for one in attrs for w in _of_every_dtype(one)):
        for dtypes in _around(base):
            answer = _ask_rule(rule, dtypes, world)
            if answer is not None and not isinstance(answer, str):
                found.add(dtypes)
                made.update(spec.dtype for spec in answer)
    inputs = tuple(_input_names({f[i] for f in found}) for i in range(count))
    # Two inputs must share a dtype if none of the answers was ever good where they differed.
    alike = tuple(
        next(
            j for j in range(count) if j == i or (inputs[i] == inputs[j] and all(f[i] == f[j] for f in found))
        )
        for i in range(count)
    )
    return Accepted(inputs, alike, _input_names(made))


def _of_every_dtype(attrs: Mapping[str, Attr]) -> Iterator[Mapping[str, Attr]]:
    """The attributes with every dtype in place of one that they name."""
    keys = [key for key, value in attrs.items() if value in _NAMES]
    for names in product(_NAMES, repeat=len(keys)):
        yield {**attrs, **dict(zip(keys, names, strict=True))}


def _gives(answer: Sequence[Spec] | str | None) -> bool:
    return answer is not None and not isinstance(answer, str)


def _input_names(dtypes: Set[DType]) -> tuple[str, ...]:
    return tuple(name_of(dtype) for dtype in _DTYPES if dtype in dtypes)


def _around(base: Sequence[DType]) -> Iterator[tuple[DType, ...]]:
    """All inputs of one dtype, and `base` with any of its inputs changed to one dtype."""
    for chosen in product((True, False), repeat=len(base)):
        for dtype in _DTYPES if any(chosen) else _DTYPES[:1]:
            yield tuple(dtype if c else b for c, b in zip(chosen, base, strict=True))
