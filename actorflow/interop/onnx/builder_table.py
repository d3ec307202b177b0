"""The table of builders: which function makes the tensors of an ONNX op, and what it is handed.

A builder is `f(node, inputs, opset)`. It reads the attributes and the known values from `node`, builds
ops from `inputs`, in which None stands for an input that was left out, and returns the outputs: one
tensor, or a sequence of them when the op has several. What it cannot do it says with `node.refuse`;
`model.load` gathers all that was refused into one error. An attribute of the model that no builder
has asked for is refused too, so that none is forgotten in silence.

    @builder("", "Celu")
    def celu(node, inputs, opset):
        return af.nn.celu(inputs[0], node.attr("alpha", 1.0))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from actorflow.errors import OnnxError
from actorflow.graph.builder import Tensor
from actorflow.graph.node import Node
from actorflow.interop.onnx.constant_values import known_sizes, known_value, placeholders_of, value_inputs
from actorflow.values.arrays import Array

Inputs = Sequence[Any]
"""The inputs of an ONNX node: tensors, and None for those that were left out."""

Outputs = Tensor | Sequence[Tensor]

Choice = TypeVar("Choice")

Builder = Callable[["OnnxNode", Inputs, int], Outputs]

STANDARD = ("", "ai.onnx")
"""The names of the domain of ONNX's own ops."""


class RefusedNode(OnnxError):
    """One thing of one node that cannot be imported.

    Attributes:
        needs: The names of the model's inputs whose values would have to be known.
    """

    needs: tuple[str, ...] = ()


@dataclass(eq=False, slots=True)
class OnnxNode:
    """A node of an ONNX model, as a builder sees it.

    Attributes:
        name: The name of the node in the model, or that of its first output when it has none.
        attributes: The values by name: numbers, texts, arrays, tuples of those.
        outputs: The names of the outputs; "" for one that nobody wants.
        read_body: Builds a graph that is an attribute; see `body`.
        asked: The attributes that the builder has read.
    """

    name: str
    domain: str
    op: str
    opset: int
    attributes: Mapping[str, Any]
    inputs: Inputs
    outputs: Sequence[str]
    read_body: Callable[[Any, Inputs], tuple[Tensor, ...]]
    asked: set[str] = field(default_factory=set)

    def attr(self, name: str, default: Any = None) -> Any:
        """Returns an attribute, or `default` when the model does not give it."""
        # Noted, so that what no builder asked for can be refused.
        self.asked.add(name)
        return self.attributes.get(name, default)

    def choice(self, name: str, choices: Mapping[str, Choice], default: str | None = None) -> Choice:
        """Returns what `choices` has for a text that is an attribute; refuses any other text."""
        given = self.attr(name, default)
        if given not in choices:
            self.refuse(f"{name} must be one of {', '.join(choices)}, got {given!r}")
        return choices[given]

    def one_of(self, name: str, *texts: str) -> str:
        """Returns an attribute that is one of these texts, the first by default; refuses any other."""
        return self.choice(name, {text: text for text in texts}, texts[0])

    def body(self, name: str, inputs: Inputs) -> tuple[Tensor, ...]:
        """Builds the graph that is the attribute `name`, once more each time, and returns its outputs."""
        return self.read_body(self.attr(name), inputs)

    def ignore(self, *names: str) -> None:
        """Says that these attributes change nothing here."""
        self.asked.update(names)

    def has(self, index: int) -> bool:
        """Tells whether the model gives input `index`."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def wants(self, index: int) -> bool:
        """Tells whether the model names output `index`."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def value(self, index: int, default: Any = None) -> Array | Any:
        """Returns the value of input `index`, which must be known now; `default` when it is left out.

        Known are constants, and what is computed from constants and known shapes alone.
        """
        if not self.has(index):
            return default
        self.require(index)
        return known_value(self.inputs[index])

    def require(self, *indices: int) -> None:
        """Refuses the node unless the values of these inputs are known now, as far as it has them."""
        unknown = [i for i in indices if self.has(i) and known_value(self.inputs[i]) is None]
        if not unknown:
            return
        from_inputs = [n for i in unknown for n in placeholders_of(self.inputs[i])]
        from_values = [n for i in unknown for n in value_inputs(self.inputs[i])]
        # Only what may be a setting: images that a size is computed of are not to be fixed.
        names = tuple(dict.fromkeys(n.name for n in from_values if _is_setting(n)))
        which = f"input {unknown[0]}" if len(unknown) == 1 else f"inputs {', '.join(map(str, unknown))}"
        # A refusal and no error at once: `load` gathers all of them.
        refused = RefusedNode(
            f"the value of {which} must be known when the model is loaded",
            hint=_advice(from_inputs, names),
        )
        refused.needs = names
        raise refused

    def known(self, index: int) -> Array | None:
        """Returns the value of input `index` when it is known now, else None."""
        return known_value(self.inputs[index]) if self.has(index) else None

    def sizes_in(self, index: int) -> tuple[int | None, ...] | None:
        """Returns the numbers in an input that is a shape, None for unknown ones; None if not their count."""
        return known_sizes(self.inputs[index])

    def integers(self, index: int, default: Sequence[int] | None = None) -> tuple[int, ...] | None:
        """Returns a known input of integers as a tuple, `default` when it is left out."""
        found = self.value(index)
        if found is None:
            return None if default is None else tuple(default)
        return tuple(int(i) for i in found.reshape(-1))

    def shape(self, index: int) -> tuple[int | None, ...]:
        """Returns the shape of an input, whose rank must be known."""
        found: tuple[int | None, ...] | None = self.inputs[index].shape
        if found is None:
            self.refuse(f"the rank of input {index} must be known", "give the model's inputs a shape")
        return found

    def sizes(self, index: int, axes: Iterable[int] | None = None) -> tuple[int, ...]:
        """Returns sizes of an input, all or those of `axes`, which must be known."""
        shape = self.shape(index)
        axes = range(len(shape)) if axes is None else tuple(axes)
        if any(not -len(shape) <= axis < len(shape) for axis in axes):
            self.refuse(f"input {index} must have an axis {max(axes)}, got {shape}")
        # Sizes that are asked for, and no others: the rest may stay open.
        found = tuple(shape[axis] for axis in axes)
        if None in found:
            from_inputs = placeholders_of(self.inputs[index])
            # Of inputs that hold sizes the values would do, too.
            names = tuple(n.name for n in from_inputs if _gives_sizes(n))
            refused = RefusedNode(
                f"the sizes of input {index} must be known, got {shape}",
                hint=_advice(from_inputs, names),
            )
            refused.needs = names
            raise refused
        return tuple(size for size in found if size is not None)

    def refuse(self, what: str, hint: str | None = None) -> NoReturn:
        """Gives up on this node: says what it needs that is not there, and what to try."""
        raise RefusedNode(what, hint=hint)


