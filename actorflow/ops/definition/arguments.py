"""What API functions take beside tensors: every argument is held to the annotation of its parameter.

Each is decorated with `api_function`, and need not look at the kinds of its arguments itself. What Python
and numpy write in several ways comes in as one: an integer of numpy is an int, a list of them a
tuple. What cannot be meant is a SpecError that names the function, the argument and the value, at the
user's line. Tensors (`Any`) are not looked at here; `graph.builder` makes them of what it is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from math import isnan
from operator import index
from sys import _getframe
from typing import Any, ParamSpec, TypeVar

from actorflow.errors import ActorflowError, ConfigError, SpecError, Where
from actorflow.graph import opdef
from actorflow.graph.builder import Tensor
from actorflow.graph.inputs_graph import graph_for
from actorflow.graph.operators import Operators
from actorflow.runtime.call_site import is_users, source_line
from actorflow.runtime.name_hints import keywords_of, unknown_argument
from actorflow.values.arrays import as_array, as_dtype, is_dtype, is_floating

P = ParamSpec("P")
R = TypeVar("R")

Whole = int
"""An integer of any size."""

_LARGEST = 2**63


class _Unfit(Exception):
    """A value that an argument cannot be; the text, if any, says it better than the kind."""


@dataclass(frozen=True, slots=True)
class ArgumentKind:
    """What an argument may be.

    Attributes:
        says: How an error names it.
        plain: (value) -> the value as attributes hold it; raises `_Unfit`.
    """

    says: str
    plain: Callable[[Any], Any]


# ------------------------------------------------------------------------------------ scalars


def integer(value: Any) -> int:
    """Returns an integer of Python or numpy as an int; one that needs more than 64 bits is none."""
    found = whole(value)
    if not -_LARGEST <= found < _LARGEST:
        message = f"an integer of 64 bits, got one of {found.bit_length()}"
        raise _Unfit(message)
    return found


def whole(value: Any) -> int:
    """Returns an integer of any size as an int; bool is none."""
    # The usual case: no other test is as quick.
    if type(value) is int:
        return value
    # Tensors answer __index__ with an error of their own, which names no argument.
    if isinstance(value, bool | Operators):
        raise _Unfit
    try:
        return index(value)
    except TypeError:
        raise _Unfit from None


def number(value: Any) -> int | float:
    """Returns a real number of Python or numpy as an int or a float; bool and complex are none."""
    if type(value) is float:
        return value
    # Integers of Python have no largest: one that no float holds is refused here.
    if type(value) is int:
        return _finite(value)
    if isinstance(value, bool | Operators) or not hasattr(value, "__float__"):
        raise _Unfit
    # Arrays and scalars of numpy: of no axis, and real.
    if hasattr(value, "dtype"):
        held = as_array(value)
        if held.ndim or not (held.dtype.kind in "iu" or is_floating(held.dtype)):
            raise _Unfit
        return int(held) if held.dtype.kind in "iu" else float(held)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise _Unfit from None


def _finite(value: int) -> int:
    """An int that floats can be of; a larger one would fail wherever one is made of it."""
    try:
        float(value)
    except OverflowError:
        raise _Unfit from None
    return value


def flag(value: Any) -> bool:
    """Returns True or False, of Python or numpy, as a bool."""
    # By identity: 1 == True.
    if value is True or value is False:
        return bool(value)
    # numpy's bool, also as an array without axes.
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind != "b" or isinstance(value, Operators) or value.shape != ():
        raise _Unfit
    return bool(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Unfit
    return str(value)  # numpy's is a subclass


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise _Unfit
    return bytes(value)


def _dtype(value: Any) -> Any:
    if value is None or isinstance(value, Operators):
        raise _Unfit
    try:
        return as_dtype(value)
    except TypeError as error:
        raise _Refused(str(error)) from None
    except ValueError:
        raise _Unfit from None


class _Refused(_Unfit):
    """A value whose refusal is a sentence of its own."""


# ---------------------------------------------------------------------------------- sequences


def _each(value: Any) -> Iterable[Any]:
    """The elements of a list, a tuple, an array, a range or an iterator: of what has an order."""
    # Sets and dicts have no order that a shape could rely on; texts are no list of letters.
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping | Set | Operators):
        raise _Unfit
    try:
        found: Iterable[Any] = iter(value)
    # A tensor refuses to be gone over while the graph is built.
    except (TypeError, ActorflowError):
        raise _Unfit from None
    return found


def integers(value: Any) -> tuple[int, ...]:
    """Returns integers in their order as a tuple of ints."""
    return tuple(map(integer, _each(value)))


def _sizes(value: Any) -> tuple[int | None, ...]:
    return tuple(None if v is None else integer(v) for v in _each(value))


def _integer_or_several(value: Any) -> int | tuple[int, ...]:
    if type(value) is int:  # as they mostly are, and the test for a sequence takes longest
        return integer(value)
    return integers(value) if _several(value) else integer(value)


def _numbers(value: Any) -> Any:
    return tuple(map(number, _each(value))) if _several(value) else number(value)


def _several(value: Any) -> bool:
    # An array of one axis or more, but no tensor or number.
    return isinstance(value, Sequence) or bool(getattr(value, "shape", False))


def _pairs(value: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(map(integers, _each(value)))


def _list(value: Any) -> list[Any]:
    return list(_each(value))


def _or_tensor(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def found(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value
        # Variables and what else stands for a tensor.
        return value.as_tensor() if hasattr(value, "as_tensor") else plain(value)

    return found


def _range(value: Any) -> tuple[int | float, ...]:
    found = tuple(map(number, _each(value)))
    # NaN is no end of a range.
    if len(found) != 2 or any(map(isnan, found)):
        raise _Unfit
    return found


def plain_integers(value: Any) -> int | tuple[int, ...] | None:
    """Returns an integer as an int, several as a tuple of them, and None for what is neither."""
    try:
        return _integer_or_several(value)
    except _Unfit:
        return None


def number_or_none(value: Any) -> int | float | None:
    """Returns a number as an int or a float, and None for what is none."""
    try:
        return number(value)
    except _Unfit:
        return None


def plain_pairs(value: Any, count: int) -> tuple[tuple[int, ...], ...] | None:
    """Returns `count` pairs of integers, or as many times a pair of one integer; None for what is neither."""
    found = plain_integers(value)
    if isinstance(found, int):
        return ((found, found),) * count
    try:
        pairs = _pairs(value)
    except _Unfit:
        return None
    return pairs if len(pairs) == count and all(len(pair) == 2 for pair in pairs) else None


def plain_number(op: str, name: str, value: Any) -> int | float:
    """Returns a number; raises SpecError where it is none."""
    return _plain(op, name, _NUMBER, value)  # type: ignore[no-any-return]


# ------------------------------------------------------------------------------ the annotations

_NUMBER = ArgumentKind("a number", number)

KINDS: Mapping[str, ArgumentKind | None] = {
    "Any": None,  # a tensor; `dtype` is told by its name
    "int": ArgumentKind("an integer", integer),
    "Whole": ArgumentKind("an integer", whole),
    "float": _NUMBER,
    "bool": ArgumentKind("True or False", flag),
    "str": ArgumentKind("a text", _text),
    "bytes": ArgumentKind("bytes", _bytes),
    "Axis": ArgumentKind("an integer or several", _integer_or_several),
    "int | Sequence[int]": ArgumentKind("an integer or several", _integer_or_several),
    "int | tuple[int, ...]": ArgumentKind("an integer or several", _integer_or_several),
    "Iterable[int]": ArgumentKind("integers", integers),
    "Sequence[int]": ArgumentKind("integers", integers),
    "Iterable[Dim]": ArgumentKind("sizes, each an integer or None", _sizes),
    "Iterable[int] | Tensor": ArgumentKind("integers, or a tensor of them", _or_tensor(integers)),
    "int | Tensor": ArgumentKind("an integer, or a tensor of one", _or_tensor(integer)),
    "Sequence[Sequence[int]]": ArgumentKind("pairs of integers", _pairs),
    "Sequence[Any]": ArgumentKind("a list or tuple", _list),
    "Sequence[Variable]": ArgumentKind("a list or tuple of variables", _list),
    "float | Sequence[float]": ArgumentKind("a number or several", _numbers),
    "tuple[float, float]": ArgumentKind("two numbers", _range),
    # What the function looks at itself, since it depends on more than one argument:
    **dict.fromkeys(
        (
            "Sizes",
            "Padding",
            "Paddings",
            "Scale",
            "Sizes | Tensor",
            "Scale | Tensor",
            "Order",
            "Mapping[str, tuple[Any, ...]]",
            "Spec",
            "int | tuple[int, int]",
            "int | tuple[Sequence[int], Sequence[int]]",
            "bool | int | float",
            "bool | int | float | complex",
        )
    ),
}
"""Annotation of a parameter -> what its argument may be; None where others look. `| None` adds None."""

_DTYPE = ArgumentKind("a dtype", _dtype)


def _kind(op: str, parameter: Parameter) -> ArgumentKind | None:
    annotation = _annotation(parameter)
    base = annotation.removesuffix(" | None")
    # By name: `dtype` is annotated as Any, for all that as_dtype takes.
    if parameter.name == "dtype":
        found: ArgumentKind | None = _DTYPE
    elif parameter.name == "seed" and base != annotation:
        found = KINDS["Whole"]  # it is mixed into 63 bits
    elif parameter.name == "shape" and base == "Iterable[int]":
        found = KINDS["Iterable[Dim]"]  # functions say themselves what must be known
    elif base not in KINDS:
        what = f"nothing is known of what {op} takes as {parameter.name!r}, got the annotation {annotation!r}"
        raise ConfigError(what, hint=f"Any is not looked at; others are {', '.join(list(KINDS)[1:7])}")
    else:
        found = KINDS[base]
    # Others look at it.
    if found is None:
        return None
    # "Axis" has None among its values: all axes.
    if base == annotation and parameter.default is not None and base != "Axis":
        return found
    plain = found.plain
    return ArgumentKind(f"{found.says}, or None", lambda value: None if value is None else plain(value))


def _annotation(parameter: Parameter) -> str:
    """The annotation as it is written; a parameter without one is not looked at."""
    found = parameter.annotation
    if found is Parameter.empty:
        return "Any"
    # Annotations are texts in most modules, and classes in few.
    return found.__name__ if isinstance(found, type) else str(found).removeprefix("typing.")


# ---------------------------------------------------------------------------------- the decorator


def api_function(function: Callable[P, R]) -> Callable[P, R]:
    """Returns the API function with its arguments held to their annotations, and its errors placed.

    An error without a line gets the user's; one of a function that the user called, and that speaks of
    the functions which this one is made of, is said to come from it. Where no graph is open, that of the
    arguments is.

    Raises:
        ConfigError: when a parameter has an annotation that `KINDS` does not know.
    """
    op = function.__name__
    # For errors that speak of one function within another; see `_in_the_name_of`.
    _NAMES.add(op)
    parameters = list(signature(function).parameters.values())
    # Worked out once, when the function is defined.
    kinds = {p.name: kind for p in parameters if (kind := _kind(op, p)) is not None}
    ordered = [p.name for p in parameters if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    # With *args places say nothing: arguments are checked by name alone.
    if any(p.kind is Parameter.VAR_POSITIONAL for p in parameters):
        ordered = []
    checked = tuple((i, name, kinds[name]) for i, name in enumerate(ordered) if name in kinds)
    # The first place that has to be looked at: shorter calls skip the loop.
    first = checked[0][0] if checked else len(ordered)

    known = keywords_of(function)

    def fitted(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        for name in named:
            if name in kinds:
                named[name] = _plain(op, name, kinds[name], named[name])
            elif known is not None and name not in known:
                raise unknown_argument(op, name, known).at(Where(op=op, defined_at=source_line()))
        # The usual call: tensors first, which nobody looks at here.
        if len(args) <= first:
            return args
        given = list(args)
        for i, name, kind in checked:
            if i < len(given):
                given[i] = _plain(op, name, kind, given[i])
        return tuple(given)

    @wraps(function)
    def called(*args: P.args, **named: P.kwargs) -> R:
        with graph_for(args, named):
            plain: tuple[Any, ...] = fitted(args, named)
            try:
                return function(*plain, **named)
            except ActorflowError as error:
                # Only where the user called: an API function within another would tell a call that he never
                # wrote.
                call = (op, ordered, plain, named) if is_users(_getframe(1)) else None
                told = _error(error, op, call)
                if told is error:
                    # The same error keeps its traceback.
                    raise
                # The cause stays the cause: what failed beneath.
                raise told from error.__cause__

    return called


def _plain(op: str, name: str, kind: ArgumentKind, value: Any) -> Any:
    try:
        return kind.plain(value)
    except _Refused as refused:
        message = str(refused)
    # A refusal of its own says it better than the kind.
    except _Unfit as unfit:
        message = f"{op} takes {str(unfit) or kind.says} as {name}, got {value!r:.60}"
    hint = None
    if isinstance(value, Operators):
        hint = "it must be known while the graph is built: give a number of Python"
    elif isinstance(value, str) and kind.says.startswith("bytes"):
        hint = f"write b{value!r:.40}"
    elif name == "dtype" and isinstance(value, tuple | list | int):
        hint = f"a shape is given by its name: shape={value!r:.40}"
    elif name == "shape" and (isinstance(value, str | type) or is_dtype(value)):
        hint = f"a dtype is given by its name: dtype={value!r:.40}"
    elif name == "shape" and type(value) is int:
        hint = f"one axis is a tuple as well: ({value},)"
    raise SpecError(message, where=Where(op=op, defined_at=source_line()), hint=hint)


_Call = tuple[str, Sequence[str], Sequence[Any], Mapping[str, Any]]


def _error(error: ActorflowError, op: str, call: _Call | None) -> ActorflowError:
    """The error with the user's line, and with the call of the user where the text is of another function.

    Errors of nodes tell all inputs. Those raised before there is a node, and those of nodes that the
    user never wrote, get the call instead.
    """
    if error.where is None or error.where.op is None or error.where.defined_at is None:
        # Errors of kernels and nodes have their place; those of the building have none yet.
        error = error.at(Where(op=op, defined_at=source_line()))
    where = error.where
    if call is None or where is None or not isinstance(error, SpecError):
        return error
    # A node of this function tells its inputs already.
    if where.op == op and where.node is not None:
        return error
    # In a body of a loop the user called what the text names.
    what = error.what if _through_users(error) else _in_the_name_of(op, error.what)
    return type(error)(f"{what}\n  in {_format_call(*call)}", where=where, hint=error.hint)


_NAMES: set[str] = set()
"""All API functions."""

_NAMED = re.compile(
    r"^(?P<head>(?:[\w ]+ of )?)(?P<name>\w+)(?= (?:takes?|needs?|folds|keeps|have|must|lies)\b)"
)


def _in_the_name_of(op: str, what: str) -> str:
    """The refusal of another API function, of which `op` is made, as one of `op`, which the user knows.

    A word that is the name of a function is one where it takes or needs something: `size must be positive`
    speaks of an argument.
    """
    found = _NAMED.match(what)
    # A word that is no function's name stays.
    if found is None or (found["name"] not in _NAMES and found["name"] not in opdef.table()):
        return what
    # Without "of" a name alone may be an argument: `size must be positive`.
    if not found["head"] and not what[found.end() :].startswith((" take", " need", " folds", " keeps")):
        return what
    return f"{found['head']}{op}{what[found.end() :]}"


def _through_users(error: ActorflowError) -> bool:
    """Whether it came through code of the user, who called what it names: in the body of a loop."""
    at = error.__traceback__
    # From here to where it was raised.
    while at is not None:
        if is_users(at.tb_frame):
            return True
        at = at.tb_next
    return False


def _format_call(op: str, names: Sequence[str], args: Sequence[Any], named: Mapping[str, Any]) -> str:
    """A call as it could be written, tensors as name and spec."""
    given = [f"{n}={_short(v)}" for n, v in zip(names, args, strict=False)] if names else map(_short, args)
    return f"{op}({', '.join([*given, *(f'{n}={_short(v)}' for n, v in named.items())])})"


def _short(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.name} {value.spec}"
    # On one line.
    text = " ".join(f"{value!r:.60}".split())
    return text if len(text) <= 40 else f"{text[:37]}..."
