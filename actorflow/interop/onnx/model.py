"""From an ONNX model to a graph: `load`, and what it returns.

The nodes are walked in the model's order, which is topological. A node that cannot be built is
noted, those behind it are passed over, and at the end one error lists everything that was noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from actorflow.arrays import Array, is_floating
from actorflow.errors import ActorflowError, OnnxError, SpecError, counted
from actorflow.graph.builder import Tensor, as_tensor, name_scope
from actorflow.graph.graph import Graph
from actorflow.interop.onnx import proto
from actorflow.interop.onnx.table import STANDARD, OnnxNode, Outputs, Refused, find
from actorflow.ops.source import placeholder
from actorflow.ops.state import Variable
from actorflow.spec import Dim, merge

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
            the text lists all of it, with the nodes' names.
    """
    model, called = proto.read(source)
    importer = _Importer(model, graph or Graph(), fixed or {}, shapes or {}, trainable)
    importer.run()
    if importer.problems:
        raise _unsupported(called, importer.problems)
    return importer.imported()


def inputs_to_fix(source: Any, *, shapes: Mapping[str, Iterable[Dim]] | None = None) -> tuple[str, ...]:
    """The names of the inputs whose values `load` must be given as `fixed`, as far as can be seen.

    Raises:
        OnnxError: for a file that cannot be read.
    """
    model, _ = proto.read(source)
    importer = _Importer(model, Graph(), {}, shapes or {}, trainable=False)
    importer.run()
    needed = {name for p in importer.problems for name in p.needs}
    return tuple(name for name in importer.inputs if name in needed)


@dataclass(frozen=True, slots=True)
class _Problem:
    """One thing that cannot be imported: at which place of the model, what, and what to try."""

    place: str
    what: str
    hint: str | None = None
    needs: tuple[str, ...] = ()


def _unsupported(called: str, problems: list[_Problem]) -> OnnxError:
    lines = [f"{called} needs {counted(len(problems), 'thing')} that cannot be imported"]
    lines += [f"  {problem.place}: {problem.what}" for problem in problems]
    hints = dict.fromkeys(problem.hint for problem in problems if problem.hint)
    missing = 'write the missing ops: @onnx.builder("", "Op")'
    return OnnxError("\n".join(lines), hint="; ".join(hints) or missing)


