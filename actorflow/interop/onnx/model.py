"""From an ONNX model to a graph: `load`, and what it returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from actorflow.errors import OnnxError, pluralise
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.interop.onnx import proto
from actorflow.interop.onnx.walk import ImportRequest, Problem, Walk
from actorflow.interop.onnx.weights import weights
from actorflow.ops.state.variable import Variable
from actorflow.values.spec import Dim

OLDEST = 1
"""The oldest opset that is read; what was meant otherwise then has attributes that no builder knows."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A model as a graph: `await session.run(model.outputs, {"x": array})`.

    Attributes:
        graph: The graph; what is built on it further can use the tensors below.
        inputs: The placeholders by name.
        outputs: The results by name.
        variables: What was an initialiser and can be trained, by name.
        opset: The version of ONNX's own ops that the model was written for.
    """

    graph: Graph
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    variables: Mapping[str, Variable]
    opset: int

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name} {tensor.spec}" for name, tensor in self.inputs.items())
        outputs = ", ".join(f"{name} {tensor.spec}" for name, tensor in self.outputs.items())
        return f"<Imported {inputs} -> {outputs}>"


def load(
    source: Any,
    *,
    fixed: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Iterable[Dim]] | None = None,
    trainable: bool | Iterable[str] = False,
    graph: Graph | None = None,
) -> Imported:
    """A model in ONNX's format as a graph, with placeholders for its inputs.

    Args:
        source: A path, the bytes of a file, or an onnx.ModelProto.
        fixed: Values for inputs that must be known when the graph is built, such as axes. These are
            then no inputs any more.
        shapes: Sizes for inputs whose sizes the model leaves open; None stays open.
        trainable: True makes a variable of every initialiser that is a weight (floating, with an
            axis, and no statistic of a normalisation); or the names of the initialisers. The others
            are constants.
        graph: The graph to build into; a new one by default.

    Raises:
        OnnxError: for a file that cannot be read, and for a model with anything that is not there:
            the text lists all of it, with the nodes' names. When a builder raises by mistake, that
            is the cause.
    """
    # ORDER: arguments first, then the file: a mistake in them costs no reading.
    _check_asked(fixed, shapes, trainable, graph)
    model, called = proto.read(source)
    graph = Graph() if graph is None else graph
    asked = ImportRequest(fixed or {}, shapes or {}, weights(model.graph, trainable))
    walk = _walk(model, graph, asked)
    # All that was refused in one error.
    if walk.problems:
        raise _unsupported_error(called, walk.problems)
    outputs = dict(zip(walk.output_names, walk.outputs(), strict=True))
    return Imported(graph, walk.inputs, outputs, walk.variables, walk.opsets.get("", 0))


def inputs_to_fix(source: Any, *, shapes: Mapping[str, Iterable[Dim]] | None = None) -> tuple[str, ...]:
    """The names of the inputs whose values `load` must be given as `fixed`, as far as can be seen.

    Raises:
        OnnxError: for a file that cannot be read.
    """
    _check_asked(None, shapes)
    model, _ = proto.read(source)
    # In a graph of its own, which nobody sees.
    walk = _walk(model, Graph(), ImportRequest({}, shapes or {}, frozenset()))
    needed = {name for problem in walk.problems for name in problem.needs}
    return tuple(name for name in walk.inputs if name in needed)


def _walk(model: proto.Model, graph: Graph, asked: ImportRequest) -> Walk:
    """The walk over a model's graph, with all that was noted on it."""
    walk = Walk(model.graph, proto.opsets(model), asked)
    version, newest = walk.opsets.get("", OLDEST), proto.newest_opset()
    if not OLDEST <= version <= newest:
        what = f"opsets {OLDEST} to {newest} are read, got {version}"
        # Noted, and the walk goes on: nodes of a newer opset may still be readable.
        walk.problems.append(Problem("model", what, "onnx.version_converter.convert_version"))
    with graph:
        walk.run()
    return walk


def _unsupported_error(called: str, problems: list[Problem]) -> OnnxError:
    lines = [f"{called} needs {pluralise(len(problems), 'thing')} that cannot be imported"]
    lines += [f"  {problem.place}: {problem.what}".replace("\n", "\n  ") for problem in problems]
    hints = dict.fromkeys(problem.hint for problem in problems if problem.hint)
    return OnnxError("\n".join(lines), hint="; ".join(hints) or None)


def _check_asked(fixed: Any, shapes: Any, trainable: Any = False, graph: Any = None) -> None:
    """Raises OnnxError for arguments of a wrong kind; whether the names are there, the walk says."""
    for argument, given, kind in (("fixed", fixed, "a value"), ("shapes", shapes, "its sizes")):
        if given is not None and not isinstance(given, Mapping):
            message = f"load(..., {argument}=...) takes {kind} for each name of an input, got {given!r:.60}"
            raise OnnxError(message, hint=f"load(..., {argument}={{name: {kind.split()[-1]}}})")
    for name, sizes in (shapes or {}).items():
        if isinstance(sizes, str) or not isinstance(sizes, Iterable):
            message = f"load(..., shapes=...) takes a tuple of sizes, got {sizes!r:.60} for {name!r}"
            raise OnnxError(message, hint=f"load(..., shapes={{{name!r}: (1, None)}})")
    # A text is an iterable of its letters.
    named = isinstance(trainable, Iterable) and not isinstance(trainable, str | bytes | Mapping)
    if not isinstance(trainable, bool) and not named:
        message = (
            f"load(..., trainable=...) takes True, False or names of initialisers, got {trainable!r:.60}"
        )
        raise OnnxError(message, hint=f"trainable=[{trainable!r}]" if isinstance(trainable, str) else None)
    if graph is not None and not isinstance(graph, Graph):
        message = f"load(..., graph=...) takes an af.Graph, got {graph!r:.60}"
        raise OnnxError(message)
