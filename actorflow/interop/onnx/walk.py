"""The walk over the nodes of an ONNX graph, and of the graphs that lie in its nodes.

The nodes come in the model's order, which is topological. A node that cannot be built is noted,
those behind it are passed over, so that in the end everything that cannot be built has been noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from actorflow.errors import ActorflowError, OnnxError, SpecError, describe
from actorflow.graph.builder import Tensor, as_tensor, name_scope
from actorflow.interop.onnx import proto
from actorflow.interop.onnx.builder_table import STANDARD, Builder, Inputs, OnnxNode, RefusedNode, find
from actorflow.ops.array.constants import placeholder
from actorflow.ops.state.variable import Variable
from actorflow.values.arrays import Array, as_array, name_of
from actorflow.values.spec import Dim, Spec, check_shape, merge, show


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What the caller of `load` wants: values and shapes by the names of inputs, and variables."""

    fixed: Mapping[str, Any]
    shapes: Mapping[str, Iterable[Dim]]
    weights: frozenset[str]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that cannot be imported: at which place of the model, what, and what to try."""

    place: str
    what: str
    hint: str | None = None
    needs: tuple[str, ...] = ()


_MOST_NAMES = 12  # initialisers that an error lists


class BuilderFailed(OnnxError):
    """A builder raised what it should not."""


class _Behind(Exception):
    """A node lies behind one that could not be built, which has been noted."""


class Walk:
    """The walk over one graph; for the current graph of actorflow.

    Attributes:
        values: What was built so far, by the names of the model.
        inputs: The placeholders by name.
        variables: The variables by name.
        problems: What could not be built.
    """

    def __init__(
        self,
        graph: Any,
        opsets: Mapping[str, int],
        asked: ImportRequest,
        values: Mapping[str, Tensor | None] | None = None,
    ) -> None:
        self.proto = graph
        self.opsets = opsets
        self.asked = asked
        self.initialisers = {tensor.name for tensor in graph.initializer}
        # "" is an input that was left out.
        self.values: dict[str, Tensor | None] = {"": None} if values is None else dict(values)
        self.inputs: dict[str, Tensor] = {}
        self.variables: dict[str, Variable] = {}
        self.problems: list[Problem] = []

    def run(self) -> None:
        """Builds all that can be built, and notes what cannot."""
        self._check_names()
        self._constants()
        for value_info in self.proto.input:
            # Models of old list initialisers among the inputs as well: values, not placeholders.
            if value_info.name not in self.initialisers:
                self._note(f"input {value_info.name!r}", self._input, value_info)
        self._nodes()

    @property
    def output_names(self) -> list[str]:
        """The names of the graph's outputs."""
        return [value_info.name for value_info in self.proto.output]

    def outputs(self) -> tuple[Tensor, ...]:
        """Returns the outputs, when there was no problem."""
        found = tuple(self.values[name] for name in self.output_names)
        return tuple(tensor for tensor in found if tensor is not None)

    def _body(self, graph: Any, inputs: Inputs) -> tuple[Tensor, ...]:
        """The outputs of a graph that lies in a node, built for these inputs; it sees all around it."""
        # A body sees the names around it, and its own stay its own.
        inside = Walk(graph, self.opsets, self.asked, self.values)
        inside.values.update(zip((i.name for i in graph.input), inputs, strict=True))
        inside._constants()
        inside._nodes()
        if inside.problems:
            what = "; ".join(f"{p.place}: {p.what}" for p in inside.problems)
            refused = RefusedNode(f"its body has {what}", hint=inside.problems[0].hint)
            refused.needs = tuple(name for p in inside.problems for name in p.needs)
            # As a refusal of the node that has it: with its place.
            raise refused
        if any(name not in inside.values for name in inside.output_names):
            raise _Behind
        return inside.outputs()

    def _constants(self) -> None:
        for tensor in self.proto.initializer:
            self._note(f"initialiser {tensor.name!r}", self._initialiser, tensor)

    def _nodes(self) -> None:
        for node in self.proto.node:
            name = node.name or next((o for o in node.output if o), node.op_type)
            self._note(f"node {name!r} ({_full_name(node)})", self._node, node, name)

    def _check_names(self) -> None:
        """Notes what was asked for by a name that the model does not have."""
        names = [value_info.name for value_info in self.proto.input]
        for argument, given in (("fixed", self.asked.fixed), ("shapes", self.asked.shapes)):
            for name in given:
                if name not in names:
                    what = f"the model has no input {name!r}; it has {', '.join(map(repr, names)) or 'none'}"
                    hint = f"give {argument} by the names of inputs"
                    self.problems.append(Problem(f"load(..., {argument}=...)", what, hint))
        for name in sorted(self.asked.weights, key=repr):
            if name not in self.initialisers:
                known = ", ".join(sorted(map(repr, self.initialisers))[:_MOST_NAMES]) or "none"
                what = f"the model has no initialiser {name!r}"
                hint = f"its initialisers are {known}"
                self.problems.append(Problem("load(..., trainable=...)", what, hint))

    def _note(self, place: str, build: Any, *args: Any) -> None:
        """Builds one thing, and notes it when that is refused."""
        try:
            build(*args)
        # A builder's mistake is no refusal: its cause is to be seen.
        except BuilderFailed:
            raise
        # Noted where it began.
        except _Behind:
            return
        except RefusedNode as error:
            self.problems.append(Problem(place, error.what, error.hint, error.needs))
        except ActorflowError as error:
            self.problems.append(Problem(place, error.what, error.hint))

    def _initialiser(self, tensor: Any) -> None:
        array = proto.array_of(tensor)
        if tensor.name not in self.asked.weights:
            # A constant.
            self.values[tensor.name] = as_tensor(array, name=tensor.name)
            return
        variable = self.variables[tensor.name] = Variable(array, name=tensor.name)
        self.values[tensor.name] = variable.read()

    def _input(self, value_info: Any) -> None:
        name = value_info.name
        spec = proto.spec_of(value_info)
        if name in self.asked.fixed:
            self.values[name] = as_tensor(_fixed_value(spec, self.asked.fixed[name]), name=name)
            return
        shape = spec.shape
        if name in self.asked.shapes:
            # Sizes are said more closely, not changed.
            wanted = check_shape(self.asked.shapes[name])
            try:
                shape = merge(shape, wanted)
            except SpecError as error:
                hint = f"load(..., shapes=...) says sizes that the model leaves open: of {show(shape)}"
                raise SpecError(error.what, hint=hint) from None
        self.values[name] = self.inputs[name] = placeholder(spec.dtype, shape, name=name)

    def _node(self, node: Any, name: str) -> None:
        build = find(node.domain, node.op_type)
        opset = self.opsets.get("" if node.domain in STANDARD else node.domain, 0)
        if build is None:
            message = f"there is no builder for it, opset {opset}"
            raise OnnxError(message, hint='write the missing ops: @onnx.builder("", "Op")')
        # What it stands on could not be built, which has been noted.
        if any(i not in self.values for i in node.input):
            raise _Behind
        attributes = {a.name: proto.attribute_of(a) for a in node.attribute}
        inputs = [self.values[i] for i in node.input]
        use = OnnxNode(
            name, node.domain, node.op_type, opset, attributes, inputs, list(node.output), self._body
        )
        with name_scope(name):
            outputs = _build(build, use)
        # An attribute that nobody asked for would change what the node does, in silence.
        unread = [a for a in attributes if a not in use.asked]
        if unread:
            message = f"the builder does not know {', '.join(f'{a}={attributes[a]!r:.40}' for a in unread)}"
            raise OnnxError(message, hint=f'write a builder that does: @onnx.builder("", {node.op_type!r})')
        for k, output in enumerate(node.output):
            # Nobody wants it.
            if not output:
                continue
            if k >= len(outputs):
                message = f"output {k} is not computed"
                raise OnnxError(message)
            self.values[output] = outputs[k]


def _fixed_value(spec: Spec, value: Any) -> Array:
    """The value of a fixed input; raises SpecError when it does not fit the model."""
    try:
        array = as_array(value)
    except ValueError as error:  # lists of different lengths
        message = f"a fixed value must fit {spec}, got {value!r:.60}: {error}"
        raise SpecError(message) from None
    if spec.fits(array.shape, array.dtype):
        return array
    message = f"a fixed value must fit {spec}, got {array.shape} {array.dtype}"
    raise SpecError(message, hint=f"give it as an array of {name_of(spec.dtype)}, in that shape")


def _build(build: Builder, node: OnnxNode) -> tuple[Tensor, ...]:
    """What a builder makes of a node; what it raises by mistake is not gathered, so its cause is seen."""
    try:
        outputs = build(node, node.inputs, node.opset)
    except (ActorflowError, _Behind):
        raise
    except Exception as error:
        message = f"the builder of {node.op} failed at node {node.name!r}: {describe(error)}"
        raise BuilderFailed(message, hint="see the cause; the model may not fit the op") from error
    return (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)


def _full_name(node: Any) -> str:
    return node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}"
