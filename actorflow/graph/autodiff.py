"""Gradients as part of the graph: reverse accumulation over the nodes between ys and xs.

Gradient rules build nodes out of ops, so a gradient is a tensor like any other and has a gradient
itself. Nothing is computed here.

Source: the backward pass of TensorFlow (Abadi et al., OSDI 2016, section 4.1), whose rules see
the forward node and the gradients of its outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from actorflow.errors import GradientError, SpecError, Where
from actorflow.graph import opdef
from actorflow.graph.body import Body, elsewhere, is_around
from actorflow.graph.builder import Tensor, as_tensor, on_behalf_of
from actorflow.graph.graph import Graph, current
from actorflow.graph.inner_reads import find_inner_read
from actorflow.graph.inputs_graph import in_graph_of_inputs
from actorflow.graph.node import Attr, Node, NodeId, Port
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, Effect
from actorflow.graph.outer_paths import outer_path
from actorflow.graph.slices import Gradient, IndexedSlices, join
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import is_differentiable, wide_dtype
from actorflow.values.spec import ListSpec, Spec, unify


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


@in_graph_of_inputs
def gradients(ys: Any, xs: Any, grad_ys: Any = None, stop_gradients: Any = ()) -> list[Gradient | None]:
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
        stop_gradients: A tensor or variable to treat as constant, or several; a variable means all its
            reads. An x among them still gets its gradient.

    Raises:
        GradientError: when an op on a path has no gradient rule; names the path. When ys are not
            floating or a rule gives a gradient of the wrong spec. When ys depend on reads of a
            variable x from both sides of a write: they give two values; or on reads inside of a loop
            or branch. When xs or stop_gradients are no tensors or variables.
        GraphError: for a tensor or variable of another graph.
        SpecError: when a `grad_y` does not fit its y.
    """
    graph = current()
    targets = [as_tensor(y) for y in as_list(ys)]
    wanted = as_list(xs)
    sources = [_GradientSource.of(part, "gradients go to") for x in wanted for part in _parts(x)]
    stopped = [part for x in _several(stop_gradients) for part in _parts(x)]
    stops = [_GradientSource.of(x, "stop_gradients are") for x in stopped]
    starts = [None] * len(targets) if grad_ys is None else as_list(grad_ys)
    if len(starts) != len(targets):
        message = f"gradients takes one grad_y for each y, got {len(starts)} for {len(targets)}"
        raise GradientError(message, where=Where(defined_at=source_line()))
    sweep = _Sweep(graph, targets, sources, frozenset(port for s in stops for port in s.ports))
    for y, start in zip(targets, starts, strict=True):
        sweep.seed(y, start)
    found = iter(sweep.run())
    if isinstance(graph, Body):
        for part in (part for x in wanted for part in _parts(x)):
            _check_path_inside(graph, targets, part)
    for x in wanted:
        _check_read_outside(graph, targets, [part for part in _parts(x) if not isinstance(part, Tensor)])
    # A partitioned variable gets its parts' gradients joined.
    parted = [[next(found) for _ in _parts(x)] for x in wanted]
    return [x.join_gradient(g) if _is_parted(x) else g[0] for x, g in zip(wanted, parted, strict=True)]


def _check_path_inside(body: Body, targets: Sequence[Tensor], x: Any) -> None:
    """Raises GradientError when a y depends on an x outside of the body in which gradients are asked for."""

    def ports_of(graph: Graph) -> set[Port]:
        # Of a variable every read in that graph stands for it.
        if not isinstance(x, Tensor):
            reads = (node for node in graph.nodes if node.op == "read_variable")
            return {Port(node.id) for node in reads if node.attrs["resource"] == x.name}
        if x.graph is graph:
            return {x.port}
        # What the body has captured of it: a path outside may lead there.
        known = (
            graph.find_capture(x.graph, x.port)
            if isinstance(graph, Body) and is_around(x.graph, graph)
            else None
        )
        return set() if known is None else {known}

    found = outer_path(body, [y.port for y in targets], ports_of)
    if found is not None:
        through = f"{found.name!r} ({found.defined_at})"
        message = (
            f"gradients inside of a body go through what is built in it, got {name_of(targets[0])!r}, which "
            f"depends on {name_of(x)!r} through {through} as well, outside of {body.what}"
        )
        hint = "build that inside too, take the gradient outside and use it, or stop it with af.stop_gradient"
        raise GradientError(message, where=Where(defined_at=source_line()), hint=hint)


