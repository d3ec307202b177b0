"""Names of numpy, PyTorch, TensorFlow and Keras: every hint leads to something that there is."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import actorflow as af
from actorflow import ops, sim
from actorflow.errors import ConfigError, GraphError, UnknownArgument
from actorflow.graph.opdef import table
from actorflow.graph.tensor_methods import Methods
from actorflow.runtime import name_hints
from actorflow.runtime.name_hints import KEYWORDS
from tests.support.python import run_python

TABLES = {
    name: found for name, found in vars(name_hints).items() if name[0].isupper() and isinstance(found, dict)
}
HINTS = sorted({text for found in TABLES.values() for text in found.values()} | {name_hints.FETCH})
THINGS: dict[str, Any] = {
    "af": af, "sim": sim, "tensor": af.Tensor, "variable": af.Variable, "graph": af.Graph,
    "session": af.Session, "ref": af.Ref,
}  # fmt: skip
"""What hints mention members of, by the word that they use for it."""

_NAME = re.compile(rf"\b({'|'.join(THINGS)})\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")


def named(text: str) -> Iterator[tuple[str, str]]:
    """What a hint mentions: of what, and the name in it."""
    for found in _NAME.finditer(text):
        yield found[1], found[2]


def is_there(thing: str, name: str) -> bool:
    found: Any = THINGS[thing]
    for part in name.split("."):
        if not hasattr(found, part) and part not in ("graph", "nodes"):  # set when one is made
            return False
        found = getattr(found, part, None)
    return True


@pytest.mark.parametrize("written", HINTS)
def test_what_a_hint_says_is_there(written: str) -> None:
    missing = [
        f"{thing}.{name}" for thing, name in named(written.format("assign")) if not is_there(thing, name)
    ]

    assert missing == []


def test_a_name_that_is_not_there_would_be_found() -> None:
    assert not is_there("af", "assign")
    assert not is_there("af", "nn.dense")
    assert not is_there("tensor", "rank")
    assert list(named("use af.nn.dense, or tensor.rank")) == [("af", "nn.dense"), ("tensor", "rank")]


def texts(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The texts of a module that are no docstrings."""
    told = {
        id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value, node.lineno


def test_what_any_text_of_an_error_says_is_there() -> None:
    """Every literal of every module: hints are built in many places."""
    package = Path(af.__file__).parent
    seen, missing = 0, []
    for file in sorted(package.rglob("*.py")):
        source = file.read_text()
        if not re.search(r"""["'][^"'\n]*\baf\.""", source):
            continue  # to parse all of them takes long
        for text, line in texts(ast.parse(source)):
            for thing, name in named(text):
                if thing != "af" or (text.endswith(f"af.{name}") and name in ("a", "random_")):
                    continue  # names of modules of ours read alike; and those that are put together
                seen += 1
                if not is_there(thing, name):
                    missing.append(f"{file.relative_to(package)}:{line} af.{name}")

    assert missing == []
    assert seen > 300


OBJECTS: dict[str, Callable[[], Any]] = {
    "tensor": lambda: af.constant(1.0),
    "variable": lambda: af.Variable(1.0),
    "graph": lambda: af.Graph(),
    "rule": lambda: af.optim.adam(0.1),
}


@pytest.mark.parametrize(
    ("kind", "name", "hint"),
    [
        ("tensor", "assign", "a variable can be written and a tensor cannot"),
        ("tensor", "assign_sub", "variable.assign_sub(value)"),
        ("tensor", "get_shape", "tensor.shape"),
        ("tensor", "dim", "tensor.ndim"),
        ("tensor", "copy", "leave it out: no step changes a tensor"),
        ("tensor", "contiguous", "leave it out"),
        ("tensor", "add_", "nothing is changed in place: use what af.add returns"),
        ("tensor", "sub_", "nothing is changed in place: use what af.subtract returns"),
        ("tensor", "clamp_", "nothing is changed in place: use what af.clip returns"),
        ("tensor", "device", "af.device(name)"),
        ("tensor", "op", "tensor.node"),
        ("tensor", "requires_grad", "af.gradients"),
        ("tensor", "relu", "use af.nn.relu(tensor)"),
        ("tensor", "relu_", "nothing is changed in place: use what af.nn.relu returns"),
        ("tensor", "median", "use af.math.median(tensor)"),
        ("tensor", "maen", "write .mean"),
        ("variable", "read_value", "variable.read()"),
        ("variable", "initializer", "leave it out"),
        ("variable", "asign", "write .assign"),
        ("graph", "get_tensor_by_name", "session.run(name)"),
        ("graph", "placeholder", "use af.placeholder(...) under `with graph:`"),
        ("graph", "as_default", "write `with graph:`"),
        ("graph", "varables", "write .variables"),
        ("rule", "minimize", "use af.minimize(loss, optimizer)"),
        ("rule", "zero_grad", "af.minimize(loss, optimizer)"),
        ("rule", "step", "session.run(train)"),
    ],
)
def test_a_method_that_others_have_is_told_by_what_to_do(kind: str, name: str, hint: str) -> None:
    with af.Graph():
        thing = OBJECTS[kind]()

    with pytest.raises(AttributeError) as caught:
        getattr(thing, name)

    assert hint in str(caught.value).partition("\n  try:   ")[2]
    assert not hasattr(thing, name)


@pytest.mark.parametrize("kind", OBJECTS)
def test_a_method_near_nothing_is_told_as_python_does(kind: str) -> None:
    with af.Graph():
        thing = OBJECTS[kind]()

    for name in ("zzqqxx", "_hidden"):
        with pytest.raises(AttributeError) as caught:
            getattr(thing, name)
        assert str(caught.value) == f"{type(thing).__name__!r} object has no attribute {name!r}"


@pytest.mark.parametrize(
    ("module", "name", "hint"),
    [
        (af, "tensor", "write af.constant(value)"),
        (af, "assign", "write variable.assign(value)"),
        (af, "manual_seed", "af.Graph(seed=0)"),
        (af, "set_random_seed", "af.Graph(seed=0)"),
        (af, "save", "np.savez"),
        (af, "Saver", "np.savez"),
        (af, "Queue", "af.state.FIFOQueue"),
        (af, "vmap", "af.map_fn"),
        (af, "fori_loop", "af.while_loop"),
        (af, "jit", "leave it out"),
        (af, "value_and_grad", "af.gradients"),
        (af, "variable_scope", "af.name_scope"),
        (af, "global_variables", "graph.variables"),
        (af, "Optimizer", "af.optim.sgd"),
        (af, "summary", "af.types.StepDone"),
        (af, "mse", "af.math.squared_difference"),
        (af, "EpochEnd", "af.types.EpochDone"),
        (af, "losses", "af.nn.softmax_cross_entropy"),
        (af, "keras", "af.nn for layers"),
        (af, "print", "print(await session.run(tensor))"),
        (af, "Dataset", "af.data.arrays"),
        (af.data, "DataLoader", "af.data.arrays"),
        (af.data, "zipp", "write af.data.zip"),
        (sim, "schedule", "write sim.schedules"),
    ],
)
def test_what_is_no_function_here_is_told_by_what_to_do(module: ModuleType, name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)

    assert hint in str(caught.value).partition("\n  try:   ")[2]


def test_python_writes_no_name_behind_what_to_try() -> None:
    program = "import actorflow as af; af.keras"
    done = run_python("-c", program)

    assert done.stderr.splitlines()[-1] == "  try:   here it is af.nn for layers, af.optim for optimizers"


@pytest.mark.parametrize("given", [([1.0],), (1.0, "float32"), ()])
def test_a_tensor_is_not_made_by_its_class(given: tuple[Any, ...]) -> None:
    make: Any = af.Tensor

    with pytest.raises(GraphError, match="is made by building one") as caught:
        make(*given)

    assert "af.constant(value)" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["schedules", "faults"])
