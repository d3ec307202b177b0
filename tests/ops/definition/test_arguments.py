"""What verbs do with arguments that they cannot mean: they say so, at the user's line, and at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import Parameter, isfunction, signature
from sys import _getframe
from time import process_time
from typing import Any

import numpy as np
import pytest

from actorflow import ops
from actorflow.errors import ActorflowError, ConfigError, SpecError
from actorflow.graph import opdef
from actorflow.graph.graph import Graph
from actorflow.ops.definition.arguments import api_function
from actorflow.values.arrays import name_of
from tests.ops.calls import CALLS, Fed, made

af: Any = ops  # wrong types are what this is about

VERBS = {name: f for name in dir(af) if isfunction(f := getattr(af, name)) and not name.startswith("_")}

WRONG: dict[str, Any] = {
    "fraction": 1.5,
    "text": "rows",
    "None": None,
    "list": [],
    "object": object(),
    "tensor": Fed("float32", ()),
    "vector": Fed("float32", (2,)),
    "True": True,
    "far below": -(10**30),
    "far above": 10**30,
    "many": 10**12,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "dict": {"a": 1},
    "bytes": b"ab",
    "nested": [[1, "a"]],
    "complex": 1j,
    "array": np.ones((2, 2)),
    "class": int,
}

LEFT = {
    "custom_gradient": "it is a decorator: it builds nothing",
    "gradients": "tests/graph/test_autodiff.py has what it refuses",
    "recompute": "it is a decorator: it builds nothing",
    "while_loop": "it calls functions of the user, which refuse: tests/ops/control/test_loops.py has what it refuses",
    **dict.fromkeys(("cond", "case", "switch_case"), "likewise, in tests/ops/control/test_branches.py"),
}


def call(verb: str, arguments: dict[str, Any]) -> Any:
    """What the verb gives, and the line on which it is called."""
    given = {name: made(value) for name, value in arguments.items()}
    args: list[Any] = []
    for p in signature(VERBS[verb]).parameters.values():
        if p.kind is Parameter.VAR_POSITIONAL:
            args = [given.pop(q) for q in list(given) if not q.startswith("*") and _before(verb, q)]
            args += given.pop(f"*{p.name}")
    LINE[0] = _getframe().f_lineno + 1
    return VERBS[verb](*args, **given)


def _before(verb: str, name: str) -> bool:
    return signature(VERBS[verb]).parameters[name].kind is Parameter.POSITIONAL_OR_KEYWORD


LINE = [0]


CALLED = [v for v in VERBS if v in CALLS and v not in LEFT]


def test_every_verb_has_a_valid_call() -> None:
    without_call = [v for v in VERBS if v not in CALLS]

    assert not without_call, f"add a valid call of {without_call} to tests/ops/calls.py"
    assert CALLS.keys() <= VERBS.keys()


@pytest.mark.parametrize("verb", CALLED)
def test_a_valid_call_is_valid(verb: str) -> None:
    with Graph() as graph:
        graph.add_object("sgd", None)
        call(verb, dict(CALLS[verb]))


def parameters(verb: str) -> list[str]:
    found = signature(VERBS[verb]).parameters.values()
    return [f"*{p.name}" if p.kind is Parameter.VAR_POSITIONAL else p.name for p in found]


@pytest.mark.parametrize("verb", CALLED)
def test_an_argument_has_a_meaning_or_is_refused_with_its_name_or_value(verb: str) -> None:
    faults = []
    for name in parameters(verb):
        for what, wrong in WRONG.items():
            value = [wrong] if name.startswith("*") else wrong
            started = process_time()
            with Graph() as graph:
                graph.add_object("sgd", None)
                try:
                    call(verb, {**CALLS[verb], name: value})
                except ActorflowError as error:
                    fault = unhelpful(error, verb, name.lstrip("*"), wrong)
                except Exception as error:  # noqa: BLE001  all of them are told at once
                    fault = f"{type(error).__name__}: {error}"
                else:
                    fault = None
            if process_time() - started > 3.0:
                fault = "it takes seconds"
            if fault is not None:
                faults.append(f"{verb}({name}={what}): {fault}")

    assert not faults, "\n".join(faults)


def shown(value: Any) -> list[str]:
    """How an error may show a value: as it is written, or what it is as a tensor."""
    if isinstance(value, Fed):
        return [f"{value.shape} {value.dtype}", str(value.shape)]
    found = [f"{value!r:.20}".rstrip("'")]
    if isinstance(value, list):
        found += [f"{part!r}" for part in value] or ["()", "none"]
    if isinstance(value, int) and not isinstance(value, bool):
        found.append(f"{float(value)}")
    if value is int:
        return [*found, "int64"]
    try:
        with Graph():
            spec = af.constant(value).spec
    except SpecError:
        return found
    return [*found, str(spec), str(spec.shape), name_of(spec.dtype)]


def unhelpful(error: ActorflowError, verb: str, name: str, wrong: Any) -> str | None:
    """What the error fails to say."""
    text = str(error)
    if error.where is None or error.where.defined_at != f"tests/ops/definition/test_arguments.py:{LINE[0]}":
        return f"placed at {error.where}, not line {LINE[0]}: {text}"
    if verb not in text:
        return f"does not name the verb: {text}"
    if not re.search(rf"\b{name}\b", text) and not any(value in text for value in shown(wrong)):
        return f"names neither {name} nor its value: {text}"
    return None


TEXTS: list[tuple[Any, str, str | None]] = [
    (lambda x: af.sum(x, axis=1.5), "sum takes an integer or several, or None as axis, got 1.5", None),
    (lambda x: af.sum(x, axis="rows"), "sum takes an integer or several, or None as axis, got 'rows'", None),
    (
        lambda x: af.sum(x, axis=[0, True]),
        "sum takes an integer or several, or None as axis, got [0, True]",
        None,
    ),
    (lambda x: af.sort(x, axis=None), "sort takes an integer as axis, got None", None),
    (lambda x: af.sort(x, descending=1), "sort takes True or False as descending, got 1", None),
    (lambda x: af.eye(3.0), "eye takes an integer as rows, got 3.0", None),
    (
        lambda x: af.eye(10**30),
        "eye takes an integer of 64 bits, got one of 100 as rows, got 10000000000",
        None,
    ),
    (lambda x: af.random_integers(0, 2.5), "random_integers takes an integer as high, got 2.5", None),
    (
        lambda x: af.random_normal((2,), seed=1.5),
        "random_normal takes an integer, or None as seed, got 1.5",
        None,
    ),
    (
        lambda x: af.topk(x, af.constant(2)),
        "topk takes an integer as k, got <Tensor constant:0 () int32>",
        "it must be known while the graph is built",
    ),
    (
        lambda x: af.dropout(x, af.constant(0.5)),
        "dropout takes a number as rate, got <Tensor",
        "must be known",
    ),
    (lambda x: af.reshape(x, None), "reshape takes integers, or a tensor of them as shape, got None", None),
    (lambda x: af.stack(3), "stack takes a list or tuple as values, got 3", None),
    (lambda x: af.stack({1: x}), "stack takes a list or tuple as values, got {1: <Tensor", None),
    (lambda x: af.cast(x, None), "cast takes a dtype as dtype, got None", None),
    (lambda x: af.cast(x, "float8"), "no tensor has dtype 'float8'; the dtypes are bool, int8", None),
    (
        lambda x: af.bytes_strip([b"a"], "a"),
        "bytes_strip takes bytes, or None as characters, got 'a'",
        "write b'a'",
    ),
    (lambda x: af.parse_example([b""], ["a"]), "as features, got ['a']", None),
    (lambda x: af.tensordot(x, x, axes=()), "or those of a and those of b, as axes, got ()", None),
    (lambda x: af.leaky_relu(x, True), "leaky_relu takes a number as slope, got True", None),
    (lambda x: af.identity(x, name=3), "identity takes a text, or None as name, got 3", None),
    (lambda x: af.clip(x, 0, 2**70), "values are numbers of at most 64 bits", None),
    (lambda x: x + True, "bool and numbers do not mix; write 0 or 1", None),
    (lambda x: x + 2**64, "values are numbers of at most 64 bits", None),
    (
        lambda x: af.threshold(af.equal(x, x), 0.0, 1.0),
        "in threshold(x=equal:0 (2, 3) bool, limit=0.0, value=1.0)",
        None,
    ),
]


@pytest.mark.parametrize(("build", "said", "hint"), TEXTS, ids=[said for _, said, _ in TEXTS])
def test_an_error_names_verb_argument_and_value(build: Any, said: str, hint: str | None) -> None:
    with Graph(), pytest.raises(SpecError) as caught:
        build(af.placeholder("float32", (2, 3)))

    assert said in str(caught.value)
    assert hint is None or hint in str(caught.value.hint)
    assert caught.value.where is not None
    assert str(caught.value.where.defined_at).startswith("tests/ops/definition/test_arguments.py:")


def test_numbers_of_numpy_are_numbers() -> None:
    one, half, yes = np.int64(1), np.float32(0.5), np.bool_(True)
    with Graph(seed=1):
        x = af.placeholder("float32", (2, 4))
        built = [
            af.sum(x, axis=one, keepdims=yes),
            af.sum(x, axis=np.array([0, 1])),
            af.topk(x, np.uint8(3))[0],
            af.reshape(x, np.array([4, 2])),
            af.split(x, np.array([1, 3]), axis=one)[1],
            af.leaky_relu(x, half),
            af.avg_pool(af.reshape(x, (1, 2, 4, 1)), np.int32(2), padding=np.int8(0)),
            af.repeat(x, np.array([1, 2]), axis=np.int16(0)),
            af.random_categorical(x, one, seed=one),
        ]

    assert [t.shape for t in built] == [
        (2, 1),
        (),
        (2, 3),
        (4, 2),
        (2, 3),
        (2, 4),
        (1, 1, 2, 1),
        (3, 4),
        (2, 1),
    ]


def test_a_seed_of_numpy_draws_what_that_of_python_draws() -> None:
    with Graph(seed=1):
        for draw in (lambda s: af.random_permutation(5, s), lambda s: af.random_bernoulli(0.5, (2,), s)):
            seeds = [draw(s).node.attrs["seed"] for s in (7, np.int64(7), np.uint8(7))]
            assert len(set(seeds)) == 1, seeds


def wrong(fed: Fed) -> Iterator[Fed]:
    """Tensors of other dtypes and shapes."""
    yield from (Fed(dtype, fed.shape) for dtype in ("float32", "int32", "bytes", "bool", "complex64"))
    yield from (Fed(fed.dtype, shape) for shape in ((), (7,), (1, 2, 3, 4, 5), (0,) * len(fed.shape)))


def calls_with_another(verb: str) -> Iterator[dict[str, Any]]:
    """The valid call of a verb with one tensor, or the first of a list of them, replaced by a wrong one."""
    call = {name: value for name, value in CALLS[verb].items() if not name.startswith("*")}
    for name, value in call.items():
        if isinstance(value, Fed):
            yield from ({**call, name: other} for other in wrong(value))
        elif isinstance(value, list) and value and isinstance(value[0], Fed):
            yield from ({**call, name: [other, *value[1:]]} for other in wrong(value[0]))


RULE = re.compile(r"^(?:[\w ]+ of )?(\w+) (?:takes|needs|folds|keeps)\b")


@pytest.mark.parametrize("verb", sorted(set(CALLS) - {"while_loop"}))
def test_a_tensor_that_does_not_fit_is_refused_in_the_name_of_the_verb(verb: str) -> None:
    """Not in that of another of which it is made, nor of one whose rule it shares."""
    said = set()
    for call in calls_with_another(verb):
        with Graph():
            given = {name: made(value) for name, value in call.items()}
            try:
                getattr(af, verb)(**given)
            except ActorflowError as error:
                said.add(error.what.splitlines()[0])

    named = {found[1] for text in said if (found := RULE.match(text)) is not None}
    assert named & ({*CALLS, *opdef.table()} - {verb}) == set(), said


def test_an_argument_of_another_name_is_told_by_its_own() -> None:
    with Graph(), pytest.raises(SpecError, match="the beta of smooth_l1_loss must be positive, got -1"):
        af.smooth_l1_loss([1.0], [2.0], beta=-1)


def test_what_the_body_of_a_loop_calls_keeps_its_name() -> None:
    with Graph(), pytest.raises(SpecError, match="^abs takes integers or floating numbers"):
        af.while_loop(lambda i: i < 3, lambda i: [i + af.cast(af.abs(af.cast(i, "bool")), "int32")], [0])


def test_what_a_verb_of_ones_own_takes_is_known_or_told_when_it_is_defined() -> None:
    """Annotations may be texts, classes, or left out, which looks at nothing."""

    def grown(x, by: float, times: int | None = None, *, name=None):
        return af.multiply(x, by, name=name)

    grown.__annotations__ = {"by": float, "times": int | None}
    verb: Any = api_function(grown)
    with Graph():
        assert verb([1.0], 2.0).shape == (1,)
        with pytest.raises(SpecError, match="grown takes .* by, got 'far'|by of grown"):
            verb([1.0], "far")

    grown.__annotations__ = {"by": "Speed"}
    told = "nothing is known of what grown takes as 'by', got the annotation 'Speed'"
    with pytest.raises(ConfigError, match=told):
        api_function(grown)