def _check_read_outside(graph: Graph, targets: Sequence[Tensor], variables: Sequence[Any]) -> None:
    """Raises GradientError when a gradient would miss what is read of a variable inside a body."""
    for variable in variables:
        found = find_inner_read(graph, [y.port for y in targets], variable.name)
        if found is None:
            continue
        read, body = found
        message = (
            f"gradients reach a variable by reads outside of loops and branches, got {read.name!r}, "
            f"which reads {variable.name!r} in {body.what} ({body.defined_at})"
        )
        hint = "use it as a tensor, without read(), and write it elsewhere; or read it before, and use that"
        raise GradientError(message, where=read.where, hint=hint)


def back_through(
    body: Graph, ys: Sequence[tuple[Port, Gradient]], xs: Sequence[Port]
) -> list[Gradient | None]:
    """Returns the gradient of ports of a body, built in the current graph, around which the body lies.

    Args:
        body: Whose nodes are gone back through.
        ys: Ports of it, each with the gradient that it starts with, a tensor of the current graph.
        xs: Ports of it.
    """
    # The sweep goes through the body, and builds in the graph around it.
    targets = [Tensor(body, port) for port, _ in ys]
    sources = [_GradientSource(Tensor(body, port).name, (port,), is_variable=False) for port in xs]
    sweep = _Sweep(body, targets, sources, frozenset())
    for y, (_, start) in zip(targets, ys, strict=True):
        sweep.seed(y, start)
    return sweep.run()


def _parts(x: Any) -> Sequence[Any]:
    """What `x` is made of: itself, or the parts of a partitioned variable."""
    parts: Sequence[Any] = x.parts if _is_parted(x) else (x,)
    return parts


def _is_parted(x: Any) -> bool:
    return not isinstance(x, Tensor) and hasattr(x, "parts")


def as_list(values: Any) -> list[Any]:
    """Returns a list or tuple as a list, and anything else as the one element of a list."""
    return list(values) if isinstance(values, list | tuple) else [values]


def _several(values: Any) -> list[Any]:
    """As `as_list`; sets and iterators are several as well."""
    return list(values) if isinstance(values, Set | Iterator) else as_list(values)


def check_source(x: Any, what: str = "gradients go to") -> None:
    """Raises GradientError unless gradients can go to `x`, which is of this graph or one around it."""
    if not isinstance(x, Tensor) and not hasattr(x, "reads"):
        message = f"{what} tensors and variables, got {type(x).__name__} {x!r:.60}"
        raise GradientError(message, where=Where(defined_at=source_line()), hint=advice(x))
    graph = current()
    if not is_around(x.graph, graph):
        why, hint = elsewhere(x.graph, graph)
        message = f"{what} tensors and variables of the current graph, {x!r} {why}"
        where = x.node.where if isinstance(x, Tensor) else Where(defined_at=source_line())
        raise GradientError(message, where=where, hint=hint)


def advice(x: Any) -> str | None:
    """Returns what to pass instead of `x`, which is no tensor or variable; None where nobody knows."""
    if isinstance(x, IndexedSlices):
        return "pass its values, or the tensor of which they are rows"
    if isinstance(x, str):
        return "pass the tensor or variable itself, and not its name"
    if x is None:
        return "leave it out"
    return "pass one flat list" if isinstance(x, list | tuple) else None