def test_without_hypothesis_the_extra_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for loaded in [*sys.modules]:
        if loaded.partition(".")[0] == "hypothesis" or loaded == "actorflow.sim.property.strategies":
            monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.delattr("actorflow.sim.property.strategies", raising=False)
    monkeypatch.setattr("sys.path", [])
    monkeypatch.setattr("sys.meta_path", [_NoHypothesis(), *sys.meta_path])

    with pytest.raises(ConfigError, match="draws with hypothesis, which is not installed") as caught:
        getattr(sim, name)

    assert caught.value.hint == "pip install 'actorflow[sim]'"


class _NoHypothesis:
    """Finds no module of hypothesis, as where it is not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "hypothesis":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize(
    ("module", "name", "hint"),
    [
        (af, "reduce_mean", "here it is af.mean"),
        (af, "Linear", "here it is af.nn.Dense"),
        (af, "concatenate", "here it is af.concat"),
        (af, "cat", "here it is af.concat"),
        (af, "ReLU", "here it is af.nn.relu"),
        (af, "relu", "it is af.nn.relu"),
        (af, "random_normal", "it is af.random.normal"),
        (af, "normal", "it is af.random.normal"),
        (af, "bytes_join", "it is af.strings.join"),
        (af, "slice", "it is af.arrays.slice"),
        (af, "Stack", "it is af.state.Stack"),
        (af, "Slices", "it is af.types.Slices"),
        (af, "Feeder", "here it is af.state.QueueRunner"),
        (af.data, "concat", "here it is af.data.concatenate"),
        (af.random, "random", "here it is af.random.uniform, af.random.normal and others"),
        (af.random, "seed", "give the graph its seed: with af.Graph(seed=0) as graph: ..."),
        (af, "ActorflowError", "it is af.errors.ActorflowError"),
        (af, "unsorted_segment_sums", "write af.math.unsorted_segment_sum"),
        (af.math, "exp", "it is af.exp"),
        (af.math, "relu", "it is af.nn.relu"),
        (af.math, "erff", "write af.math.erf"),
        (af.linalg, "matmul", "it is af.matmul"),
        (af.linalg, "norm", "here it is af.linalg.vector_norm"),
        (af.random, "randn", "here it is af.random.normal"),
        (af.nn, "tanh", "here it is af.tanh"),
        (af, "matMul", "write af.matmul"),
        (af, "softmx", "write af.nn.softmax"),
        (af, "GradientTape", "here it is af.gradients(ys, xs)"),
        (af, "variable", "write af.Variable"),
        (af, "float32", 'here it is the text "float32"'),
        (af.nn, "Linear", "here it is af.nn.Dense"),
        (af.nn, "Conv2d", "here it is af.nn.Conv"),
        (af.nn, "dense", "write af.nn.Dense"),
        (af.nn, "conv", "write af.nn.Conv"),
        (af.nn, "attention", "here it is af.nn.MultiHeadAttention"),
        (af.nn, "ReLU", "here it is af.nn.relu"),
        (af.nn, "CrossEntropyLoss", "here it is af.nn.softmax_cross_entropy"),
        (af.nn, "Batchnorm", "write af.nn.BatchNorm"),
        (af.optim, "Adam", "write af.optim.adam"),
        (af.optim, "SGD", "write af.optim.sgd"),
        (af.optim, "RMSprop", "write af.optim.rmsprop"),
        (af.optim, "GradientDescentOptimizer", "here it is af.optim.sgd"),
    ],
)
def test_a_name_that_others_use_is_told_by_ours(module: Any, name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)

    assert str(caught.value).splitlines() == [
        f"module {module.__name__!r} has no attribute {name!r}",
        f"  try:   {hint}",
    ]
    assert not hasattr(module, name)


@pytest.mark.parametrize("module", [af, af.nn, af.optim, af.linalg, af.random])
def test_a_name_that_is_near_nothing_gets_no_hint(module: Any) -> None:
    for name in ("zzqqxx", "__wrapped__"):
        with pytest.raises(AttributeError) as caught:
            getattr(module, name)
        assert "try:" not in str(caught.value)


def test_the_files_of_layers_can_still_be_imported() -> None:
    from actorflow.nn import dense
    from actorflow.nn.dense import Dense

    assert dense.Dense is Dense is af.nn.Dense


def x() -> af.Tensor:
    return af.placeholder("float32", (2, 3))


WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "sum, dim": (lambda: af.sum(x(), dim=1), "write axis="),  # type: ignore[call-arg]
    "softmax, dim": (lambda: af.nn.softmax(x(), dim=-1), "write axis="),  # type: ignore[call-arg]
    "concat, dim": (lambda: af.concat([x(), x()], dim=1), "write axis="),  # type: ignore[call-arg]
    "mean, keepdim": (lambda: af.mean(x(), 1, keepdim=True), "write keepdims="),  # type: ignore[call-arg]
    "max, keep_dims": (lambda: af.max(x(), 1, keep_dims=True), "write keepdims="),  # type: ignore[call-arg]
    "exp, input": (lambda: af.exp(input=x()), "write x="),  # type: ignore[call-arg]
    "std, ddof": (lambda: af.std(x(), ddof=1), "write correction="),  # type: ignore[call-arg]
    "sum, axes": (lambda: af.sum(x(), axes=1), "write axis="),  # type: ignore[call-arg]
    "sum, keepdimz": (lambda: af.sum(x(), keepdimz=True), "write keepdims="),  # type: ignore[call-arg]
    "a method": (lambda: x().mean(dim=1), "write axis="),
    "Dense, activation": (
        lambda: af.nn.Dense(3, 4, activation="relu"),  # type: ignore[call-arg]
        "call it on the output, as in af.nn.relu(layer(x)), or put it after the layer in af.nn.Sequential",
    ),
    "Dense, in_features": (lambda: af.nn.Dense(in_features=3), "write inputs="),  # type: ignore[call-arg]
    "Conv, kernel_size": (lambda: af.nn.Conv(1, 2, kernel_size=3), "write size="),  # type: ignore[call-arg]
    "LSTMCell, hidden_size": (lambda: af.nn.LSTMCell(3, hidden_size=3), "write units="),  # type: ignore[call-arg]
    "Dropout, p": (lambda: af.nn.Dropout(p=0.5), "write rate="),  # type: ignore[call-arg]
    "a call of a layer": (lambda: af.nn.Dense(3, 4)(input=x()), "write x="),  # type: ignore[call-arg]
    "adam, learning_rate": (lambda: af.optim.adam(learning_rate=1e-3), "write lr="),  # type: ignore[call-arg]
    "sgd, momentums": (lambda: af.optim.adam(beta_1=0.5), "write beta1="),  # type: ignore[call-arg]
    "Variable, initial_value": (lambda: af.Variable(initial_value=1.0), "write initial="),  # type: ignore[call-arg]
    "Variable, requires_grad": (lambda: af.Variable(1.0, requires_grad=True), "write trainable="),  # type: ignore[call-arg]
    "minimize, var_list": (
        lambda: af.minimize(af.sum(x()), af.optim.sgd(0.1), var_list=[]),  # type: ignore[call-arg]
        "write variables=",
    ),
    "sum, nonsense": (lambda: af.sum(x(), nonsense=1), ""),  # type: ignore[call-arg]
}


@pytest.mark.parametrize(("build", "hint"), WRONG.values(), ids=WRONG)
def test_an_argument_that_others_have_is_told_by_our_name(build: Callable[[], Any], hint: str) -> None:
    with af.Graph(), pytest.raises(UnknownArgument, match="takes no argument '.*'; it takes") as caught:
        build()

    assert (caught.value.hint or "") == hint
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, af.errors.SpecError)


def test_every_verb_with_an_axis_answers_dim() -> None:
    asked = 0
    with af.Graph():
        for name in {*ops.__all__} & set(table()):
            verb = getattr(ops, name)
            if "axis" not in signature(verb).parameters:
                continue
            with pytest.raises(UnknownArgument) as caught:
                verb(dim=0)
            assert caught.value.hint == "write axis=", name
            asked += 1
    assert asked > 30


def test_a_wrong_argument_of_run_is_told_before_anything_runs() -> None:
    async def main() -> None:
        with af.Graph() as graph:
            y = x() * 2
        async with af.Session(graph) as session:
            with pytest.raises(UnknownArgument) as caught:
                await session.run(y, feed_dict={})  # type: ignore[call-overload]
            assert caught.value.hint == "write feeds="

    af.run(main())


def test_names_of_arguments_do_not_lead_in_a_circle() -> None:
    assert all(name != ours for name, ours in KEYWORDS.items())


def test_a_step_asks_no_tensor_for_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of an answer takes 40 µs; a step of 10,000 nodes with 100 fetches took twice as long by it."""
    asked: list[str] = []
    answer = Methods.__getattr__

    def counted(self: Methods, name: str) -> Any:
        asked.append(name)
        return answer(self, name)

    async def main() -> None:
        with af.Graph() as graph:
            v = af.Variable(1.0, name="v")
            a = af.placeholder("float32", (), name="a")
            y = af.stack([a * 2, v.read()])
        async with af.Session(graph) as session:
            monkeypatch.setattr(Methods, "__getattr__", counted)
            assert not hasattr(y, "anything")
            for _ in range(3):  # planned, then as planned
                await session.run({"y": [y, (a, None)]}, {a: 1.0})

    af.run(main())

    assert asked == ["anything"]