class _Importer:
    """The walk over one model."""

    def __init__(
        self,
        model: proto.Model,
        graph: Graph,
        fixed: Mapping[str, Any],
        shapes: Mapping[str, Iterable[Dim]],
        trainable: bool | Iterable[str],
    ) -> None:
        self.proto = model.graph
        self.graph = graph
        self.fixed = fixed
        self.shapes = shapes
        self.opsets = proto.opsets(model)
        self.functions = {(f.domain, f.name) for f in model.functions}
        self.initialisers = {tensor.name: tensor for tensor in model.graph.initializer}
        self.weights = _weights(model.graph, trainable)
        self.problems: list[_Problem] = []
        self.values: dict[str, Tensor | None] = {"": None}
        self.inputs: dict[str, Tensor] = {}
        self.variables: dict[str, Variable] = {}

    def run(self) -> None:
        """Builds all that can be built, and notes what cannot."""
        self._check_versions()
        self._check_names()
        with self.graph:
            for tensor in self.initialisers.values():
                self._note(f"initialiser {tensor.name!r}", self._initialiser, tensor)
            for value_info in self.proto.input:
                if value_info.name not in self.initialisers:
                    self._note(f"input {value_info.name!r}", self._input, value_info)
            for node in self.proto.node:
                name = node.name or next((o for o in node.output if o), node.op_type)
                self._note(f"node {name!r} ({_full_name(node)})", self._node, node, name)

    def imported(self) -> Imported:
        """Returns what was built."""
        outputs = {}
        for value_info in self.proto.output:
            tensor = self.values[value_info.name]
            assert tensor is not None
            outputs[value_info.name] = tensor
        return Imported(self.graph, self.inputs, outputs, self.variables, self.opsets.get("", 0))

    def _check_versions(self) -> None:
        version, newest = self.opsets.get("", OLDEST), proto.newest_opset()
        if not OLDEST <= version <= newest:
            what = f"opsets {OLDEST} to {newest} are read, got {version}"
            self.problems.append(_Problem("model", what, "onnx.version_converter.convert_version"))

    def _check_names(self) -> None:
        """Notes what was asked for by a name that the model does not have."""
        names = [value_info.name for value_info in self.proto.input]
        for argument, given in (("fixed", self.fixed), ("shapes", self.shapes)):
            for name in given:
                if name not in names:
                    what = f"the model has no input {name!r}; it has {', '.join(map(repr, names)) or 'none'}"
                    self.problems.append(_Problem(f"load(..., {argument}=...)", what))
        for name in self.weights:
            if name not in self.initialisers:
                what = f"the model has no initialiser {name!r}"
                self.problems.append(_Problem("load(..., trainable=...)", what))

    def _note(self, place: str, build: Any, *args: Any) -> None:
        """Builds one thing, and notes it when that is refused."""
        try:
            build(*args)
        except Refused as error:
            self.problems.append(_Problem(place, error.what, error.hint, error.needs))
        except ActorflowError as error:
            self.problems.append(_Problem(place, error.what, error.hint))

    def _initialiser(self, tensor: Any) -> None:
        array = proto.array_of(tensor)
        if tensor.name not in self.weights:
            self.values[tensor.name] = as_tensor(array, name=tensor.name)
            return
        variable = self.variables[tensor.name] = Variable(array, name=tensor.name)
        self.values[tensor.name] = variable.read()

    def _input(self, value_info: Any) -> None:
        name = value_info.name
        spec = proto.spec_of(value_info)
        if name in self.fixed:
            self.values[name] = as_tensor(_fixed(spec, self.fixed[name]), name=name)
            return
        shape = merge(spec.shape, tuple(self.shapes[name])) if name in self.shapes else spec.shape
        self.values[name] = self.inputs[name] = placeholder(spec.dtype, shape, name=name)

    def _node(self, node: Any, name: str) -> None:
        build = find(node.domain, node.op_type)
        opset = self.opsets.get("" if node.domain in STANDARD else node.domain, 0)
        if build is None:
            more = "; functions of the model are not read" if self._is_function(node) else ""
            message = f"there is no builder for it, opset {opset}{more}"
            raise OnnxError(message)
        if any(i not in self.values for i in node.input):
            return  # what makes it has been noted
        attributes = {a.name: proto.attribute_of(a) for a in node.attribute}
        inputs = [self.values[i] for i in node.input]
        use = OnnxNode(name, node.domain, node.op_type, opset, attributes, inputs, list(node.output), set())
        with name_scope(name):
            outputs = _as_tuple(build(use, inputs, opset))
        unread = [a for a in attributes if a not in use.asked]
        if unread:
            message = f"the builder does not know {', '.join(f'{a}={attributes[a]!r:.40}' for a in unread)}"
            raise OnnxError(message)
        for k, output in enumerate(node.output):
            if not output:
                continue
            if k >= len(outputs):
                message = f"output {k} is not computed"
                raise OnnxError(message)
            self.values[output] = outputs[k]

    def _is_function(self, node: Any) -> bool:
        return (node.domain, node.op_type) in self.functions


def _fixed(spec: Any, value: Any) -> Array:
    """The value of a fixed input; raises SpecError when it does not fit the model."""
    array = as_tensor(value)
    if spec.fits(array.shape, array.dtype):
        return value
    message = f"a fixed value must fit {spec}, got {array.spec}"
    raise SpecError(message)


def _as_tuple(outputs: Outputs) -> tuple[Tensor, ...]:
    return (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)


def _full_name(node: Any) -> str:
    return node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}"


# Inputs that are no weights although they may be floating initialisers: from which one on, per op.
_NO_WEIGHTS = {
    "BatchNormalization": 3, "Clip": 1, "DequantizeLinear": 1, "OneHot": 2, "Pad": 1, "QuantizeLinear": 1,
    "Range": 0, "Resize": 1, "Upsample": 1,
}  # fmt: skip


def _weights(graph: Any, trainable: bool | Iterable[str]) -> set[str]:
    """The names of the initialisers that become variables."""
    if not isinstance(trainable, bool):
        return set(trainable)
    if not trainable:
        return set()
    settings = {
        name
        for node in graph.node
        if node.op_type in _NO_WEIGHTS
        for name in list(node.input)[_NO_WEIGHTS[node.op_type] :]
    }
    return {t.name for t in graph.initializer if t.dims and t.name not in settings and _is_float(t)}


def _is_float(tensor: Any) -> bool:
    try:
        return is_floating(proto.dtype_of(tensor.data_type))
    except OnnxError:
        return False  # noted when it is read