def name_of(x: Any) -> str:
    """Returns what the user calls a tensor or variable."""
    return x.name if not isinstance(x, Tensor) or x.port.index else x.node.name


@dataclass(frozen=True, slots=True)
class _GradientSource:
    """An x: the tensors that stand for it, and what the user calls it."""

    name: str
    ports: tuple[Port, ...]
    is_variable: bool

    @staticmethod
    def of(x: Any, what: str) -> _GradientSource:
        check_source(x, what)
        ports = (as_tensor(x).port,) if isinstance(x, Tensor) else tuple(r.port for r in x.reads())
        return _GradientSource(name_of(x), ports, not isinstance(x, Tensor))


@dataclass(frozen=True, slots=True)
class _PartialGradient:
    """A part of a gradient, and the node whose rule gave it; of a sum, the first that gave a dense one."""

    grad: Gradient
    by: Node


class _Sweep:
    """One reverse pass.

    INVARIANT: when a node's turn comes, all its consumers had theirs, since ids are a topological
    order; so `parts` of its outputs are complete.
    """

    def __init__(
        self,
        graph: Graph,
        targets: Sequence[Tensor],
        sources: Sequence[_GradientSource],
        stop: frozenset[Port],
    ) -> None:
        self.graph = graph
        self.targets = targets
        self.sources = sources
        self.stop = stop
        # Integers among the xs get None: nothing flows to them.
        self.wanted = {port: s.name for s in sources for port in s.ports if self._differentiable(port)}
        # Nothing before the first x or after the last y lies on a path.
        self.first = min((port.node for port in self.wanted), default=NodeId(len(graph.nodes)))
        self.last = max((y.port.node for y in targets), default=NodeId(-1))
        self.live = self._live()
        self.parts: dict[Port, list[_PartialGradient]] = {}
        self.totals: dict[Port, _PartialGradient] = {}

    def _differentiable(self, port: Port) -> bool:
        return is_differentiable(self.graph.nodes[port.node].outputs[port.index].dtype)

    def _live(self) -> set[Port]:
        """The ports that depend on an x by a path that carries gradients; the xs among them."""
        live = set(self.wanted)
        # Forwards, so that an input's port is known by then: ids are a topological order.
        for node in self.graph.nodes[self.first : self.last + 1]:
            if not any(p in live for p in node.inputs):
                continue
            # The path just ends there.
            if opdef.lookup(node.op).gradient is NOT_DIFFERENTIABLE:
                continue
            ports = (Port(node.id, i) for i in range(len(node.outputs)))
            # A stop cuts what flows through a node; an x among the stops is in `wanted`, and keeps its
            # gradient.
            live.update(p for p in ports if p not in self.stop and self._differentiable(p))
        return live

    def seed(self, y: Tensor, start: Any) -> None:
        """Starts the sweep at `y` with the gradient `start`, ones when it is None."""
        if not is_differentiable(y.dtype):
            message = f"ys of gradients are floating, got {name_of(y)!r} {y.spec}"
            raise GradientError(message, where=y.node.where, hint="convert it with af.cast")
        if start is None:
            # No path to an x: no ones are built for nobody.
            if y.port not in self.live:
                return
            with on_behalf_of(y.node, "gradients"):
                grad: Gradient = opdef.lookup("ones_like").constructor(y)
        else:
            grad = start.here() if isinstance(start, IndexedSlices) else as_tensor(start, dtype=y.dtype)
            if not fits(grad.spec, y.spec):
                message = f"the gradient of {name_of(y)!r} must fit {y.spec}, got {grad.spec}"
                raise SpecError(message, where=y.node.where)
        # Checked all the same: a start that does not fit is an error, wherever it would lead.
        if y.port in self.live:
            self.parts.setdefault(y.port, []).append(_PartialGradient(grad, y.node))

    def run(self) -> list[Gradient | None]:
        """Goes back through the nodes and returns the gradient of each source."""
        for node_id in range(self.last, self.first - 1, -1):
            self._visit(self.graph.nodes[node_id])
        return [self._of_source(s) for s in self.sources]

    def _visit(self, node: Node) -> None:
        ports = [Port(node.id, i) for i in range(len(node.outputs))]
        # ORDER: a node's turn comes when all who use it have had theirs, so its parts are complete.
        for port in ports:
            if port in self.parts:
                self.totals[port] = self._total(node, self.parts.pop(port))
        # What is stopped has a total, for an x, but hands nothing on.
        totals = [None if port in self.stop else self.totals.get(port) for port in ports]
        grads = [None if total is None else total.grad for total in totals]
        needs = tuple(port in self.live for port in node.inputs)
        # Only where an x lies behind it and a y before it.
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
        if any(isinstance(g, IndexedSlices) for g in grads):
            # Told before the rule sees them: it may make them dense, and the user hears whose rows they are.
            by = f"the gradient of {node.op}"
            grads = [
                g.with_origin(self._name_source(node, g), by) if isinstance(g, IndexedSlices) else g
                for g in grads
            ]
        given = [x.spec for x, needed in zip(use.inputs, use.needs, strict=True) if needed]
        if any(spec.dtype.kind == "c" for spec in (*node.outputs, *given)):
            message = f"gradients are of real numbers, got complex ones on the path {self._path(node)}"
            raise GradientError(message, where=node.where)
        assert callable(rule)
        # What a rule builds belongs to the forward node: an error in it names the user's line.
        with on_behalf_of(node, "gradients"):
            back = tuple(rule(use, *(grads if definition.sparse else map(_dense, grads))))
        if len(back) != len(node.inputs):
            message = f"a gradient rule gives one gradient an input, got {len(back)} for {len(node.inputs)}"
            raise GradientError(message, where=node.where)
        for i, (port, needed, grad) in enumerate(zip(node.inputs, use.needs, back, strict=True)):
            # None for an input whose gradient nobody wants, or through which none flows.
            if not needed or grad is None:
                continue
            # Checked here, where it is known whose rule it was.
            if not fits(grad.spec, use.inputs[i].spec):
                message = f"the gradient of input {i} must fit {use.inputs[i].spec}, got {grad.spec}"
                raise GradientError(message, where=node.where)
            self.parts.setdefault(port, []).append(_PartialGradient(grad, node))

    def _of_source(self, source: _GradientSource) -> Gradient | None:
        used = [port for port in source.ports if port in self.totals]
        if not used:
            # None, not zeros: so a parameter that was left out of the loss is seen.
            return None
        # A variable may have been read on both sides of a write: those are two values.
        self._check_one_value(source.name, used)
        totals = [self.totals[port] for port in used]
        # Rows of what is of open size are no table: nobody would know it by a name.
        whose = source.name if source.is_variable or totals[0].grad.spec.is_static else ""
        grad = self._total(self.graph.nodes[source.ports[0].node], totals, whose).grad
        return grad.with_origin(whose) if isinstance(grad, IndexedSlices) else grad

    def _total(
        self, node: Node, parts: Sequence[_PartialGradient], whose: str | None = None
    ) -> _PartialGradient:
        """The sum of partial gradients, with the first node that gave a dense one; see `_sum_of`."""
        dense = next((part for part in parts if not isinstance(part.grad, IndexedSlices)), None)
        by = (dense or parts[0]).by
        if dense is not None:
            # Sparse rows beside a dense gradient become dense: that costs a step all rows, and is told.
            for grad in (part.grad for part in parts if isinstance(part.grad, IndexedSlices)):
                name = self._name_source(node, grad) if whose is None else whose
                what = f"a sum with the dense gradient of {by.op}"
                grad.with_origin(name).tell_of(what, by.defined_at)
        return _PartialGradient(_sum_of(node, [part.grad for part in parts]), by)

    def _name_source(self, node: Node, rows: IndexedSlices) -> str:
        """The user's name of an x on which `node` depends; none for rows of what is of open size."""
        if not rows.spec.is_static:
            return ""
        below = [*node.inputs, *map(partial(Port, node.id), range(len(node.outputs)))]
        while below:
            port = below.pop()
            if port in self.wanted:
                return self.wanted[port]
            below.extend(p for p in self.graph.nodes[port.node].inputs if p in self.live)
        return ""

    def _check_one_value(self, name: str, reads: Sequence[Port]) -> None:
        """Raises GradientError when `reads` of variable `name`, in program order, span a write to it."""
        nodes = self.graph.nodes
        # In program order: a write between two reads lies between their ids.
        for before, after in pairwise(port.node for port in reads):
            for node in nodes[before + 1 : after]:
                if _writes(node, name):
                    order = (nodes[before], node, nodes[after])
                    path = ", then ".join(f"{n.name!r} ({n.defined_at})" for n in order)
                    y = name_of(self.targets[0])
                    message = f"{y!r} must depend on one value of variable {name!r} only, got {path}"
                    hint = (
                        "build the write before or after both reads, differentiate with respect to one "
                        "of them, or use af.stop_gradient on the other"
                    )
                    raise GradientError(message, where=node.where, hint=hint)

    def _path(self, node: Node) -> str:
        """`y → x` for some y and x with `node` between them, in the user's names."""
        # Forwards for the y, then backwards along live ports for the x: some path, to name it in the error.
        above = {node.id}
        for later in self.graph.nodes[node.id + 1 : self.last + 1]:
            if any(p.node in above for p in later.inputs):
                above.add(later.id)
        y = next(name_of(t) for t in self.targets if t.port.node in above)
        below, x = [node], None
        while x is None:
            ports = [p for p in below.pop().inputs if p in self.live]
            x = next((self.wanted[p] for p in ports if p in self.wanted), None)
            below.extend(self.graph.nodes[p.node] for p in ports)
        return f"{y} → {x}"


