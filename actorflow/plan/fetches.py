"""What the user's fetches and feeds mean in a graph, and whether a fed value fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from actorflow.errors import FeedError, FetchError, pluralise
from actorflow.graph.body import elsewhere, root_of
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.graph.node import Node, Port
from actorflow.graph.operators import Operators
from actorflow.graph.resource import VariableDef
from actorflow.ops.state.variable import Variable
from actorflow.values import arrays
from actorflow.values.pytree import flatten
from actorflow.values.spec import ListSpec, Spec, show


def resolve_fetch(graph: Graph, fetch: Any) -> Port:
    """Returns the port that a fetch means: a tensor, a variable (its read), or a name.

    Raises:
        FetchError: when it is none of these, belongs to another graph, or does not exist.
    """
    if isinstance(fetch, Tensor):
        if fetch.graph is graph:
            return _no_list(fetch.node, fetch.port.index)
        why, hint = _elsewhere(graph, fetch)
        message = f"fetch {fetch.name!r} {why}"
        raise FetchError(message, where=fetch.node.where, hint=hint)
    if isinstance(fetch, str) and isinstance(graph.resources.get(fetch), VariableDef):
        # A name may be that of a variable: its read is meant, which may not have been built yet.
        fetch = Variable.existing(graph, fetch)
    if isinstance(fetch, str):
        node, index = _find_by_name(graph, fetch)
        if node is None:
            # A name that the graph has not may be that of a tensor in a body: the error there says why it
            # cannot be fetched.
            inner = _within(graph, fetch)
            if inner is not None:
                return resolve_fetch(graph, inner)
            message = f"fetch {fetch!r} names no tensor of the graph"
            raise FetchError(message, hint=_near(graph, fetch) or _by_name(graph))
        if index is None:
            message = f"node {node.name!r} has {len(node.outputs)} outputs, got fetch {fetch!r}"
            raise FetchError(message, where=node.where)
        return _no_list(node, index)
    if hasattr(fetch, "as_tensor"):
        if fetch.graph is not graph:
            message = f"fetch {fetch.name!r} belongs to another graph than this session's"
            raise FetchError(message, hint="open a session on its graph")
        # Where its read is built, unless it is there.
        with graph:
            return resolve_fetch(graph, fetch.as_tensor())
    message = f"a fetch is a tensor, a variable, a name, or a structure of them, got {type(fetch).__name__}"
    if fetch is graph:
        raise FetchError(message, hint=f"fetch a tensor of it; {_by_name(graph)}")
    hint = "a value needs no step; af.constant(value) makes a tensor of it while the graph is built"
    raise FetchError(message, hint=hint)


def _no_list(node: Node, index: int) -> Port:
    """The port of a fetch; FetchError for a list of tensors, which is no array."""
    if isinstance(found := node.outputs[index], ListSpec):
        message = f"a fetch is a tensor, got {node.name!r}, a {found}"
        raise FetchError(message, where=node.where, hint="fetch its .stack(), .concat() or .read(i)")
    return Port(node.id, index)


def _elsewhere(graph: Graph, tensor: Tensor) -> tuple[str, str]:
    """Why a tensor that is none of the graph cannot be fetched or fed, and what to try."""
    # The tensor of a body: it can be told how to get it out, which another graph's cannot.
    if root_of(tensor.graph) is graph:
        return elsewhere(tensor.graph, graph)
    return "belongs to another graph than this session's", "open a session on its graph"


def resolve_fetches(graph: Graph, fetches: Any) -> tuple[tuple[Port, ...], Callable[[Sequence[Any]], Any]]:
    """Returns the ports that are fetched, and how their values take the structure of `fetches`.

    Args:
        graph: The session's.
        fetches: A tensor or variable, its name, or tuples, lists and dicts of them.

    Raises:
        FetchError: when one does not name an output of the graph.
    """
    # The most common fetch, and no structure to look into.
    if isinstance(fetches, Tensor):
        return (resolve_fetch(graph, fetches),), only
    leaves, build = flatten(fetches)
    return tuple(resolve_fetch(graph, leaf) for leaf in leaves), build


def check_count(values: Sequence[Any], takes: int) -> None:
    """Raises FeedError unless a callable that takes so many values is given as many."""
    if len(values) != takes:
        message = f"this callable takes {pluralise(takes, 'value')}, got {len(values)}"
        raise FeedError(message)


def resolve_feed(graph: Graph, key: Any) -> Port:
    """Returns the port that the key of a feed means: a tensor, or the name of one.

    Raises:
        FeedError: when it is neither, belongs to another graph, or does not exist.
    """
    if isinstance(key, Tensor):
        if key.graph is graph:
            _check_no_list(key.node.name, key.spec)
            return key.port
        why, hint = _elsewhere(graph, key)
        message = f"feed {key.name!r} {why}"
        raise FeedError(message, where=key.node.where, hint=hint)
    if not isinstance(key, str):
        message = f"the key of a feed is a tensor or its name, got {type(key).__name__}"
        raise FeedError(message)
    node, index = _find_by_name(graph, key)
    if node is None and (inner := _within(graph, key)) is not None:
        return resolve_feed(graph, inner)
    if node is None or index is None:
        names = [n.name for n in graph.nodes if n.op == "placeholder"]
        hint = (
            f"the placeholders are {', '.join(map(repr, names))}" if names else "the graph has no placeholder"
        )
        message = f"feed {key!r} names no tensor of the graph"
        raise FeedError(message, hint=hint)
    _check_no_list(key, node.outputs[index])
    return Port(node.id, index)


def _check_no_list(name: str | int, spec: Spec) -> None:
    if isinstance(spec, ListSpec):
        message = f"a feed is an array, got {name!r}, a {spec}"
        raise FeedError(message, hint="feed the tensor that it is made of")


def fit_feed(
    name: str | int, spec: Spec, value: Any, *, kind: str = "feed", holder: str = "placeholder"
) -> arrays.Array:
    """Returns a fed value as an array of that spec; arrays are never converted or copied.

    Args:
        name: Its name or number, for the error.
        spec: What it must fit.
        value: The value.
        kind: What it is; likewise.
        holder: What said that it must fit.

    Raises:
        FeedError: when shape or dtype do not fit, or a Python value would lose something.
    """
    _check_no_list(name, spec)
    if isinstance(value, Operators):
        message = f"{kind} {name!r} must fit {spec}, got the symbolic {value!r}"
        raise FeedError(message, hint=f"a {kind} is a value: run the tensor first, and feed what it gives")
    # What has a dtype is never converted: only a Python value may be given the dtype that is asked for.
    typed = hasattr(value, "dtype") or isinstance(value, memoryview | bytearray)
    try:
        array = arrays.as_array(value) if typed else None
    except TypeError as error:
        message = f"{kind} {name!r} must fit {spec}, got {type(value).__name__}: {error}"
        raise FeedError(message) from None
    # Arrays of objects are looked at one by one: they may hold bytes, or numbers that fit.
    if array is None or array.dtype.kind == "O":
        try:
            array = arrays.convert_numbers(value, spec.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            message = f"{kind} {name!r} must fit {spec}, got {type(value).__name__}: {error}"
            raise FeedError(message) from None
    if spec.fits(array.shape, array.dtype):
        return array
    same = array.dtype == spec.dtype  # of objects: they were looked at, and are bytes
    dtype = arrays.name_of(array.dtype) if same else array.dtype.name
    if not array.dtype.isnative:
        dtype = f"{array.dtype.name} in foreign byte order"
    message = f"{kind} {name!r} must fit {spec}, got {show(array.shape)} {dtype}"
    raise FeedError(message, hint=_converting(array.dtype, array.shape, spec, holder))


def feed_value(name: str, spec: Spec, value: Any) -> arrays.Array:
    """Returns what a step is fed, read-only.

    As `fit_feed`, which an array of the right kind need not pass.
    """
    # What fits already need not pass `fit_feed`: this stands in the way of every step.
    if (
        type(value) is arrays.NDArray
        and value.dtype.kind != "O"  # whose elements are looked at
        and spec.fits(value.shape, value.dtype)
    ):
        return arrays.read_only(value)
    return arrays.read_only(fit_feed(name, spec, value))


def build_result(build: Callable[[Sequence[Any]], Any], values: list[Any]) -> Any:
    """Returns the values of a step as its caller asked for them and may have them, and lets go of them."""
    # The event loop keeps the list until the caller suspends again, and leases on variables would last as
    # long: the caller's next write would have to copy what it does not hold any more.
    found = build([*map(arrays.view_for_user, values)])
    values.clear()
    return found


def only(values: Sequence[Any]) -> Any:
    """Returns the value of a step that fetches one."""
    return values[0]


def _converting(given: arrays.DType, shape: tuple[int, ...], spec: Spec, holder: str) -> str:
    """What to try with an array that does not fit."""
    wanted = arrays.name_of(spec.dtype)
    declare = f"or declare the {holder} with that spec"
    # Same dtype: it is the shape.
    if given == spec.dtype:
        return f"reshape it, {declare}"
    if not spec.fits(shape, spec.dtype):  # neither fits: each alone would lead to the next error
        declare = f"reshape it to {show(spec.shape)}, {declare}"
    if given.kind == "U":
        encode = 'encode its text: np.char.encode(array, "utf-8").astype(object)'
        return encode if wanted == "bytes" else f'{encode}, and declare the {holder} as "bytes"'
    if given.kind == "S":
        return f'convert it with .astype({spec.dtype.name!r}), or declare the {holder} as "bytes"'
    if wanted == "bytes":
        return f"feed bytes, {declare}; af.strings.as_bytes makes bytes of a tensor of numbers"
    return f"convert it with .astype({wanted!r}), {declare}"


def _find_by_name(graph: Graph, name: str) -> tuple[Node | None, int | None]:
    """Returns the node and output that `node` or `node:output` names; None for what does not exist."""
    # `node` alone means its first output.
    plain, _, output = name.rpartition(":") if ":" in name else (name, "", "0")
    node = graph.find(plain)
    if node is None or not output.isdecimal() or int(output) >= len(node.outputs):
        return node, None
    return node, int(output)


def _within(graph: Graph, name: str) -> Tensor | None:
    """Returns the tensor of a body that is named so, if there is one."""
    # Names of bodies are unique within each only: the first is as good as any, for it is refused.
    for body in graph.bodies.values():
        node, index = _find_by_name(body, name)
        if node is not None and index is not None:
            return Tensor(body, Port(node.id, index))
    return None


def _by_name(graph: Graph) -> str:
    """What to try with a name that is near none: that of the variable of Python is none of the tensor."""
    names = [n.name for n in graph.nodes if n.outputs]
    said = f"; the latest names are {', '.join(map(repr, names[-4:]))}" if names else ""
    # A Python variable's name is none of the tensor's: the usual mistake.
    return f"pass the tensor itself, without quotes: await session.run(tensor){said}"


def _near(graph: Graph, name: str) -> str | None:
    last = name.split(":")[0].split("/")[-1][:3]
    near = [n.name for n in graph.nodes if n.name.split("/")[-1].startswith(last)]
    return f"near it are {', '.join(near[:8])}" if near else None
