"""The fingerprint of an object: a text that two processes share when they have built the same, as optimizers.

Graphs hold some objects by key alone, and another process makes its own by running the same program. Text
says whether they are alike:

    plain values      as they are, floats and arrays bit for bit
    containers        element by element; sets and dicts in a fixed order
    dataclasses       the class, and every field
    functions         module and name, what they close over and their defaults; of a function that is not
                      actorflow's its code as well, so all processes run the same release of Python
    partials, methods the function, and what is bound to it
    classes           module and name
    anything else     its type alone

So two objects of the last kind are told apart by their type only, two classes by their names only, and
what a function finds in its module is not looked at. A program that is to be told apart by more says it in
a dataclass or an argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from hashlib import blake2b
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

from actorflow.runtime import program_name
from actorflow.values import arrays

_PLAIN = (bool, int, str, bytes, complex, type(None), type(Ellipsis))


def fingerprint(value: Any) -> str:
    """Returns what is known of a value as text without addresses, lines of files or anything drawn."""
    return _describe(value, {})


def _describe(value: Any, above: dict[int, int]) -> str:
    """Tells a value; `above` numbers those that are being told, which may come again in themselves."""
    # Bit for bit; a subclass, such as numpy's float64, is told by its name.
    if isinstance(value, float):
        return f"{type(value).__name__} {value.hex()}"
    # Of exactly these types: a subclass may have a repr with an address in it.
    if type(value) in _PLAIN:
        return repr(value)
    if isinstance(value, type | BuiltinFunctionType):
        return _qualified_name(value)
    # Before dataclasses and containers: an Enum may be either.
    if isinstance(value, Enum):
        return f"{_qualified_name(type(value))}.{value.name}"
    # An object that holds itself would never be told to its end.
    if id(value) in above:
        return f"again {above[id(value)]}"
    # A new dict: siblings that are the same object are told twice, only what is above counts.
    above = {**above, id(value): len(above)}
    if isinstance(value, Mapping | Set | tuple | list):
        return _container(value, above)
    if is_dataclass(value):
        # An attribute may be missing: a dataclass with slots need not be complete.
        told = [f"{f.name}={_describe(getattr(value, f.name, None), above)}" for f in fields(value)]
        return f"{_qualified_name(type(value))}({', '.join(told)})"
    if isinstance(value, FunctionType | partial | MethodType):
        return _function(value, above)
    if hasattr(value, "dtype") and hasattr(value, "tobytes"):
        return _array(value)
    return _qualified_name(type(value))


def _container(value: Any, above: dict[int, int]) -> str:
    if isinstance(value, Mapping):
        # Sorted by text, since keys of several types have no order of their own.
        told = sorted(f"{_describe(k, above)}: {_describe(v, above)}" for k, v in value.items())
    else:
        told = [_describe(v, above) for v in value]
    # A set's order depends on hashes that are drawn for each process.
    if isinstance(value, Set):
        told.sort()
    return f"{_qualified_name(type(value))}({', '.join(told)})"


def _function(function: Any, above: dict[int, int]) -> str:
    if isinstance(function, partial):
        return f"partial({_describe((function.func, function.args, function.keywords), above)})"
    if isinstance(function, MethodType):
        return f"method({_describe((function.__func__, function.__self__), above)})"
    closed = [_describe(_content(cell), above) for cell in function.__closure__ or ()]
    defaults = _describe((function.__defaults__, function.__kwdefaults__), above)
    # Code of actorflow itself is the same in all processes of one release, so its name says all.
    ours = (function.__module__ or "").partition(".")[0] == __name__.partition(".")[0]
    code = "" if ours else _code(function.__code__)
    return f"{_qualified_name(function)}({', '.join(closed)}; {defaults}; {code})"


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _code(code: CodeType) -> str:
    """Returns a hash of what a code does, without its file and lines."""
    told = blake2b(code.co_code, digest_size=8)
    for const in code.co_consts:
        # Of other constants their text; of code within the code its own hash, without lines.
        told.update((_code(const) if isinstance(const, CodeType) else fingerprint(const)).encode())
    told.update(repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
    return told.hexdigest()


def _qualified_name(value: Any) -> str:
    """Returns module and name; a program that is run as a script is called as if it were imported."""
    # A script is `__main__` here and has a name where it is imported.
    module = program_name.of_module(value.__module__ or "builtins")
    return f"{module}:{getattr(value, '__qualname__', type(value).__qualname__)}"


def _array(value: Any) -> str:
    host = arrays.to_host(value)
    # An array of objects has addresses for bytes.
    bits = repr(arrays.to_list(host)).encode() if host.dtype.hasobject else host.tobytes()
    return f"{arrays.name_of(host.dtype)} {host.shape} {blake2b(bits, digest_size=8).hexdigest()}"
