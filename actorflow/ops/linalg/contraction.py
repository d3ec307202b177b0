"""Sums of products that an equation over named axes describes: einsum, tensordot by way of it, and kron."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from string import ascii_letters
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.autodiff import Use
from actorflow.graph.builder import Tensor, build_one, promote
from actorflow.graph.node import Attr
from actorflow.graph.opdef import Promoting, op
from actorflow.ops.array.broadcast import sum_to, unbroadcast
from actorflow.ops.array.constants import ones_like
from actorflow.ops.array.shape import reshape_like
from actorflow.ops.definition.arguments import api_function, plain_integers
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes, size_of
from actorflow.ops.linalg.matrix_rules import check_matrix
from actorflow.values.spec import Dim, Shape, Spec, axis_of, broadcast

Term = tuple[str, ...]
"""The subscripts of one tensor: letters, and "..." at most once."""

REST = "..."


def _term(text: str, equation: str) -> Term:
    """The subscripts in `text`; raises SpecError for what is none."""
    before, dots, after = text.partition(REST)
    term = (*before, *((REST,) if dots else ()), *after)
    for part in term:
        if part != REST and part not in ascii_letters:
            message = f"subscripts of einsum are letters and one '...' a tensor, got {part!r} in {equation!r}"
            raise SpecError(message)
    return term


def _parse(equation: str) -> tuple[list[Term], Term]:
    """The terms of an equation that has an arrow: those of the inputs, and that of the output."""
    left, _, right = equation.partition("->")
    inputs = [_term(text, equation) for text in left.split(",")]
    output = _term(right, equation)
    # A letter of the output alone has no size.
    for part in output:
        if not any(part in term for term in inputs):
            message = f"the output of einsum names only what inputs have, got {part!r} in {equation!r}"
            raise SpecError(message)
    return inputs, output


def _with_arrow(equation: Any) -> str:
    """The equation without blanks; what no arrow spells out is what numpy takes it to mean."""
    if not isinstance(equation, str):
        message = f"einsum takes its equation first, then the tensors, got {equation!r:.60}"
        raise SpecError(message)
    plain = "".join(equation.split())
    if "->" in plain:
        return plain
    # numpy's rule: what comes once, by the alphabet.
    once = sorted(c for c in set(plain) & set(ascii_letters) if plain.count(c) == 1)
    return f"{plain}->{REST if REST in plain else ''}{''.join(once)}"


def _format(inputs: Sequence[Term], output: Term) -> str:
    return f"{','.join(''.join(term) for term in inputs)}->{''.join(output)}"


# ------------------------------------------------------------------------------ the spec rule


def _einsum_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    equation = attrs["equation"]
    terms, output = _parse(equation)
    if len(terms) != len(inputs):
        message = (
            f"einsum takes one tensor for each part between commas of its equation, "
            f"got {len(inputs)} for {equation!r}"
        )
        raise SpecError(message)
    check_dtypes("einsum", DtypeClass.NUMBER, *inputs)
    sizes: dict[str, Dim] = {}
    rests: list[Shape] = []
    for i, (term, x) in enumerate(zip(terms, inputs, strict=True)):
        rests.extend(_measure(i, term, x, sizes, equation))
    # "..." of several inputs broadcast, as their sizes do.
    rest = broadcast(rests) if rests else ()
    if REST in output and rest is None:
        return (Spec(None, inputs[0].dtype),)
    shape: list[Dim] = []
    for part in output:
        shape.extend((rest or ()) if part == REST else (sizes[part],))
    return (Spec(tuple(shape), inputs[0].dtype),)


def _measure(i: int, term: Term, x: Spec, sizes: dict[str, Dim], equation: str) -> Iterator[Shape]:
    """Adds the sizes of the letters of input i to `sizes`; yields the shape that "..." stands for."""
    letters = [part for part in term if part != REST]
    # An unknown rank tells no size, and no axis is wrong.
    if x.shape is None:
        for letter in letters:
            sizes.setdefault(letter, None)
        if REST in term:
            yield None
        return
    over = len(x.shape) - len(letters)
    if over < 0 or (over and REST not in term):
        least = "at least " if REST in term else ""
        count = f"{least}{len(letters)} axes in input {i}"
        message = f"einsum needs {count}, {''.join(term)!r} of {equation!r}, got {x}"
        raise SpecError(message, hint=None if over < 0 else "'...' stands for axes that have no letter")
    # Axes before the dots from the front, those behind from the back.
    at = term.index(REST) if REST in term else len(term)
    if REST in term:
        yield x.shape[at : at + over]
    for letter, size in zip(letters, (*x.shape[:at], *x.shape[at + over :]), strict=True):
        before = sizes.setdefault(letter, size)
        # An open size is replaced by what another input tells.
        if before is None:
            sizes[letter] = size
        elif size is not None and size != before:
            message = f"einsum needs one size for {letter!r} in {equation!r}, got {before} and {size}"
            raise SpecError(message, hint="only the axes of '...' broadcast")


# -------------------------------------------------------------------------------- the gradient


def _einsum_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    terms, output = _parse(use.attrs["equation"])
    return [
        _to_input(use.inputs, terms, output, i, grad) if needed else None
        for i, needed in enumerate(use.needs)
    ]


def _to_input(xs: Sequence[Tensor], terms: Sequence[Term], output: Term, i: int, grad: Tensor) -> Tensor:
    """The gradient for input i: the einsum in which the input and the output have changed places.

    What neither the output nor another input names was summed: ones in the shape of x repeat the
    gradient along it. "..." broadcasts, and is summed to the shape of x.
    """
    x, term = xs[i], terms[i]
    others = [j for j in range(len(terms)) if j != i]
    given, named = [grad, *(xs[j] for j in others)], [output, *(terms[j] for j in others)]
    # Summed without a trace: ones in the shape of x bring the axis back.
    if not set(term) <= set().union(*named) or (REST in term and REST not in output):
        given, named = [*given, ones_like(x)], [*named, term]
    # Without broadcast axes the einsum has the shape of x.
    if REST not in term or all(REST not in terms[j] for j in others):
        return einsum(_format(named, term), *given)
    first = (REST, *(part for part in term if part != REST))  # for sizes broadcast from the last axis
    found = einsum(_format(named, first), *given)
    if first == term:
        # Summed over what broadcasting repeated.
        return sum_to(found, x)
    # Letters back to where they stand in x.
    found = sum_to(found, einsum(_format([term], first), x))
    return einsum(_format([first], term), found)


@op("einsum", spec=Promoting(_einsum_spec), gradient=_einsum_gradient)
@api_function
def einsum(equation: str, *operands: Any, name: str | None = None) -> Tensor:
    """The sum of products that `equation` describes, such as "bij,bjk->bik" for a batch of matrices.

    Every axis of an input has a letter, or belongs to "...", whose axes broadcast. The result has the
    axes that stand after the arrow; all others are multiplied and summed. A letter twice in one input
    takes the diagonal; twice in the output, it writes there, with zeros elsewhere. Without an arrow the
    result has "..." and, in the order of the alphabet, the letters that come once.

    More than two inputs are multiplied pair by pair: for up to five in the order of least work, for
    more by the pair that is least work next. Each product is a `matmul` where axes are summed.

    Shapes:   as the equation says; a letter has one size wherever it stands
    Dtypes:   numbers, the same; integers wrap around, halves are summed in float32
    Gradient: for each input an einsum of g and the others.
    Raises:   SpecError for an equation that does not fit the inputs, naming the subscript.

    >>> with af.Graph():
    ...     x = af.placeholder("float32", (None, 7, 3), name="x")
    ...     af.linalg.einsum("...i,ij->...j", x, af.placeholder("float32", (3, 4), name="w"))
    <Tensor einsum:0 (None, 7, 4) float32>
    """
    return build_one("einsum", operands, {"equation": _with_arrow(equation)}, name=name)


# ----------------------------------------------------------------------------------- tensordot


@api_function
def tensordot(
    a: Any, b: Any, axes: int | tuple[Sequence[int], Sequence[int]] = 2, *, name: str | None = None
) -> Tensor:
    """The products of `a` and `b` summed over pairs of axes; the axes left over of a, then those of b.

    Shapes:   `axes` names those of a and, in the same order, those of b; a number n stands for the
              last n of a and the first n of b. Both ranks are known
    Dtypes:   numbers, the same
    Gradient: that of the `einsum` that it is.
    Raises:   SpecError when axes do not exist, are not as many on both sides or differ in size.
    """
    a, b = promote(a, b)
    summed = _plain_axes(axes)
    rank_a, rank_b = a.spec.rank, b.spec.rank
    if rank_a is None or rank_b is None or rank_a + rank_b > len(ascii_letters):
        message = (
            f"tensordot needs known ranks of at most {len(ascii_letters)} together, got {a.spec} and {b.spec}"
        )
        raise SpecError(message, hint="name the axes yourself with af.linalg.einsum")
    of_a, of_b = _pair(summed, rank_a, rank_b, a.spec, b.spec)
    letters_a = list(ascii_letters[:rank_a])
    # Letters of their own for b; axes that are summed together get that of a.
    letters_b = list(ascii_letters[rank_a : rank_a + rank_b])
    for i, j in zip(of_a, of_b, strict=True):
        letters_b[j] = letters_a[i]
    # What is left over of a, then of b.
    left = [c for i, c in enumerate(letters_a) if i not in of_a]
    left += [c for j, c in enumerate(letters_b) if j not in of_b]
    return einsum(_format([tuple(letters_a), tuple(letters_b)], tuple(left)), a, b, name=name)


def _plain_axes(axes: Any) -> int | tuple[Sequence[int], Sequence[int]]:
    found = plain_integers(axes)
    if isinstance(found, int):
        return found
    sides = [plain_integers(side) for side in axes] if isinstance(axes, Sequence) else []
    pair = [(side,) if isinstance(side, int) else side for side in sides if side is not None]
    if len(sides) != 2 or len(pair) != 2:
        message = f"tensordot takes a number of axes, or those of a and those of b, as axes, got {axes!r:.60}"
        raise SpecError(message)
    return pair[0], pair[1]


def _pair(
    axes: int | tuple[Sequence[int], Sequence[int]], rank_a: int, rank_b: int, a: Spec, b: Spec
) -> tuple[list[int], list[int]]:
    """The axes of a and of b to sum over, counted from the front."""
    if isinstance(axes, int):
        if not 0 <= axes <= min(rank_a, rank_b):
            message = f"tensordot sums at most all axes of both, got {axes} for {a} and {b}"
            raise SpecError(message)
        return list(range(rank_a - axes, rank_a)), list(range(axes))
    of_a, of_b = ([axis_of(i, rank) for i in side] for side, rank in zip(axes, (rank_a, rank_b), strict=True))
    sizes = [(a.shape[i], b.shape[j]) for i, j in zip(of_a, of_b, strict=False) if a.shape and b.shape]
    if len(of_a) != len(of_b) or any(m is not None and n is not None and m != n for m, n in sizes):
        message = f"tensordot needs axes of equal sizes in pairs, got {axes} for {a} and {b}"
        raise SpecError(message)
    if len(set(of_a)) < len(of_a) or len(set(of_b)) < len(of_b):
        message = f"axes must differ, got {axes}"
        raise SpecError(message)
    return of_a, of_b


# ---------------------------------------------------------------------------------------- kron


def _kron_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    check_dtypes("kron", DtypeClass.NUMBER, *inputs)
    left, right = (check_matrix("kron", x, DtypeClass.NUMBER) for x in inputs)
    if left is None or right is None:
        return (Spec(None, inputs[0].dtype),)
    (lead_a, m, n), (lead_b, p, q) = left, right
    lead = broadcast([lead_a, lead_b])
    assert lead is not None
    return (Spec((*lead, size_of([m, p]), size_of([n, q])), inputs[0].dtype),)


def _kron_gradient(use: Use, grad: Tensor) -> Sequence[Tensor | None]:
    a, b = use.inputs
    # The blocks apart: (rows of a, rows of b, columns of a, columns of b).
    blocks = reshape_like(grad, einsum("...ij,...kl->...ikjl", a, b))
    to_a = einsum("...ikjl,...kl->...ij", blocks, b)
    to_b = einsum("...ikjl,...ij->...kl", blocks, a)
    return (unbroadcast(to_a, a), unbroadcast(to_b, b))


@op("kron", spec=Promoting(_kron_spec), gradient=_kron_gradient)
@api_function
def kron(a: Any, b: Any, *, name: str | None = None) -> Tensor:
    """The matrix in which every element of `a` has become a block: itself times `b`.

    Unlike numpy's it multiplies the last two axes alone; those before them broadcast.

    Shapes:   a (..., m, n), b (..., p, q) -> (..., m·p, n·q)
    Dtypes:   numbers, the same; integers wrap around
    Gradient: each block of g times b, summed, to a; to b the sum of the blocks, each times its
              element of a. Sums over what was broadcast.
    Raises:   SpecError for less than two axes, and when the others do not broadcast or dtypes differ.
    """
    return build_one("kron", [a, b], name=name)
