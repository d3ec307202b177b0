"""Gradients as part of the graph: reverse accumulation over the nodes between ys and xs.

Gradient rules build nodes out of ops, so a gradient is a tensor like any other and has a gradient
itself. Nothing is computed here.

Source: the backward pass of TensorFlow (Abadi et al., OSDI 2016, section 4.1), whose rules see
the forward node and the gradients of its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import pairwise
from typing import Any

from actorflow.arrays import is_differentiable
from actorflow.errors import GradientError, SpecError
from actorflow.graph import opdef
from actorflow.graph.builder import Tensor, as_tensor, build, on_behalf_of
from actorflow.graph.graph import Graph, current
from actorflow.graph.node import Attr, Node, NodeId, Port
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Effect
from actorflow.graph.slices import Gradient, IndexedSlices, joined
from actorflow.spec import Spec, merge


@dataclass(frozen=True, slots=True)
class Use:
    """What a gradient rule is told about the forward node.

    Attributes:
        needs: For each input, whether its gradient leads to an x; a rule may return None for the
            others to spare the work of building them.
    """

    graph: Graph
    node: Node
    needs: tuple[bool, ...]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs of the forward node."""
        return tuple(Tensor(self.graph, port) for port in self.node.inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The outputs of the forward node."""
        return tuple(Tensor(self.graph, Port(self.node.id, i)) for i in range(len(self.node.outputs)))

    @property
    def attrs(self) -> Mapping[str, Attr]:
        """The attributes of the forward node."""
        return self.node.attrs


def gradients(
    ys: Any, xs: Any, grad_ys: Any = None, stop_gradients: Iterable[Tensor] = ()
) -> list[Gradient | None]:
    """Returns the gradient of the sum of all elements of `ys` for each of `xs`.

    The gradient of an x on which no y depends is None, not zeros: so a parameter that was left
    out of the loss is seen. It is None as well when every path to it runs through integers,
    `stop_gradient` or another op that carries no gradient by its nature.

    The gradient of an x that is used through `gather` along its first axis, and in no other way, is
    sparse: `IndexedSlices`, which every op takes for the dense tensor.

    The gradient for a variable is that for the value which its reads give, summed over those that
    ys depend on. So these lie all before, or all after, any one write to it; gradients through the
    write itself, from the old value to the new, do not exist.

    Args:
        ys: A floating tensor, or a sequence of them.
        xs: A tensor or variable, or a sequence of them. An x may lie on the way to another.
        grad_ys: For each y the gradient that it starts with, None for ones; it may be sparse.
        stop_gradients: Tensors to treat as constants; an x among them still gets its gradient.

    Raises:
        GradientError: when an op on a path has no gradient rule; names the path. When ys are not
            floating or a rule gives a gradient of the wrong spec. When ys depend on reads of a
            variable x from both sides of a write: they give two values.
        SpecError: when a `grad_y` does not fit its y.
    """
    graph = current()
    targets = [as_tensor(y) for y in _listed(ys)]
    sources = [_Source.of(graph, x) for x in _listed(xs)]
    starts = [None] * len(targets) if grad_ys is None else _listed(grad_ys)
    if len(starts) != len(targets):
        message = f"gradients takes one grad_y for each y, got {len(starts)} for {len(targets)}"
        raise GradientError(message)
    sweep = _Sweep(graph, targets, sources, frozenset(t.port for t in stop_gradients))
    for y, start in zip(targets, starts, strict=True):
        sweep.seed(y, start)
    return sweep.run()


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple) else [values]


@dataclass(frozen=True, slots=True)
class _Source:
    """An x: the tensors that stand for it, and what the user calls it."""

    name: str
    ports: tuple[Port, ...]

    @staticmethod
    def of(graph: Graph, x: Any) -> _Source:
        if isinstance(x, Tensor):
            return _Source(_name(x), (as_tensor(x).port,))
        if hasattr(x, "reads"):
            return _Source(x.name, tuple(read.port for read in x.reads() if read.graph is graph))
        message = f"gradients go to tensors and variables, got {type(x).__name__} {x!r:.60}"
        raise GradientError(message)


def _name(tensor: Tensor) -> str:
    return tensor.name if tensor.port.index else tensor.node.name


class _Sweep:
    """One reverse pass.

    INVARIANT: when a node's turn comes, all its consumers had theirs, since ids are a topological
    order; so `parts` of its outputs are complete.
    """

    def __init__(
        self, graph: Graph, targets: Sequence[Tensor], sources: Sequence[_Source], stop: frozenset[Port]
    ) -> None:
        self.graph = graph
        self.targets = targets
        self.sources = sources
        self.stop = stop
        self.wanted = {port: s.name for s in sources for port in s.ports if self._differentiable(port)}
        self.first = min((port.node for port in self.wanted), default=NodeId(len(graph.nodes)))
        self.last = max((y.port.node for y in targets), default=NodeId(-1))
        self.live = self._live()
        self.parts: dict[Port, list[Gradient]] = {}
        self.totals: dict[Port, Gradient] = {}

    def _differentiable(self, port: Port) -> bool:
        return is_differentiable(self.graph.nodes[port.node].outputs[port.index].dtype)

    def _live(self) -> set[Port]:
        """The ports that depend on an x by a path that carries gradients; the xs among them."""
        live = set(self.wanted)
        for node in self.graph.nodes[self.first : self.last + 1]:
            if not any(p in live for p in node.inputs):
                continue
            if opdef.lookup(node.op).gradient is NOT_DIFFERENTIABLE:
                continue
            ports = (Port(node.id, i) for i in range(len(node.outputs)))
            live.update(p for p in ports if p not in self.stop and self._differentiable(p))
        return live

    def seed(self, y: Tensor, start: Any) -> None:
        """Starts the sweep at `y` with the gradient `start`, ones when it is None."""
        if not is_differentiable(y.dtype):
            message = f"ys of gradients are floating, got {_name(y)!r} {y.spec}"
            raise GradientError(message, where=y.node.where, hint="convert it with af.cast")
        if start is None:
            if y.port not in self.live:
                return
            with on_behalf_of(y.node, "gradients"):
                grad: Gradient = opdef.lookup("ones_like").constructor(y)
        else:
            grad = start if isinstance(start, IndexedSlices) else as_tensor(start, dtype=y.dtype)
            if not _fits(grad.spec, y.spec):
                message = f"the gradient of {_name(y)!r} must fit {y.spec}, got {grad.spec}"
                raise SpecError(message, where=y.node.where)
        if y.port in self.live:
            self.parts.setdefault(y.port, []).append(grad)

    def run(self) -> list[Gradient | None]:
        """Goes back through the nodes and returns the gradient of each source."""
        for node_id in range(self.last, self.first - 1, -1):
            self._visit(self.graph.nodes[node_id])
        return [self._of_source(s) for s in self.sources]

    def _visit(self, node: Node) -> None:
        ports = [Port(node.id, i) for i in range(len(node.outputs))]
        for port in ports:
            if port in self.parts:
                self.totals[port] = _total(node, self.parts.pop(port))
        grads = [None if port in self.stop else self.totals.get(port) for port in ports]
        needs = tuple(port in self.live for port in node.inputs)
        if any(needs) and any(g is not None for g in grads):
            self._apply(Use(self.graph, node, needs), grads)

    def _apply(self, use: Use, grads: Sequence[Gradient | None]) -> None:
        node = use.node
        definition = opdef.lookup(node.op)
        rule = definition.gradient
        if rule is NOT_DIFFERENTIABLE:
            return
        if rule is None:
            message = f"no gradient rule for {node.op!r} on the path {self._path(node)}"
            hint = "stop the gradient there, or register one with @op(..., gradient=…)"
            raise GradientError(message, where=node.where, hint=hint)
        given = [x.spec for x, needed in zip(use.inputs, use.needs, strict=True) if needed]
        if any(spec.dtype.kind == "c" for spec in (*node.outputs, *given)):
            message = f"gradients are of real numbers, got complex ones on the path {self._path(node)}"
            raise GradientError(message, where=node.where)
        assert callable(rule)
        with on_behalf_of(node, "gradients"):
            back = tuple(rule(use, *(grads if definition.sparse else map(_dense, grads))))
        if len(back) != len(node.inputs):
            message = f"a gradient rule gives one gradient an input, got {len(back)} for {len(node.inputs)}"
            raise GradientError(message, where=node.where)
        for i, (port, needed, grad) in enumerate(zip(node.inputs, use.needs, back, strict=True)):
            if not needed or grad is None:
                continue
            if not _fits(grad.spec, use.inputs[i].spec):
                message = f"the gradient of input {i} must fit {use.inputs[i].spec}, got {grad.spec}"
                raise GradientError(message, where=node.where)
            self.parts.setdefault(port, []).append(grad)

    def _of_source(self, source: _Source) -> Gradient | None:
        used = [port for port in source.ports if port in self.totals]
        if not used:
            return None
        self._check_one_value(source.name, used)
        return _total(self.graph.nodes[source.ports[0].node], [self.totals[port] for port in used])

    def _check_one_value(self, name: str, reads: Sequence[Port]) -> None:
        """Raises GradientError when `reads` of variable `name`, in program order, span a write to it."""
        nodes = self.graph.nodes
        for before, after in pairwise(port.node for port in reads):
            for node in nodes[before + 1 : after]:
                if _writes(node, name):
                    order = (nodes[before], node, nodes[after])
                    path = ", then ".join(f"{n.name!r} ({n.defined_at})" for n in order)
                    y = _name(self.targets[0])
                    message = f"{y!r} must depend on one value of variable {name!r} only, got {path}"
                    hint = (
                        "build the write before or after both reads, differentiate with respect to one "
                        "of them, or use af.stop_gradient on the other"
                    )
                    raise GradientError(message, where=node.where, hint=hint)

    def _path(self, node: Node) -> str:
        """`y → x` for some y and x with `node` between them, in the user's names."""
        above = {node.id}
        for later in self.graph.nodes[node.id + 1 : self.last + 1]:
            if any(p.node in above for p in later.inputs):
                above.add(later.id)
        y = next(_name(t) for t in self.targets if t.port.node in above)
        below, x = [node], None
        while x is None:
            ports = [p for p in below.pop().inputs if p in self.live]
            x = next((self.wanted[p] for p in ports if p in self.wanted), None)
            below.extend(self.graph.nodes[p.node] for p in ports)
        return f"{y} → {x}"


def _writes(node: Node, variable: str) -> bool:
    effect = opdef.lookup(node.op).effect
    if effect is Effect.COMMIT:
        return variable in node.attrs["resources"]
    return effect is Effect.WRITE and node.attrs["resource"] == variable


def _fits(grad: Spec, of: Spec) -> bool:
    try:
        merge(grad.shape, of.shape)
    except SpecError:
        return False
    return grad.dtype == of.dtype


def _total(node: Node, parts: Sequence[Gradient]) -> Gradient:
    """The sum of partial gradients, folded from the left in the order of their arrival.

    It is sparse when all parts are: their slices, one after the other.
    """
    if len(parts) == 1:
        return parts[0]
    with on_behalf_of(node, "gradients"):
        slices = [part for part in parts if isinstance(part, IndexedSlices)]
        if len(slices) == len(parts):
            return joined(slices)
        total, *rest = (as_tensor(part) for part in parts)
        for part in rest:
            total = total + part
    return total


def _dense(grad: Gradient | None) -> Tensor | None:
    return grad.to_dense() if isinstance(grad, IndexedSlices) else grad


def custom_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives what `function` builds another gradient.

    The decorated function takes tensors and returns `(ys, rule)`: one tensor or a tuple, and a
    function that takes the gradient of each y and returns that of each argument (None for none).
    No other gradient flows through what it builds, so whatever should get one, variables
    included, has to be an argument.

    Raises:
        GradientError: from `gradients`, when the rule gives a gradient that does not fit.

    >>> @af.custom_gradient
    ... def straight_through(x):
    ...     return af.floor(x), lambda grad: grad
    >>> with af.Graph():
    ...     x = af.placeholder("float32", (3,), name="x")
    ...     af.gradients(straight_through(x), x)
    [<Tensor gradients/straight_through/ones_like:0 (3,) float32>]
    """

    @wraps(function)
    def constructor(*args: Any) -> Any:
        xs = [as_tensor(a) for a in args]
        made, rule = function(*xs)
        ys = _listed(made)
        name = getattr(function, "__name__", "custom_gradient")
        key = current().add_object(f"custom_gradient/{name}", rule)
        outputs = build("custom_gradient", (*ys, *xs), {"object": key, "outputs": len(ys)}, name=name)
        return outputs if isinstance(made, list | tuple) else outputs[0]

    return constructor


def _first_outputs(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return inputs[: attrs["outputs"]]


def _custom_rule(use: Use, *grads: Tensor | None) -> Sequence[Gradient | None]:
    zeros = opdef.lookup("zeros_like").constructor
    filled = [zeros(y) if g is None else g for y, g in zip(use.outputs, grads, strict=True)]
    back = _listed(use.graph.objects[use.attrs["object"]](*filled))
    found = (g if g is None or isinstance(g, IndexedSlices) else as_tensor(g) for g in back)
    return (*(None for _ in grads), *found)


opdef.op("custom_gradient", spec=_first_outputs, gradient=_custom_rule)(custom_gradient)
