"""Functions over the rows of tensors, one turn of a loop each: `map_fn`, `scan` and `fold`.

What a turn gives beside the loop variables its loop keeps in a list, as it does for gradients: that costs
an append, and no loop variable that is written to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from actorflow.errors import GraphError, SpecError, Where
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.graph import current
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.ops.array.constants import constant
from actorflow.ops.array.fill import arange
from actorflow.ops.array.shape_queries import ensure_shape
from actorflow.ops.control.bodies import check_not_async, describe_structure, hint_of_none, state_like
from actorflow.ops.control.loops import keeps, while_loop
from actorflow.ops.control.saved_for_backward import save_for_backward, saved_key
from actorflow.ops.control.tensor_list import list_read, list_size
from actorflow.ops.control.tensor_list_rows import list_gather_like, list_stack, list_stack_like, list_unstack
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.error_context import error_context
from actorflow.ops.math.elementwise import add, subtract
from actorflow.ops.math.logic import less, logical_and, where
from actorflow.ops.math.scan import reversed_along
from actorflow.ops.state.handle import can_be_called
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import as_dtype
from actorflow.values.pytree import flatten, treedef
from actorflow.values.spec import Dim, ListSpec, Spec, merge, spec

Turn = Callable[..., tuple[Sequence[Any], Sequence[Any]]]
"""(number of the turn, *loop variables) -> (loop variables after it, what is kept of it)."""


@api_function
def map_fn(
    fn: Any,
    elems: Any,
    *,
    outputs: Any = None,
    parallel_iterations: int = 10,
    lower: bool | None = None,
    name: str | None = None,
) -> Any:
    """What `fn` makes of each row of `elems`, stacked along a new first axis.

    `fn` is called once, with tensors that stand for one row. It may return another structure than it is
    given, and other dtypes. What it uses from outside is the same for all rows.

    Shapes:   elems (n, a, b), all of the same n -> (n, c, d) where `fn` makes (c, d) of (a, b); n may be 0
              where c and d are known
    Dtypes:   any
    Gradient: of `fn`, for each row and for all that it uses; of any order
    Raises:   SpecError for a scalar, for different n, and for results that do not fit `outputs`;
              GraphError for another structure than that of `outputs`. In the step ListError when results
              differ in shape, or there are none and their shape is not known.

    Args:
        fn: One row -> what is made of it: tensors, or structures of them.
        elems: A tensor, or tuples, lists and dicts of tensors; a row of them is built alike.
        outputs: What the results must fit, where you want that said: a `Spec`, or a structure of them.
        parallel_iterations: How many rows may be under way at once, when turns run as nodes.
        lower: As in `af.while_loop`.
        name: Of the loop.

    >>> with af.Graph():
    ...     x = af.placeholder("float32", (5, 3), name="x")
    ...     sums, signs = af.map_fn(lambda row: (af.sum(row), row > 0.0), x)
    ...     print(sums.spec, signs.spec)
    (5,) float32 (5, 3) bool
    """
    _check_function("map_fn", fn, "a row")
    rows = Rows.of("map_fn", elems)
    made: list[Any] = []

    # Called once, when the loop's body is built; what it returned is looked at afterwards.
    def turn(i: Tensor) -> tuple[Sequence[Any], Sequence[Any]]:
        made.append(fn(rows.read(i)))
        results = flatten(made[0])[0]
        if not results and outputs is None:
            message = (
                "the function of map_fn returns a tensor, or a structure of some, got "
                f"{describe_structure(made[0])}"
            )
            where = Where(op="map_fn", defined_at=source_line())
            raise GraphError(message, where=where, hint=hint_of_none(made[0]))
        # No loop variables: rows do not depend on each other.
        return (), results

    _, results = turns(
        rows.count, turn, (), parallel_iterations=parallel_iterations, lower=lower, name=name or "map_fn"
    )
    with error_context("map_fn"):
        _check_results(made[0], results, outputs)
        # The number of rows is known where the specs tell it, though the list grows.
        stacked = [with_count(list_stack(result), rows.known) for result in results]
    return flatten(made[0])[1](stacked)


@api_function
def scan(
    fn: Any,
    elems: Any,
    initial: Any,
    *,
    reverse: bool = False,
    lower: bool | None = None,
    name: str | None = None,
) -> Any:
    """The states that `fn` goes through over the rows of `elems`: after one row, after two, …, after all.

    Each state is `fn(state before, row)`, and the first state before is `initial`, which is not among the
    results. The last of them is what `fold` gives.

    Shapes:   elems (n, …), initial (a, b) -> (n, a, b)
    Dtypes:   any; those of `initial`
    Gradient: to `elems`, `initial` and all that `fn` uses; of any order
    Raises:   SpecError for a scalar, for different n, and when a state would change its spec; GraphError
              when `fn` returns another structure than that of `initial`.

    Args:
        fn: (state, row) -> the next state.
        elems: A tensor, or tuples, lists and dicts of tensors.
        initial: The first state: a tensor, or a structure of them.
        reverse: Goes from the last row to the first; the state after a row stays in the place of that row.
        lower: As in `af.while_loop`.
        name: Of the loop.

    >>> with af.Graph():
    ...     x = af.placeholder("float32", (None, 3), name="x")
    ...     print(af.scan(lambda state, row: af.tanh(state + row), x, af.zeros((3,))).spec)
    (None, 3) float32
    """
    _, states, rows = _fold("scan", fn, elems, initial, reverse, {"lower": lower, "name": name or "scan"})
    with error_context("scan"):
        stacked = [with_count(stack_turns(x, reverse=reverse), rows.known) for x in states]
    return flatten(initial)[1](stacked)


@api_function
def fold(
    fn: Any,
    elems: Any,
    initial: Any,
    *,
    reverse: bool = False,
    lower: bool | None = None,
    name: str | None = None,
) -> Any:
    """The last state that `fn` comes to over the rows of `elems`, `initial` where there are none.

    Otherwise as `scan`.

    Shapes:   elems (n, …), initial (a, b) -> (a, b)
    Dtypes:   any; those of `initial`
    Gradient: as of `scan`
    Raises:   as `scan`.

    >>> with af.Graph():
    ...     digits = af.placeholder("int32", (None,), name="digits")
    ...     print(af.fold(lambda value, digit: 10 * value + digit, digits, 0).spec)
    () int32
    """
    ends, _, _ = _fold("fold", fn, elems, initial, reverse, {"lower": lower, "name": name or "fold"})
    return flatten(initial)[1](ends)


def _fold(
    what: str, fn: Any, elems: Any, initial: Any, reverse: bool, settings: Mapping[str, Any]
) -> tuple[list[Tensor], list[Tensor], Rows]:
    """The last state, and lists of those of all turns."""
    _check_function(what, fn, "a state", "a row")
    rows = Rows.of(what, elems)
    leaves, whole = flatten(initial)
    if not leaves:
        message = f"{what} takes a state of one tensor or more, got {initial!r:.60}"
        raise GraphError(message, where=Where(defined_at=source_line()))
    first, line = [as_tensor(leaf) for leaf in leaves], source_line()

    def turn(i: Tensor, *state: Tensor) -> tuple[Sequence[Any], Sequence[Any]]:
        # Backwards through the rows, forwards through the turns.
        at = subtract(subtract(rows.count, 1), i) if reverse else i
        rule = f"the function of {what} returns a state as it is given one"
        made = state_like(initial, fn(whole(state), rows.read(at)), rule, Where(op=what, defined_at=line))
        # Numbers take the dtype of the state that they replace.
        after = [as_tensor(leaf, dtype=f.dtype) for leaf, f in zip(flatten(made)[0], first, strict=True)]
        for k, (begins, ends) in enumerate(zip(first, after, strict=True)):
            _check_state(what, k, begins, ends, line)
        # fold keeps the last state alone.
        return after, after if what == "scan" else ()

    ends, states = turns(rows.count, turn, first, **settings)
    return ends, states, rows


def _check_state(what: str, k: int, begins: Tensor, ends: Tensor, line: str) -> None:
    """Raises SpecError unless state `k` keeps its spec, but for a list, which the loop looks at."""
    if isinstance(begins.spec, ListSpec) or isinstance(ends.spec, ListSpec) or keeps(begins.spec, ends.spec):
        return
    message = (
        f"loop variable {k} of {what}, its state, must keep its spec over all rows, got\n"
        f"  at the beginning {begins.spec}, defined at {begins.node.defined_at}\n"
        f"  after a row      {ends.spec}, defined at {ends.node.defined_at}"
    )
    fix = "begin with a state of the shape that it has later, or fix it with af.arrays.ensure_shape"
    hint = "convert it with af.cast" if begins.dtype != ends.dtype else fix
    raise SpecError(message, where=Where(op=what, defined_at=line), hint=hint)


# ------------------------------------------------------------------------------------- turns


def turns(
    count: Any,
    turn: Turn,
    initial: Sequence[Tensor],
    *,
    goes_on: Callable[..., Any] | None = None,
    **settings: Any,
) -> tuple[list[Tensor], list[Tensor]]:
    """Runs `count` turns; returns the loop variables of the end, and a list for each value that is kept.

    Args:
        count: How many turns, an int32 scalar.
        turn: One of them, as it is built.
        initial: The loop variables of the first turn.
        goes_on: The loop variables -> whether there is another turn, besides.
        settings: Those of `while_loop`.
    """
    limit = as_tensor(count)
    keeps: list[Tensor] = []

    # The loop's own counter ends it, whatever the user's condition says.
    def cond(*given: Tensor) -> Any:
        *state, i = given
        more = less(i, limit)
        return more if goes_on is None else logical_and(more, goes_on(*state))

    def body(*given: Tensor) -> list[Any]:
        *state, i = given  # last, so that errors number the loop variables as the caller does
        after, kept_of_it = turn(i, *state)
        # Built in the body of the loop, where `save_for_backward` finds them.
        keeps.extend(as_tensor(value) for value in kept_of_it)
        return [*after, add(i, 1)]

    # The list of a kept value is the one that gradients would use: an output of the node.
    *ends, number = while_loop(cond, body, [*initial, constant(0, "int32")], **settings)
    graph, node = current(), number.port.node
    lists = [save_for_backward(graph, node, saved_key(value.port), value.spec) for value in keeps]
    return ends, lists


def stack_turns(x: Tensor, *, reverse: bool) -> Tensor:
    """What was kept of all turns, stacked; that of the last turn first if `reverse`."""
    stacked = list_stack(x)
    return reversed_along(stacked, 0) if reverse else stacked


def fill_turns(x: Tensor, like: Tensor, *, reverse: bool) -> Tensor:
    """What was kept of fewer turns than `like` has rows, stacked, with zeros behind it.

    With `reverse` that of the last turn comes first.
    """
    if not reverse:
        return list_stack_like(x, like)
    count = list_size(x)
    rows = like.shape[0] if like.shape else None
    t = arange(common_length(like)) if rows is None else arange(rows, dtype="int32")
    turn = where(less(t, count), subtract(subtract(count, 1), t), add(count, t))  # beyond its end: zeros
    return list_gather_like(x, turn, like)


def with_count(x: Tensor, count: Dim) -> Tensor:
    """`x`, whose first size is known to be `count`."""
    # Known already, or nothing to be known.
    if count is None or x.shape is None or x.shape[0] == count:
        return x
    return ensure_shape(x, (count, *x.shape[1:]))


# -------------------------------------------------------------------------------------- rows


class Rows:
    """The rows of a structure of tensors, for a loop to read.

    Attributes:
        count: How many there are, an int32 scalar.
        known: The same where the specs tell it.
    """

    def __init__(self, what: str, elems: Any) -> None:
        leaves, self._whole = flatten(elems)
        tensors = [as_tensor(leaf) for leaf in leaves]
        if not tensors:
            message = f"{what} goes over one tensor or more, got {elems!r:.60}"
            raise SpecError(message)
        for x in tensors:
            if isinstance(x.spec, ListSpec):
                message = f"{what} goes over the rows of tensors, got a {x.spec}"
                raise SpecError(message, hint="stack it first")
        self.count = common_length(*tensors)
        self.known: Dim = _known_length([x.spec for x in tensors])
        # Unstacked once, outside of the loop: rows are views.
        self._lists = [list_unstack(x) for x in tensors]

    @staticmethod
    def of(what: str, elems: Any) -> Rows:
        """Returns the rows of `elems`; raises SpecError, which names `what`, when they have none."""
        with error_context(what):
            return Rows(what, elems)

    def read(self, index: Tensor) -> Any:
        """One of them, in the structure of the tensors."""
        return self._whole([list_read(rows, index) for rows in self._lists])


def _known_length(inputs: Sequence[Spec]) -> Dim:
    found: Dim = None
    for x in inputs:
        if x.rank == 0:
            message = f"what has rows has one axis or more, got {x}"
            raise SpecError(message, hint="a list is a structure of tensors: af.constant makes one of it")
        length = None if x.shape is None else x.shape[0]
        # Those that are not known are compared in the step.
        if found is not None and length is not None and length != found:
            sizes = ", ".join(f"{other}" for other in inputs)
            message = f"tensors that are gone over together have as many rows each, got {sizes}"
            raise SpecError(message)
        found = length if found is None else found
    return found


def _common_length_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    _known_length(inputs)
    return (spec("int32"),)


@op("common_length", spec=_common_length_spec, gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def common_length(*xs: Any, name: str | None = None) -> Tensor:
    """How many rows tensors have, which is the same for all of them; a constant where that is known.

    Shapes:   (n, …) each -> ()
    Dtypes:   any -> int32
    Gradient: none.
    Raises:   SpecError for scalars and for different n, in the step where the specs do not tell.
    """
    tensors = [as_tensor(x) for x in xs]
    # Known: a constant, so that the loop's length is one.
    if tensors and all(x.shape for x in tensors):
        sizes = {x.shape[0] for x in tensors if x.shape}
        if len(sizes) == 1 and None not in sizes:
            return constant(sizes.pop(), "int32", name=name or "common_length")
    return build_one("common_length", tensors, name=name)


# ------------------------------------------------------------------------------------ checks


def _check_function(what: str, fn: Any, *takes: str) -> None:
    if not callable(fn) or not can_be_called(fn, *takes):
        message = f"{what} takes a function of {' and '.join(takes)} as fn, got {fn!r:.60}"
        raise GraphError(message, where=Where(op=what, defined_at=source_line()))
    check_not_async(fn, what, Where(op=what, defined_at=source_line()))


def _check_results(made: Any, results: Sequence[Tensor], outputs: Any) -> None:
    """Raises unless what `map_fn` keeps fits what was said of it."""
    if outputs is None:
        return
    if treedef(made) != treedef(outputs):
        message = (
            f"the function of map_fn returns what outputs says, got {describe_structure(made)}, and "
            f"{describe_structure(outputs)}"
        )
        raise GraphError(message, hint=hint_of_none(made))
    for k, (wanted, result) in enumerate(zip(flatten(outputs)[0], results, strict=True)):
        if not isinstance(wanted, Spec):
            message = f"outputs are specs, got {wanted!r:.60}"
            raise SpecError(message, hint='for instance af.Spec((None,), "float32")')
        given = result.spec
        assert isinstance(given, ListSpec)
        element = given.element
        try:
            merge(element.shape, wanted.shape)
            fits = element.dtype == as_dtype(wanted.dtype)
        except SpecError:
            fits = False
        if not fits:
            message = f"result {k} of map_fn fits {wanted}, got {element}"
            raise SpecError(message)