def _advice(inputs: Iterable[Node], settings: Sequence[str]) -> str | None:
    """What to try where a size or value must be known: to say sizes, and the values of settings.

    What is computed with is never to be fixed: the model would be one for that input alone.
    """
    # A placeholder whose sizes are open, and that is no setting: its sizes would do.
    of_open_sizes = (n.name for n in inputs if n.name not in settings and not n.outputs[0].is_static)
    rest = list(dict.fromkeys(of_open_sizes))
    said = [
        f"{argument}={{{', '.join(f'{name!r}: {what}' for name in names)}}}"
        for argument, names, what in (("fixed", settings, "value"), ("shapes", rest, "sizes"))
        if names
    ]
    return f"load(..., {', '.join(said)})" if said else None


def _is_setting(node: Node) -> bool:
    """Tells whether a placeholder is so small that it may be a setting, and not what is computed with."""
    return node.outputs[0].rank in (0, 1)


def _gives_sizes(node: Node) -> bool:
    """Tells whether a placeholder may hold sizes: integers, at most a vector of as many as is known."""
    (spec,) = node.outputs
    return spec.dtype.kind == "i" and _is_setting(node) and spec.is_static


_TABLE: dict[tuple[str, str], Builder] = {}


def builder(domain: str, *ops: str) -> Callable[[Builder], Builder]:
    """Registers the decorated function for the ops of a domain, "" for ONNX's own.

    A later one replaces an earlier one, so that a program can have its own way.
    """

    def register(function: Builder) -> Builder:
        for op in ops:
            # Both names of ONNX's own domain are one.
            _TABLE["" if domain in STANDARD else domain, op] = function
        return function

    return register


def find(domain: str, op: str) -> Builder | None:
    """Returns the builder of an op, None when there is none."""
    return _TABLE.get(("" if domain in STANDARD else domain, op))


def table() -> Mapping[tuple[str, str], Builder]:
    """Returns the builders, by domain and op."""
    return _TABLE


def list_supported(domain: str = "") -> tuple[str, ...]:
    """Returns the names of the ops of a domain that have a builder, sorted."""
    wanted = "" if domain in STANDARD else domain
    return tuple(sorted(op for found, op in _TABLE if found == wanted))