def _writes(node: Node, variable: str) -> bool:
    effect = opdef.lookup(node.op).effect
    if effect is Effect.FUNCTION:
        return variable in node.attrs["writes"]
    if effect in (Effect.COMMIT, Effect.LOCK, Effect.UNLOCK):  # others may write until it is locked
        return variable in node.attrs["resources"]
    return effect is Effect.WRITE and node.attrs["resource"] == variable


def fits(grad: Spec, of: Spec) -> bool:
    """Tells whether a gradient of that spec may be one of a tensor of spec `of`, or a direction for it."""
    try:
        unify(grad, of)
    except SpecError:
        return False
    return True


def _sum_of(node: Node, parts: Sequence[Gradient]) -> Gradient:
    """The sum of partial gradients, folded from the left in the order of their arrival.

    It is sparse when all parts are: their slices, one after the other.
    """
    if len(parts) == 1:
        return parts[0]
    with on_behalf_of(node, "gradients"):
        slices = [part for part in parts if isinstance(part, IndexedSlices)]
        if len(slices) == len(parts):
            return join(slices)
        total, *rest = (p.to_dense() if isinstance(p, IndexedSlices) else as_tensor(p) for p in parts)
        if isinstance(total.spec, ListSpec):
            for part in rest:
                total = opdef.lookup("list_add").constructor(total, part)
            return total
        dtype, wide = total.dtype, wide_dtype(total.dtype)
        if dtype == wide or len(rest) == 1:  # a sum of two is rounded once as it is
            for part in rest:
                total = total + part
            return total
        # Halves are added up in float32 and rounded once, as everywhere: bfloat16 would count to 256.
        cast = opdef.lookup("cast").constructor
        total = cast(total, wide)
        for part in rest:
            total = total + cast(part, wide)
        rounded: Tensor = cast(total, dtype)
        return rounded


def _dense(grad: Gradient | None) -> Tensor | None:
    return grad.as_tensor() if isinstance(grad, IndexedSlices) else grad
